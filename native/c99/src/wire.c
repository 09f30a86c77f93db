/* Messages on a line of bytes that loses and changes some: frames with a check, numbered, one at a time. The client sends a frame again until
 * this side has answered it; this side does nothing by itself, and so needs no clock. docs/rooms/micro.md has the format. */
#include <string.h>

#include "tilewright/micro_rpc.h"

#define ESCAPE 0xFFu
#define FRAME 0xFDu
#define BEGINS 0x100
#define HEADER 4u
#define IDLE SIZE_MAX

enum kind {
  START = 0x00, END = 0x02, PIECE = 0x10, LAST = 0x11, NEXT = 0x12, /* of the client */
  STARTED = 0x01, STRANGE = 0x05, GOT = 0x13, MORE = 0x14, DONE = 0x15 /* of this side */
};

/* header: nonces of both sides, kind, number; then bytes of the message. */
static struct {
  uint8_t in[HEADER + TW_WIRE_PIECE], out[TW_WIRE_PIECE];
  size_t size, at;  /* of what has come: its bytes, and how many of them were taken */
  size_t out_size;
  uint8_t out_kind, client, own, number;
  uint8_t open, fresh, last, lost; /* fresh: nothing but the beginning has come; last: no frame of the message follows */
} wire;

/* CRC-16 with the polynomial 0x1021, beginning with 0xFFFF, by halves of a byte. The check follows with its high byte first: of all together it is 0. */
static uint16_t checked(uint16_t sum, uint8_t byte) {
  static const uint16_t table[16] = {
      0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50A5, 0x60C6, 0x70E7, 0x8108, 0x9129, 0xA14A, 0xB16B, 0xC18C, 0xD1AD, 0xE1CE, 0xF1EF,
  };
  uint32_t s = sum, b = byte;
  s = ((s << 4) ^ table[(s >> 12) ^ (b >> 4)]) & 0xFFFFu;
  s = ((s << 4) ^ table[(s >> 12) ^ (b & 15u)]) & 0xFFFFu;
  return (uint16_t)s;
}

static int32_t next_byte(void) {
  int32_t found;
  do found = tw_platform_read();
  while (found < 0);
  return found;
}

/* A byte without its escape; BEGINS where a frame does. */
static int32_t unescaped(void) {
  for (;;) {
    int32_t found = next_byte();
    if (found != (int32_t)ESCAPE) return found;
    found = next_byte();
    if (found == (int32_t)ESCAPE) return found;
    if (found == (int32_t)FRAME) return BEGINS;
  }
}

/* The next frame that is whole, in wire.in; its size. */
static size_t receive(void) {
  size_t at = IDLE, size = 0;
  uint16_t sum = 0xFFFF;
  for (;;) {
    int32_t found = unescaped();
    if (found == BEGINS) {
      at = 0;
      sum = 0xFFFF;
      continue;
    }
    if (at == IDLE) continue;
    sum = checked(sum, (uint8_t)found);
    if (at == 0) {
      size = (size_t)found;
    } else if (at == 1) {
      size |= (size_t)found << 8;
      if (size < HEADER || size > sizeof wire.in) {
        at = IDLE;
        continue;
      }
    } else if (at < 2 + size) {
      wire.in[at - 2] = (uint8_t)found;
    }
    if (++at == 4 + size) {
      if (sum == 0) return size;
      at = IDLE;
    }
  }
}

static void escaped(uint8_t byte) {
  static const uint8_t both[2] = {ESCAPE, ESCAPE};
  if (byte == ESCAPE) tw_platform_write(both, 2);
  else tw_platform_write(&byte, 1);
}

static void send(uint8_t kind, const uint8_t* data, size_t size) {
  /* An escape that the line has left over takes the first byte with it, and not the escape of the frame. */
  static const uint8_t begin[3] = {0, ESCAPE, FRAME};
  uint8_t header[2 + HEADER];
  uint16_t sum = 0xFFFF;
  size_t k;
  header[0] = (uint8_t)(HEADER + size);
  header[1] = (uint8_t)((HEADER + size) >> 8);
  header[2] = wire.client;
  header[3] = wire.own;
  header[4] = kind;
  header[5] = wire.number;
  tw_platform_write(begin, 3);
  for (k = 0; k < sizeof header + size; ++k) {
    uint8_t byte = k < sizeof header ? header[k] : data[k - sizeof header];
    sum = checked(sum, byte);
    escaped(byte);
  }
  escaped((uint8_t)(sum >> 8));
  escaped((uint8_t)sum);
}

