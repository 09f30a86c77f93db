// Workers spin briefly after a region, then sleep. Every thread has a share of a region's tasks, neighbours that it takes
// from the first on; a thread that has none left takes the last of another's. A share is one 64-bit word (epoch, end,
// next) that is changed by compare-and-swap, so a worker that comes late can never take a task of another region, and a
// caller never waits for a worker that has not begun.
#include "thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "platform/process.h"
#include "platform/threads.h"

namespace tw {
namespace {

// Pauses before a worker sleeps: about half a millisecond, longer than the serial kernels between two regions of a model.
// Waking a worker costs tens of microseconds, more on a virtual machine.
constexpr int kSpin = 20000;
constexpr int32_t kMaxTasks = 0x7fff;  // what a share can count
// Pieces of a loop for each thread. At the end of a loop a thread waits at most as long as another one works on one piece;
// a piece costs some tens of nanoseconds more.
constexpr int kPieces = 8;
constexpr int64_t kMaxThreads = 1024;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

thread_local bool in_region = false;

constexpr uint64_t kOneEnd = uint64_t{1} << 16;
uint64_t make_share(uint32_t epoch, int32_t next, int32_t end) {
  return (uint64_t{epoch} << 32) | (static_cast<uint64_t>(end) << 16) | static_cast<uint64_t>(next);
}
int32_t share_end(uint64_t s) { return static_cast<int32_t>((s >> 16) & 0xffff); }
int32_t share_next(uint64_t s) { return static_cast<int32_t>(s & 0xffff); }

class Pool {
 public:
  explicit Pool(int threads) {
    shares_.reset(new Share[threads]);
    beds_.reset(new Bed[threads]);
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error&) {
      // The process may have no more threads: those there are do the work.
    }
    threads_ = static_cast<int>(workers_.size()) + 1;
  }
  ~Pool() {
    stop_.store(true);
    { std::lock_guard<std::mutex> hold(sleep_lock_); }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }
  int threads() const { return threads_; }

  // Callers that found the pool taken run their regions themselves: while they do, as many workers stay away.
  void join_others() { others_.fetch_add(1, std::memory_order_relaxed); }
  void leave_others() { others_.fetch_sub(1, std::memory_order_relaxed); }

