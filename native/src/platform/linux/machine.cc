#include "../machine.h"

#if defined(__riscv)
#include <setjmp.h>
#include <signal.h>
#endif
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tw {

const char* const kSystemName = "Linux";

namespace {
using File = std::unique_ptr<FILE, int (*)(FILE*)>;
int64_t memory(int pages) {
  long found = sysconf(pages);
  return found > 0 ? int64_t{found} * sysconf(_SC_PAGESIZE) : 0;
}
}  // namespace

std::string processor_name() {
  File file(fopen("/proc/cpuinfo", "r"), fclose);
  char name[256];
  for (char line[512]; file && fgets(line, sizeof line, file.get());)
    if (sscanf(line, "model name : %255[^\n]", name) == 1) return name;
  return {};
}
int64_t clock_rate() {
  File file(fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "r"), fclose);
  long long rate = 0;
  return file && fscanf(file.get(), "%lld", &rate) == 1 ? rate : 0;
}
int64_t total_memory() { return memory(_SC_PHYS_PAGES); }
int64_t available_memory() { return memory(_SC_AVPHYS_PAGES); }

#if defined(__riscv)
namespace {
thread_local sigjmp_buf refused;
// Not every kernel and emulator that has vectors says so: the length of their registers can be read where there are any.
bool has_vectors() {
  struct sigaction refuse{}, before{};
  refuse.sa_handler = [](int) { siglongjmp(refused, 1); };
  sigaction(SIGILL, &refuse, &before);
  unsigned long bytes = 0;
  if (sigsetjmp(refused, 1) == 0) asm volatile("csrr %0, 0xc22" : "=r"(bytes));
  sigaction(SIGILL, &before, nullptr);
  return bytes > 0;
}
}  // namespace
#endif

Answer system_feature(const std::string& name) {
  struct Feature { const char* name; unsigned long capability; int bit; };
#if defined(__aarch64__)
  static const Feature features[] = {{"fullfp16", AT_HWCAP, 10}, {"dotprod", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22}, {"sve2", AT_HWCAP2, 1},
                                     {"i8mm", AT_HWCAP2, 13}, {"bf16", AT_HWCAP2, 14}, {"sme", AT_HWCAP2, 23}};
#elif defined(__arm__)
  static const Feature features[] = {{"neon", AT_HWCAP, 12}, {"vfp3", AT_HWCAP, 13}, {"vfp4", AT_HWCAP, 16}, {"hwdiv-arm", AT_HWCAP, 17},
                                     {"hwdiv", AT_HWCAP, 18}};
#elif defined(__riscv)
  // Extensions of one letter, by its place in the alphabet.
  static const Feature features[] = {{"a", AT_HWCAP, 0}, {"c", AT_HWCAP, 2}, {"d", AT_HWCAP, 3}, {"f", AT_HWCAP, 5}, {"m", AT_HWCAP, 12}};
  static const bool vectors = (getauxval(AT_HWCAP) >> 21 & 1) || has_vectors();
  if (name == "v") return vectors ? kPresent : kMissing;
#else
  static const Feature features[] = {{"", 0, 0}};
#endif
  for (const Feature& f : features)
    if (name == f.name) return (getauxval(f.capability) >> f.bit) & 1 ? kPresent : kMissing;
#if defined(__aarch64__)
  // "sve256": registers of just that width, since vectors of a known length are computed in whole ones.
  if (name.size() >= 6 && name.compare(0, 3, "sve") == 0 && name.find_first_not_of("0123456789", 3) == std::string::npos) {
    const int length = prctl(51 /* PR_SVE_GET_VL */);
    return length >= 0 && 8 * (length & 0xffff) == atoi(name.c_str() + 3) ? kPresent : kMissing;
  }
#endif
  return kUnknown;
}

std::string enable_amx() {
#if defined(__x86_64__)
  // Linux keeps the tiles of a process that asked for it: ARCH_REQ_XCOMP_PERM, tile data.
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? "" : strerror(errno);
#else
  return "";
#endif
}

}  // namespace tw
