/* Serial ports (native/c99/serial). TW_SERIAL: the address of one. */
#ifndef TILEWRIGHT_MICRO_SERIAL_H_
#define TILEWRIGHT_MICRO_SERIAL_H_

#include <stdint.h>

#define TW_REGISTER(offset) (*(volatile uint32_t*)(uintptr_t)(TW_SERIAL + (offset)))

void tw_serial_start(void);

/* Sleeps until a byte comes (`has`: whether one is there), or the clock ticks. TW_SERIAL_INTERRUPT: the number of the port's interrupt at a
 * Cortex-M, which wakes the processor and is not taken. Without one, the program goes round and round. */
#ifdef TW_SERIAL_INTERRUPT
#define TW_SERIAL_LINE (1u << (TW_SERIAL_INTERRUPT % 32u))
#define TW_SERIAL_NVIC(bank) (*(volatile uint32_t*)(uintptr_t)(0xE000E000u + (bank) + 4u * (TW_SERIAL_INTERRUPT / 32u)))
#define TW_SERIAL_REST(has)                          \
  do {                                               \
    __asm__ volatile("cpsid i" ::: "memory");        \
    TW_SERIAL_NVIC(0x280u) = TW_SERIAL_LINE;         \
    TW_SERIAL_NVIC(0x100u) = TW_SERIAL_LINE;         \
    if (!(has)) __asm__ volatile("wfi" ::: "memory"); \
    TW_SERIAL_NVIC(0x180u) = TW_SERIAL_LINE;         \
    TW_SERIAL_NVIC(0x280u) = TW_SERIAL_LINE;         \
    __asm__ volatile("cpsie i" ::: "memory");        \
  } while (0)
#else
#define TW_SERIAL_REST(has) ((void)0)
#endif

#endif
