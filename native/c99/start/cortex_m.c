/* Start of a Cortex-M: vectors, the unit for floats, the clock (SysTick). TW_FPU: there is a unit for floats. TW_VTOR: vectors can be moved. */
#include "tilewright/micro.h"

#define REGISTER(address) (*(volatile uint32_t*)(uintptr_t)(address))
#define SYST_CSR REGISTER(0xE000E010u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CVR REGISTER(0xE000E018u)
#define ICSR REGISTER(0xE000ED04u)
#define VTOR REGISTER(0xE000ED08u)
#define CPACR REGISTER(0xE000ED88u)
#define SHCSR REGISTER(0xE000ED24u)
#define CFSR REGISTER(0xE000ED28u)
#define HFSR REGISTER(0xE000ED2Cu)
#define MOST_TICKS 0x00FFFFFFu
#define SYSTICK_PENDING (1u << 26)

#ifndef TW_CLOCK_HZ
#define TW_CLOCK_HZ 16000000u
#endif

extern uint8_t tw_stack_top[];
void tw_reset(void);
void tw_fault(void);
void tw_tick(void);

/* How often SysTick began anew. */
static volatile uint32_t rounds;

void tw_tick(void) { rounds = rounds + 1u; }

/* A debugger has a breakpoint here: the registers at the fault are in r4 to r11 and on the stack. Without one, the instruction runs again.
 * Firmware with a server has another one, cortex_m_fault.c. */
__attribute__((weak)) void tw_fault(void) {
#ifdef TW_FAULTS
  CFSR = CFSR; /* writing ones clears them */
  HFSR = HFSR;
#endif
}

typedef void (*vector)(void);
extern const vector tw_vectors[16];
__attribute__((section(".vectors"), used)) const vector tw_vectors[16] = {
    (vector)(uintptr_t)tw_stack_top, tw_reset, tw_fault, tw_fault, tw_fault, tw_fault, tw_fault, tw_fault,
    0, 0, 0, tw_fault, tw_fault, 0, tw_fault, tw_tick,
};

void tw_processor_start(void) {
#ifdef TW_VTOR
  VTOR = (uint32_t)(uintptr_t)tw_vectors;
#endif
#ifdef TW_FPU
  CPACR = CPACR | (0xFu << 20);
  __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
#ifdef TW_FAULTS
  SHCSR = SHCSR | (7u << 16); /* MemManage, BusFault and UsageFault apart */
#endif
}

void tw_platform_start(void) {
  rounds = 0;
  SYST_RVR = MOST_TICKS;
  SYST_CVR = 0;
  SYST_CSR = 7u; /* on, with its interrupt, at the processor's clock */
}

uint64_t tw_platform_ticks(void) {
  uint32_t before, left, after;
  do {
    before = rounds;
    left = SYST_CVR;
    after = rounds;
  } while (before != after);
  /* It began anew, and its interrupt is still to come. */
  if ((ICSR & SYSTICK_PENDING) != 0u && left > MOST_TICKS / 2u) before = before + 1u;
  return ((uint64_t)before << 24) + (MOST_TICKS - left);
}

uint32_t tw_platform_ticks_per_second(void) { return TW_CLOCK_HZ; }
