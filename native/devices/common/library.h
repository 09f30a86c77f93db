// What a library of devices exports: one function, by which the runtime opens it.
#pragma once
#include "errors.h"

namespace tw {

// The table of a type of devices, made at the first call. Throws where the driver is not here.
const TWDeviceAPI* open_devices(int32_t type);

inline TVMFFIAny known(int64_t value) { return tilewright::detail::of_int(value); }
inline TVMFFIAny known(const std::string& text) { return tilewright::detail::of_text(text, kTVMFFIStr); }

}  // namespace tw
