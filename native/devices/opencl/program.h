// Programs of OpenCL, built from source for a device, and their kernels.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "device.h"

namespace tw {

struct Kernel {
  cl_kernel kernel = nullptr;
  const char* name = nullptr;  // which is kept until the process ends, as what follows
  const char* text = nullptr;  // for messages
  cl_uint parameters = 0;
  std::mutex lock;             // its arguments are set one by one
  ~Kernel();
};

struct Program {
  cl_program program = nullptr;
  std::vector<std::unique_ptr<Kernel>> kernels;
  ~Program();
};

// form: "opencl", source. Throws with the compiler's messages and the lines that they name.
std::unique_ptr<Program> build_program(OpenCLDevice& device, const std::string& form, const std::string& source);
Kernel* find_kernel(OpenCLDevice& device, Program& program, const std::string& name, const std::string& place);
// Arguments in the order of the kernel's parameters; behind them, where the kernel has one parameter more, local memory.
void launch_kernel(OpenCLDevice& device, const TWLaunch& launch, void* stream);

}  // namespace tw
