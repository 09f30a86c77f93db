/* A trap of firmware that serves sessions: the client is told the registers that say what it was, and the program begins anew. */
#include "tilewright/micro_rpc.h"

void tw_fault(void);

__attribute__((aligned(4))) void tw_fault(void) {
  struct tw_rpc_text text = {{0}, 0};
  uint32_t pc, cause, value;
  __asm__ volatile("csrr %0, mepc" : "=r"(pc));
  __asm__ volatile("csrr %0, mcause" : "=r"(cause));
  __asm__ volatile("csrr %0, mtval" : "=r"(value));
  tw_rpc_tell(&text, "fault pc=", pc);
  tw_rpc_tell(&text, " mcause=", cause);
  tw_rpc_tell(&text, " address=", value);
  tw_rpc_stop(text.text, text.length);
  __asm__ volatile("la t0, tw_reset\n\tjr t0" ::: "t0");
  for (;;) {
  }
}
