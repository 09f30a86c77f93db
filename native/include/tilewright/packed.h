/* Packed functions in C: what generated code defines so that programs find it by name.
 *
 *   static int32_t scale(const float* x, float* y) { ... return 0; }
 *   TW_PACKED_FUNC(my_scale) {
 *     TW_EXPECT_ARGS(2);
 *     return scale(TW_DATA(float, 0), TW_DATA(float, 1));
 *   }
 *
 * 0 is success. What returns another number may say why by tw_error before. */
#ifndef TILEWRIGHT_PACKED_H_
#define TILEWRIGHT_PACKED_H_

#include "abi.h"

#ifdef __cplusplus
#define TW_C extern "C"
#else
#define TW_C
#endif

#define TW_PACKED_FUNC(name)                                                                     \
  TW_C TW_EXPORT int32_t __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t num_args,   \
                                          TVMFFIAny* result);                                    \
  TW_C TW_EXPORT int32_t __tvm_ffi_##name(void* self __attribute__((unused)),                    \
                                          const TVMFFIAny* args __attribute__((unused)),         \
                                          int32_t num_args __attribute__((unused)),              \
                                          TVMFFIAny* result __attribute__((unused)))

/* Filled by the loader. It must not be in a program that merely includes this: it would be taken for that of the libraries which it loads.
 * So in C++ it is there only where it is used. */
#if !defined(__cplusplus)
TW_EXPORT __attribute__((weak)) TWContext __tilewright_context;
#elif __cplusplus >= 201703L
extern "C" {
TW_EXPORT inline TWContext __tilewright_context = {};
}
#else
extern "C" {
TW_EXPORT __attribute__((weak)) TWContext __tilewright_context;
}
#endif

static inline int32_t tw_error(const char* kind, const char* message) {
  if (__tilewright_context.set_error) __tilewright_context.set_error(kind, message);
  return -1;
}

/* The tensor that an argument is; null when it is none. */
static inline DLTensor* tw_tensor(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return (DLTensor*)value->v_ptr;
  if (value->type_index == kTVMFFITensor) return (DLTensor*)((char*)value->v_ptr + sizeof(TVMFFIObject));
  return 0;
}
/* Where the elements of a tensor begin. */
static inline void* tw_data(const TVMFFIAny* value) {
  DLTensor* t = tw_tensor(value);
  return t ? (void*)((char*)t->data + t->byte_offset) : 0;
}
/* The values of a list. */
static inline int64_t tw_list_size(const TVMFFIAny* value) {
  if (value->type_index != kTVMFFIArray && value->type_index != kTVMFFIList) return -1;
  return ((TVMFFISeqCell*)((char*)value->v_ptr + sizeof(TVMFFIObject)))->size;
}
static inline const TVMFFIAny* tw_list_item(const TVMFFIAny* value, int64_t i) {
  return (const TVMFFIAny*)((TVMFFISeqCell*)((char*)value->v_ptr + sizeof(TVMFFIObject)))->data + i;
}

#define TW_EXPECT_ARGS(count) \
  if (num_args != (count)) return tw_error("TypeError", "a function of generated code expects " #count " arguments")
#define TW_TENSOR(i) tw_tensor(&args[i])
#define TW_DATA(type, i) ((type*)tw_data(&args[i]))

#endif
