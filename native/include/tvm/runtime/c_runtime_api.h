/* The C interface of classic TVM over this runtime. Functions return 0 for success; otherwise TVMGetLastError says what went wrong. A program
 * that calls them is linked with the runtime library. */
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_

#include "../../dlpack/dlpack.h"
#include "../../tilewright/device.h"

#define TVM_DLL TW_EXPORT
#define TVM_VERSION "0.18.0"

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t tvm_index_t;
typedef DLTensor TVMArray;
typedef TVMArray* TVMArrayHandle; /* that of an array of the runtime, or any tensor */
typedef void* TVMModuleHandle;
typedef void* TVMFunctionHandle;
typedef void* TVMRetValueHandle;
typedef void* TVMObjectHandle;
typedef TVMFFIByteArray TVMByteArray;

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

/* Types of devices that DLPack does not list. */
typedef enum { kDLAOCL = 32, kDLSDAccel, kOpenGL, kDLMicroDev, TVMDeviceExtType_End } TVMDeviceExtType;

/* What a TVMValue holds. */
typedef enum {
  kTVMArgInt = 0, kTVMArgFloat = 2, kTVMOpaqueHandle = 3, kTVMNullptr = 4, kTVMDataType = 5, kDLDevice = 6, kTVMDLTensorHandle = 7,
  kTVMObjectHandle = 8, kTVMModuleHandle = 9, kTVMPackedFuncHandle = 10, kTVMStr = 11, kTVMBytes = 12, kTVMNDArrayHandle = 13,
  kTVMObjectRValueRefArg = 14, kTVMArgBool = 15, kTVMExtBegin = 16, kTVMExtReserveEnd = 64, kTVMExtEnd = 128
} TVMArgTypeCode;

/* A packed function in C; it returns 0, or another number after TVMAPISetLastError. */
typedef int (*TVMPackedCFunc)(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret, void* resource_handle);
typedef void (*TVMPackedCFuncFinalizer)(void* resource_handle);
/* What compiled code and the loader of a library agree on. */
typedef int (*TVMBackendPackedCFunc)(TVMValue* args, int* type_codes, int num_args, TVMValue* out_ret_value, int* out_ret_tcode, void* resource_handle);

/* The error of this thread, "ValueError: the message"; valid until the next call of the API. */
TVM_DLL const char* TVMGetLastError(void);
/* Where that error was raised, or null where that is not known; valid as long. */
TVM_DLL const char* TVMGetLastBacktrace(void);
/* What a packed function in C leaves for its caller: "ValueError: the message", or a message alone. */
TVM_DLL void TVMAPISetLastError(const char* message);

TVM_DLL int TVMModLoadFromFile(const char* file_name, const char* format, TVMModuleHandle* out);
TVM_DLL int TVMModImport(TVMModuleHandle module, TVMModuleHandle other);
/* Null where the module has no such function. */
TVM_DLL int TVMModGetFunction(TVMModuleHandle module, const char* func_name, int query_imports, TVMFunctionHandle* out);
TVM_DLL int TVMModFree(TVMModuleHandle module);

TVM_DLL int TVMFuncFree(TVMFunctionHandle func);
/* Does nothing: bytes that this interface gives are the thread's. */
TVM_DLL int TVMByteArrayFree(TVMByteArray* arr);
/* What the result refers to is the caller's, but for texts and bytes, which are valid until the next call of the API by this thread. */
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args, TVMValue* ret_val, int* ret_type_code);
TVM_DLL int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret);
/* Makes an argument of a callback, which is valid during the call, a result of the kind that TVMFuncCall gives. */
TVM_DLL int TVMCbArgToReturn(TVMValue* value, int* code);
TVM_DLL int TVMFuncCreateFromCFunc(TVMPackedCFunc func, void* resource_handle, TVMPackedCFuncFinalizer fin, TVMFunctionHandle* out);
TVM_DLL int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override_);
/* Null where there is none. */
TVM_DLL int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out);
/* Valid until the next call of this function by this thread. */
TVM_DLL int TVMFuncListGlobalNames(int* out_size, const char*** out_array);
TVM_DLL int TVMFuncRemoveGlobal(const char* name);

TVM_DLL int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits, int dtype_lanes, int device_type, int device_id,
                          TVMArrayHandle* out);
TVM_DLL int TVMArrayFree(TVMArrayHandle handle);
TVM_DLL int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes);
TVM_DLL int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes);
TVM_DLL int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream);
TVM_DLL int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out);
TVM_DLL int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out);
TVM_DLL void TVMDLManagedTensorCallDeleter(DLManagedTensor* dltensor);

