#include "tensor_maps.h"

#include <algorithm>

#include "code.h"

namespace tw {
namespace {

constexpr uintptr_t kAligned = 16;  // bytes of the address of a tensor

int type_of(DLDataType type) {
  const bool is_float = type.code == kDLFloat;
  if (type.code == kDLBfloat) return kMapBfloat16;
  switch (type.bits) {
    case 8: return kMapUint8;
    case 16: return is_float ? kMapFloat16 : kMapUint16;
    case 32: return is_float ? kMapFloat32 : type.code == kDLInt ? kMapInt32 : kMapUint32;
    default: return is_float ? kMapFloat64 : type.code == kDLInt ? kMapInt64 : kMapUint64;
  }
}

int swizzle_of(int32_t bytes) { return bytes == 128 ? kSwizzle128 : bytes == 64 ? kSwizzle64 : bytes == 32 ? kSwizzle32 : kNoSwizzle; }

void encode(const CudaDevice& device, const char* kernel, const TWTensorMap& map, void* address, CUtensorMap& made) {
  if (reinterpret_cast<uintptr_t>(address) % kAligned)
    fail("ValueError", "argument %d of the kernel `%s` is at address %p on %s, but the kernel copies it in boxes, so it must be at a multiple of %d bytes; copy it first",
         map.arg, kernel, address, device.text().c_str(), static_cast<int>(kAligned));
  // The driver counts dimensions from the innermost one.
  uint64_t extents[kTWMostTensorRank], strides[kTWMostTensorRank];
  uint32_t box[kTWMostTensorRank], steps[kTWMostTensorRank];
  const auto bytes = static_cast<uint64_t>(map.type.bits / 8);
  for (int32_t d = 0; d < map.rank; ++d) {
    const int32_t from = map.rank - 1 - d;
    extents[d] = static_cast<uint64_t>(map.extents[from]);
    box[d] = map.box[from];
    steps[d] = 1;
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(map.strides[from]) * bytes;
  }
  const CUresult code = cuda().encode_tensor_map(&made, type_of(map.type), static_cast<unsigned>(map.rank), address, extents, strides, box, steps, kNoInterleave,
                                                 swizzle_of(map.swizzle), kPromoteL2To128, kFillZeros);
  if (code != CUDA_SUCCESS)
    fail("RuntimeError", "the driver makes no tensor map of argument %d of the kernel `%s` on %s: %s", map.arg, kernel, device.text().c_str(), code_text(code).c_str());
}

}  // namespace

KernelArgs::KernelArgs(const CudaDevice& device, const TWLaunch& launch) : args_(const_cast<void**>(launch.args)) {
  if (launch.num_maps == 0) return;
  const char* kernel = static_cast<CudaKernel*>(launch.kernel)->name;
  if (!cuda().encode_tensor_map)
    fail("RuntimeError", "the kernel `%s` copies boxes of tensors, for which the driver of %s is too old: install one for CUDA 12 or newer", kernel, device.text().c_str());
  const auto count = static_cast<size_t>(launch.num_args), maps = static_cast<size_t>(launch.num_maps);
  many_.resize(count > kFewArgs ? count : 0);
  many_maps_.resize(maps > kFewMaps ? maps : 0);
  args_ = many_.empty() ? few_ : many_.data();
  CUtensorMap* made = many_maps_.empty() ? few_maps_ : many_maps_.data();
  std::copy(launch.args, launch.args + count, args_);
  for (size_t i = 0; i < maps; ++i) {
    const auto arg = static_cast<size_t>(launch.maps[i].arg);
    encode(device, kernel, launch.maps[i], *static_cast<void**>(launch.args[arg]), made[i]);
    args_[arg] = &made[i];
  }
}

}  // namespace tw