  // One caller at a time; false when another thread holds the pool.
  bool run(TWParallelLambda lambda, void* cdata, int32_t tasks, int32_t* code) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    lambda_.store(lambda, std::memory_order_relaxed);
    cdata_.store(cdata, std::memory_order_relaxed);
    code_.store(0, std::memory_order_relaxed);
    left_.store(tasks, std::memory_order_relaxed);
    caller_cpu_.store(current_processor(), std::memory_order_relaxed);
    tasks_.store(tasks, std::memory_order_relaxed);
    uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    for (int32_t w = 0, next = 0; w < threads_; ++w) {
      int32_t end = static_cast<int32_t>((int64_t{w + 1} * tasks + threads_ - 1) / threads_);
      shares_[w].word.store(make_share(epoch, next, end), std::memory_order_release);
      next = end;
    }
    epoch_.store(epoch, std::memory_order_seq_cst);
    int asleep = sleepers_.load(std::memory_order_seq_cst);
    if (asleep > 0 && threads_ - asleep < std::min(tasks, welcome())) {
      {
        std::lock_guard<std::mutex> hold(sleep_lock_);
        for (int w = 1; w < threads_; ++w)
          if (beds_[w].asleep) beds_[w].keep_off(caller_cpu_.load(std::memory_order_relaxed));
      }
      if (tasks > 2) wake_.notify_all(); else wake_.notify_one();
    }
    in_region = true;
    take_tasks(0);
    in_region = false;
    for (int spins = 0; left_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < kSpin) pause_cpu(); else std::this_thread::yield();
    }
    *code = code_.load(std::memory_order_relaxed);
    if (*code != 0) {
      set_raised(std::move(error_));
      error_ = Ref<ErrorObject>();
    }
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };

  // Where a worker may wake. The kernel likes to wake a thread on the core of the one that wakes it; there the two would take
  // turns, and moving a thread that runs takes milliseconds. So a worker sleeps with that core taken out of those it may use,
  // the last caller's at first, and takes all of them again once it is awake.
  struct Bed {
    ThreadHandle thread{};
    Processors all, fewer;
    int off = -1;  // the core it keeps off, also where it has no other
    bool asleep = false;

    void lie_down(int cpu) {
      thread = this_thread();
      off = -1;
      fewer = {};
      keep_off(cpu);
    }
    void keep_off(int cpu) {
      if (cpu < 0 || cpu >= Processors::kMost || cpu == off || chosen_by_others()) return;
      off = cpu;
      fewer = all;
      fewer.remove(cpu);
      if (fewer.count() == 0) fewer = all;
      set_processors(thread, fewer);
    }
    void get_up() {
      if (off >= 0 && !chosen_by_others()) set_processors(thread, all);
    }
    // Whether the cores are others than ours: then they are all that it may use from now on.
    bool chosen_by_others() {
      Processors now;
      if (!get_processors(thread, &now)) return true;
      if (off >= 0 && now == fewer) return false;
      all = now;
      return off >= 0;
    }
  };

  // How many threads, the caller among them, are to work on a region.
  int welcome() const { return std::max(1, threads_ - others_.load(std::memory_order_relaxed)); }

  void take_tasks(int worker) {
    for (int k = 0; k < threads_; ++k) {
      Share& share = shares_[(worker + k) % threads_];
      uint64_t s = share.word.load(std::memory_order_acquire);
      while (share_next(s) < share_end(s) && worker < welcome()) {
        auto lambda = lambda_.load(std::memory_order_relaxed);
        auto cdata = cdata_.load(std::memory_order_relaxed);
        int32_t tasks = tasks_.load(std::memory_order_relaxed);
        uint64_t less = k == 0 ? s + 1 : s - kOneEnd;
        if (!share.word.compare_exchange_weak(s, less, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        int32_t code = lambda(k == 0 ? share_next(s) : share_end(s) - 1, tasks, cdata);
        if (code != 0) {
          int32_t expected = 0;
          if (code_.compare_exchange_strong(expected, code, std::memory_order_relaxed)) error_ = take_raised();
          else take_raised();
        }
        left_.fetch_sub(1, std::memory_order_release);
        s = share.word.load(std::memory_order_acquire);
      }
    }
  }

  void work(int worker) {
    in_region = true;  // whatever a task starts in parallel runs in its worker
    uint32_t seen = 0;
    for (;;) {
      int spins = 0;
      uint32_t now;
      while ((now = epoch_.load(std::memory_order_acquire)) == seen) {
        if (stop_.load(std::memory_order_relaxed)) return;
        if (++spins < kSpin && worker < welcome()) {
          pause_cpu();
          continue;
        }
        sleep(beds_[worker], seen);
        spins = 0;
      }
      seen = now;
      take_tasks(worker);
    }
  }

  void sleep(Bed& bed, uint32_t seen) {
    bed.lie_down(caller_cpu_.load(std::memory_order_relaxed));
    {
      std::unique_lock<std::mutex> hold(sleep_lock_);
      bed.asleep = true;
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(hold, [&] { return stop_.load() || epoch_.load(std::memory_order_seq_cst) != seen; });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      bed.asleep = false;
    }
    bed.get_up();
  }

  int threads_ = 1;
  std::atomic<int> others_{0};
  std::atomic<int> caller_cpu_{-1};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int32_t> left_{0};
  alignas(64) std::atomic<TWParallelLambda> lambda_{nullptr};
  std::atomic<void*> cdata_{nullptr};
  std::atomic<int32_t> tasks_{0};
  std::atomic<int32_t> code_{0};
  Ref<ErrorObject> error_;
  alignas(64) std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int> sleepers_{0};
  std::mutex sleep_lock_;
  std::condition_variable wake_;
  std::unique_ptr<Share[]> shares_;
  std::unique_ptr<Bed[]> beds_;
  std::vector<std::thread> workers_;
};

// Threads do not survive a fork: the child forgets the parent's pool (its memory and locks are left as they are)
// and builds its own on first use. Readers hold a reference, so a pool that is replaced ends after its last region.
struct State {
  std::mutex lock;
  std::shared_ptr<Pool> pool;
  int wanted = 0;
};
State* state = new State;

void after_fork_in_child() {
  int wanted = state->wanted;
  state = new State;
  state->wanted = wanted;
  in_region = false;
}
const int fork_hook = (at_fork(nullptr, nullptr, after_fork_in_child), 0);

// A number of threads that the user gave as text, of a list (as OpenMP takes) the first; an error for all but 1 to kMaxThreads.
int threads_given(const char* name, const char* text) {
  char* end = nullptr;
  errno = 0;
  long long count = strtoll(text, &end, 10);
  while (end != text && isspace(static_cast<unsigned char>(*end))) ++end;
  if (end == text || (*end && *end != ',') || errno || count < 1 || count > kMaxThreads)
    fail("ValueError", "the environment variable %s must be a number of threads from 1 to %lld, but it is `%s`; unset it for as many as the process may use",
         name, static_cast<long long>(kMaxThreads), text);
  return static_cast<int>(count);
}

int allowed_threads() { return std::min(usable_processors(), static_cast<int>(kMaxThreads)); }

std::shared_ptr<Pool> current_pool() {
  State* s = state;
  std::lock_guard<std::mutex> hold(s->lock);
  if (!s->pool) s->pool = std::make_shared<Pool>(s->wanted > 0 ? s->wanted : available_threads());
  return s->pool;
}

struct Shards {
  TWParallelLambda lambda;
  void* cdata;
  int32_t tasks;
};
int32_t run_shard(int32_t shard, int32_t shards, void* cdata) {
  auto* s = static_cast<Shards*>(cdata);
  for (int32_t i = shard; i < s->tasks; i += shards)
    if (int32_t code = s->lambda(i, s->tasks, s->cdata)) return code;
  return 0;
}

int32_t serial(TWParallelLambda lambda, void* cdata, int32_t tasks) {
  for (int32_t i = 0; i < tasks; ++i)
    if (int32_t code = lambda(i, tasks, cdata)) return code;
  return 0;
}

}  // namespace

