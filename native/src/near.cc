// Names that are near one that does not exist, for messages.
#include <algorithm>

#include "module.h"

namespace tw {
namespace {

// How many letters are to be changed, added, left out, or swapped with the next.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (!i || !j) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string>> found;
  for (auto& k : known)
    if (size_t n = distance(name, k); n <= 1 + name.size() / 8) found.emplace_back(n, k);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::string text;
  for (auto& n : found)
    if (n.first == found[0].first) text += (text.empty() ? "; did you mean `" : " or `") + n.second + "`";
  return text.empty() ? text : text + "?";
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
