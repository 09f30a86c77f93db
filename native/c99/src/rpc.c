/* Answers the messages of a session (docs/rooms/rpc.md): functions by name, memory of the device, copies, calls. */
#include <string.h>

#include "tilewright/micro_rpc.h"
#include "tilewright/micro_rpc_functions.h"

#ifndef TW_RPC_PAGE
#define TW_RPC_PAGE 64u
#endif

enum code {
  SHUTDOWN = 1, INIT = 2, CALL = 3, RETURN = 4, EXCEPTION = 5, COPY_FROM = 6, COPY_TO = 7, COPIED = 8, FUNCTION = 9, FREE = 10,
  SET_DEVICE = 11, ATTRIBUTE = 12, ALLOCATE = 13, FREE_DATA = 14, SYNCHRONIZE = 15, COPY_AMONG = 16, ALLOCATE_SCOPE = 17,
  CREATE_STREAM = 18, FREE_STREAM = 19, SET_STREAM = 20
};
enum { LOG = 0x03, STOPPED = 0x04 }; /* frames */

static const struct tw_rpc_program* program;
static struct tw_pages pages;
/* What a message holds, while it is carried out. */
static struct {
  struct tw_any args[TW_RPC_ARGUMENTS];
  struct tw_tensor tensors[TW_RPC_ARGUMENTS];
  int64_t dims[TW_RPC_DIMENSIONS];
  char text[TW_RPC_TEXT];
  size_t used_dims, used_text;
  int32_t count, used_tensors;
} message;

int32_t tw_rpc_fails(const char* kind, const char* text) {
  tw_set_error(kind, text);
  return TW_FAILED;
}

size_t tw_rpc_length(const char* text) {
  size_t found = 0;
  while (text[found] != 0) ++found;
  return found;
}

int32_t tw_rpc_same(const char* one, const char* other) {
  while (*one != 0 && *one == *other) {
    ++one;
    ++other;
  }
  return *one == *other;
}

static uint32_t take32(void) {
  uint32_t found;
  (void)tw_wire_take(&found, sizeof found);
  return found;
}
static uint64_t take64(void) {
  uint64_t found;
  (void)tw_wire_take(&found, sizeof found);
  return found;
}

/* --- memory */

static int32_t inside(uintptr_t at, size_t size, const void* begin, size_t room) {
  uintptr_t first = (uintptr_t)begin;
  return at >= first && at - first <= room && size <= room - (at - first);
}

size_t tw_rpc_bytes(const int64_t* shape, int32_t rank, uint32_t bits) {
  size_t elements = 1;
  int32_t k;
  for (k = 0; k < rank; ++k) {
    size_t extent = (size_t)shape[k];
    if (shape[k] < 0 || (uint64_t)shape[k] > SIZE_MAX || (extent != 0 && elements > SIZE_MAX / extent)) return SIZE_MAX;
    elements *= extent;
  }
  return bits != 0 && elements > (SIZE_MAX - 7u) / bits ? SIZE_MAX : (elements * bits + 7u) / 8u;
}

/* A size of a message; SIZE_MAX, which nothing has, for all that are too large. */
static size_t take_size(void) {
  uint64_t size = take64();
  return size > SIZE_MAX ? SIZE_MAX : (size_t)size;
}

/* Whether a client may read and write so many bytes: of the memory for arrays, and of the model. */
static int32_t allowed(uint64_t address, size_t size) {
  const struct tw_model* model = program->model;
  uintptr_t at = (uintptr_t)address;
  int32_t k;
  if (size == 0) return 1;
  if (address > UINTPTR_MAX) return 0;
  if (inside(at, size, pages.memory, pages.page * pages.count)) return 1;
  for (k = 0; model != 0 && k < model->inputs + model->outputs; ++k) {
    const struct tw_model_value* v = &model->values[k];
    if (inside(at, size, v->data, tw_rpc_bytes(v->shape, v->rank, (uint32_t)v->bits * v->lanes))) return 1;
  }
  return 0;
}

static int32_t need_memory(uint64_t address, size_t size) {
  return allowed(address, size) ? TW_OK : tw_rpc_fails("RPCError", "an address that is not of the memory for arrays, and not of the model");
}

