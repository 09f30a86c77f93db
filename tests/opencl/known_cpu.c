/* pocl's LLVM calls processors that are newer than itself "generic", a name that its Clang refuses. Preloaded, this library gives it the name of
   an older one with the same vectors, of no more letters: pocl copies the name by strncpy. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>

/* zig's __builtin_cpu_supports says no to everything. */
static const char* known(void) {
  unsigned a, b, c, d, saved = 0, high;
  const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return "x86-64";
  if (c & bit_OSXSAVE) __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  const int has_fma = (c & bit_FMA) != 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return "x86-64";
  if ((saved & 0xe6) == 0xe6 && (b & avx512) == avx512) return "skx";
  return (saved & 6) == 6 && has_fma && (b & bit_AVX2) ? "haswell" : "x86-64";
}
#else
static const char* known(void) { return "generic"; }
#endif

__attribute__((visibility("default"))) char* strncpy(char* to, const char* from, size_t count) {
  static const char generic[] = "generic";
  Dl_info caller;
  size_t i = 0;
  if (count == sizeof generic - 1 && memcmp(from, generic, count) == 0 && dladdr(__builtin_return_address(0), &caller) && caller.dli_fname &&
      strstr(caller.dli_fname, "libpocl"))
    from = known();
  for (; i < count && from[i]; ++i) to[i] = from[i];
  for (; i < count; ++i) to[i] = 0;
  return to;
}
