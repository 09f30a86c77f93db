// The pool of a process that has one thread.
#include "../../thread_pool.h"

namespace tw {

int32_t parallel_launch(TWParallelLambda lambda, void* cdata, int32_t tasks) {
  if (tasks <= 0) tasks = 1;
  for (int32_t i = 0; i < tasks; ++i)
    if (int32_t code = lambda(i, tasks, cdata)) return code;
  return 0;
}
int available_threads() { return 1; }
int num_threads() { return 1; }
bool threads_started() { return false; }
void set_num_threads(int) {}

}  // namespace tw
