/* What the server of sessions (rpc.c) and its functions (rpc_functions.c) share. */
#ifndef TILEWRIGHT_MICRO_RPC_FUNCTIONS_H_
#define TILEWRIGHT_MICRO_RPC_FUNCTIONS_H_

#include "tilewright/micro_rpc.h"

/* What a message holds at most: values, dimensions of all its tensors, bytes of its texts. */
#ifndef TW_RPC_ARGUMENTS
#define TW_RPC_ARGUMENTS 16u
#endif
#ifndef TW_RPC_DIMENSIONS
#define TW_RPC_DIMENSIONS 64u
#endif
#ifndef TW_RPC_TEXT
#define TW_RPC_TEXT 256u
#endif
/* Evaluators that a client has at one time. */
#ifndef TW_RPC_EVALUATORS
#define TW_RPC_EVALUATORS 4u
#endif

/* Types of values (abi.h): TW_TENSOR is one of a message, TW_TENSOR_OBJECT a result. */
enum {
  TW_NONE = 0, TW_INT = 1, TW_BOOL = 2, TW_FLOAT = 3, TW_POINTER = 4, TW_DTYPE = 5, TW_DEVICE = 6, TW_TENSOR = 7, TW_TEXT = 8,
  TW_BYTES = 9, TW_FUNCTION = 68, TW_TENSOR_OBJECT = 70, TW_MODULE = 73
};

/* value: of a tensor, function or module its handle. data, size: of texts and bytes. owned: memory to give back once they are sent. */
struct tw_rpc_result {
  struct tw_any value;
  const void* data;
  size_t size;
  void* owned;
  struct tw_tensor tensor;
};

/* The handle of a global function; 0 where there is none. */
uint32_t tw_rpc_global(const char* name);
int32_t tw_rpc_call(const struct tw_rpc_program* program, uint64_t number, struct tw_any* args, int32_t count, struct tw_rpc_result* result);
void tw_rpc_free(uint64_t handle);
/* A session ends: what it had is forgotten, and the model has its own memory again. */
void tw_rpc_forget(const struct tw_rpc_program* program);

/* Of the server. */
int32_t tw_rpc_fails(const char* kind, const char* text);
size_t tw_rpc_length(const char* text);
int32_t tw_rpc_same(const char* one, const char* other);
/* SIZE_MAX where it is more than there are addresses. */
size_t tw_rpc_bytes(const int64_t* shape, int32_t rank, uint32_t bits);
void* tw_rpc_take_memory(size_t size);
void tw_rpc_give_memory(void* memory);

#endif
