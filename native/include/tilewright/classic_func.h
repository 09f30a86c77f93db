/* A function of the older calling convention in generated code,
 *   int32_t f(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type_code)
 * becomes a packed function by TW_CLASSIC_FUNC(f), which is put behind the code. */
#ifndef TILEWRIGHT_CLASSIC_FUNC_H_
#define TILEWRIGHT_CLASSIC_FUNC_H_

#include "../tvm/runtime/c_runtime_api.h"
#include "packed.h"

#define TW_CLASSIC_FUNC(name)                                                                                      \
  TW_PACKED_FUNC(name) {                                                                                           \
    TVMValue values[64], out;                                                                                      \
    TVMByteArray bytes[64];                                                                                        \
    int codes[64], out_code = kTVMNullptr;                                                                         \
    if (num_args > 64) return tw_error("TypeError", "a function of generated code takes at most 64 arguments");    \
    for (int i = 0; i < num_args; ++i) {                                                                           \
      tw_classic_view(&args[i], &values[i], &codes[i], &bytes[i]);                                                 \
      if (codes[i] == kTVMNDArrayHandle) codes[i] = kTVMDLTensorHandle;                                            \
    }                                                                                                              \
    return name(values, codes, num_args, &out, &out_code);                                                         \
  }

#endif
