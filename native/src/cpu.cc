// What this CPU can do, under LLVM's feature names.
#include "module.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "platform/machine.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace tw {
namespace {
#if defined(__x86_64__) || defined(__i386__)
struct Feature {
  const char* name;
  unsigned leaf, subleaf;
  char reg;       // 'a'..'d'
  int bit;
  unsigned state; // bits of XCR0 that the system must save: 0x6 AVX, 0xe6 AVX-512, 0x60000 AMX
};
const Feature kFeatures[] = {
    {"sse3", 1, 0, 'c', 0, 0}, {"pclmul", 1, 0, 'c', 1, 0}, {"ssse3", 1, 0, 'c', 9, 0}, {"fma", 1, 0, 'c', 12, 6},
    {"cx16", 1, 0, 'c', 13, 0}, {"sse4.1", 1, 0, 'c', 19, 0}, {"sse4.2", 1, 0, 'c', 20, 0}, {"movbe", 1, 0, 'c', 22, 0},
    {"popcnt", 1, 0, 'c', 23, 0}, {"aes", 1, 0, 'c', 25, 0}, {"avx", 1, 0, 'c', 28, 6}, {"f16c", 1, 0, 'c', 29, 6},
    {"bmi", 7, 0, 'b', 3, 0}, {"avx2", 7, 0, 'b', 5, 6}, {"bmi2", 7, 0, 'b', 8, 0}, {"avx512f", 7, 0, 'b', 16, 0xe6},
    {"avx512dq", 7, 0, 'b', 17, 0xe6}, {"avx512ifma", 7, 0, 'b', 21, 0xe6}, {"avx512cd", 7, 0, 'b', 28, 0xe6},
    {"avx512bw", 7, 0, 'b', 30, 0xe6}, {"avx512vl", 7, 0, 'b', 31, 0xe6}, {"avx512vbmi", 7, 0, 'c', 1, 0xe6},
    {"avx512vbmi2", 7, 0, 'c', 6, 0xe6}, {"gfni", 7, 0, 'c', 8, 0}, {"vaes", 7, 0, 'c', 9, 6},
    {"vpclmulqdq", 7, 0, 'c', 10, 6}, {"avx512vnni", 7, 0, 'c', 11, 0xe6}, {"avx512bitalg", 7, 0, 'c', 12, 0xe6},
    {"avx512vpopcntdq", 7, 0, 'c', 14, 0xe6}, {"amx-bf16", 7, 0, 'd', 22, 0x60000}, {"avx512fp16", 7, 0, 'd', 23, 0xe6},
    {"amx-tile", 7, 0, 'd', 24, 0x60000}, {"amx-int8", 7, 0, 'd', 25, 0x60000}, {"avxvnni", 7, 1, 'a', 4, 6},
    {"avx512bf16", 7, 1, 'a', 5, 0xe6}, {"amx-fp16", 7, 1, 'a', 21, 0x60000}, {"avxifma", 7, 1, 'a', 23, 6},
    {"avxvnniint8", 7, 1, 'd', 4, 6}, {"avxneconvert", 7, 1, 'd', 5, 6}, {"lzcnt", 0x80000001, 0, 'c', 5, 0},
    {"sse4a", 0x80000001, 0, 'c', 6, 0}, {"fma4", 0x80000001, 0, 'c', 16, 6}};

bool has_feature(const Feature& f) {
  unsigned r[4];
  if (!__get_cpuid_count(f.leaf, f.subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
  if (!((r[f.reg - 'a'] >> f.bit) & 1)) return false;
  if (!f.state) return true;
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !((c >> 27) & 1)) return false;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & f.state) == f.state;
}

Answer ask(const std::string& name) {
  for (const Feature& f : kFeatures)
    if (name == f.name) return has_feature(f) ? kPresent : kMissing;
  return kUnknown;
}
#else
Answer ask(const std::string& name) { return system_feature(name); }
#endif
}  // namespace

// The features that TILEWRIGHT_CPU_WITHOUT (names between commas) treats as missing, to try what a lesser machine would say.
static std::vector<std::string> hidden_features() {
  const char* list = getenv("TILEWRIGHT_CPU_WITHOUT");
  std::vector<std::string> hidden;
  // By hand: streams would double the library.
  const std::string words = list ? list : "";
  for (size_t at = 0, end; at < words.size(); at = end + 1) {
    end = std::min(words.find(',', at), words.size());
    const std::string name = words.substr(at, end - at);
    if (ask(name) == kUnknown)
      fail("ValueError", "the environment variable TILEWRIGHT_CPU_WITHOUT must hold CPU features between commas, such as avx512f,fma, but it is"
           " `%s`, and `%s` is not a feature that is checked on this architecture; unset it to hide none", list, name.c_str());
    hidden.push_back(name);
  }
  return hidden;
}

// Unknown features cannot be asked for here and count as present.
std::vector<std::string> missing_features(const std::vector<std::string>& required) {
  const std::vector<std::string> hidden = hidden_features();
  std::vector<std::string> missing;
  for (std::string name : required) {
    if (name.empty() || name[0] == '-') continue;
    if (name[0] == '+') name.erase(0, 1);
    if (ask(name) == kMissing || std::find(hidden.begin(), hidden.end(), name) != hidden.end()) missing.push_back(name);
  }
  return missing;
}

static void register_cpu() {
  register_global("runtime.MissingCPUFeatures", [](Args args) {
    std::vector<std::string> names;
    for (int32_t i = 0; i < args.count; ++i) names.push_back(as_string(args[i]));
    std::vector<TVMFFIAny> missing;
    for (auto& name : missing_features(names)) missing.push_back(from_string(name));
    return from_object(&make<ArrayObject>(std::move(missing))->header);
  });
  register_global("runtime.EnableAMX", [](Args) { return from_string(enable_amx()); });
}
static const int cpu_registered = (register_cpu(), 0);

}  // namespace tw
