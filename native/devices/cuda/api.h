// The part of CUDA's driver interface that is used here, as its public documentation describes it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uintptr_t;
using CUcontext = struct CUcontextObject*;
using CUstream = struct CUstreamObject*;
using CUevent = struct CUeventObject*;
using CUmodule = struct CUmoduleObject*;
using CUfunction = struct CUfunctionObject*;
using CUgraph = struct CUgraphObject*;
using CUgraphExec = struct CUgraphExecObject*;
using CUmemoryPool = struct CUmemoryPoolObject*;

enum : CUresult {
  CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_NO_BINARY_FOR_GPU = 209, CUDA_ERROR_ECC_UNCORRECTABLE = 214, CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222, CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600, CUDA_ERROR_ILLEGAL_ADDRESS = 700, CUDA_ERROR_LAUNCH_TIMEOUT = 702, CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710, CUDA_ERROR_HARDWARE_STACK_ERROR = 714, CUDA_ERROR_LAUNCH_FAILED = 719, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 907
};

// Attributes of devices.
enum : int {
  kMaxThreadsPerBlock = 1, kMaxBlockX = 2, kMaxBlockY = 3, kMaxBlockZ = 4, kMaxSharedPerBlock = 8, kWarpSize = 10, kMaxRegisters = 12, kClockRate = 13,
  kMultiprocessors = 16, kL2Bytes = 38, kComputeMajor = 75, kComputeMinor = 76, kCooperativeLaunch = 95, kMaxSharedOptIn = 97, kMemoryPools = 115
};
// Attributes of functions.
enum : int { kFunctionMaxThreads = 0, kFunctionShared = 1, kFunctionRegisters = 4, kFunctionMaxDynamicShared = 8 };
// Options of the loader of code.
enum : int { kJitErrorLog = 5, kJitErrorLogBytes = 6 };
enum : unsigned { kStreamNonBlocking = 1, kEventWithoutTiming = 2, kCaptureThreadLocal = 1, kHostPortable = 1, kPoolReleaseThreshold = 4 };

struct CUmemoryLocation { int type, id; };  // type 1: a device
struct CUmemoryPoolProps {
  int allocation_type, handle_types;        // 1: pinned; 0: not for other processes
  CUmemoryLocation location;
  void* security;
  unsigned char reserved[64];
};
struct CUmemoryAccess {
  CUmemoryLocation location;
  int flags;                                // 3: reading and writing
};

// A tensor from which kernels copy boxes, as the driver writes it.
struct alignas(64) CUtensorMap { uint64_t opaque[16]; };
// Types of its elements, its swizzles, and what else is asked for.
enum : int {
  kMapUint8 = 0, kMapUint16 = 1, kMapUint32 = 2, kMapInt32 = 3, kMapUint64 = 4, kMapInt64 = 5, kMapFloat16 = 6, kMapFloat32 = 7, kMapFloat64 = 8, kMapBfloat16 = 9,
  kNoInterleave = 0, kNoSwizzle = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3, kPromoteL2To128 = 2, kFillZeros = 0
};

