// The pool where threads are workers of JavaScript. Each is in the pool while it is in TWWork; the host calls them out of it when they
// are to load a module. A region's next task is in one word with the region's number, so a worker that comes late can never take a
// task of another region, and the caller never waits for a worker that has not begun.
#include "../../thread_pool.h"

#include <algorithm>
#include <atomic>

namespace tw {
namespace {

constexpr int kSpin = 50000;  // looks at the word before a worker sleeps: about 50 microseconds
constexpr int64_t kPieces = 8;

thread_local bool in_region = false;
std::atomic<uint64_t> share{0};  // the number of a region, its next task
std::atomic<TWParallelLambda> lambda_of{nullptr};
std::atomic<void*> cdata_of{nullptr};
std::atomic<int32_t> tasks_of{0}, left{0}, code_of{0}, workers{0}, wanted{0};
std::atomic<int32_t> region{0};  // sleepers wait until it changes
std::atomic<bool> leave{false};
Ref<ErrorObject>* error_of = nullptr;

void take_tasks() {
  uint64_t s = share.load(std::memory_order_acquire);
  for (;;) {
    auto lambda = lambda_of.load(std::memory_order_relaxed);
    auto cdata = cdata_of.load(std::memory_order_relaxed);
    const int32_t tasks = tasks_of.load(std::memory_order_relaxed), next = static_cast<int32_t>(s);
    if (next >= tasks) return;
    if (!share.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    if (int32_t code = lambda(next, tasks, cdata)) {
      int32_t expected = 0;
      Ref<ErrorObject> error = take_raised();
      if (code_of.compare_exchange_strong(expected, code, std::memory_order_relaxed)) *error_of = std::move(error);
    }
    left.fetch_sub(1, std::memory_order_release);
    s = share.load(std::memory_order_acquire);
  }
}
void wake() {
  region.fetch_add(1, std::memory_order_seq_cst);
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&region), ~0u);
}
int32_t serial(TWParallelLambda lambda, void* cdata, int32_t tasks) {
  for (int32_t i = 0; i < tasks; ++i)
    if (int32_t code = lambda(i, tasks, cdata)) return code;
  return 0;
}

}  // namespace

int32_t parallel_launch(TWParallelLambda lambda, void* cdata, int32_t tasks) {
  if (in_region) return serial(lambda, cdata, std::max(tasks, 1));
  const int threads = num_threads();
  if (tasks <= 0) tasks = tasks == 0 || threads == 1 ? threads : static_cast<int32_t>(std::min<int64_t>(-int64_t{tasks}, threads * kPieces));
  if (tasks == 1 || threads == 1) return serial(lambda, cdata, tasks);
  Ref<ErrorObject> error;
  error_of = &error;
  lambda_of.store(lambda, std::memory_order_relaxed);
  cdata_of.store(cdata, std::memory_order_relaxed);
  code_of.store(0, std::memory_order_relaxed);
  left.store(tasks, std::memory_order_relaxed);
  tasks_of.store(tasks, std::memory_order_relaxed);
  share.store((share.load(std::memory_order_relaxed) & ~uint64_t{0xffffffff}) + (uint64_t{1} << 32), std::memory_order_release);
  wake();
  in_region = true;
  take_tasks();
  in_region = false;
  while (left.load(std::memory_order_acquire) != 0) {}  // a page's own thread may not sleep
  const int32_t code = code_of.load(std::memory_order_relaxed);
  if (code != 0) set_raised(std::move(error));
  return code;
}
int available_threads() { return workers.load(std::memory_order_relaxed) + 1; }
int num_threads() {
  const int limit = wanted.load(std::memory_order_relaxed);
  return limit > 0 ? std::min(limit, available_threads()) : available_threads();
}
bool threads_started() { return num_threads() > 1; }
void set_num_threads(int count) { wanted.store(count, std::memory_order_relaxed); }

}  // namespace tw

using namespace tw;

extern "C" {
TW_EXPORT void TWEnterPool(int32_t count) {
  take_raised();  // makes here, and not in a worker, what the first error makes
  leave.store(false);
  workers.store(count);
}
TW_EXPORT void TWLeavePool() {
  leave.store(true);
  wake();
}
// A worker, from 1 on, works until it is called out.
TW_EXPORT void TWWork(int32_t worker) {
  in_region = true;  // whatever a task starts in parallel runs in its worker
  for (int32_t seen = region.load(std::memory_order_seq_cst);;) {
    if (worker < num_threads()) take_tasks();
    for (int spins = 0; region.load(std::memory_order_acquire) == seen; ++spins) {
      if (leave.load(std::memory_order_relaxed)) return;
      if (spins >= kSpin) __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&region), seen, -1);
    }
    seen = region.load(std::memory_order_acquire);
    if (leave.load(std::memory_order_relaxed)) return;
  }
}
}