void* tw_rpc_take_memory(size_t size) { return tw_pages_take(&pages, size); }
void tw_rpc_give_memory(void* memory) { (void)tw_pages_give(&pages, memory); }

static void begin_session(void) {
  uint8_t* first = (uint8_t*)(((uintptr_t)program->memory + TW_RPC_PAGE - 1u) & ~(uintptr_t)(TW_RPC_PAGE - 1u));
  size_t lost = (size_t)(first - program->memory);
  size_t count = program->memory_size < lost ? 0 : (program->memory_size - lost) / (TW_RPC_PAGE + 1u);
  tw_pages_begin(&pages, first, TW_RPC_PAGE, first + count * TW_RPC_PAGE, count);
  tw_rpc_forget(program);
}

/* --- values of messages */

static int32_t too_long(void) { return tw_rpc_fails("RPCError", "a message that is too long for this device, or ends too early"); }

static int32_t take_text(const char** found) {
  size_t size = take_size();
  char* at = message.text + message.used_text;
  if (size >= TW_RPC_TEXT - message.used_text || !tw_wire_take(at, size)) return too_long();
  at[size] = 0;
  message.used_text += size + 1;
  *found = at;
  return TW_OK;
}

static int32_t take_tensor(struct tw_tensor** found, uint64_t* address) {
  struct tw_tensor* t;
  uint64_t data = take64();
  if (message.used_tensors == (int32_t)TW_RPC_ARGUMENTS) return too_long();
  t = &message.tensors[message.used_tensors++];
  (void)tw_wire_take(&t->device, sizeof t->device);
  t->rank = (int32_t)take32();
  (void)tw_wire_take(&t->code, 1);
  (void)tw_wire_take(&t->bits, 1);
  (void)tw_wire_take(&t->lanes, 2);
  if (t->rank < 0 || (size_t)t->rank > TW_RPC_DIMENSIONS - message.used_dims) return too_long();
  t->shape = message.dims + message.used_dims;
  message.used_dims += (size_t)t->rank;
  if (!tw_wire_take(t->shape, (size_t)t->rank * sizeof(int64_t))) return too_long();
  t->strides = 0;
  *address = data + take64();
  t->data = (void*)(uintptr_t)*address;
  t->offset = 0;
  *found = t;
  return TW_OK;
}

static int32_t take_value(struct tw_any* value, int32_t checks) {
  uint64_t address = 0;
  const char* text = 0;
  struct tw_tensor* tensor = 0;
  int32_t code;
  value->type = (int32_t)take32();
  value->zero = 0;
  value->value.whole = 0;
  switch (value->type) {
    case TW_NONE: return TW_OK;
    case TW_INT: case TW_BOOL: case TW_FLOAT: case TW_POINTER: case TW_DTYPE: case TW_DEVICE: case TW_FUNCTION: case TW_MODULE:
      (void)tw_wire_take(&value->value, 8);
      return TW_OK;
    case TW_TEXT:
      code = take_text(&text);
      value->value.pointer = (void*)(uintptr_t)text;
      return code;
    case TW_TENSOR:
      code = take_tensor(&tensor, &address);
      if (code != TW_OK) return code;
      value->value.pointer = tensor;
      return checks ? need_memory(address, tw_rpc_bytes(tensor->shape, tensor->rank, (uint32_t)tensor->bits * tensor->lanes)) : TW_OK;
    default: return tw_rpc_fails("TypeError", "a value of a type that functions of this device do not take");
  }
}

static int32_t take_values(int32_t checks) {
  int32_t k, code = TW_OK;
  message.count = (int32_t)take32();
  if (message.count < 0 || message.count > (int32_t)TW_RPC_ARGUMENTS) return too_long();
  for (k = 0; k < message.count && code == TW_OK; ++k) code = take_value(&message.args[k], checks);
  return code;
}

static void put32(uint32_t value) { tw_wire_put(&value, sizeof value); }
static void put64(uint64_t value) { tw_wire_put(&value, sizeof value); }

static void put_text(int32_t type, const char* text, size_t size) {
  put32((uint32_t)type);
  put64(size);
  tw_wire_put(text, size);
}

