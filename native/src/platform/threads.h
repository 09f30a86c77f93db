// Processors that threads may run on.
#pragma once
#include <cstdint>

namespace tw {

// A set of processors by number.
struct Processors {
  static constexpr int kMost = 1024;
  uint64_t words[kMost / 64] = {};
  bool has(int n) const { return n >= 0 && n < kMost && (words[n / 64] >> (n % 64) & 1); }
  void add(int n) { if (n >= 0 && n < kMost) words[n / 64] |= uint64_t{1} << (n % 64); }
  void remove(int n) { if (n >= 0 && n < kMost) words[n / 64] &= ~(uint64_t{1} << (n % 64)); }
  int count() const {
    int all = 0;
    for (uint64_t w : words) all += __builtin_popcountll(w);
    return all;
  }
  bool operator==(const Processors& o) const {
    for (int i = 0; i < kMost / 64; ++i)
      if (words[i] != o.words[i]) return false;
    return true;
  }
};

// The processor that the calling thread runs on; -1 where the system does not tell.
int current_processor();
// A thread, for these functions; of std::thread, native_handle() is one.
using ThreadHandle = uintptr_t;
ThreadHandle this_thread();
// Which processors a thread may use. False where the system does not tell, or does not obey.
bool get_processors(ThreadHandle thread, Processors* set);
bool set_processors(ThreadHandle thread, const Processors& set);
// How many this process may use at the same time: those it may run on, and what the system grants it (quotas); at least 1.
int usable_processors();
// How many it may run on.
int allowed_processors();

}  // namespace tw
