/* Texts with numbers, for those who have no printf. */
#include "tilewright/micro_program.h"

static void add(struct tw_text* text, char letter) {
  if (text->length < sizeof text->text) text->text[text->length++] = letter;
}

void tw_tell_words(struct tw_text* text, const char* words) {
  while (*words != 0) add(text, *words++);
}

void tw_tell(struct tw_text* text, const char* words, uint32_t number) {
  static const char digits[] = "0123456789abcdef";
  uint32_t shift = 32;
  tw_tell_words(text, words);
  add(text, '0');
  add(text, 'x');
  while (shift > 0) {
    shift -= 4;
    add(text, digits[number >> shift & 15u]);
  }
}

void tw_tell_decimal(struct tw_text* text, const char* words, int64_t number) {
  char digits[20];
  uint32_t count = 0;
  uint64_t left = number < 0 ? 0u - (uint64_t)number : (uint64_t)number;
  tw_tell_words(text, words);
  if (number < 0) add(text, '-');
  do {
    digits[count++] = (char)('0' + (char)(left % 10u));
    left /= 10u;
  } while (left != 0);
  while (count > 0) add(text, digits[--count]);
}
