/* The first function of firmware: puts variables in their places, starts the platform, and calls main. */
#include "tilewright/micro.h"

#include <string.h>

extern uint8_t tw_data_load[], tw_data_start[], tw_data_end[], tw_bss_start[], tw_bss_end[];
extern int main(void);
void tw_begin(void);

/* Programs that a debugger loads have their variables in place. */
static void put(uint8_t* to, const uint8_t* from, size_t size) {
  if (to != from) memcpy(to, from, size);
}

void tw_begin(void) {
  tw_processor_start();
  put(tw_data_start, tw_data_load, (size_t)(tw_data_end - tw_data_start));
  memset(tw_bss_start, 0, (size_t)(tw_bss_end - tw_bss_start));
  tw_platform_start();
  tw_platform_abort((int32_t)main());
}

#ifdef __riscv
/* The stack pointer is set before C begins. */
__asm__(
    ".section .vectors,\"ax\",@progbits\n"
    ".globl tw_reset\n"
    ".type tw_reset, @function\n"
    "tw_reset:\n"
    "  la sp, tw_stack_top\n"
    "  j tw_begin\n"
    ".size tw_reset, . - tw_reset\n"
    ".text\n");
#else
void tw_reset(void);
void tw_reset(void) { tw_begin(); }
#endif
