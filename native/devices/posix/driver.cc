#include "../common/driver.h"

#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif

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
std::string Driver::folder() const {
#if defined(__linux__)
  link_map* loaded = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &loaded) == 0 && loaded) return folder_of(loaded->l_name);
#endif
  return folder_of(name_);
}
void* Driver::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace tw
