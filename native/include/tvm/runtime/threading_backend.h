// The pool of threads that compiled code runs on. A program that uses it is linked with the runtime library.
#ifndef TVM_RUNTIME_THREADING_BACKEND_H_
#define TVM_RUNTIME_THREADING_BACKEND_H_

#include <algorithm>
#include <vector>

#include "c_backend_api.h"
#include "registry.h"

namespace tvm {
namespace runtime {
namespace threading {

class ThreadGroup {
 public:
  enum AffinityMode : int { kBig = 1, kLittle = -1, kSpecifyOneCorePerThread = -2, kSpecifyThreadShareAllCore = -3 };
};

// How many threads a launch uses.
inline int NumThreads() { return (*Registry::Get("runtime.NumThreads"))(); }
inline int MaxConcurrency() { return NumThreads(); }
// nthreads 0: as many as the process may use. The system places threads, so modes and processors say nothing.
inline void Configure(ThreadGroup::AffinityMode mode, int nthreads, std::vector<unsigned int> = {}) {
  const PackedFunc& configure = *Registry::Get("runtime.config_threadpool");
  nthreads ? configure(static_cast<int>(mode), nthreads) : configure(static_cast<int>(mode));
}
// New threads in the place of those of the pool.
inline void ResetThreadPool() { Configure(ThreadGroup::kBig, NumThreads()); }

}  // namespace threading

// flambda(i) for all i from begin to before end, in the order of i within a thread. What it throws first goes on to the caller.
template <typename T>
void parallel_for_with_threading_backend(T flambda, int64_t begin, int64_t end) {
  struct Range {
    T& body;
    int64_t begin, end;
  } range{flambda, begin, end};
  auto part = [](int task, TVMParallelGroupEnv* env, void* data) {
    const Range& all = *static_cast<Range*>(data);
    const int64_t step = (all.end - all.begin + env->num_task - 1) / env->num_task, first = all.begin + task * step;
    return ::tilewright::detail::guarded([&] {
      for (int64_t i = first; i < std::min(first + step, all.end); ++i) all.body(i);
    });
  };
  if (begin < end) ::tilewright::detail::check(TVMBackendParallelLaunch(part, &range, 0));
}

}  // namespace runtime
}  // namespace tvm

#endif
