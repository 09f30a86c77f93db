// What programs call of accelerators beside tensors and kernels, as functions `vta.device.*`.
#pragma once

namespace tw {

// Makes the functions known to the runtime; the library is opened once.
void register_functions();

}  // namespace tw
