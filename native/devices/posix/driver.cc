#include "../common/driver.h"

#include <dlfcn.h>

namespace tw {

Driver::Driver(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (handle_) return;
    const char* said = dlerror();
    note_failure(name, said ? said : "");
  }
}
void* Driver::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace tw
