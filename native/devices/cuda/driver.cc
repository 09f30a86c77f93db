#include "driver.h"

namespace tw {
namespace {

#if defined(_WIN32)
const std::vector<std::string> kNames = {"nvcuda.dll"};
#else
const std::vector<std::string> kNames = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};
#endif

}  // namespace

Cuda::Cuda() : library(kNames) {
  if (!library)
    fail("RuntimeError", "there is no CUDA driver: %s cannot be opened (%s). Install the driver of the GPU, which contains this file, put its folder into %s, or"
         " use another device, such as cpu(0)", kNames[0].c_str(), library.why().c_str(), kNames.size() > 1 ? "LD_LIBRARY_PATH" : "PATH");
#define TW_FIND(field, symbol, parameters)                                                                                                        \
  if (!library.find(#symbol, &field))                                                                                                             \
    fail("RuntimeError", "the CUDA driver %s has no function `%s`: it is older than CUDA 11.0; install a newer driver", library.name().c_str(), #symbol);
  TW_CUDA_FUNCTIONS(TW_FIND)
#undef TW_FIND
#define TW_TRY(field, symbol, parameters) library.find(#symbol, &field);
  TW_CUDA_NEWER_FUNCTIONS(TW_TRY)
#undef TW_TRY
  CUresult code = init(0);
  if (code == CUDA_SUCCESS) code = driver_version(&version);
  if (code == CUDA_SUCCESS) code = device_count(&count);
  if (code == CUDA_SUCCESS || code == CUDA_ERROR_NO_DEVICE) return;
  const char *name = "an unknown error", *text = "";
  error_name(code, &name);
  error_string(code, &text);
  fail("RuntimeError", "the CUDA driver %s does not start: %s (%s)", library.name().c_str(), name, text);
}

const Cuda& cuda() {
  static const Cuda* driver = new Cuda;  // arrays may be freed as late as at the end of the process
  return *driver;
}

std::string code_text(CUresult code) {
  const char *name = nullptr, *text = nullptr;
  if (cuda().error_name(code, &name) || !name) return format("CUDA error %d", code);
  return cuda().error_string(code, &text) || !text ? name : format("%s (%s)", name, text);
}

bool is_fatal(CUresult code) {
  return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
         (code >= CUDA_ERROR_CONTEXT_IS_DESTROYED && code <= CUDA_ERROR_ASSERT) ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace tw
