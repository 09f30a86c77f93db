/* What code generators for classic TVM count on in C: the types of the older calling convention. A function
 *   int32_t f(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type_code)
 * becomes a packed function by TW_CLASSIC_FUNC(f), which is put behind generated code that has such functions. */
#ifndef TILEWRIGHT_C_RUNTIME_API_H_
#define TILEWRIGHT_C_RUNTIME_API_H_

#include "../../tilewright/device.h"
#include "../../tilewright/packed.h"

#define TVM_DLL TW_EXPORT

typedef void* TVMFunctionHandle;
typedef DLTensor* TVMArrayHandle;
typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;
enum { kTVMArgInt = 0, kTVMArgFloat = 2, kTVMOpaqueHandle = 3, kTVMNullptr = 4, kTVMDLTensorHandle = 7, kTVMStr = 11 };

static inline void tw_classic_value(const TVMFFIAny* value, TVMValue* out, int* code) {
  DLTensor* tensor = tw_tensor(value);
  out->v_int64 = value->v_int64;
  *code = kTVMOpaqueHandle;
  if (tensor) {
    out->v_handle = tensor;
    *code = kTVMDLTensorHandle;
  } else if (value->type_index == kTVMFFIInt || value->type_index == kTVMFFIBool) {
    *code = kTVMArgInt;
  } else if (value->type_index == kTVMFFIFloat) {
    *code = kTVMArgFloat;
  } else if (value->type_index == kTVMFFIRawStr) {
    *code = kTVMStr;
  }
}

#define TW_CLASSIC_FUNC(name)                                                                                      \
  TW_PACKED_FUNC(name) {                                                                                           \
    TVMValue values[64], out;                                                                                      \
    int codes[64], out_code = kTVMNullptr;                                                                         \
    if (num_args > 64) return tw_error("TypeError", "a function of generated code takes at most 64 arguments");    \
    for (int i = 0; i < num_args; ++i) tw_classic_value(&args[i], &values[i], &codes[i]);                          \
    return name(values, codes, num_args, &out, &out_code);                                                         \
  }

#endif
