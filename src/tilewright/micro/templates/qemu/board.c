/* Firmware that talks over a serial port of a board. Arrays lie in what the program leaves of the memory for data. */
#include "tilewright/micro_program.h"
#include "tilewright/micro_serial.h"

#ifndef TW_TEMPORARIES
#define TW_TEMPORARIES 1024u
#endif

extern uint8_t tw_heap_start[], tw_heap_end[];
static uint8_t temporaries[TW_TEMPORARIES] __attribute__((aligned(16)));

int main(void);

void tw_platform_log(const char* text, size_t length) { tw_program_log(text, length); }

void tw_platform_abort(int32_t code) {
  static const char text[] = "the program gave up (tw_platform_abort)";
  (void)code;
  tw_program_stop(text, sizeof text - 1);
  for (;;) {
  }
}

int main(void) {
  tw_serial_start();
  tw_start(temporaries, sizeof temporaries);
  tw_program_serve(tw_heap_start, (size_t)(tw_heap_end - tw_heap_start));
  return 0;
}
