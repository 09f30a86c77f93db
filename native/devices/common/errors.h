// Errors of libraries of devices, and the words in them.
#pragma once
#include <tilewright/base.h>

#include <string>

namespace tw {

using tilewright::Error;
using tilewright::detail::guarded;

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void fail(const char* kind, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

std::string dtype_text(DLDataType type);
std::string tensor_text(const DLTensor& t);  // "a tensor of shape (2, 3) and dtype float32"
std::string bytes_text(uint64_t bytes);      // "1048576 bytes (1.0 MiB)"
// A text that is kept until the process ends.
const char* kept(const std::string& text);
// A kernel for a message: its name, and where it comes from, "file:line", if that is known.
std::string kernel_text(const std::string& name, const std::string& place);
// A launch for a message: its extents, its shared memory and its arguments, in lines of their own.
std::string launch_text(const TWLaunch& launch);

}  // namespace tw
