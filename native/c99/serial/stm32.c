/* A USART of ST's STM32F4. TW_SERIAL: its address. Clock, pins and speed are the program's: before it begins, or in tw_platform_start. */
#include "tilewright/micro_program.h"
#include "tilewright/micro_serial.h"

#define STATE TW_REGISTER(0x00u)
#define HAS 0x20u
#define EMPTY 0x80u

void tw_serial_start(void) { TW_REGISTER(0x0Cu) = 0x202Cu; /* on; sends and receives, with an interrupt for each byte that comes */ }

int32_t tw_platform_read(void) {
  if ((STATE & HAS) != 0u) return (int32_t)(TW_REGISTER(0x04u) & 0xFFu);
  TW_SERIAL_REST((STATE & HAS) != 0u);
  return -1;
}

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) {
    while ((STATE & EMPTY) == 0u) {
    }
    TW_REGISTER(0x04u) = data[k];
  }
}
