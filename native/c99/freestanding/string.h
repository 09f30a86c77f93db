/* Of string.h, what compilers call by themselves; memory.c defines it. For compilers without a C library. */
#ifndef TILEWRIGHT_STRING_H_
#define TILEWRIGHT_STRING_H_

#include <stddef.h>

void* memcpy(void* restrict to, const void* restrict from, size_t size);
void* memmove(void* to, const void* from, size_t size);
void* memset(void* to, int value, size_t size);

#endif