/* Answers the last frame; the answer stays, to be sent again. */
static void reply(uint8_t kind) {
  wire.out_kind = kind;
  send(kind, wire.out, wire.out_size);
}

static void start(void) {
  uint8_t again = (uint8_t)(wire.fresh && wire.client == wire.in[0]);
  wire.client = wire.in[0];
  if (!again) {
    uint8_t before = wire.own;
    do wire.own = (uint8_t)tw_platform_random();
    while (wire.own == before);
  }
  wire.number = 0;
  wire.open = wire.fresh = wire.lost = 1;
  wire.out[0] = (uint8_t)TW_WIRE_PIECE;
  wire.out[1] = (uint8_t)(TW_WIRE_PIECE >> 8);
  wire.out_size = 2;
  reply(STARTED);
}

/* Waits for the next frame of the session; its kind, or END where the session ended or another one began. */
static uint8_t await(void) {
  for (;;) {
    size_t size = receive();
    uint8_t kind = wire.in[2];
    if (kind == START) {
      start();
      return END;
    }
    if (!wire.open || wire.in[0] != wire.client || wire.in[1] != wire.own) {
      /* Of a session that this side does not know: it was reset. Told by the names of that one. */
      uint8_t client = wire.client, own = wire.own, number = wire.number;
      wire.client = wire.in[0];
      wire.own = wire.in[1];
      wire.number = wire.in[3];
      send(STRANGE, 0, 0);
      wire.client = client;
      wire.own = own;
      wire.number = number;
      continue;
    }
    if (wire.in[3] == wire.number && !wire.fresh) {
      send(wire.out_kind, wire.out, wire.out_size);
      continue;
    }
    if (wire.in[3] != (uint8_t)(wire.number + 1u)) continue;
    wire.number = wire.in[3];
    wire.fresh = 0;
    wire.size = size;
    wire.at = HEADER;
    wire.last = (uint8_t)(kind != PIECE);
    wire.out_size = 0;
    if (kind == END) {
      reply(GOT);
      wire.open = 0;
      wire.lost = 1;
    }
    return kind;
  }
}

int32_t tw_wire_begin(void) {
  uint8_t kind;
  wire.lost = 0;
  do {
    kind = await();
    if (kind == END) return 0;
    if (kind != PIECE && kind != LAST) reply(GOT);
  } while (kind != PIECE && kind != LAST);
  return 1;
}

/* Gets the next frame of a message, if there is one. */
static int32_t another(void) {
  uint8_t kind;
  if (wire.lost || wire.last) return 0;
  reply(GOT);
  kind = await();
  if (kind != PIECE && kind != LAST) wire.lost = 1;
  return !wire.lost;
}

int32_t tw_wire_take(void* to, size_t size) {
  uint8_t* at = (uint8_t*)to;
  while (size > 0) {
    size_t some = wire.lost ? 0 : wire.size - wire.at;
    if (some == 0) {
      if (another()) continue;
      memset(at, 0, size);
      return 0;
    }
    some = some < size ? some : size;
    memcpy(at, wire.in + wire.at, some);
    wire.at += some;
    at += some;
    size -= some;
  }
  return 1;
}

void tw_wire_skip(void) {
  while (another()) {
  }
  wire.at = wire.size;
}

void tw_wire_put(const void* from, size_t size) {
  const uint8_t* at = (const uint8_t*)from;
  while (size > 0 && !wire.lost) {
    size_t some = TW_WIRE_PIECE - wire.out_size;
    if (some == 0) {
      reply(MORE);
      if (await() != NEXT) wire.lost = 1;
      continue;
    }
    some = some < size ? some : size;
    memcpy(wire.out + wire.out_size, at, some);
    wire.out_size += some;
    at += some;
    size -= some;
  }
}

void tw_wire_end(void) {
  if (!wire.lost) reply(DONE);
}

void tw_wire_tell(uint8_t kind, const char* text, size_t length) {
  while (wire.open && length > 0) {
    size_t some = length < TW_WIRE_PIECE ? length : TW_WIRE_PIECE;
    send(kind, (const uint8_t*)text, some);
    text += some;
    length -= some;
  }
}
