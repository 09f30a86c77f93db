// Copies from, to and between devices of CUDA.
#pragma once
#include "device.h"

namespace tw {

// Between compact tensors of one size; memory of the types cpu and cuda_host is the CPU's.
void copy_tensor(const DLTensor& from, const DLTensor& to, CUstream stream);

}  // namespace tw
