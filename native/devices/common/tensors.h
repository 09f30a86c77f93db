// Compact tensors: where they are, and how many bytes they have.
#pragma once
#include <tilewright/abi.h>

namespace tw {

inline char* address_of(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }
inline size_t bytes_of(const DLTensor& t) {
  size_t n = (size_t{t.dtype.bits} * t.dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < t.ndim; ++i) n *= static_cast<size_t>(t.shape[i]);
  return n;
}

}  // namespace tw