int available_threads() {
  int count = allowed_threads();
  for (const char* name : {"TVM_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* value = getenv(name);
    if (value && *value) return std::min(count, threads_given(name, value));
  }
  return count;
}

int num_threads() {
  State* s = state;
  std::lock_guard<std::mutex> hold(s->lock);
  return s->pool ? s->pool->threads() : s->wanted > 0 ? s->wanted : available_threads();
}

bool threads_started() {
  State* s = state;
  std::lock_guard<std::mutex> hold(s->lock);
  return s->pool && s->pool->threads() > 1;
}

void set_num_threads(int count) {
  if (in_region) fail("RuntimeError", "the number of threads cannot be changed inside a parallel region");
  State* s = state;
  std::shared_ptr<Pool> old;  // joined outside the lock
  std::lock_guard<std::mutex> hold(s->lock);
  s->wanted = count > 0 ? std::min(count, allowed_threads()) : 0;
  if (s->pool && s->pool->threads() != (s->wanted ? s->wanted : available_threads())) old = std::move(s->pool);
}

int32_t parallel_launch(TWParallelLambda lambda, void* cdata, int32_t tasks) {
  if (in_region) return serial(lambda, cdata, tasks > 0 ? tasks : 1);
  std::shared_ptr<Pool> p;
  if (int32_t code = guarded([&] { p = current_pool(); })) return code;
  if (tasks <= 0) {
    int threads = p->threads();
    tasks = tasks == 0 || threads == 1 ? threads : static_cast<int32_t>(std::min<int64_t>(-int64_t{tasks}, int64_t{threads} * kPieces));
  }
  if (tasks == 1 || p->threads() == 1) return serial(lambda, cdata, tasks);
  int32_t code = 0;
  if (tasks > kMaxTasks) {
    Shards shards{lambda, cdata, tasks};
    if (p->run(run_shard, &shards, p->threads() * 16, &code)) return code;
  } else if (p->run(lambda, cdata, tasks, &code)) {
    return code;
  }
  p->join_others();
  code = serial(lambda, cdata, tasks);
  p->leave_others();
  return code;
}

static void register_threads() {
  register_global("runtime.NumThreads", [](Args) { return from_int(num_threads()); });
  register_global("runtime.config_threadpool", [](Args args) {
    // classic signature: (mode, number of threads); without a number, as many as the process may use
    if (args.count < 2 || args[1].type_index == kTVMFFINone) {
      set_num_threads(0);
      return none();
    }
    int64_t count = as_int(args[1], "the number of threads");
    if (count < 1 || count > kMaxThreads)
      fail("ValueError", "the number of threads must be from 1 to %lld, but it is %lld; leave it out for as many as the process may use",
           static_cast<long long>(kMaxThreads), static_cast<long long>(count));
    set_num_threads(static_cast<int>(count));
    return none();
  });
}
static const int threads_registered = (register_threads(), 0);

}  // namespace tw

extern "C" {
TW_EXPORT int32_t TWParallelLaunch(TWParallelLambda lambda, void* cdata, int32_t num_task) {
  return tw::parallel_launch(lambda, cdata, num_task);
}
}
