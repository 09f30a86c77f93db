#include "../threads.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>

namespace tw {

// macOS places threads itself.
int current_processor() { return -1; }
ThreadHandle this_thread() { return reinterpret_cast<ThreadHandle>(pthread_self()); }
bool get_processors(ThreadHandle, Processors*) { return false; }
bool set_processors(ThreadHandle, const Processors&) { return false; }
int allowed_processors() { return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }
int usable_processors() { return allowed_processors(); }

}  // namespace tw
