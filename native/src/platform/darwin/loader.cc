#include "../loader.h"

#include <dlfcn.h>

#include "../../core.h"

namespace tw {

void* open_library(const std::string& path) {
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = dlerror();
  fail(why.find("no such file") != std::string::npos ? "FileNotFoundError" : "RuntimeError", "cannot load library %s: %s", path.c_str(), why.c_str());
}

void* symbol_of(void* library, const char* name) { return dlsym(library, name); }
void* symbol_anywhere(void* library, const char* name) {
  void* found = dlsym(library, name);
  return found ? found : dlsym(RTLD_DEFAULT, name);
}
uint64_t symbol_bytes(const void*) { return uint64_t{1} << 47; }

}  // namespace tw
