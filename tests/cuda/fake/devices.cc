// Devices, contexts and memory.
#include <cstdlib>

#include "state.h"

using namespace fake;

FAKE Result cuInit(unsigned) {
  const auto held = hold();
  if (const Result code = enter("cuInit", false)) return code;
  return state().settings["devices"] ? kSuccess : kNoDevice;
}
FAKE Result cuDriverGetVersion(int* version) { return *version = 12040, kSuccess; }
FAKE Result cuGetErrorName(Result code, const char** text) {
  static const std::map<Result, const char*> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
      {500, "CUDA_ERROR_NOT_FOUND"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
      {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}};
  auto found = names.find(code);
  return found == names.end() ? kInvalidValue : (*text = found->second, kSuccess);
}
FAKE Result cuGetErrorString(Result code, const char** text) {
  static const std::map<Result, const char*> texts = {
      {1, "invalid argument"}, {2, "out of memory"}, {218, "a PTX JIT compilation failed"}, {700, "an illegal memory access was encountered"},
      {701, "too many resources requested for launch"}, {719, "unspecified launch failure"}, {803, "system has unsupported display driver / cuda driver combination"},
      {901, "operation failed due to a previous error during capture"}};
  auto found = texts.find(code);
  return found == texts.end() ? kInvalidValue : (*text = found->second, kSuccess);
}
FAKE Result cuDeviceGetCount(int* count) { return *count = state().settings["devices"], kSuccess; }
FAKE Result cuDeviceGet(int* device, int number) { return *device = number + 10, kSuccess; }
FAKE Result cuDeviceGetName(char* name, int bytes, int device) { return snprintf(name, static_cast<size_t>(bytes), "Fake GPU %d", device - 10), kSuccess; }
FAKE Result cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = room(), kSuccess; }
FAKE Result cuDeviceGetAttribute(int* value, int which, int) {
  auto& set = state().settings;
  const std::map<int, int> values = {
      {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {8, kSharedOfAll}, {10, 32}, {12, 65536}, {13, 1410000}, {16, 108}, {38, 40 << 20}, {75, set["major"]}, {76, set["minor"]},
      {95, set["cooperative"]}, {97, set["shared"]}, {115, set["pools"]}};
  auto found = values.find(which);
  return found == values.end() ? kInvalidValue : (*value = found->second, kSuccess);
}
FAKE Result cuDeviceCanAccessPeer(int* can, int device, int peer) { return *can = device != peer && state().settings["peers"], kSuccess; }

FAKE Result cuDevicePrimaryCtxRetain(Context** context, int device) {
  const auto held = hold();
  if (const Result code = enter("cuDevicePrimaryCtxRetain", false)) return code;
  return *context = &state().contexts[device - 10], kSuccess;
}
FAKE Result cuCtxGetCurrent(Context** context) { return *context = current.empty() ? nullptr : current.back(), kSuccess; }
FAKE Result cuCtxPushCurrent_v2(Context* context) { return current.push_back(context), kSuccess; }
FAKE Result cuCtxPopCurrent_v2(Context** context) { return *context = current.back(), current.pop_back(), kSuccess; }
FAKE Result cuCtxSynchronize() {
  const auto held = hold();
  const Result code = enter("cuCtxSynchronize");
  return code ? code : drain_all(current.back());
}

namespace {
Result allocate(Address* data, size_t bytes, int device) {
  Context& c = state().contexts[device];
  if (c.used + bytes > room()) return kOutOfMemory;
  c.used += bytes;
  *data = reinterpret_cast<Address>(std::aligned_alloc(256, (bytes + 255) & ~size_t{255})) + kShift;
  memset(real(*data), 0xA5, bytes);
  state().blocks[*data] = {bytes, device};
  return kSuccess;
}
Result release(Address data) {
  auto found = state().blocks.find(data);
  if (found == state().blocks.end()) return kInvalidValue;
  state().contexts[found->second.second].used -= found->second.first;
  state().blocks.erase(found);
  std::free(real(data));
  return kSuccess;
}
}  // namespace

FAKE Result cuMemGetInfo_v2(size_t* available, size_t* total) {
  const auto held = hold();
  if (const Result code = enter("cuMemGetInfo_v2")) return code;
  *total = room();
  *available = room() - current.back()->used;
  return kSuccess;
}
FAKE Result cuMemAlloc_v2(Address* data, size_t bytes) {
  const auto held = hold();
  const Result code = enter("cuMemAlloc_v2");
  return code ? code : allocate(data, bytes, current.back()->device);
}
FAKE Result cuMemFree_v2(Address data) {
  const auto held = hold();
  if (const Result code = enter("cuMemFree_v2")) return code;
  if (const Result code = drain_all(current.back())) return code;
  return release(data);
}
FAKE Result cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  const auto held = hold();
  if (const Result code = enter("cuMemHostAlloc")) return code;
  state().host.insert(*data = std::malloc(bytes));
  return kSuccess;
}
FAKE Result cuMemFreeHost(void* data) {
  const auto held = hold();
  if (const Result code = enter("cuMemFreeHost")) return code;
  if (!state().host.erase(data)) return kInvalidValue;
  return std::free(data), kSuccess;
}

