// What is asked of a device of CUDA.
#pragma once
#include "device.h"

namespace tw {

// The value of an attribute of the table of devices (kTWDevice...); none where CUDA has none.
TVMFFIAny attribute_of(DLDevice device, int32_t kind);

}  // namespace tw
