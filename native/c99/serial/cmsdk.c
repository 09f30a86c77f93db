/* The UART of Arm's CMSDK, as boards of MPS2 and MPS3 have it. TW_SERIAL: its address. */
#include "tilewright/micro_program.h"
#include "tilewright/micro_serial.h"

#define STATE TW_REGISTER(0x04u)
#define FULL 1u
#define HAS 2u

void tw_serial_start(void) {
  TW_REGISTER(0x10u) = 16u; /* the divisor of the clock */
  TW_REGISTER(0x08u) = 0xBu; /* sends and receives, with an interrupt for each byte that comes */
}

int32_t tw_platform_read(void) {
  if ((STATE & HAS) != 0u) return (int32_t)(TW_REGISTER(0x00u) & 0xFFu);
  TW_REGISTER(0x0Cu) = HAS; /* the interrupt of the last byte */
  TW_SERIAL_REST((STATE & HAS) != 0u);
  return -1;
}

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) {
    while ((STATE & FULL) != 0u) {
    }
    TW_REGISTER(0x00u) = data[k];
  }
}
