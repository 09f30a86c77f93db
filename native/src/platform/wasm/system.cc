// What a system is to the runtime, where the system is the host of a WebAssembly module: it says nothing of the machine.
#include "../loader.h"
#include "../machine.h"
#include "../process.h"
#include "../threads.h"
#include "../../thread_pool.h"

namespace tw {

const char* const kSystemName = "WebAssembly";
std::string processor_name() { return {}; }
int64_t clock_rate() { return 0; }
int64_t total_memory() { return 0; }
int64_t available_memory() { return 0; }
Answer system_feature(const std::string&) { return kUnknown; }
std::string enable_amx() { return {}; }
int64_t process_number() { return 1; }
void at_fork(void (*)(), void (*)(), void (*)()) {}
uint64_t symbol_bytes(const void*) { return uint64_t{1} << 47; }
int allowed_processors() { return available_threads(); }

}  // namespace tw
