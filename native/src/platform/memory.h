// Memory at addresses that are multiples of a power of 2.
#pragma once
#include <cstddef>

namespace tw {

// null where there is none. alignment: at least that of a pointer.
void* aligned_memory(size_t alignment, size_t bytes);
void free_aligned(void* memory);

}  // namespace tw
