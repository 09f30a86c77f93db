#include "../loader.h"

#include <dlfcn.h>

#include "../../core.h"

namespace tw {

void* open_library(const std::string& path) {
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = dlerror();
  fail(why.find("no such file") != std::string::npos ? "FileNotFoundError" : "RuntimeError", "cannot load library %s: %s", path.c_str(), why.c_str());
}

std::string library_beside(const std::string& name) {
  static const char here = 0;  // in the runtime's library, whose path the loader knows
  Dl_info info;
  const std::string path = dladdr(&here, &info) ? info.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "lib" + name + ".dylib";
}
void* symbol_of(void* library, const char* name) { return dlsym(library, name); }
void* symbol_anywhere(void* library, const char* name) {
  void* found = dlsym(library, name);
  return found ? found : dlsym(RTLD_DEFAULT, name);
}
uint64_t symbol_bytes(const void*) { return uint64_t{1} << 47; }

}  // namespace tw
