// Locks: those of the C++ library. That of WebAssembly has none; there who finds a lock taken asks again, since each is held for moments.
#pragma once
#include <mutex>

namespace tw {
#if defined(__wasm__)

class Mutex {
 public:
  void lock() {
    while (__atomic_exchange_n(&taken_, 1, __ATOMIC_ACQUIRE)) {}
  }
  void unlock() { __atomic_store_n(&taken_, 0, __ATOMIC_RELEASE); }

 private:
  int taken_ = 0;
};

class RecursiveMutex {
 public:
  void lock() {
    if (__atomic_load_n(&owner_, __ATOMIC_RELAXED) != &thread_) {
      lock_.lock();
      __atomic_store_n(&owner_, &thread_, __ATOMIC_RELAXED);
    }
    ++depth_;
  }
  void unlock() {
    if (--depth_) return;
    __atomic_store_n(&owner_, static_cast<const char*>(nullptr), __ATOMIC_RELAXED);
    lock_.unlock();
  }

 private:
  static inline thread_local const char thread_ = 0;  // its address tells threads apart
  Mutex lock_;
  const char* owner_ = nullptr;
  int depth_ = 0;
};

#else

using Mutex = std::mutex;
using RecursiveMutex = std::recursive_mutex;

#endif
}  // namespace tw
