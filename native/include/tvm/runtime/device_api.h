// Memory and streams of devices. A device of one's own is a table of functions in C (TWDeviceAPI in tilewright/abi.h).
#ifndef TVM_RUNTIME_DEVICE_API_H_
#define TVM_RUNTIME_DEVICE_API_H_

#include <string>

#include "packed_func.h"

namespace tvm {
namespace runtime {

enum DeviceAttrKind : int {
  kExist = 0, kMaxThreadsPerBlock = 1, kWarpSize = 2, kMaxSharedMemoryPerBlock = 3, kComputeVersion = 4, kDeviceName = 5, kMaxClockRate = 6,
  kMultiProcessorCount = 7, kMaxThreadDimensions = 8, kMaxRegistersPerBlock = 9, kGcnArch = 10, kApiVersion = 11, kDriverVersion = 12,
  kL2CacheSizeBytes = 13, kTotalGlobalMemory = 14, kAvailableGlobalMemory = 15, kImagePitchAlignment = 16
};
constexpr int kAllocAlignment = 64;
constexpr int kTempAllocaAlignment = 64;
constexpr int kMaxStackAlloca = 1024;
// Devices of a session of remote calls have the number of the session times this in their type.
constexpr int kRPCSessMask = 128;
inline bool IsRPCSessionDevice(Device dev) { return dev.device_type / kRPCSessMask > 0; }
inline int GetRPCSessionIndex(Device dev) { return dev.device_type / kRPCSessMask - 1; }

inline const char* DLDeviceType2Str(int type) {
  switch (type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda";
    case kDLCUDAHost: return "cuda_host";
    case kDLCUDAManaged: return "cuda_managed";
    case kDLOpenCL: return "opencl";
    case kDLSDAccel: return "sdaccel";
    case kDLAOCL: return "aocl";
    case kDLVulkan: return "vulkan";
    case kDLMetal: return "metal";
    case kDLVPI: return "vpi";
    case kDLROCM: return "rocm";
    case kDLROCMHost: return "rocm_host";
    case kDLExtDev: return "ext_dev";
    case kDLOneAPI: return "oneapi";
    case kDLWebGPU: return "webgpu";
    case kDLHexagon: return "hexagon";
    case kOpenGL: return "opengl";
    case kDLMicroDev: return "microdev";
    default: LOG(FATAL) << "ValueError: unknown type = " << type;
  }
}

// The devices of one type. A program that uses it is linked with the runtime library. What fails throws.
class DeviceAPI {
 public:
  // Throws where the process has no such devices, or returns null if that is allowed.
  static DeviceAPI* Get(Device dev, bool allow_missing = false) {
    static DeviceAPI all;
    if (allow_missing && !all.exists(dev)) return nullptr;
    if (!allow_missing && !IsRPCSessionDevice(dev)) ICHECK(all.exists(dev)) << "ValueError: there is no device of type " << dev.device_type << ", number " << dev.device_id;
    return &all;
  }
  void SetDevice(Device) {}  // each call says which device it is of
  void GetAttr(Device dev, DeviceAttrKind kind, TVMRetValue* rv) { *rv = attribute(dev, kind); }
  size_t GetDataSize(const DLTensor& tensor, Optional<String> = NullOpt) { return ::tvm::runtime::GetDataSize(tensor); }
  void* AllocDataSpace(Device dev, size_t nbytes, size_t alignment, DLDataType type_hint) {
    void* data = nullptr;
    ::tilewright::detail::check(TVMDeviceAllocDataSpace(dev, nbytes, alignment, type_hint, &data));
    return data;
  }
  void* AllocDataSpace(Device dev, int ndim, const int64_t* shape, DLDataType dtype, Optional<String> mem_scope = NullOpt) {
    void* data = nullptr;
    const std::string scope = mem_scope.defined() ? std::string(mem_scope.value()) : "";
    ::tilewright::detail::check(TVMDeviceAllocDataSpaceWithScope(dev, ndim, shape, dtype, scope.c_str(), &data));
    return data;
  }
  void FreeDataSpace(Device dev, void* ptr) { ::tilewright::detail::check(TVMDeviceFreeDataSpace(dev, ptr)); }
  // May go on after it returns: StreamSync waits.
  void CopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream) { ::tilewright::detail::check(TVMDeviceCopyDataFromTo(from, to, stream)); }
  TVMStreamHandle CreateStream(Device dev) {
    TVMStreamHandle stream = nullptr;
    ::tilewright::detail::check(TVMStreamCreate(dev.device_type, dev.device_id, &stream));
    return stream;
  }
  void FreeStream(Device dev, TVMStreamHandle stream) { ::tilewright::detail::check(TVMStreamFree(dev.device_type, dev.device_id, stream)); }
  void StreamSync(Device dev, TVMStreamHandle stream) { ::tilewright::detail::check(TVMSynchronize(dev.device_type, dev.device_id, stream)); }
  void SetStream(Device dev, TVMStreamHandle stream) { ::tilewright::detail::check(TVMSetStream(dev.device_type, dev.device_id, stream)); }
  // The stream of this thread; null: the device's own.
  TVMStreamHandle GetCurrentStream(Device dev) {
    using ::tilewright::detail::of_int;
    return TVMRetValue(::tilewright::detail::call_global("runtime.GetCurrentStream", of_int(dev.device_type), of_int(dev.device_id)));
  }
  void SyncStreamFromTo(Device dev, TVMStreamHandle first, TVMStreamHandle then) {
    ::tilewright::detail::check(TVMStreamStreamSynchronize(dev.device_type, dev.device_id, first, then));
  }
  void* AllocWorkspace(Device dev, size_t nbytes, DLDataType type_hint = {}) {
    void* data = TVMBackendAllocWorkspace(dev.device_type, dev.device_id, nbytes, type_hint.code, type_hint.bits);
    ICHECK(data) << "MemoryError: no workspace of " << nbytes << " bytes";
    return data;
  }
  void FreeWorkspace(Device dev, void* ptr) { ::tilewright::detail::check(TVMBackendFreeWorkspace(dev.device_type, dev.device_id, ptr)); }

 private:
  DeviceAPI() = default;
  TVMRetValue attribute(Device dev, DeviceAttrKind kind) const {
    using ::tilewright::detail::of_int;
    return TVMRetValue(::tilewright::detail::call_global("runtime.GetDeviceAttr", of_int(dev.device_type), of_int(dev.device_id), of_int(kind)));
  }
  bool exists(Device dev) const { return static_cast<int64_t>(attribute(dev, kExist)) != 0; }
};

}  // namespace runtime
}  // namespace tvm

// "cpu(0)", or "remote[1]-cuda(0)" of a session of remote calls. In the global scope, so that streams find it for a type that lies there.
inline std::ostream& operator<<(std::ostream& os, DLDevice dev) {
  using namespace tvm::runtime;
  if (IsRPCSessionDevice(dev)) os << "remote[" << GetRPCSessionIndex(dev) << "]-";
  return os << DLDeviceType2Str(static_cast<int>(dev.device_type) % kRPCSessMask) << "(" << dev.device_id << ")";
}

#endif
