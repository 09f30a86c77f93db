// CUDA source, compiled at run time by NVRTC, a library of CUDA that needs no GPU.
#pragma once
#include <string>

#include "device.h"

namespace tw {

// Code that the device loads: a cubin, or PTX where NVRTC does not know the device yet. Throws where NVRTC is not here, and with its
// messages and the lines of source that they name.
std::string compile_cuda(const std::string& source, const CudaDevice& device);

}  // namespace tw
