#include "../process.h"

#include <windows.h>

namespace tw {

int64_t process_number() { return GetCurrentProcessId(); }
void at_fork(void (*)(), void (*)(), void (*)()) {}

}  // namespace tw
