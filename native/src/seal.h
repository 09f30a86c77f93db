// Files that end in a checksum of all that stands before (written by tilewright/support/seal.py).
#pragma once
#include <string>

namespace tw {
// ValueError where a sealed file is not what was sealed; files without a seal, and what cannot be read, pass.
void check_seal(const std::string& path);
}  // namespace tw
