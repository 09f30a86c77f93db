/* Programs of projects: firmware with a model that talks over a line of bytes, such as a serial port. What answers there is a server of
 * sessions (micro_rpc.h), or standalone.c, which takes commands in words. */
#ifndef TILEWRIGHT_MICRO_PROGRAM_H_
#define TILEWRIGHT_MICRO_PROGRAM_H_

#include "tilewright/micro.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- what the platform brings */

/* The next byte of the line; -1 where none has come yet. */
int32_t tw_platform_read(void);
void tw_platform_write(const uint8_t* data, size_t size);

/* --- models */

/* An input or output of a model, and its memory. */
struct tw_model_value {
  const char* name;
  const char* dtype;
  void* data;
  const int64_t* shape;
  int32_t rank;
  uint8_t code, bits; /* the data type: DLPack's code, bits, lanes */
  uint16_t lanes;
};
/* A model: its inputs, then its outputs; run takes the addresses of all of them, which `at` has room for. */
struct tw_model {
  const char* name;
  const struct tw_model_value* values;
  void** at;
  tw_kernel run;
  int32_t inputs, outputs;
};

/* --- what the line says */

/* Answers what comes over the line. Does not return. memory: for arrays of a client. */
void tw_program_serve(uint8_t* memory, size_t size);
/* Sends a text, at any time. */
void tw_program_log(const char* text, size_t length);
/* Tells that the processor stops, and why. */
void tw_program_stop(const char* text, size_t length);

/* A text with numbers in it, of which what has no room is left out. */
struct tw_text {
  char text[128];
  size_t length;
};
/* Adds words; and words, and behind them a number in base 16, or in base 10. */
void tw_tell_words(struct tw_text* text, const char* words);
void tw_tell(struct tw_text* text, const char* words, uint32_t number);
void tw_tell_decimal(struct tw_text* text, const char* words, int64_t number);

/* Takes commands, which end with a '%': init, answered by "wakeup", and infer, which runs the model and is answered by "result:N:T", the
 * place of the largest element of the first output and milliseconds. Each answer is a line. given: for each input its values, which are
 * copied before each run; 0: zeros. */
void tw_standalone_serve(const struct tw_model* model, const void* const* given);

#ifdef __cplusplus
}
#endif
#endif
