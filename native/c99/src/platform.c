/* A plain source of numbers that only look random, for platforms that have nothing better. The start code has the clock. */
#include "tilewright/micro.h"

/* George Marsaglia, Xorshift RNGs (2003): shifts 13, 17, 5. */
uint32_t tw_platform_random(void) {
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}
