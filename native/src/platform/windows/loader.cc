#include "../loader.h"

#include <windows.h>

#include "../../core.h"
#include "names.h"

namespace tw {

void* open_library(const std::string& path) {
  // By its whole path, so that its folder is searched for what it needs.
  wchar_t whole[4096];
  const bool is_path = path.find_first_of("/\\") != std::string::npos;
  const DWORD n = is_path ? GetFullPathNameW(wide(path).c_str(), 4096, whole, nullptr) : 0;
  const std::wstring name = n > 0 && n < 4096 ? std::wstring(whole, n) : wide(path);
  if (HMODULE library = LoadLibraryExW(name.c_str(), nullptr, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : 0)) return library;
  const DWORD why = GetLastError();
  const bool absent = why == ERROR_FILE_NOT_FOUND || (why == ERROR_MOD_NOT_FOUND && GetFileAttributesW(name.c_str()) == INVALID_FILE_ATTRIBUTES);
  fail(absent ? "FileNotFoundError" : "RuntimeError", "cannot load library %s: %s", path.c_str(), error_text(why).c_str());
}

std::string library_beside(const std::string& name) {
  static const wchar_t here = 0;  // in the runtime's library, whose path the loader knows
  wchar_t path[4096];
  HMODULE own = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, &here, &own);
  const std::wstring whole(path, GetModuleFileNameW(own, path, 4096));
  return narrow(whole.substr(0, whole.find_last_of(L"\\/") + 1)) + name + ".dll";
}
void* symbol_of(void* library, const char* name) { return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name)); }
// A library of Windows finds its symbols in those that it was linked to, and in no other.
void* symbol_anywhere(void* library, const char* name) { return symbol_of(library, name); }
uint64_t symbol_bytes(const void*) { return uint64_t{1} << 47; }

}  // namespace tw
