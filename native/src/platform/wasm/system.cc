// What a system is to the runtime, where the system is the host of a WebAssembly module: memory, and nothing of the machine.
#include <cstdlib>
#include <new>

#include "../loader.h"
#include "../locks.h"
#include "../machine.h"
#include "../memory.h"
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

// The C library is one for programs of one thread.
namespace {
Mutex heap_lock;
}
void* aligned_memory(size_t alignment, size_t bytes) {
  std::lock_guard<Mutex> hold(heap_lock);
  return aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}
void free_aligned(void* memory) {
  std::lock_guard<Mutex> hold(heap_lock);
  free(memory);
}

}  // namespace tw

// Those of the C++ library are compiled without exceptions: they would end the program.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* memory = tw::aligned_memory(static_cast<std::size_t>(alignment), bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes) { return operator new(bytes, std::align_val_t(alignof(std::max_align_t))); }
void operator delete(void* memory) noexcept { tw::free_aligned(memory); }
void operator delete(void* memory, std::size_t) noexcept { tw::free_aligned(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { tw::free_aligned(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { tw::free_aligned(memory); }

extern "C" {
TW_EXPORT void* TWAllocate(size_t bytes, size_t alignment) { return tw::aligned_memory(alignment, bytes ? bytes : 1); }
TW_EXPORT void TWFree(void* memory) { tw::free_aligned(memory); }
}
