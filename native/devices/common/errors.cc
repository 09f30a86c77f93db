#include "errors.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>

namespace tw {
namespace {

std::string formatted(const char* pattern, va_list args) {
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(nullptr, 0, pattern, args);
  std::string text(n > 0 ? static_cast<size_t>(n) : 0, '\0');
  vsnprintf(&text[0], text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string value_text(DLDataType type, const void* at) {
  const std::string name = dtype_text(type);
  float narrow;
  double wide;
  memcpy(&narrow, at, sizeof narrow);
  memcpy(&wide, at, sizeof wide);
  if (type.code == kDLOpaque) return format("address %p", *static_cast<void* const*>(at));
  if (type.code == kDLFloat) return format("%s %g", name.c_str(), type.bits == 32 ? static_cast<double>(narrow) : wide);
  int64_t number = 0;
  memcpy(&number, at, type.bits < 64 ? static_cast<size_t>(type.bits + 7) / 8 : 8);
  if (type.code == kDLInt && type.bits < 64) number = static_cast<int64_t>(static_cast<uint64_t>(number) << (64 - type.bits)) >> (64 - type.bits);
  return format("%s %" PRId64, name.c_str(), number);
}

}  // namespace

std::string format(const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  std::string text = formatted(pattern, args);
  va_end(args);
  return text;
}
void fail(const char* kind, const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  const std::string text = formatted(pattern, args);
  va_end(args);
  throw Error(kind, text);
}

std::string dtype_text(DLDataType type) {
  static const char* const names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  if (type.code == kDLOpaque) return "handle";
  std::string text = type.code < sizeof names / sizeof *names ? names[type.code] : format("code%d_", type.code);
  if (type.code != kDLBool) text += std::to_string(type.bits);
  return type.lanes == 1 ? text : text + "x" + std::to_string(type.lanes);
}
std::string tensor_text(const DLTensor& t) {
  std::string shape;
  for (int32_t i = 0; i < t.ndim; ++i) shape += (i ? ", " : "") + std::to_string(t.shape[i]);
  return "a tensor of shape (" + shape + (t.ndim == 1 ? ",)" : ")") + " and dtype " + dtype_text(t.dtype);
}
std::string bytes_text(uint64_t bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  int unit = -1;
  while (amount >= 1024 && unit < 3) {
    amount /= 1024;
    ++unit;
  }
  const std::string exact = format("%" PRIu64 " bytes", bytes);
  return unit < 0 ? exact : exact + format(" (%.1f %s)", amount, units[unit]);
}
const char* kept(const std::string& text) {
  static std::mutex lock;
  static auto* texts = new std::set<std::string>;
  std::lock_guard<std::mutex> hold(lock);
  return texts->insert(text).first->c_str();
}
std::string kernel_text(const std::string& name, const std::string& place) { return "`" + name + "`" + (place.empty() ? "" : " (" + place + ")"); }
std::string launch_text(const TWLaunch& l) {
  std::string text = format("blocks (%u, %u, %u), threads of a block (%u, %u, %u), %zu bytes of dynamic shared memory", l.grid[0], l.grid[1],
                            l.grid[2], l.block[0], l.block[1], l.block[2], l.shared_bytes);
  for (int32_t i = 0; i < l.num_args; ++i) text += (i ? ", " : "\narguments: ") + value_text(l.types[i], l.args[i]);
  return text;
}

}  // namespace tw
