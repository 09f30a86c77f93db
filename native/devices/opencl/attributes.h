// What is asked of a device of OpenCL.
#pragma once
#include "device.h"

namespace tw {

// The value of an attribute of the table of devices (kTWDevice...); none where OpenCL has none.
TVMFFIAny attribute_of(DLDevice device, int32_t kind);

}  // namespace tw
