/* The runtime for microcontrollers. C99; of the C library only string.h; no heap unless pages.c is used; no recursion.
 *
 * A program links the model, this runtime, and the start code of its processor. It calls tw_start once, and then the functions that the
 * model's header declares. What differs between platforms stands below as hooks; platform.c has plain ones to replace. */
#ifndef TILEWRIGHT_MICRO_H_
#define TILEWRIGHT_MICRO_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- what the platform brings */

/* Comes before all else, when variables are not in their places yet: turns on what compiled code uses, such as the unit for floats. */
void tw_processor_start(void);
/* Ticks of the clock since tw_platform_start, and how many there are in a second. */
void tw_platform_start(void);
uint64_t tw_platform_ticks(void);
uint32_t tw_platform_ticks_per_second(void);
/* Texts for a person, without a zero at their end. */
void tw_platform_log(const char* text, size_t length);
/* Does not return. code: one of tw_code. */
void tw_platform_abort(int32_t code);
/* 32 random bits. */
uint32_t tw_platform_random(void);

/* --- codes of errors */

enum tw_code { TW_OK = 0, TW_FAILED = -1, TW_NO_MEMORY = -2, TW_WRONG_ORDER = -3, TW_WRONG_GRAPH = -4, TW_NO_FUNCTION = -5 };

/* The last error: kind and text, both cut to what the buffer holds. Empty texts where there was none. */
extern char tw_error_kind[24];
extern char tw_error_text[168];
void tw_set_error(const char* kind, const char* message);
void tw_clear_error(void);

/* --- the runtime */

/* Gives the runtime memory for temporaries of kernels, which are too large for the stack. memory: at a multiple of 16; size: bytes, 0 where no
 * kernel needs any. Errors stay: programs whose kernels have none need no memory for their texts. */
void tw_start(void* memory, size_t size);
/* Temporaries: what was taken last is given back first. 0 where there is not enough. */
void* tw_workspace_take(size_t size);
int32_t tw_workspace_give(void* memory);
/* The most bytes that were taken at one time. */
size_t tw_workspace_peak(void);

/* Under the names that generated code calls. */
void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int type_code, int type_bits);
int TVMBackendFreeWorkspace(int device_type, int device_id, void* data);

/* --- pages: a heap for those who ask for one */

/* A memory in pages of `page` bytes; state: a byte for each page, which the caller brings. */
struct tw_pages {
  uint8_t* memory;
  uint8_t* state;
  size_t page, count;
};

/* memory: `size` bytes, of which `count` pages are used. */
void tw_pages_begin(struct tw_pages* pages, void* memory, size_t page, uint8_t* state, size_t count);
/* The first run of free pages that holds `size` bytes; 0 where there is none. */
void* tw_pages_take(struct tw_pages* pages, size_t size);
int32_t tw_pages_give(struct tw_pages* pages, void* memory);
size_t tw_pages_free(const struct tw_pages* pages);

/* --- the graph executor: an option. Its tables are constants, which the compiler of models writes as C. */

typedef int32_t (*tw_kernel)(void** args);

/* A value: where it lies in the pool of its kind. */
enum tw_place { TW_INPUT = 0, TW_OUTPUT = 1, TW_CONSTANT = 2, TW_WORKSPACE = 3 };
struct tw_value {
  uint32_t place;
  uint32_t offset; /* bytes into constants or workspace; the number of an input or output */
};
struct tw_node {
  tw_kernel kernel;
  uint32_t first, count; /* of its arguments among the values */
};
struct tw_graph {
  const struct tw_node* nodes;
  const struct tw_value* values;
  const void* constants;
  uint32_t node_count, input_count, output_count, most_arguments;
};

/* Runs a graph. inputs, outputs: addresses of tensors; workspace: as large as the graph's header says; args: room for `most_arguments` pointers.
 * Returns the first code that is not 0. */
int32_t tw_graph_run(const struct tw_graph* graph, void** inputs, void** outputs, void* workspace, void** args);

#ifdef __cplusplus
}
#endif
#endif
