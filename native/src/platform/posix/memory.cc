#include "../memory.h"

#include <cstdlib>

namespace tw {

void* aligned_memory(size_t alignment, size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}
void free_aligned(void* memory) { free(memory); }

}  // namespace tw
