/* A program that runs its model when a line of words asks for it: no client, no session. */
#include <string.h>

#include "tilewright/micro_program.h"

#define END '%'
#define LONGEST 80u

enum { UINT = 1, FLOAT = 2 }; /* DLPack's codes; others are signed integers */

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

/* An element of an integer type. */
static int64_t whole(const struct tw_model_value* value, size_t k) {
  const void* data = value->data;
  if (value->code == UINT) {
    switch (value->bits) {
      case 8: return ((const uint8_t*)data)[k];
      case 16: return ((const uint16_t*)data)[k];
      default: return ((const uint32_t*)data)[k];
    }
  }
  switch (value->bits) {
    case 8: return ((const int8_t*)data)[k];
    case 16: return ((const int16_t*)data)[k];
    case 32: return ((const int32_t*)data)[k];
    default: return ((const int64_t*)data)[k];
  }
}

/* The place of the largest element, the first of those that are. */
static size_t largest(const struct tw_model_value* value) {
  size_t count = elements(value), best = 0, k;
  for (k = 1; k < count; ++k) {
    if (value->code == FLOAT) {
      const float* x = (const float*)value->data;
      if (x[k] > x[best]) best = k;
    } else if (whole(value, k) > whole(value, best)) {
      best = k;
    }
  }
  return best;
}

static void infer(const struct tw_model* model, const void* const* given) {
  struct tw_text text = {{0}, 0};
  uint64_t begun, ticks;
  int32_t k, status;
  for (k = 0; k < model->inputs; ++k) {
    const struct tw_model_value* input = &model->values[k];
    size_t size = elements(input) * ((size_t)input->bits / 8u) * input->lanes;
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
