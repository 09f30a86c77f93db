/* A UART of the kind 16550, as QEMU's board for RISC-V has it. TW_SERIAL: its address; its registers are bytes. */
#include "tilewright/micro_program.h"
#include "tilewright/micro_serial.h"

#define BYTE(offset) (*(volatile uint8_t*)(uintptr_t)(TW_SERIAL + (offset)))
#define LINE BYTE(5u)
#define HAS 0x01u
#define EMPTY 0x20u

void tw_serial_start(void) {
  BYTE(3u) = 3u; /* 8 bits, no parity */
  BYTE(2u) = 1u; /* queues of bytes, which are empty now */
  (void)BYTE(0u); /* a byte that came before is gone with them; to read makes room for others */
}

int32_t tw_platform_read(void) { return (LINE & HAS) != 0u ? (int32_t)BYTE(0u) : -1; }

void tw_platform_write(const uint8_t* data, size_t size) {
  size_t k;
  for (k = 0; k < size; ++k) {
    while ((LINE & EMPTY) == 0u) {
    }
    BYTE(0u) = data[k];
  }
}
