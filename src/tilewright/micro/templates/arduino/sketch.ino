// Talks over the serial port. The model, and what answers, are in src.
#include "src/micro_program.h"

#ifndef TW_TEMPORARIES
#define TW_TEMPORARIES 1024u
#endif
#ifndef TW_MEMORY
#define TW_MEMORY 8192u
#endif

static uint8_t temporaries[TW_TEMPORARIES] __attribute__((aligned(16)));
static uint8_t memory[TW_MEMORY] __attribute__((aligned(16)));

extern "C" {

int32_t tw_platform_read(void) {
  int found = Serial.read();
  if (found < 0) yield();
  return found;
}

void tw_platform_write(const uint8_t* data, size_t size) { Serial.write(data, size); }

uint64_t tw_platform_ticks(void) {
  static uint32_t before, rounds;
  uint32_t now = micros();
  if (now < before) rounds += 1;
  before = now;
  return ((uint64_t)rounds << 32) | now;
}

uint32_t tw_platform_ticks_per_second(void) { return 1000000u; }
void tw_platform_log(const char* text, size_t length) { tw_program_log(text, length); }

void tw_platform_abort(int32_t code) {
  static const char text[] = "the program gave up (tw_platform_abort)";
  (void)code;
  tw_program_stop(text, sizeof text - 1);
  for (;;) yield();
}
}

void setup() {
  Serial.begin(SPEED);
  while (!Serial) yield();
  tw_start(temporaries, sizeof temporaries);
}

void loop() { tw_program_serve(memory, sizeof memory); }
