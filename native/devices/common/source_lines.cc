#include "source_lines.h"

#include <cctype>
#include <set>
#include <vector>

#include "errors.h"

namespace tw {
namespace {

constexpr size_t kLogBytes = 4000, kShown = 3, kAround = 1;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

size_t number_at(const std::string& line, size_t at) {
  size_t n = 0;
  for (; at < line.size() && isdigit(static_cast<unsigned char>(line[at])) && n < 100000000; ++at) n = n * 10 + static_cast<size_t>(line[at] - '0');
  return n;
}

// The line of source that a message is about: "file:12:5: error: ..." of Clang, "file(12): error: ..." of NVRTC, "line 12; error" of ptxas;
// 0 where it names none.
size_t named_line(const std::string& message) {
  if (message.find("error") == std::string::npos) return 0;
  for (const char* before : {":", "(", "line "})
    for (size_t at = message.find(before); at != std::string::npos; at = message.find(before, at + 1)) {
      const size_t from = at + std::string(before).size(), n = number_at(message, from);
      const size_t end = from + std::to_string(n).size();
      if (n && end < message.size() && (message[end] == ':' || message[end] == ')' || message[end] == ';')) return n;
    }
  return 0;
}

}  // namespace

std::string with_source(const std::string& log, const std::string& source) {
  const std::vector<std::string> lines = lines_of(source);
  std::set<size_t> named;
  for (const std::string& message : lines_of(log)) {
    const size_t n = named_line(message);
    if (n && n <= lines.size() && named.size() < kShown) named.insert(n);
  }
  std::set<size_t> shown;
  for (const size_t n : named)
    for (size_t i = n > kAround ? n - kAround : 1; i <= n + kAround && i <= lines.size(); ++i) shown.insert(i);
  std::string text = log.size() > kLogBytes ? log.substr(0, kLogBytes) + "\n..." : log;
  while (!text.empty() && (isspace(static_cast<unsigned char>(text.back())) || text.back() == '\0')) text.pop_back();
  size_t last = 0;
  for (const size_t n : shown) {
    text += last && n > last + 1 ? "\n     ...\n" : "\n";
    text += format("%c%4zu | %s", named.count(n) ? '>' : ' ', n, lines[n - 1].c_str());
    last = n;
  }
  return text;
}

}  // namespace tw
