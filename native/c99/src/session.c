/* Runs tasks that a debugger wrote into memory, and stops where the debugger has a breakpoint. */
#include "tilewright/micro.h"
#include "tilewright/micro_session.h"

struct tw_session_log tw_session_log;

void tw_platform_log(const char* text, size_t length) {
  size_t k;
  for (k = 0; k < length; ++k) tw_session_log.text[(tw_session_log.written + k) % TW_SESSION_LOG] = text[k];
  tw_session_log.written += (uint32_t)length;
}

void tw_platform_abort(int32_t code) {
  (void)code;
  tw_session_stop();
}

/* Where a batch ends. The debugger stops the processor here; without one, it waits. */
__attribute__((noinline)) void tw_session_stop(void) {
  for (;;) {
  }
}

void tw_session_begin(void) {
  tw_processor_start();
  tw_platform_start();
  tw_start(tw_session_workspace, (size_t)(tw_session_workspace_end - tw_session_workspace));
  tw_clear_error();
  tw_session_stop();
}

/* A device that is reset during a session begins it anew. */
void tw_reset(void) { tw_session_begin(); }

void tw_session_run(void) {
  volatile struct tw_session_queue* queue = &tw_session_queue;
  uint32_t k;
  for (k = 0; k < queue->count; ++k) {
    volatile struct tw_session_task* task = &queue->tasks[k];
    uint64_t begin = tw_platform_ticks();
    queue->running = k;
    if (task->kind == TW_TASK_PACKED)
      task->status = ((tw_packed_function)task->function)(0, (const void*)task->args, (int32_t)task->count, (void*)task->result);
    else
      task->status = ((tw_kernel)task->function)((void**)task->args);
    task->ticks = tw_platform_ticks() - begin;
    if (task->status != TW_OK) break;
  }
  queue->done = k;
  tw_session_stop();
}