static void answer_error(void) {
  size_t kind = tw_rpc_length(tw_error_kind), text = tw_rpc_length(tw_error_text), size = kind + 2 + text;
  put64(4u + 4u + 4u + 8u + size);
  put32(EXCEPTION);
  put32(1);
  put32(TW_TEXT);
  put64(size);
  tw_wire_put(tw_error_kind, kind);
  tw_wire_put(": ", 2);
  tw_wire_put(tw_error_text, text);
}

/* An answer of one value: none, or 8 bytes. */
static void answer_value(int32_t type, uint64_t value) {
  put64(type == TW_NONE ? 12u : 20u);
  put32(RETURN);
  put32(1);
  put32((uint32_t)type);
  if (type != TW_NONE) put64(value);
}

/* The answer to a call: the type of the value, and the value. */
static void answer_call(const struct tw_rpc_result* result) {
  const struct tw_any* v = &result->value;
  size_t size = 8;
  if (v->type == TW_NONE) size = 0;
  if (v->type == TW_BYTES || v->type == TW_TEXT) size = 8 + result->size;
  if (v->type == TW_TENSOR_OBJECT) size = 8 + 8 + 4 + 4 + 8 * (size_t)result->tensor.rank + 8 + 4 + 8;
  put64(4 + 4 + (4 + 8) + 4 + size);
  put32(RETURN);
  put32(v->type == TW_TENSOR_OBJECT ? 3 : 2);
  put32(TW_INT);
  put64((uint64_t)(int64_t)(v->type == TW_TEXT ? TW_TEXT : v->type));
  if (v->type == TW_BYTES || v->type == TW_TEXT) {
    put_text(v->type, (const char*)result->data, result->size);
  } else if (v->type == TW_TENSOR_OBJECT) {
    const struct tw_tensor* t = &result->tensor;
    put32(TW_TENSOR);
    put64((uintptr_t)t->data);
    put32(1);
    put32(0);
    put32((uint32_t)t->rank);
    tw_wire_put(&t->code, 1);
    tw_wire_put(&t->bits, 1);
    tw_wire_put(&t->lanes, 2);
    tw_wire_put(t->shape, (size_t)t->rank * sizeof(int64_t));
    put64(0);
    put32(TW_POINTER);
    put64((uint64_t)v->value.whole);
  } else {
    put32((uint32_t)(v->type == TW_FUNCTION || v->type == TW_MODULE ? TW_POINTER : v->type));
    if (v->type != TW_NONE) put64((uint64_t)v->value.whole);
  }
}

/* --- messages */

/* The memory that a copy reads or writes. */
static int32_t take_target(uint64_t* address, size_t* size) {
  struct tw_tensor* t = 0;
  int32_t code = take_tensor(&t, address);
  if (code != TW_OK) return code;
  *size = take_size();
  return need_memory(*address, *size);
}

static int32_t copy_to(void) {
  uint64_t address = 0;
  size_t size = 0;
  int32_t code = take_target(&address, &size);
  if (code != TW_OK) return code;
  if (!tw_wire_take((void*)(uintptr_t)address, size)) return too_long();
  return TW_OK;
}

static int32_t copy_from(void) {
  uint64_t address = 0;
  size_t size = 0;
  int32_t code = take_target(&address, &size);
  if (code != TW_OK) return code;
  tw_wire_skip();
  put64(4u + size);
  put32(COPIED);
  tw_wire_put((const void*)(uintptr_t)address, size);
  return TW_OK;
}

static int32_t allocate(uint64_t size, uint64_t* found) {
  void* memory = size > SIZE_MAX ? 0 : tw_pages_take(&pages, (size_t)size);
  *found = (uintptr_t)memory;
  return memory != 0 ? TW_OK : tw_rpc_fails("MemoryError", "the memory for arrays of this device has no room for it");
}

static const struct tw_tensor* tensor_of(int32_t k) {
  return k < message.count && message.args[k].type == TW_TENSOR ? (const struct tw_tensor*)message.args[k].value.pointer : 0;
}

static size_t bytes_of(const struct tw_tensor* t) { return tw_rpc_bytes(t->shape, t->rank, (uint32_t)t->bits * t->lanes); }

