/* A server for microcontrollers: a session of remote procedure calls over a line of bytes, such as a serial port. Static memory only.
 *
 * A program brings the line, memory for arrays, and tables of its functions and its model (micro_program.h), and calls tw_rpc_serve, which
 * does not return. */
#ifndef TILEWRIGHT_MICRO_RPC_H_
#define TILEWRIGHT_MICRO_RPC_H_

#include "tilewright/micro_program.h"

#ifdef __cplusplus
extern "C" {
#endif

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
struct tw_rpc_program {
  const struct tw_rpc_function* functions;
  const struct tw_model* model; /* 0: none */
  uint8_t* memory;                  /* of the arrays that a client allocates */
  size_t memory_size;
  uint32_t function_count;
};

/* Serves clients, one after the other. */
void tw_rpc_serve(const struct tw_rpc_program* program);
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
