/* Start of a 32-bit RISC-V: the trap vector, the units for floats (TW_FPU) and for vectors (TW_VECTORS), the clock (mcycle). */
#include "tilewright/micro.h"

#ifndef TW_CLOCK_HZ
#define TW_CLOCK_HZ 16000000u
#endif

void tw_fault(void);

/* A debugger has a breakpoint here: all registers but mepc, mcause and mtval are those at the fault. Firmware with a server has another one,
 * riscv_fault.c. */
__attribute__((weak, aligned(4))) void tw_fault(void) {
  for (;;) {
  }
}

/* Fields of mstatus that turn units on ("Privileged Architecture", mstatus: FS, VS). */
#define FLOATS (1u << 13)
#define VECTORS (1u << 9)

void tw_processor_start(void) {
  __asm__ volatile("csrw mtvec, %0" ::"r"((uintptr_t)tw_fault));
#ifdef TW_FPU
  __asm__ volatile("csrs mstatus, %0" ::"r"(FLOATS));
#endif
#ifdef TW_VECTORS
  __asm__ volatile("csrs mstatus, %0" ::"r"(VECTORS));
#endif
}

void tw_platform_start(void) {}

uint64_t tw_platform_ticks(void) {
  uint32_t high, low, again;
  do {
    __asm__ volatile("csrr %0, mcycleh" : "=r"(high));
    __asm__ volatile("csrr %0, mcycle" : "=r"(low));
    __asm__ volatile("csrr %0, mcycleh" : "=r"(again));
  } while (high != again);
  return ((uint64_t)high << 32) | low;
}

uint32_t tw_platform_ticks_per_second(void) { return TW_CLOCK_HZ; }
