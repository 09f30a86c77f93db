// Copies from, to and between devices of OpenCL.
#pragma once
#include "device.h"

namespace tw {

// Between compact tensors of one size, of which one may be on the CPU.
void copy_tensor(const DLTensor& from, const DLTensor& to, void* stream);

}  // namespace tw
