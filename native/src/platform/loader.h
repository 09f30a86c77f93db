// The system's loader of libraries.
#pragma once
#include <cstdint>
#include <string>

namespace tw {

// Throws FileNotFoundError or RuntimeError with the system's words. A library is never closed.
void* open_library(const std::string& path);
// The path of a library of this name ("tilewright_cuda") beside the runtime, or beside the program that contains it.
std::string library_beside(const std::string& name);
// The address of a symbol of a library, null where it has none.
void* symbol_of(void* library, const char* name);
// That of the library, or of another one in the process.
void* symbol_anywhere(void* library, const char* name);
// How many bytes the symbol at an address has; 2^47 where the system does not tell.
uint64_t symbol_bytes(const void* address);

}  // namespace tw
