/* The packed-function ABI: memory layouts shared by every program that speaks tvm-ffi, DLPack included.
 * Only layouts and constants stand here; both are fixed by those public specifications. */
#ifndef TILEWRIGHT_ABI_H_
#define TILEWRIGHT_ABI_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TW_EXPORT __declspec(dllexport)
#else
#define TW_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* DLPack 1.x */
typedef struct { uint32_t major, minor; } DLPackVersion;
typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
typedef int (*DLPackManagedTensorAllocator)(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                                            void (*set_error)(void* error_ctx, const char* kind, const char* message));
typedef struct DLPackExchangeAPI {
  DLPackVersion version;
  struct DLPackExchangeAPI* prev_api;
  DLPackManagedTensorAllocator managed_tensor_allocator;
  int (*managed_tensor_from_py_object_no_sync)(void* py_object, DLManagedTensorVersioned** out);
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out_py_object);
  int (*dltensor_from_py_object_no_sync)(void* py_object, DLTensor* out);
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** out_stream);
} DLPackExchangeAPI;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLOpenCL = 4, kDLVulkan = 7, kDLMetal = 8, kDLVPI = 9, kDLROCM = 10, kDLROCMHost = 11,
  kDLExtDev = 12, kDLCUDAManaged = 13, kDLOneAPI = 14, kDLWebGPU = 15, kDLHexagon = 16, kDLMAIA = 17
} DLDeviceType;
typedef enum {
  kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLOpaque = 3, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6, kDLFloat8_e3m4 = 7,
  kDLFloat8_e4m3 = 8, kDLFloat8_e4m3b11fnuz = 9, kDLFloat8_e4m3fn = 10, kDLFloat8_e4m3fnuz = 11, kDLFloat8_e5m2 = 12, kDLFloat8_e5m2fnuz = 13,
  kDLFloat8_e8m0fnu = 14, kDLFloat6_e2m3fn = 15, kDLFloat6_e3m2fn = 16, kDLFloat4_e2m1fn = 17
} DLDataTypeCode;

/* type indices of TVMFFIAny and TVMFFIObject */
enum {
  kTVMFFINone = 0, kTVMFFIInt = 1, kTVMFFIBool = 2, kTVMFFIFloat = 3, kTVMFFIOpaquePtr = 4, kTVMFFIDataType = 5,
  kTVMFFIDevice = 6, kTVMFFIDLTensorPtr = 7, kTVMFFIRawStr = 8, kTVMFFIByteArrayPtr = 9, kTVMFFIObjectRValueRef = 10,
  kTVMFFISmallStr = 11, kTVMFFISmallBytes = 12, kTVMFFIStaticObjectBegin = 64, kTVMFFIObject = 64, kTVMFFIStr = 65,
  kTVMFFIBytes = 66, kTVMFFIError = 67, kTVMFFIFunction = 68, kTVMFFIShape = 69, kTVMFFITensor = 70, kTVMFFIArray = 71,
  kTVMFFIMap = 72, kTVMFFIModule = 73, kTVMFFIOpaquePyObject = 74, kTVMFFIList = 75, kTVMFFIDict = 76,
  kTVMFFIBigInt = 78, kTVMFFIDynObjectBegin = 128
};

typedef void* TVMFFIObjectHandle;

enum { kTVMFFIDeleteStrong = 1, kTVMFFIDeleteWeak = 2, kTVMFFIDeleteBoth = 3 };

typedef struct {
  uint64_t combined_ref_count; /* strong in the low half, weak in the high half; all strong ones hold one weak */
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void* self, int flags);
} TVMFFIObject;

typedef struct {
  int32_t type_index;
  union { uint32_t zero_padding; uint32_t small_str_len; };
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
    const char* v_c_str;
    TVMFFIObject* v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
    uint64_t v_uint64;
  };
} TVMFFIAny;

