/* What a debugger and the device share during a session. Pointers have 32 bits. */
#ifndef TILEWRIGHT_MICRO_SESSION_H_
#define TILEWRIGHT_MICRO_SESSION_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* int32_t f(self, args, count, result): the calling convention of packed functions. */
typedef int32_t (*tw_packed_function)(void* self, const void* args, int32_t count, void* result);

enum tw_task_kind { TW_TASK_PACKED = 0, TW_TASK_KERNEL = 1 };

struct tw_session_task {
  uintptr_t function, args, result;
  uint32_t kind, count;
  int32_t status;
  uint64_t ticks;
};

struct tw_session_queue {
  uint32_t count, done, running, unused;
  struct tw_session_task tasks[1]; /* as many as `count` says */
};

/* The last bytes that were logged, in a ring, and how many there have been. */
#define TW_SESSION_LOG 256u
struct tw_session_log {
  uint32_t written;
  char text[TW_SESSION_LOG];
};
extern struct tw_session_log tw_session_log;

/* The debugger places these. */
extern volatile struct tw_session_queue tw_session_queue;
extern uint8_t tw_session_workspace[], tw_session_workspace_end[];

/* Entries: after a reset, and for each batch. Both end in tw_session_stop. */
void tw_session_begin(void);
void tw_session_run(void);
void tw_session_stop(void);
void tw_reset(void);

#ifdef __cplusplus
}
#endif
#endif
