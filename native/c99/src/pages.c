/* A heap in pages. state of a page: 0 free, 1 taken, 2 the last one of a run that was taken together. */
#include "tilewright/micro.h"

void tw_pages_begin(struct tw_pages* pages, void* memory, size_t page, uint8_t* state, size_t count) {
  size_t k;
  pages->memory = (uint8_t*)memory;
  pages->page = page;
  pages->state = state;
  pages->count = count;
  for (k = 0; k < count; ++k) state[k] = 0;
}

void* tw_pages_take(struct tw_pages* pages, size_t size) {
  size_t needed = size == 0 ? 1 : (size - 1) / pages->page + 1;
  size_t run = 0, k;
  for (k = 0; k < pages->count; ++k) {
    run = pages->state[k] == 0 ? run + 1 : 0;
    if (run == needed) {
      size_t first = k + 1 - needed, i;
      for (i = first; i < k; ++i) pages->state[i] = 1;
      pages->state[k] = 2;
      return pages->memory + first * pages->page;
    }
  }
  return 0;
}

int32_t tw_pages_give(struct tw_pages* pages, void* memory) {
  size_t at = (size_t)((uint8_t*)memory - pages->memory), k = at / pages->page;
  int inside = (uint8_t*)memory >= pages->memory && k < pages->count && at % pages->page == 0;
  /* A run begins behind the end of another one, or behind a free page. */
  if (!inside || pages->state[k] == 0 || (k > 0 && pages->state[k - 1] == 1)) {
    tw_set_error("ValueError", "no pages were taken at this address");
    return TW_WRONG_ORDER;
  }
  while (pages->state[k] == 1) pages->state[k++] = 0;
  pages->state[k] = 0;
  return TW_OK;
}

size_t tw_pages_free(const struct tw_pages* pages) {
  size_t found = 0, k;
  for (k = 0; k < pages->count; ++k) found += pages->state[k] == 0 ? pages->page : 0;
  return found;
}
