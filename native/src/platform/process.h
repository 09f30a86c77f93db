// This process, among others.
#pragma once
#include <cstdint>

namespace tw {

int64_t process_number();
// Functions to call before a fork, and after it in the parent and in the child; null for none. Nothing where processes cannot fork.
void at_fork(void (*before)(), void (*parent)(), void (*child)());

}  // namespace tw
