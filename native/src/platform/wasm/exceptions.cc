// C++ exceptions on WebAssembly: the parts of LLVM's libraries that zig brings as sources and leaves out of those it links.
#define _LIBCPP_BUILDING_LIBRARY
#define _LIBCXXABI_BUILDING_LIBRARY
#define _LIBUNWIND_HIDE_SYMBOLS
#include <cxa_exception.cpp>
#include <cxa_personality.cpp>
extern "C" {
_Unwind_Reason_Code __gxx_personality_wasm0(int version, _Unwind_Action actions, uint64_t kind, _Unwind_Exception* exception, _Unwind_Context* context);
_Unwind_Reason_Code _Unwind_CallPersonality(void* exception);
}
#include <Unwind-wasm.c>

// The tag of all C++ exceptions, whose value is the address of the exception.
asm(".tagtype __cpp_exception i32\n"
    ".globl __cpp_exception\n"
    "__cpp_exception:\n");

// Threads end with the page, and their objects with the memory.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
