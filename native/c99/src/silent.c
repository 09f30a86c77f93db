/* Hooks of platforms that have no log, and where nobody waits for the end of a program. */
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
