// Names that are near one that does not exist, for messages.
#include "module.h"

namespace tw {
namespace {

// How many letters are to be changed, added, left out, or swapped with the next.
size_t distance(const std::string& a, const std::string& b) {
  size_t row = b.size() + 1;
  std::vector<size_t> d((a.size() + 1) * row);
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t* at = &d[i * row + j];
      if (!i || !j) {
        *at = i + j;
        continue;
      }
      *at = *(at - row - 1) + (a[i - 1] != b[j - 1]);
      if (size_t n = *(at - row) + 1; n < *at) *at = n;
      if (size_t n = at[-1] + 1; n < *at) *at = n;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && *(at - 2 * row - 2) + 1 < *at) *at = *(at - 2 * row - 2) + 1;
    }
  return d.back();
}

// The nearest names, in alphabetical order. To sort them by the library would take more code than all of this.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  size_t least = 1 + name.size() / 8;
  std::vector<size_t> distances;
  for (auto& k : known) {
    distances.push_back(distance(name, k));
    if (distances.back() < least) least = distances.back();
  }
  std::string text;
  const std::string* last = nullptr;
  while (true) {
    const std::string* next = nullptr;
    for (size_t i = 0; i < known.size(); ++i)
      if (distances[i] == least && (!last || *last < known[i]) && (!next || known[i] < *next)) next = &known[i];
    if (!next) return text.empty() ? text : text + "?";
    text += (last ? " or `" : "; did you mean `") + *next + "`";
    last = next;
  }
}

const int near_registered = [] {
  // (module, name), or (None, name) for global functions: "; did you mean ...?", or nothing
  register_global("runtime.NearFunctions", [](Args args) {
    std::vector<std::string> known;
    if (args[0].type_index != kTVMFFINone) {
      known = as_module(args[0])->impl->function_names();
    } else {
      TVMFFIAny all = call(get_global("ffi.FunctionListGlobalNames").get(), nullptr, 0);
      auto* cell = reinterpret_cast<TVMFFISeqCell*>(all.v_obj + 1);
      for (int64_t i = 0; i < cell->size; ++i) known.push_back(as_string(static_cast<TVMFFIAny*>(cell->data)[i]));
      destroy(all);
    }
    return from_string(did_you_mean(as_string(args[1]), known));
  });
  return 0;
}();

}  // namespace
}  // namespace tw
