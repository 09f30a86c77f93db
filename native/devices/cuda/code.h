// Code on a device of CUDA, and its kernels.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "device.h"

namespace tw {

struct CudaKernel {
  CUfunction function;
  const char* name;         // which is kept until the process ends, as what follows
  const char* text;         // for messages
  size_t declared_shared;   // bytes
  size_t allowed_shared;    // bytes of dynamic shared memory that it may be launched with
};

struct CudaCode {
  CUmodule module = nullptr;
  std::vector<std::unique_ptr<CudaKernel>> kernels;
};

// form: "ptx", "cubin", "fatbin", or "cuda": source, which NVRTC compiles.
std::unique_ptr<CudaCode> load_code(CudaDevice& device, const std::string& form, std::string data);
CudaKernel* find_kernel(CudaDevice& device, CudaCode& code, const std::string& name, const std::string& place);
void launch_kernel(CudaDevice& device, const TWLaunch& launch, CUstream stream);

}  // namespace tw
