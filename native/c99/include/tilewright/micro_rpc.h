/* A server for microcontrollers: a session of remote procedure calls over a line of bytes, such as a serial port. Static memory only.
 *
 * A program brings the line (tw_platform_read, tw_platform_write), memory for arrays, and tables of its functions and its model, and calls
 * tw_rpc_serve, which does not return. */
#ifndef TILEWRIGHT_MICRO_RPC_H_
#define TILEWRIGHT_MICRO_RPC_H_

#include "tilewright/micro.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- what the platform brings */

/* The next byte of the line; -1 where none has come yet. */
int32_t tw_platform_read(void);
void tw_platform_write(const uint8_t* data, size_t size);

/* --- values, as compiled code takes them */

struct tw_device {
  int32_t type, number;
};
struct tw_any {
  int32_t type;
  uint32_t zero;
  union {
    int64_t whole;
    double real;
    void* pointer;
    struct tw_device device;
  } value;
};
struct tw_tensor {
  void* data;
  struct tw_device device;
  int32_t rank;
  uint8_t code, bits; /* the data type: DLPack's code, bits, lanes */
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t offset;
};

/* --- what the program serves */

/* int32_t f(self, args, count, result): the calling convention of packed functions. */
typedef int32_t (*tw_rpc_packed)(void* self, void* args, int32_t count, void* result);
/* A function by its name. One of packed and kernel is not null. A kernel takes addresses of tensors. */
struct tw_rpc_function {
  const char* name;
  tw_rpc_packed packed;
  tw_kernel kernel;
};
/* An input or output of a model, and its memory. */
struct tw_rpc_value {
  const char* name;
  const char* dtype;
  void* data;
  const int64_t* shape;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
};
/* A model: its inputs, then its outputs; run takes the addresses of all of them, which `at` has room for. */
struct tw_rpc_model {
  const char* name;
  const struct tw_rpc_value* values;
  void** at;
  tw_kernel run;
  int32_t inputs, outputs;
};
struct tw_rpc_program {
  const struct tw_rpc_function* functions;
  const struct tw_rpc_model* model; /* 0: none */
  uint8_t* memory;                  /* of the arrays that a client allocates */
  size_t memory_size;
  uint32_t function_count;
};

/* Serves clients, one after the other. */
void tw_rpc_serve(const struct tw_rpc_program* program);
/* Sends a text to the client, at any time during a session. */
void tw_rpc_log(const char* text, size_t length);
/* Tells the client that the processor stops, and why. */
void tw_rpc_stop(const char* text, size_t length);

/* A text with numbers in it, of which what has no room is left out. */
struct tw_rpc_text {
  char text[128];
  size_t length;
};
/* Adds words, and behind them a number in base 16. */
void tw_rpc_tell(struct tw_rpc_text* text, const char* words, uint32_t number);

/* --- below: pieces of messages on the line (wire.c) */

/* Bytes of a message that a frame holds, at most. */
#ifndef TW_WIRE_PIECE
#define TW_WIRE_PIECE 512u
#endif

/* Waits for a message. 0: a session began or ended, and what belonged to the old one is to be given up. */
int32_t tw_wire_begin(void);
/* The next bytes of the message; 0, and zeros, where it has no more. */
int32_t tw_wire_take(void* to, size_t size);
/* Drops the rest of the message. */
void tw_wire_skip(void);
/* Bytes of the answer; tw_wire_end sends what is left of it. */
void tw_wire_put(const void* from, size_t size);
void tw_wire_end(void);
/* A frame of its own, which is not answered. */
void tw_wire_tell(uint8_t kind, const char* text, size_t length);

#ifdef __cplusplus
}
#endif
#endif
