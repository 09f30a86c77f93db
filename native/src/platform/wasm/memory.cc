// Memory of a WebAssembly module. The C library's allocator is one for a single thread, and takes powers of two: what is large has whole
// pages of its own here, which are joined again when they are free.
#include "../memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <tilewright/abi.h>

#include "../locks.h"

namespace tw {
namespace {

constexpr size_t kPage = 65536, kLarge = 4 * kPage;

struct Run {
  uintptr_t begin;
  size_t bytes;
  bool used;
  uintptr_t end() const { return begin + bytes; }
};

// Runs of pages in the order of their addresses.
struct Runs {
  Run* all = nullptr;
  size_t count = 0, room = 0;

  Run* insert(size_t at, Run run) {
    if (count == room) {
      auto* more = static_cast<Run*>(realloc(all, (room * 2 + 64) * sizeof(Run)));
      if (!more) return nullptr;
      all = more;
      room = room * 2 + 64;
    }
    std::copy_backward(all + at, all + count, all + count + 1);
    ++count;
    all[at] = run;
    return all + at;
  }
  void erase(size_t at) {
    std::copy(all + at + 1, all + count, all + at);
    --count;
  }
  size_t place(uintptr_t address) const {
    return static_cast<size_t>(std::lower_bound(all, all + count, address, [](const Run& r, uintptr_t a) { return r.begin < a; }) - all);
  }
  bool joined(size_t at) const { return at + 1 < count && !all[at].used && !all[at + 1].used && all[at].end() == all[at + 1].begin; }
  void join(size_t at) {
    all[at].bytes += all[at + 1].bytes;
    erase(at + 1);
  }
  // More pages, behind those that are free at the end of the memory.
  bool grow(size_t bytes) {
    const uintptr_t end = __builtin_wasm_memory_size(0) * kPage;
    const bool open = count && !all[count - 1].used && all[count - 1].end() == end;
    const size_t missing = bytes - (open ? all[count - 1].bytes : 0);
    const size_t before = __builtin_wasm_memory_grow(0, missing / kPage);
    if (before == SIZE_MAX) return false;
    if (!insert(count, {before * kPage, missing, false})) return false;
    if (count > 1 && joined(count - 2)) join(count - 2);
    return true;
  }
  void* take(size_t bytes, size_t alignment) {
    if (alignment > kPage || bytes > SIZE_MAX - kPage) return nullptr;
    bytes = (bytes + kPage - 1) & ~(kPage - 1);
    for (int tries = 0; tries < 2; ++tries) {
      Run* best = nullptr;
      for (Run* r = all; r != all + count; ++r)
        if (!r->used && r->bytes >= bytes && (!best || r->bytes < best->bytes)) best = r;
      if (!best) {
        if (tries || !grow(bytes)) return nullptr;
        continue;
      }
      const size_t at = static_cast<size_t>(best - all);
      if (best->bytes > bytes) {
        if (!insert(at + 1, {best->begin + bytes, best->bytes - bytes, false})) return nullptr;
        all[at].bytes = bytes;
      }
      all[at].used = true;
      return reinterpret_cast<void*>(all[at].begin);
    }
    return nullptr;
  }
  // False where the address is none of theirs.
  bool give(void* memory) {
    const size_t at = place(reinterpret_cast<uintptr_t>(memory));
    if (at == count || all[at].begin != reinterpret_cast<uintptr_t>(memory)) return false;
    all[at].used = false;
    if (joined(at)) join(at);
    if (at > 0 && joined(at - 1)) join(at - 1);
    return true;
  }
};
Runs runs;
Mutex heap_lock;

}  // namespace

void* aligned_memory(size_t alignment, size_t bytes) {
  std::lock_guard<Mutex> hold(heap_lock);
  return bytes >= kLarge ? runs.take(bytes, alignment) : aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}
void free_aligned(void* memory) {
  std::lock_guard<Mutex> hold(heap_lock);
  if (!runs.give(memory)) free(memory);
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
