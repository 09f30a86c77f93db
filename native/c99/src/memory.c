/* The functions of string.h that compilers call by themselves, for programs without a C library. A C library's come first. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEAK __attribute__((weak))

WEAK void* memcpy(void* restrict to, const void* restrict from, size_t size) {
  uint8_t* t = (uint8_t*)to;
  const uint8_t* f = (const uint8_t*)from;
  if ((((uintptr_t)t | (uintptr_t)f) & 3) == 0) {
    for (; size >= 4; size -= 4, t += 4, f += 4) *(uint32_t*)(void*)t = *(const uint32_t*)(const void*)f;
  }
  while (size-- > 0) *t++ = *f++;
  return to;
}

WEAK void* memset(void* to, int value, size_t size) {
  uint8_t* t = (uint8_t*)to;
  while (size-- > 0) *t++ = (uint8_t)value;
  return to;
}

WEAK void* memmove(void* to, const void* from, size_t size) {
  uint8_t* t = (uint8_t*)to;
  const uint8_t* f = (const uint8_t*)from;
  if ((uintptr_t)t <= (uintptr_t)f) return memcpy(to, from, size);
  while (size-- > 0) t[size] = f[size];
  return to;
}
