// LOG, CHECK and ICHECK. What fails throws tvm::runtime::Error; a message that begins with a kind, such as "ValueError: ", is an error of it.
#ifndef TVM_RUNTIME_LOGGING_H_
#define TVM_RUNTIME_LOGGING_H_

#include <cstdio>
#include <ctime>
#include <sstream>
#include <string>

#include "../../tilewright/base.h"

namespace tvm {
namespace runtime {

using Error = ::tilewright::Error;

// What a failed check or LOG(FATAL) throws: an Error of the kind InternalError, or of the one that its message begins with.
class InternalError : public Error {
 public:
  InternalError(const std::string& check, const std::string& message, const char* file, int line)
      : InternalError(check, Error(message), file, line) {}

 private:
  InternalError(const std::string& check, const Error& said, const char* file, int line)
      : Error(said.kind(), check + said.what(), "  File \"" + std::string(file) + "\", line " + std::to_string(line) + ", in C++\n") {}
};

namespace detail {

// Throws at the end of the statement.
class LogFatal {
 public:
  LogFatal(const char* file, int line, std::string check = "") : file_(file), line_(line), check_(std::move(check)) {}
  [[noreturn]] ~LogFatal() noexcept(false) { throw InternalError(check_, stream_.str(), file_, line_); }
  std::ostringstream& stream() { return stream_; }

 private:
  const char* file_;
  int line_;
  std::string check_;
  std::ostringstream stream_;
};

// Writes one line to the standard error output.
class LogMessage {
 public:
  LogMessage(const char* file, int line, const char* level) {
    char clock[9] = "00:00:00";
    const std::time_t now = std::time(nullptr);
    if (const std::tm* local = std::localtime(&now)) std::strftime(clock, sizeof clock, "%H:%M:%S", local);
    stream_ << '[' << clock << "] " << file << ':' << line << ": " << level;
  }
  ~LogMessage() {
    stream_ << '\n';
    const std::string text = stream_.str();
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  std::ostringstream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

struct LogMessageVoidify {
  void operator&(std::ostream&) {}
};

// Both sides of a comparison that failed; empty where it holds.
#define TVM_CHECK_FUNC(name, op)                                    \
  template <typename X, typename Y>                                 \
  std::string LogCheck##name(const X& x, const Y& y) {              \
    if (x op y) return std::string();                               \
    std::ostringstream text;                                        \
    text << " (" << x << " vs. " << y << ") ";                      \
    return text.str();                                              \
  }
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#endif
TVM_CHECK_FUNC(_LT, <)
TVM_CHECK_FUNC(_GT, >)
TVM_CHECK_FUNC(_LE, <=)
TVM_CHECK_FUNC(_GE, >=)
TVM_CHECK_FUNC(_EQ, ==)
TVM_CHECK_FUNC(_NE, !=)
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#undef TVM_CHECK_FUNC

}  // namespace detail
}  // namespace runtime

using runtime::Error;
using runtime::InternalError;
}  // namespace tvm

#define LOG(level) LOG_##level
#define LOG_DEBUG ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "Debug: ").stream()
#define LOG_INFO ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "").stream()
#define LOG_WARNING ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "Warning: ").stream()
#define LOG_ERROR ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "Error: ").stream()
#define LOG_FATAL ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__).stream()
#define LOG_IF(severity, condition) !(condition) ? (void)0 : ::tvm::runtime::detail::LogMessageVoidify() & LOG(severity)

#define ICHECK(x)                                                                                                      \
  if (!(x)) ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__, "Check failed: (" #x ") is false: ").stream()
#define TVM_ICHECK_BINARY(name, op, x, y)                                                                              \
  if (auto __tvm__log__err = ::tvm::runtime::detail::LogCheck##name(x, y); !__tvm__log__err.empty())                   \
  ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__, "Check failed: " #x " " #op " " #y + __tvm__log__err + ": ").stream()
#define ICHECK_LT(x, y) TVM_ICHECK_BINARY(_LT, <, x, y)
#define ICHECK_GT(x, y) TVM_ICHECK_BINARY(_GT, >, x, y)
#define ICHECK_LE(x, y) TVM_ICHECK_BINARY(_LE, <=, x, y)
#define ICHECK_GE(x, y) TVM_ICHECK_BINARY(_GE, >=, x, y)
#define ICHECK_EQ(x, y) TVM_ICHECK_BINARY(_EQ, ==, x, y)
#define ICHECK_NE(x, y) TVM_ICHECK_BINARY(_NE, !=, x, y)
#define ICHECK_NOTNULL(x)                                                                                              \
  ((x) == nullptr ? (::tvm::runtime::detail::LogFatal(__FILE__, __LINE__, "Check not null: " #x " ").stream(), (x)) : (x))

#define CHECK(x) ICHECK(x)
#define CHECK_LT(x, y) ICHECK_LT(x, y)
#define CHECK_GT(x, y) ICHECK_GT(x, y)
#define CHECK_LE(x, y) ICHECK_LE(x, y)
#define CHECK_GE(x, y) ICHECK_GE(x, y)
#define CHECK_EQ(x, y) ICHECK_EQ(x, y)
#define CHECK_NE(x, y) ICHECK_NE(x, y)
#define CHECK_NOTNULL(x) ICHECK_NOTNULL(x)

#ifdef NDEBUG
#define TVM_LOG_DEBUG 0
#else
#define TVM_LOG_DEBUG 1
#endif
#define DLOG(level) LOG_IF(level, TVM_LOG_DEBUG)
#define DCHECK(x) while (TVM_LOG_DEBUG && !(x)) ICHECK(x)
#define DCHECK_LT(x, y) DCHECK((x) < (y))
#define DCHECK_GT(x, y) DCHECK((x) > (y))
#define DCHECK_LE(x, y) DCHECK((x) <= (y))
#define DCHECK_GE(x, y) DCHECK((x) >= (y))
#define DCHECK_EQ(x, y) DCHECK((x) == (y))
#define DCHECK_NE(x, y) DCHECK((x) != (y))
// Not written: this runtime has no levels of verbosity.
#define VLOG(level) LOG_IF(DEBUG, false && (level))

#endif