struct PoolProps {
  int allocation_type, handle_types, location_type, location;
};
FAKE Result cuMemPoolCreate(Pool** pool, const PoolProps* props) {
  const auto held = hold();
  if (const Result code = enter("cuMemPoolCreate")) return code;
  if (props->allocation_type != 1 || props->location_type != 1) return kInvalidValue;
  return *pool = new Pool{props->location - 10, 0}, kSuccess;
}
FAKE Result cuMemPoolSetAttribute(Pool* pool, int which, void* value) {
  if (which != 4) return kInvalidValue;
  uint64_t keep;
  memcpy(&keep, value, sizeof keep);
  return pool->kept = keep, kSuccess;
}
FAKE Result cuMemPoolSetAccess(Pool*, const void*, size_t) {
  const auto held = hold();
  return enter("cuMemPoolSetAccess");
}
FAKE Result cuMemPoolTrimTo(Pool*, size_t) {
  const auto held = hold();
  return enter("cuMemPoolTrimTo");
}
FAKE Result cuMemAllocFromPoolAsync(Address* data, size_t bytes, Pool* pool, Stream*) {
  const auto held = hold();
  const Result code = enter("cuMemAllocFromPoolAsync");
  return code ? code : allocate(data, bytes, pool->device);
}
FAKE Result cuMemFreeAsync(Address data, Stream* stream) {
  const auto held = hold();
  const Result code = enter("cuMemFreeAsync");
  return code ? code : give(stream, [data] { return release(data); });
}

namespace {
Result copied(Stream* stream, char* to, const char* from, size_t bytes) {
  return give(stream, [=] { return memcpy(to, from, bytes), kSuccess; });
}
}  // namespace
FAKE Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuMemcpyHtoDAsync_v2")) return code;
  if (!is_inside(to, bytes, current.back()->device)) return kInvalidValue;
  return copied(stream, real(to), static_cast<const char*>(from), bytes);
}
FAKE Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuMemcpyDtoHAsync_v2")) return code;
  if (!is_inside(from, bytes, current.back()->device)) return kInvalidValue;
  return copied(stream, static_cast<char*>(to), real(from), bytes);
}
FAKE Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuMemcpyDtoDAsync_v2")) return code;
  if (!is_inside(to, bytes, current.back()->device) || !is_inside(from, bytes, current.back()->device)) return kInvalidValue;
  return copied(stream, real(to), real(from), bytes);
}
FAKE Result cuMemcpyPeerAsync(Address to, Context* there, Address from, Context* here, size_t bytes, Stream* stream) {
  const auto held = hold();
  if (const Result code = enter("cuMemcpyPeerAsync")) return code;
  if (!is_inside(to, bytes, there->device) || !is_inside(from, bytes, here->device) || !state().settings["peers"]) return kInvalidValue;
  return copied(stream, real(to), real(from), bytes);
}
