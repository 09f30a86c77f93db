/* A fault of firmware that talks over a line: it tells the registers that say what it was, and the processor begins anew. */
#include "tilewright/micro_program.h"

#define REGISTER(address) (*(volatile uint32_t*)(uintptr_t)(address))
#define AIRCR REGISTER(0xE000ED0Cu)
#define CFSR REGISTER(0xE000ED28u)
#define HFSR REGISTER(0xE000ED2Cu)
#define MMFAR REGISTER(0xE000ED34u)
#define BFAR REGISTER(0xE000ED38u)
#define BUS_ADDRESS (1u << 15)
#define RESET 0x05FA0004u

void tw_fault(void);
void tw_fault_at(const uint32_t* frame);

/* The registers at the fault are on the stack. */
__attribute__((naked)) void tw_fault(void) { __asm__ volatile("mov r0, sp\n\tbl tw_fault_at"); }

void tw_fault_at(const uint32_t* frame) {
  struct tw_text text = {{0}, 0};
  volatile uint32_t wait;
  tw_tell(&text, "fault pc=", frame[6]);
#ifdef TW_FAULTS
  tw_tell(&text, " cfsr=", CFSR);
  tw_tell(&text, " hfsr=", HFSR);
  tw_tell(&text, " address=", (CFSR & BUS_ADDRESS) != 0u ? BFAR : MMFAR);
#endif
  tw_program_stop(text.text, text.length);
  for (wait = 0; wait < 100000u; ++wait) {
  }
  AIRCR = RESET;
  for (;;) {
  }
}