typedef struct { const char* data; size_t size; } TVMFFIByteArray;
typedef struct { const int64_t* data; size_t size; } TVMFFIShapeCell;
typedef struct { void* data; int64_t size, capacity; void (*data_deleter)(void*); } TVMFFISeqCell;
typedef int (*TVMFFISafeCallType)(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
typedef struct { TVMFFISafeCallType safe_call; void* cpp_call; } TVMFFIFunctionCell;
typedef struct { void* handle; } TVMFFIOpaqueObjectCell;
typedef struct {
  TVMFFIByteArray kind, message, backtrace; /* backtrace: innermost call first */
  void (*update_backtrace)(TVMFFIObjectHandle self, const TVMFFIByteArray* backtrace, int32_t mode); /* 0 replace 1 append */
  TVMFFIObjectHandle cause_chain, extra_context;
} TVMFFIErrorCell;

/* A type of objects; the ancestors begin with the root. */
typedef struct TVMFFITypeInfo {
  int32_t type_index, type_depth;
  TVMFFIByteArray type_key;
  const struct TVMFFITypeInfo** type_ancestors;
  uint64_t type_key_hash;
  int32_t num_fields, num_methods;
  const void *fields, *methods, *metadata;
} TVMFFITypeInfo;

/* What compiled code needs of a runtime. A library exports one object of this type, `__tilewright_context`, all null;
 * the loader fills it. With null entries the library still runs: loops serially, errors only as return codes. That of
 * compiled code has TVMFFIErrorSetRaisedFromCStr as its set_error, where the process has such a function.
 * num_task of parallel_launch: how often the lambda is called; 0: once per thread; -n: as often as suits the pool, at most n times. */
typedef int32_t (*TWParallelLambda)(int32_t task_id, int32_t num_task, void* cdata);
typedef struct {
  int32_t (*parallel_launch)(TWParallelLambda lambda, void* cdata, int32_t num_task);
  void (*set_error)(const char* kind, const char* message);
  void* (*alloc_workspace)(int64_t bytes, int32_t device_type, int32_t device_id);
  void (*free_workspace)(void* data); /* of the CPU */
  int32_t (*call_packed)(const char* name, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
  /* The same, but first what the library and its imports have; `slot` is the address of its `__tvm_ffi__library_ctx`. */
  int32_t (*call_from)(void* slot, const char* name, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
  int32_t (*free_device_workspace)(void* data, int32_t device_type, int32_t device_id); /* 0, or an error is left for this thread */
} TWContext;

/* What devices of one type can do. The packed function `device_api.<name of the type>` returns the table as an opaque pointer (or raises
 * why there is none); it is called when the first device of the type is used, and its answer stays for the life of the process.
 * Functions return 0, or leave an error for this thread and return another number. Several threads may call them at once.
 * An address is an integer: where `a` is that of memory of n bytes, a + i is that of its byte i. Only the device knows what lies there. */
#define TW_DEVICE_API_VERSION 5
enum {
  kTWDeviceExist = 0, kTWDeviceMaxThreadsPerBlock = 1, kTWDeviceWarpSize = 2, kTWDeviceMaxSharedMemoryPerBlock = 3,
  kTWDeviceComputeVersion = 4, kTWDeviceName = 5, kTWDeviceMaxClockRate = 6, kTWDeviceMultiProcessorCount = 7,
  kTWDeviceMaxThreadDimensions = 8, kTWDeviceMaxRegistersPerBlock = 9, kTWDeviceGcnArch = 10, kTWDeviceApiVersion = 11,
  kTWDeviceDriverVersion = 12, kTWDeviceL2CacheSizeBytes = 13, kTWDeviceTotalGlobalMemory = 14,
  kTWDeviceAvailableGlobalMemory = 15, kTWDeviceImagePitchAlignment = 16, kTWDeviceTextureSpatialLimit = 17
};
/* A tensor in the memory of a device from which a kernel copies boxes: argument `arg` of a launch is its address. extents, strides (in elements;
 * the last one is 1) and box have `rank` numbers, the outermost first; swizzle: bytes. */
enum { kTWMostTensorRank = 5 };
typedef struct {
  int32_t arg, rank, swizzle;
  DLDataType type;
  int64_t extents[kTWMostTensorRank], strides[kTWMostTensorRank];
  uint32_t box[kTWMostTensorRank];
} TWTensorMap;

/* One launch of a kernel: how many blocks, how many threads in each, bytes of shared memory that each block has beside what its code
 * declares. args[i] points to argument i, of type types[i]: an address on the device (kDLOpaque), or a number. cooperative: blocks wait
 * for each other, so all must run at once. maps: arguments that the kernel takes as descriptions of tensors. */
typedef struct {
  void* kernel;
  uint32_t grid[3], block[3];
  size_t shared_bytes;
  void* const* args;
  const DLDataType* types;
  int32_t num_args;
  int32_t cooperative;
  const TWTensorMap* maps;
  int32_t num_maps;
} TWLaunch;
typedef struct {
  int32_t version; /* TW_DEVICE_API_VERSION */
  void* self;      /* first argument of all functions */
  /* What is asked of a device (kTWDevice...), an owned value; none where it has no answer. Needed: kTWDeviceExist. */
  int32_t (*attribute)(void* self, DLDevice device, int32_t kind, TVMFFIAny* result);
  /* Memory of `bytes` for a tensor like this one, which has no data yet. scope: "" or a name that the device knows. */
  int32_t (*allocate)(void* self, const DLTensor* like, size_t bytes, size_t alignment, const char* scope, void** result);
  int32_t (*release)(void* self, DLDevice device, void* data);
  /* Between compact tensors of one size, in the order of the stream; one of them, or both, are on devices of this type, else on the
   * CPU. It need not wait: the caller synchronises before it reads or frees what is on the CPU. */
  int32_t (*copy)(void* self, const DLTensor* from, const DLTensor* to, void* stream);
  /* Waits for all that a stream was given; null: for all that the device was given. */
  int32_t (*synchronize)(void* self, DLDevice device, void* stream);
  /* Null where a device has one order only: */
  int32_t (*create_stream)(void* self, DLDevice device, void** result);
  int32_t (*release_stream)(void* self, DLDevice device, void* stream);
  int32_t (*set_stream)(void* self, DLDevice device, void* stream); /* what this thread gives it from now on */
  int32_t (*order_streams)(void* self, DLDevice device, void* first, void* then); /* what `then` is given waits for `first` */
  /* Null where a device runs no code that it is given. Code is in a form that the device knows ("ptx", "cl"); a kernel of it lives as
   * long as it. place: of the text that the kernel comes from, "file:line", for errors; "" where none is known. A launch is in the order of the stream, and need not wait. */
  int32_t (*load_code)(void* self, DLDevice device, const char* form, const void* data, size_t bytes, void** result);
  int32_t (*release_code)(void* self, DLDevice device, void* code);
  int32_t (*find_kernel)(void* self, DLDevice device, void* code, const char* name, const char* place, void** result);
  int32_t (*launch)(void* self, DLDevice device, const TWLaunch* launch, void* stream);
  /* Null where a device has no clock. An event is a moment of a stream, when all is done that it was given before. */
  int32_t (*create_event)(void* self, DLDevice device, void** result);
  int32_t (*release_event)(void* self, DLDevice device, void* event);
  int32_t (*record_event)(void* self, DLDevice device, void* event, void* stream);
  int32_t (*elapsed)(void* self, DLDevice device, void* begin, void* end, double* seconds); /* waits for both */
} TWDeviceAPI;

/* What programs and plug-ins in C++ need of a runtime: tilewright/base.h finds it. Functions return 0, or leave the error of the thread
 * and return another number. Objects that they give are references of the caller. New entries come at the end. */
#define TW_HOST_API_VERSION 1
typedef struct {
  int32_t version; /* TW_HOST_API_VERSION */
  int (*create_function)(void* self, TVMFFISafeCallType call, void (*drop)(void* self), TVMFFIObjectHandle* out);
  int (*get_global)(const TVMFFIByteArray* name, TVMFFIObjectHandle* out); /* null where there is none */
  int (*set_global)(const TVMFFIByteArray* name, TVMFFIObjectHandle function, int override_);
  int (*create_error)(const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace,
                      TVMFFIObjectHandle cause, TVMFFIObjectHandle extra, TVMFFIObjectHandle* out);
  void (*raise)(TVMFFIObjectHandle error);
  void (*take_error)(TVMFFIObjectHandle* out);
  int (*own)(const TVMFFIAny* view, TVMFFIAny* out);
  int32_t (*type_index)(const TVMFFIByteArray* key, int32_t static_index, int32_t depth, int32_t slots, int32_t overflow, int32_t parent);
  const TVMFFITypeInfo* (*type_info)(int32_t type_index);
  int (*create_tensor)(int32_t ndim, const int64_t* shape, const DLDataType* dtype, const DLDevice* device, const char* scope, TVMFFIObjectHandle* out);
  int (*view_tensor)(const DLTensor* like, void* owner, void (*release)(void* owner), TVMFFIObjectHandle* out);
  int (*from_dlpack)(DLManagedTensor* from, int32_t alignment, int32_t contiguous, TVMFFIObjectHandle* out);
  int (*to_dlpack)(TVMFFIObjectHandle tensor, DLManagedTensor** out);
  int (*copy_tensor)(const DLTensor* from, const DLTensor* to); /* waits where one of them is on the CPU */
} TWHostAPI;
TW_EXPORT const TWHostAPI* TWGetHostAPI(void);

/* A library of devices, libtilewright_<type>.so beside the runtime, exports this function. The runtime opens the library and calls it
 * where there is no `device_api.<type>`, each time until it succeeds. */
TW_EXPORT int32_t TWOpenDevices(const TWHostAPI* host, int32_t device_type, const TWDeviceAPI** table);

#ifdef __cplusplus
}
#endif
#endif
