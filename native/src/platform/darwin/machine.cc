#include "../machine.h"

#include <mach/mach.h>
#include <sys/sysctl.h>

namespace tw {

const char* const kSystemName = "macOS";

namespace {
int64_t number(const char* name) {
  int64_t value = 0;
  size_t bytes = sizeof value;
  return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 ? value : 0;
}
}  // namespace

std::string processor_name() {
  char name[256];
  size_t bytes = sizeof name;
  return sysctlbyname("machdep.cpu.brand_string", name, &bytes, nullptr, 0) == 0 ? name : "";
}
int64_t clock_rate() { return number("hw.cpufrequency_max") / 1000; }
int64_t total_memory() { return number("hw.memsize"); }
int64_t available_memory() {
  vm_statistics64_data_t pages;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) != KERN_SUCCESS) return 0;
  return (int64_t{pages.free_count} + pages.inactive_count) * number("hw.pagesize");
}

Answer system_feature(const std::string& name) {
  struct Feature { const char *name, *key; };
  static const Feature features[] = {{"fullfp16", "hw.optional.arm.FEAT_FP16"}, {"dotprod", "hw.optional.arm.FEAT_DotProd"}, {"i8mm", "hw.optional.arm.FEAT_I8MM"},
                                     {"bf16", "hw.optional.arm.FEAT_BF16"}, {"sme", "hw.optional.arm.FEAT_SME"}, {"sve", ""}, {"sve2", ""}};
  for (const Feature& f : features)
    if (name == f.name) return *f.key && number(f.key) ? kPresent : kMissing;
  return name.compare(0, 3, "sve") == 0 ? kMissing : kUnknown;
}
std::string enable_amx() { return ""; }

}  // namespace tw
