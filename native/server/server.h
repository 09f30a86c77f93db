// The server's loop: it greets clients, and gives each its turn in a process and a folder of its own.
#pragma once
#include "options.h"

namespace tw::server {

// Serves until the program is told to stop. Throws Error where it cannot listen.
void serve(const Options& options);

}  // namespace tw::server
