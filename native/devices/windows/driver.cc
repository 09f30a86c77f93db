#include "../common/driver.h"

#include <windows.h>

namespace tw {

Driver::Driver(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    handle_ = LoadLibraryA(name.c_str());
    name_ = name;
    if (handle_) return;
    note_failure(name, "error " + std::to_string(GetLastError()) + " of Windows");
  }
}
std::string Driver::folder() const {
  char file[MAX_PATH] = "";
  return GetModuleFileNameA(static_cast<HMODULE>(handle_), file, sizeof file) ? folder_of(file) : "";
}
void* Driver::symbol(const char* name) const { return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name)); }

}  // namespace tw
