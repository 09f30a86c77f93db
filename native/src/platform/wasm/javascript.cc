// Functions of JavaScript as packed functions. The loader (native/javascript/index.js) knows each by a number.
#include <tilewright/abi.h>

extern "C" {
// 0, or an error was left for this thread.
__attribute__((import_module("env"), import_name("tilewright_call"))) int tilewright_call(void* number, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);
__attribute__((import_module("env"), import_name("tilewright_drop"))) void tilewright_drop(void* number);
int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType call, void (*drop)(void*), TVMFFIObjectHandle* out);

TW_EXPORT int TWFunctionFromHost(int32_t number, TVMFFIObjectHandle* out) {
  return TVMFFIFunctionCreate(reinterpret_cast<void*>(number), tilewright_call, tilewright_drop, out);
}
}