TVM_DLL int TVMObjectRetain(TVMObjectHandle obj);
TVM_DLL int TVMObjectFree(TVMObjectHandle obj);
TVM_DLL int TVMObjectGetTypeIndex(TVMObjectHandle obj, unsigned* out_tindex);
TVM_DLL int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_tindex);
/* The text is the caller's: free(*out_type_key). */
TVM_DLL int TVMObjectTypeIndex2Key(unsigned tindex, char** out_type_key);
TVM_DLL int TVMObjectDerivedFrom(uint32_t child_type_index, uint32_t parent_type_index, int* is_derived);

#ifdef __cplusplus
}
#endif

/* A view of a value in the older form; `bytes` is where a short run of bytes is described, if it is one. */
static inline void tw_classic_view(const TVMFFIAny* value, TVMValue* out, int* code, TVMByteArray* bytes) {
  out->v_int64 = value->v_int64;
  switch (value->type_index) {
    case kTVMFFINone: *code = kTVMNullptr; out->v_handle = 0; return;
    case kTVMFFIInt: *code = kTVMArgInt; return;
    case kTVMFFIBool: *code = kTVMArgBool; return;
    case kTVMFFIFloat: *code = kTVMArgFloat; return;
    case kTVMFFIOpaquePtr: *code = kTVMOpaqueHandle; return;
    case kTVMFFIDataType: *code = kTVMDataType; return;
    case kTVMFFIDevice: *code = kDLDevice; return;
    case kTVMFFIDLTensorPtr: *code = kTVMDLTensorHandle; return;
    case kTVMFFIRawStr: *code = kTVMStr; return;
    case kTVMFFIByteArrayPtr: *code = kTVMBytes; return;
    case kTVMFFIObjectRValueRef: *code = kTVMObjectRValueRefArg; return;
    case kTVMFFISmallStr: *code = kTVMStr; out->v_str = value->v_bytes; return;
    case kTVMFFISmallBytes:
      bytes->data = value->v_bytes;
      bytes->size = value->small_str_len;
      *code = kTVMBytes;
      out->v_handle = bytes;
      return;
    case kTVMFFIStr: *code = kTVMStr; out->v_str = ((TVMFFIByteArray*)(value->v_obj + 1))->data; return;
    case kTVMFFIBytes: *code = kTVMBytes; out->v_handle = value->v_obj + 1; return;
    case kTVMFFIFunction: *code = kTVMPackedFuncHandle; return;
    case kTVMFFITensor: *code = kTVMNDArrayHandle; out->v_handle = value->v_obj + 1; return;
    case kTVMFFIModule: *code = kTVMModuleHandle; return;
    default: *code = kTVMObjectHandle;
  }
}
/* The way back, for as long as what it refers to lives. */
static inline TVMFFIAny tw_classic_any(TVMValue value, int code) {
  TVMFFIAny any;
  any.type_index = kTVMFFINone;
  any.zero_padding = 0;
  any.v_int64 = value.v_int64;
  switch (code) {
    case kTVMArgInt: case 1: any.type_index = kTVMFFIInt; return any;
    case kTVMArgBool: any.type_index = kTVMFFIBool; return any;
    case kTVMArgFloat: any.type_index = kTVMFFIFloat; return any;
    case kTVMOpaqueHandle: any.type_index = kTVMFFIOpaquePtr; return any;
    case kTVMDataType: any.type_index = kTVMFFIDataType; return any;
    case kDLDevice: any.type_index = kTVMFFIDevice; return any;
    case kTVMStr: any.type_index = kTVMFFIRawStr; return any;
    case kTVMBytes: any.type_index = kTVMFFIByteArrayPtr; return any;
    case kTVMDLTensorHandle: any.type_index = kTVMFFIDLTensorPtr; break;
    case kTVMObjectRValueRefArg: any.type_index = kTVMFFIObjectRValueRef; return any;
    case kTVMNDArrayHandle:
      if (value.v_handle) any.v_obj = (TVMFFIObject*)value.v_handle - 1;
      any.type_index = kTVMFFITensor;
      break;
    case kTVMPackedFuncHandle: any.type_index = kTVMFFIFunction; break;
    case kTVMModuleHandle: any.type_index = kTVMFFIModule; break;
    case kTVMObjectHandle: any.type_index = value.v_handle ? any.v_obj->type_index : kTVMFFINone; break;
    default: any.v_int64 = 0; return any;
  }
  if (!value.v_handle) {
    any.type_index = kTVMFFINone;
    any.v_int64 = 0;
  }
  return any;
}

#endif
