#include "../memory.h"

#include <malloc.h>

namespace tw {

void* aligned_memory(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
void free_aligned(void* memory) { _aligned_free(memory); }

}  // namespace tw
