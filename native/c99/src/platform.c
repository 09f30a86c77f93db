/* Plain hooks, for platforms that have nothing better: no log, numbers that only look random. The start code has the clock. */
#include "tilewright/micro.h"

void tw_platform_log(const char* text, size_t length) {
  (void)text;
  (void)length;
}

void tw_platform_abort(int32_t code) {
  (void)code;
  for (;;) {
  }
}

/* George Marsaglia, Xorshift RNGs (2003): shifts 13, 17, 5. */
uint32_t tw_platform_random(void) {
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}
