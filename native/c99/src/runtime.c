/* Temporaries of kernels, errors, and the table by which compiled code reaches both. */
#include "tilewright/micro.h"

#include <string.h>

char tw_error_kind[24];
char tw_error_text[168];

static void keep(char* to, size_t room, const char* from) {
  size_t k;
  for (k = 0; k + 1 < room && from[k] != 0; ++k) to[k] = from[k];
  to[k] = 0;
}

/* Adds a text behind another one. */
static void add(char* to, size_t room, const char* from) {
  size_t k = 0;
  while (to[k] != 0) ++k;
  keep(to + k, room - k, from);
}

void tw_set_error(const char* kind, const char* message) {
  keep(tw_error_kind, sizeof tw_error_kind, kind);
  keep(tw_error_text, sizeof tw_error_text, message);
}

void tw_clear_error(void) {
  tw_error_kind[0] = 0;
  tw_error_text[0] = 0;
}

/* A temporary begins with the place of the one before it. Kernels want multiples of 16. */
#define ALIGNMENT ((size_t)16)

static struct {
  uint8_t* memory;
  size_t size, used, last, peak;
} arena;

void* tw_workspace_take(size_t size) {
  size_t begin = arena.used + ALIGNMENT;
  if (begin > arena.size || size > arena.size - begin) return 0;
  memcpy(arena.memory + arena.used, &arena.last, sizeof arena.last);
  arena.last = begin;
  arena.used = begin + ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
  if (arena.used > arena.peak) arena.peak = arena.used;
  return arena.memory + begin;
}

int32_t tw_workspace_give(void* memory) {
  if (arena.last == 0 || (uint8_t*)memory != arena.memory + arena.last) {
    tw_set_error("ValueError", "temporaries must be given back in the opposite order");
    return TW_WRONG_ORDER;
  }
  arena.used = arena.last - ALIGNMENT;
  memcpy(&arena.last, arena.memory + arena.used, sizeof arena.last);
  return TW_OK;
}

size_t tw_workspace_peak(void) { return arena.peak; }

void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int type_code, int type_bits) {
  (void)device_type;
  (void)device_id;
  (void)type_code;
  (void)type_bits;
  return bytes > SIZE_MAX ? 0 : tw_workspace_take((size_t)bytes);
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* data) {
  (void)device_type;
  (void)device_id;
  return (int)tw_workspace_give(data);
}

/* --- the table of compiled code: tw_context in tilewright/kernel.h. Each object has an empty one, to which this one is preferred. */

struct context {
  int32_t (*parallel_launch)(int32_t (*task)(int32_t, int32_t, void*), void* data, int32_t pieces);
  void (*set_error)(const char* kind, const char* message);
  void* (*alloc_workspace)(int64_t bytes, int32_t device_type, int32_t device_id);
  void (*free_workspace)(void* data);
  int32_t (*call_packed)(const char* name, const void* args, int32_t count, void* result);
  int32_t (*call_from)(void* slot, const char* name, const void* args, int32_t count, void* result);
  int32_t (*free_device_workspace)(void* data, int32_t device_type, int32_t device_id);
  void* more[1];
};

/* The only processor takes all pieces, one after the other. */
static int32_t launch(int32_t (*task)(int32_t, int32_t, void*), void* data, int32_t pieces) {
  (void)pieces;
  return task(0, 1, data);
}

static void* take(int64_t bytes, int32_t device_type, int32_t device_id) {
  (void)device_type;
  (void)device_id;
  return bytes < 0 || (uint64_t)bytes > SIZE_MAX ? 0 : tw_workspace_take((size_t)bytes);
}

static void give(void* data) { (void)tw_workspace_give(data); }

static int32_t give_back(void* data, int32_t device_type, int32_t device_id) {
  (void)device_type;
  (void)device_id;
  return tw_workspace_give(data);
}

static int32_t call_from(void* slot, const char* name, const void* args, int32_t count, void* result) {
  (void)slot;
  (void)args;
  (void)count;
  (void)result;
  tw_set_error("AttributeError", "the device has no function ");
  add(tw_error_text, sizeof tw_error_text, name);
  return TW_NO_FUNCTION;
}

static int32_t call_packed(const char* name, const void* args, int32_t count, void* result) {
  return call_from(0, name, args, count, result);
}

extern const struct context __tilewright_context;
const struct context __tilewright_context = {launch, tw_set_error, take, give, call_packed, call_from, give_back, {0}};

void tw_start(void* memory, size_t size) {
  arena.memory = (uint8_t*)memory;
  arena.size = size;
  arena.used = arena.last = arena.peak = 0;
}
