/* The UART of Nordic's nRF51. TW_SERIAL: its address. */
#include "tilewright/micro_program.h"
#include "tilewright/micro_serial.h"

#define RECEIVED TW_REGISTER(0x108u)
#define SENT TW_REGISTER(0x11Cu)

void tw_serial_start(void) {
  TW_REGISTER(0x500u) = 4u; /* on */
  TW_REGISTER(0x000u) = 1u; /* begin to receive */
  TW_REGISTER(0x008u) = 1u; /* and to send */
  TW_REGISTER(0x304u) = 4u; /* an interrupt for each byte that comes */
}

int32_t tw_platform_read(void) {
  if (RECEIVED == 0u) {
    TW_SERIAL_REST(RECEIVED != 0u);
    return -1;
  }
  RECEIVED = 0u;
  return (int32_t)(TW_REGISTER(0x518u) & 0xFFu);
}

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) {
    SENT = 0u;
    TW_REGISTER(0x51Cu) = data[k];
    while (SENT == 0u) {
    }
  }
}
