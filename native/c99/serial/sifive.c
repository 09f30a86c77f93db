/* The UART of SiFive's FE310. TW_SERIAL: its address. */
#include "tilewright/micro_program.h"
#include "tilewright/micro_serial.h"

#define NOT_NOW 0x80000000u

void tw_serial_start(void) {
  TW_REGISTER(0x08u) = 1u; /* sends */
  TW_REGISTER(0x0Cu) = 1u; /* and receives */
}

int32_t tw_platform_read(void) {
  uint32_t found = TW_REGISTER(0x04u);
  return (found & NOT_NOW) != 0u ? -1 : (int32_t)(found & 0xFFu);
}

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) {
    while ((TW_REGISTER(0x00u) & NOT_NOW) != 0u) {
    }
    TW_REGISTER(0x00u) = data[k];
  }
}
