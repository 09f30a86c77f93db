#include "../process.h"

#include <pthread.h>
#include <unistd.h>

namespace tw {

int64_t process_number() { return getpid(); }
void at_fork(void (*before)(), void (*parent)(), void (*child)()) { pthread_atfork(before, parent, child); }

}  // namespace tw
