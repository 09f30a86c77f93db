/* A trap of firmware that talks over a line: it tells the registers that say what it was, and the program begins anew. */
#include "tilewright/micro_program.h"

void tw_fault(void);

__attribute__((aligned(4))) void tw_fault(void) {
  struct tw_text text = {{0}, 0};
  uint32_t pc, cause, value;
  __asm__ volatile("csrr %0, mepc" : "=r"(pc));
  __asm__ volatile("csrr %0, mcause" : "=r"(cause));
  __asm__ volatile("csrr %0, mtval" : "=r"(value));
  tw_tell(&text, "fault pc=", pc);
  tw_tell(&text, " mcause=", cause);
  tw_tell(&text, " address=", value);
  tw_program_stop(text.text, text.length);
  __asm__ volatile("la t0, tw_reset\n\tjr t0" ::: "t0");
  for (;;) {
  }
}
