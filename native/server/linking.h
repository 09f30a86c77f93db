// Objects, which a machine with a compiler or a linker makes a library of.
#pragma once
#include <string>

namespace tw::server {

// By the name: .tar, or .o.
bool is_archive(const std::string& path);
// The path of the library that is made of it, beside it. Throws RuntimeError where nothing here can link.
std::string link_archive(const std::string& path);

}  // namespace tw::server
