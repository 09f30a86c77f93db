// The seal of a file: a record at its head of how long it is and of a checksum of it, so that damage is found before the system's loader
// runs any code of the file.
#pragma once
#include <string>

namespace tw {
// Writes the record of a file that was made with a place for one; files without a place stay as they are.
void seal_file(const std::string& path);
// ValueError where a sealed file is not what was sealed; files without a seal pass.
void check_seal(const std::string& path);
// The same, and where it is not a library for this machine, or a part of one; what cannot be opened passes.
void check_shared_library(const std::string& path);
}  // namespace tw
