/* A program that runs its model when a line of words asks for it: no client, no session. */
#include <string.h>

#include "tilewright/micro_program.h"

#define END '%'
#define LONGEST 80u

enum { INT = 0, UINT = 1, FLOAT = 2 }; /* DLPack's codes; what else is read is bfloat16 */

static void say(struct tw_text* text) {
  static const uint8_t newline = '\n';
  tw_platform_write((const uint8_t*)text->text, text->length);
  tw_platform_write(&newline, 1);
}

void tw_program_log(const char* text, size_t length) {
  static const uint8_t newline = '\n';
  tw_platform_write((const uint8_t*)text, length);
  if (length == 0 || text[length - 1] != '\n') tw_platform_write(&newline, 1);
}

void tw_program_stop(const char* text, size_t length) { tw_program_log(text, length); }

static int32_t same(const char* one, const char* other) {
  while (*one != 0 && *one == *other) {
    ++one;
    ++other;
  }
  return *one == *other;
}

/* The next command, without spaces around it. What is longer than any command is cut. */
static void command(char* to) {
  uint32_t length = 0;
  for (;;) {
    int32_t byte = tw_platform_read();
    if (byte == END) break;
    if (byte > ' ' && length < LONGEST - 1u) to[length++] = (char)byte;
  }
  to[length] = 0;
}

static size_t elements(const struct tw_model_value* value) {
  size_t count = 1;
  int32_t k;
  for (k = 0; k < value->rank; ++k) count *= (size_t)value->shape[k];
  return count;
}

/* The bytes of an element; bool has one. */
static size_t element_bytes(const struct tw_model_value* value) { return ((size_t)value->bits * value->lanes + 7u) / 8u; }

/* The bits of an element, above which there are zeros. */
static uint64_t bits_of(const struct tw_model_value* value, size_t k) {
  size_t size = element_bytes(value);
  const uint8_t* from = (const uint8_t*)value->data + k * size;
  uint8_t one;
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  switch (size) {
    case 1: memcpy(&one, from, sizeof one); return one;
    case 2: memcpy(&two, from, sizeof two); return two;
    case 4: memcpy(&four, from, sizeof four); return four;
    default: memcpy(&eight, from, sizeof eight); return eight;
  }
}

/* The bits of infinity. Those of NaN are larger. */
static uint64_t infinity(const struct tw_model_value* value) {
  if (value->bits == 64) return (uint64_t)0x7ff << 52;
  if (value->bits == 32) return (uint64_t)0xff << 23;
  return value->code == FLOAT ? (uint64_t)0x1f << 10 : (uint64_t)0xff << 7;
}

/* A number in the order of the elements, the same for the two zeros. No element is above NaN. */
static uint64_t order(const struct tw_model_value* value, size_t k) {
  const uint64_t middle = (uint64_t)1 << 63;
  uint64_t bits = bits_of(value, k), sign, size;
  if (value->code == UINT) return bits;
  sign = (uint64_t)1 << (value->bits - 1u);
  if (value->code == INT) return middle - (bits & sign) + (bits & (sign - 1u));
  size = bits & (sign - 1u);
  if (size > infinity(value)) return UINT64_MAX;
  return bits & sign ? middle - size : middle + size;
}

/* The place of the largest element, the first of those that are. */
static size_t largest(const struct tw_model_value* value) {
  size_t count = elements(value), best = 0, k;
  for (k = 1; k < count; ++k)
    if (order(value, k) > order(value, best)) best = k;
  return best;
}

static void infer(const struct tw_model* model, const void* const* given) {
  struct tw_text text = {{0}, 0};
  uint64_t begun, ticks;
  int32_t k, status;
  for (k = 0; k < model->inputs; ++k) {
    const struct tw_model_value* input = &model->values[k];
    size_t size = elements(input) * element_bytes(input);
    if (given[k] != 0) memcpy(input->data, given[k], size);
    else memset(input->data, 0, size);
  }
  tw_clear_error();
  begun = tw_platform_ticks();
  status = model->run(model->at);
  ticks = tw_platform_ticks() - begun;
  if (status != TW_OK) {
    tw_tell_decimal(&text, "error:", status);
    tw_tell_words(&text, ":");
    tw_tell_words(&text, tw_error_kind);
    tw_tell_words(&text, ": ");
    tw_tell_words(&text, tw_error_text);
  } else {
    tw_tell_decimal(&text, "result:", (int64_t)largest(&model->values[model->inputs]));
    tw_tell_decimal(&text, ":", (int64_t)(ticks * 1000u / tw_platform_ticks_per_second()));
  }
  say(&text);
}

void tw_standalone_serve(const struct tw_model* model, const void* const* given) {
  static char asked[LONGEST];
  for (;;) {
    struct tw_text text = {{0}, 0};
    command(asked);
    if (same(asked, "infer")) {
      infer(model, given);
      continue;
    }
    if (same(asked, "init")) {
      tw_tell_words(&text, "wakeup");
    } else {
      tw_tell_words(&text, "there is no command ");
      tw_tell_words(&text, asked);
    }
    say(&text);
  }
}
