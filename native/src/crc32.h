#pragma once
#include <cstddef>
#include <cstdint>

namespace tw {
// The CRC-32 (IEEE 802.3, as zlib's) of what `crc` is of, 0 at first, and of n more bytes.
uint32_t crc32(uint32_t crc, const unsigned char* p, size_t n);
}  // namespace tw