/* Questions of the system: their answer is one value. */
static int32_t system_message(uint32_t code, int32_t* type, uint64_t* value) {
  const struct tw_any* args = message.args;
  const struct tw_tensor *from = tensor_of(0), *to = tensor_of(1);
  switch (code) {
    case FUNCTION:
      if (message.count < 1 || args[0].type != TW_TEXT) return too_long();
      *type = TW_POINTER;
      *value = tw_rpc_global((const char*)args[0].value.pointer);
      return TW_OK;
    case FREE:
      if (message.count > 0) tw_rpc_free((uint64_t)args[0].value.whole);
      return TW_OK;
    case ATTRIBUTE: /* whether there is the device: the CPU 0 alone */
      if (message.count < 2 || args[0].type != TW_DEVICE) return too_long();
      if (args[1].value.whole == 0) {
        *type = TW_INT;
        *value = args[0].value.device.type == 1 && args[0].value.device.number == 0;
      }
      return TW_OK;
    case ALLOCATE:
      if (message.count < 2) return too_long();
      *type = TW_POINTER;
      return allocate((uint64_t)args[1].value.whole, value);
    case ALLOCATE_SCOPE:
      if (from == 0) return too_long();
      *type = TW_POINTER;
      return allocate(bytes_of(from), value);
    case FREE_DATA:
      if (message.count < 2) return too_long();
      return tw_pages_give(&pages, (void*)(uintptr_t)args[1].value.whole);
    case COPY_AMONG:
      if (from == 0 || to == 0 || bytes_of(from) != bytes_of(to)) return too_long();
      memmove(to->data, from->data, bytes_of(from));
      return TW_OK;
    case SET_DEVICE: case SYNCHRONIZE: case CREATE_STREAM: case FREE_STREAM: case SET_STREAM: return TW_OK;
    default: return tw_rpc_fails("RPCError", "a message of a kind that this device does not know");
  }
}

static int32_t call(void) {
  uint64_t handle = take64();
  struct tw_rpc_result result;
  int32_t code = take_values(1);
  tw_wire_skip();
  memset(&result, 0, sizeof result);
  if (code == TW_OK) code = tw_rpc_call(program, handle, message.args, message.count, &result);
  if (code == TW_OK) answer_call(&result);
  if (result.owned) tw_rpc_give_memory(result.owned);
  return code;
}

static int32_t carry_out(uint32_t code) {
  int32_t status, type = TW_NONE;
  uint64_t value = 0;
  const char* version = 0;
  if (code == COPY_FROM) return copy_from();
  if (code == CALL) return call();
  if (code == COPY_TO) {
    status = copy_to();
  } else if (code == INIT) {
    status = take_text(&version);
    if (status == TW_OK && !tw_rpc_same(version, "0.8.0")) status = tw_rpc_fails("RPCError", "this device speaks version 0.8.0 of the protocol");
  } else {
    status = take_values(code != ALLOCATE_SCOPE);
    tw_wire_skip();
    if (status == TW_OK) status = system_message(code, &type, &value);
  }
  tw_wire_skip();
  if (status == TW_OK) answer_value(type, value);
  return status;
}

void tw_rpc_serve(const struct tw_rpc_program* served) {
  program = served;
  begin_session();
  for (;;) {
    uint32_t code;
    int32_t status;
    if (!tw_wire_begin()) {
      begin_session();
      continue;
    }
    (void)take64(); /* the length of the message: frames say where it ends */
    code = take32();
    message.count = message.used_tensors = 0;
    message.used_dims = message.used_text = 0;
    tw_clear_error();
    if (code == SHUTDOWN) {
      tw_wire_skip();
      begin_session();
    } else {
      status = carry_out(code);
      if (status != TW_OK) {
        tw_wire_skip();
        if (tw_error_kind[0] == 0) tw_set_error("RPCError", "a function failed, and left no reason");
        answer_error();
      }
    }
    tw_wire_end();
  }
}

void tw_program_log(const char* text, size_t length) { tw_wire_tell(LOG, text, length); }
void tw_program_stop(const char* text, size_t length) { tw_wire_tell(STOPPED, text, length); }
