#include "../machine.h"

#include <windows.h>

#include "names.h"

namespace tw {

const char* const kSystemName = "Windows";

namespace {
constexpr wchar_t kProcessor[] = L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0";
MEMORYSTATUSEX memory() {
  MEMORYSTATUSEX found{};
  found.dwLength = sizeof found;
  GlobalMemoryStatusEx(&found);
  return found;
}
}  // namespace

std::string processor_name() {
  wchar_t name[256];
  DWORD bytes = sizeof name;
  if (RegGetValueW(HKEY_LOCAL_MACHINE, kProcessor, L"ProcessorNameString", RRF_RT_REG_SZ, nullptr, name, &bytes) != ERROR_SUCCESS) return {};
  return narrow(name);
}
int64_t clock_rate() {
  DWORD megahertz = 0, bytes = sizeof megahertz;
  if (RegGetValueW(HKEY_LOCAL_MACHINE, kProcessor, L"~MHz", RRF_RT_REG_DWORD, nullptr, &megahertz, &bytes) != ERROR_SUCCESS) return 0;
  return int64_t{megahertz} * 1000;
}
int64_t total_memory() { return static_cast<int64_t>(memory().ullTotalPhys); }
int64_t available_memory() { return static_cast<int64_t>(memory().ullAvailPhys); }

Answer system_feature(const std::string&) { return kUnknown; }
// Windows keeps the tiles of every process where the processor and the system have them (XCR0 tells).
std::string enable_amx() { return ""; }

}  // namespace tw
