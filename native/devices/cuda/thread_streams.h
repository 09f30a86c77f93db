// The stream of each device that this thread has set.
#pragma once
#include "device.h"

namespace tw {

void set_thread_stream(CudaDevice& device, CUstream stream);
CUstream thread_stream(const CudaDevice& device);

}  // namespace tw
