// The process's one pool of worker threads.
#pragma once
#include "core.h"

namespace tw {
// Runs lambda(i, num_task, cdata) for all i on the pool and waits; the first nonzero code is returned, its error set.
// num_task 0 means one task per thread, -n at most n tasks, a few per thread so that all end together. Nested regions, and regions of a second caller, run in the calling thread.
int32_t parallel_launch(TWParallelLambda lambda, void* cdata, int32_t num_task);
int available_threads();  // what affinity, cgroup quota and the environment let this process use
int num_threads();
bool threads_started();  // whether worker threads wait for regions
void set_num_threads(int count);  // 0: as many as are available
}  // namespace tw