// X(name, its symbol in the library, parameters)
#define TW_CUDA_FUNCTIONS(X)                                                                                                                  \
  X(init, cuInit, (unsigned flags))                                                                                                           \
  X(driver_version, cuDriverGetVersion, (int* version))                                                                                       \
  X(error_name, cuGetErrorName, (CUresult code, const char** text))                                                                           \
  X(error_string, cuGetErrorString, (CUresult code, const char** text))                                                                       \
  X(device_count, cuDeviceGetCount, (int* count))                                                                                             \
  X(device_get, cuDeviceGet, (CUdevice * device, int number))                                                                                 \
  X(device_name, cuDeviceGetName, (char* name, int bytes, CUdevice device))                                                                   \
  X(device_attribute, cuDeviceGetAttribute, (int* value, int which, CUdevice device))                                                         \
  X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                                    \
  X(can_access_peer, cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))                                                       \
  X(retain_primary, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                         \
  X(current_context, cuCtxGetCurrent, (CUcontext * context))                                                                                  \
  X(push_context, cuCtxPushCurrent_v2, (CUcontext context))                                                                                   \
  X(pop_context, cuCtxPopCurrent_v2, (CUcontext * context))                                                                                   \
  X(synchronize_context, cuCtxSynchronize, ())                                                                                                \
  X(memory_info, cuMemGetInfo_v2, (size_t * available, size_t* total))                                                                        \
  X(allocate, cuMemAlloc_v2, (CUdeviceptr * data, size_t bytes))                                                                              \
  X(release, cuMemFree_v2, (CUdeviceptr data))                                                                                                \
  X(allocate_host, cuMemHostAlloc, (void** data, size_t bytes, unsigned flags))                                                               \
  X(release_host, cuMemFreeHost, (void* data))                                                                                                \
  X(to_device, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))                                       \
  X(to_host, cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))                                               \
  X(within, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                                          \
  X(to_peer, cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream))           \
  X(create_stream, cuStreamCreate, (CUstream * stream, unsigned flags))                                                                       \
  X(release_stream, cuStreamDestroy_v2, (CUstream stream))                                                                                    \
  X(synchronize_stream, cuStreamSynchronize, (CUstream stream))                                                                               \
  X(stream_waits, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                                        \
  X(create_event, cuEventCreate, (CUevent * event, unsigned flags))                                                                           \
  X(release_event, cuEventDestroy_v2, (CUevent event))                                                                                        \
  X(record_event, cuEventRecord, (CUevent event, CUstream stream))                                                                            \
  X(query_event, cuEventQuery, (CUevent event))                                                                                               \
  X(synchronize_event, cuEventSynchronize, (CUevent event))                                                                                   \
  X(elapsed, cuEventElapsedTime, (float* milliseconds, CUevent begin, CUevent end))                                                           \
  X(load_module, cuModuleLoadDataEx, (CUmodule * module, const void* image, unsigned count, int* options, void** values))                     \
  X(unload_module, cuModuleUnload, (CUmodule module))                                                                                         \
  X(find_function, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))                                           \
  X(function_attribute, cuFuncGetAttribute, (int* value, int which, CUfunction function))                                                     \
  X(set_function_attribute, cuFuncSetAttribute, (CUfunction function, int which, int value))                                                  \
  X(launch, cuLaunchKernel, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,               \
                             unsigned shared, CUstream stream, void** args, void** extra))

// The same of drivers that are newer than the oldest that serves.
#define TW_CUDA_NEWER_FUNCTIONS(X)                                                                                                            \
  X(encode_tensor_map, cuTensorMapEncodeTiled, (CUtensorMap * map, int type, unsigned rank, void* address, const uint64_t* extents,           \
                                                const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,          \
                                                int swizzle, int promotion, int fill))                                                        \
  X(launch_cooperative, cuLaunchCooperativeKernel, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,     \
                                                    unsigned bz, unsigned shared, CUstream stream, void** args))                              \
  X(create_pool, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemoryPoolProps* props))                                                      \
  X(set_pool_attribute, cuMemPoolSetAttribute, (CUmemoryPool pool, int which, void* value))                                                   \
  X(set_pool_access, cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemoryAccess* access, size_t count))                                     \
  X(trim_pool, cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep))                                                                             \
  X(allocate_in_pool, cuMemAllocFromPoolAsync, (CUdeviceptr * data, size_t bytes, CUmemoryPool pool, CUstream stream))                        \
  X(release_in_order, cuMemFreeAsync, (CUdeviceptr data, CUstream stream))                                                                    \
  X(begin_capture, cuStreamBeginCapture_v2, (CUstream stream, int mode))                                                                      \
  X(end_capture, cuStreamEndCapture, (CUstream stream, CUgraph* graph))                                                                       \
  X(instantiate_graph, cuGraphInstantiateWithFlags, (CUgraphExec * graph, CUgraph from, unsigned long long flags))                            \
  X(launch_graph, cuGraphLaunch, (CUgraphExec graph, CUstream stream))                                                                        \
  X(release_graph, cuGraphDestroy, (CUgraph graph))                                                                                           \
  X(release_graph_exec, cuGraphExecDestroy, (CUgraphExec graph))

}  // namespace tw
