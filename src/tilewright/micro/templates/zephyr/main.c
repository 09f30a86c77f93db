/* Firmware for Zephyr: talks over the board's console port, which the program has for itself. */
#include <zephyr/device.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/reboot.h>

#include "tilewright/micro_program.h"

#ifndef TW_TEMPORARIES
#define TW_TEMPORARIES 1024u
#endif
#ifndef TW_MEMORY
#define TW_MEMORY 32768u
#endif

static const struct device* const port = DEVICE_DT_GET(DT_CHOSEN(zephyr_console));
static uint8_t temporaries[TW_TEMPORARIES] __attribute__((aligned(64)));
static uint8_t memory[TW_MEMORY] __attribute__((aligned(64)));


int32_t tw_platform_read(void) {
  unsigned char found;
  return uart_poll_in(port, &found) == 0 ? (int32_t)found : -1;
}

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) uart_poll_out(port, data[k]);
}

uint64_t tw_platform_ticks(void) { return k_uptime_ticks() * (uint64_t)k_ticks_to_cyc_floor32(1u); }
uint32_t tw_platform_ticks_per_second(void) { return (uint32_t)CONFIG_SYS_CLOCK_TICKS_PER_SEC * k_ticks_to_cyc_floor32(1u); }
void tw_platform_log(const char* text, size_t length) { tw_program_log(text, length); }

void tw_platform_abort(int32_t code) {
  static const char text[] = "the program gave up (tw_platform_abort)";
  (void)code;
  tw_program_stop(text, sizeof text - 1);
  sys_reboot(SYS_REBOOT_COLD);
}

/* A fault: the client is told, and the board begins anew. */
void k_sys_fatal_error_handler(unsigned int reason, const struct arch_esf* frame) {
  static const char text[] = "a fault, or a failed check of Zephyr's";
  (void)reason;
  (void)frame;
  tw_program_stop(text, sizeof text - 1);
  sys_reboot(SYS_REBOOT_COLD);
}

int main(void) {
  if (!device_is_ready(port)) return -1;
  tw_start(temporaries, sizeof temporaries);
  tw_program_serve(memory, sizeof memory);
  return 0;
}
