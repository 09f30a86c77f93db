/* Firmware as a process: the line is its standard input and output. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tilewright/micro_program.h"

#ifndef TW_TEMPORARIES
#define TW_TEMPORARIES 4194304u
#endif
#ifndef TW_MEMORY
#define TW_MEMORY 67108864u
#endif

static uint8_t temporaries[TW_TEMPORARIES] __attribute__((aligned(64)));
static uint8_t memory[TW_MEMORY] __attribute__((aligned(64)));
static struct {
  uint8_t in[4096], out[4096];
  size_t begin, end, waiting;
} line;


static void flush(void) {
  size_t sent = 0;
  while (sent < line.waiting) {
    ssize_t n = write(1, line.out + sent, line.waiting - sent);
    if (n > 0) sent += (size_t)n;
    else if (errno != EINTR) exit(0); /* nobody reads any more */
  }
  line.waiting = 0;
}

int32_t tw_platform_read(void) {
  if (line.begin == line.end) {
    ssize_t n;
    flush();
    n = read(0, line.in, sizeof line.in);
    if (n == 0 || (n < 0 && errno != EINTR)) exit(0); /* the client is gone */
    line.begin = 0;
    line.end = n > 0 ? (size_t)n : 0;
    if (n < 0) return -1;
  }
  return line.in[line.begin++];
}

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) {
    if (line.waiting == sizeof line.out) flush();
    line.out[line.waiting++] = data[k];
  }
}

uint64_t tw_platform_ticks(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t tw_platform_ticks_per_second(void) { return 1000000000u; }
void tw_platform_log(const char* text, size_t length) { tw_program_log(text, length); }

void tw_platform_abort(int32_t code) {
  static const char text[] = "the program gave up (tw_platform_abort)";
  (void)code;
  tw_program_stop(text, sizeof text - 1);
  flush();
  exit(1);
}

int main(void) {
  tw_start(temporaries, sizeof temporaries);
  tw_program_serve(memory, sizeof memory);
}
