// Checks of the programs of this folder: what does not hold is told on the standard error output and counted.
#pragma once
#include <tvm/runtime/logging.h>

#include <cstdio>
#include <string>

#define EXPECT(x)                                                                   \
  do {                                                                              \
    if (!(x)) std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), ++failed; \
  } while (0)
static int failed = 0;

template <typename F>
static std::string error_of(F&& body) {
  try {
    body();
  } catch (const tvm::Error& e) {
    return e.kind() + ": " + e.what();
  }
  return "nothing";
}
inline void expect_error(const std::string& found, const std::string& wanted) {
  if (found != wanted) std::fprintf(stderr, "expected %s\nbut got  %s\n", wanted.c_str(), found.c_str()), ++failed;
}
