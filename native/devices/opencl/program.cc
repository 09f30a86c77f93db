#include "program.h"

#include <algorithm>

#include "../common/source_lines.h"

namespace tw {
namespace {

std::string build_log(const OpenCLDevice& device, cl_program program) {
  size_t bytes = 0;
  if (cl().build_info(program, device.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string log(bytes, '\0');
  cl().build_info(program, device.device, CL_PROGRAM_BUILD_LOG, bytes, &log[0], nullptr);
  log.resize(strnlen(log.c_str(), bytes));
  return log;
}

void set_args(OpenCLDevice& device, const Kernel& kernel, const TWLaunch& l) {
  const auto given = static_cast<cl_uint>(l.num_args);
  const bool has_local = kernel.parameters == given + 1;
  if (!has_local && (kernel.parameters != given || l.shared_bytes))
    fail("ValueError", "the kernel `%s` has %u parameters in its source, but a launch gives it %u arguments%s", kernel.name, kernel.parameters, given,
         l.shared_bytes ? " and a pointer to local memory" : "");
  for (cl_uint i = 0; i < given; ++i) {
    const DLDataType type = l.types[i];
    const cl_int code = type.code == kDLOpaque ? device.memory->set_arg(kernel.kernel, i, *static_cast<void**>(l.args[i]), format("argument %u of the kernel `%s`", i, kernel.name).c_str())
                                               : cl().set_arg(kernel.kernel, i, (size_t{type.bits} * type.lanes + 7) / 8, l.args[i]);
    if (code) fail("ValueError", "argument %u of the kernel `%s`, a %s, does not fit its parameter in the source: %s", i, kernel.name, dtype_text(type).c_str(), code_text(code).c_str());
  }
  if (has_local) check(cl().set_arg(kernel.kernel, given, std::max<size_t>(l.shared_bytes, 1), nullptr), "give a kernel local memory on", device);
}

}  // namespace

Kernel::~Kernel() {
  if (kernel) cl().release_kernel(kernel);
}
Program::~Program() {
  kernels.clear();
  if (program) cl().release_program(program);
}

std::unique_ptr<Program> build_program(OpenCLDevice& device, const std::string& form, const std::string& source) {
  if (form != "opencl" && form != "cl") fail("ValueError", "%s loads code in the form opencl, not %s", device.text().c_str(), form.c_str());
  auto made = std::make_unique<Program>();
  const char* text = source.data();
  const size_t bytes = source.size();
  cl_int code = CL_SUCCESS;
  made->program = cl().create_program(device.context, 1, &text, &bytes, &code);
  check(code, "make a program on", device);
  code = cl().build(made->program, 1, &device.device, "", nullptr, nullptr);
  if (code == CL_SUCCESS) return made;
  fail("RuntimeError", "%s (%s) cannot build the kernels: %s\n%s", device.text().c_str(), device.name.c_str(), code_text(code).c_str(),
       with_source(build_log(device, made->program), source).c_str());
}

Kernel* find_kernel(OpenCLDevice& device, Program& program, const std::string& name, const std::string& place) {
  auto made = std::make_unique<Kernel>();
  cl_int code = CL_SUCCESS;
  made->name = kept(name);
  made->text = kept(kernel_text(name, place));
  made->kernel = cl().create_kernel(program.program, name.c_str(), &code);
  if (code == CL_INVALID_KERNEL_NAME) fail("ValueError", "the code on %s has no kernel `%s`", device.text().c_str(), name.c_str());
  check(code, "find a kernel on", device);
  check(cl().kernel_info(made->kernel, CL_KERNEL_NUM_ARGS, sizeof made->parameters, &made->parameters, nullptr), "ask for the parameters of a kernel on", device);
  program.kernels.push_back(std::move(made));
  return program.kernels.back().get();
}

void launch_kernel(OpenCLDevice& device, const TWLaunch& l, void* stream) {
  auto& kernel = *static_cast<Kernel*>(l.kernel);
  if (l.cooperative) fail("ValueError", "the blocks of the kernel `%s` wait for each other, but OpenCL has no cooperative launches", kernel.name);
  const size_t group[] = {l.block[0], l.block[1], l.block[2]};
  const size_t all[] = {size_t{l.grid[0]} * group[0], size_t{l.grid[1]} * group[1], size_t{l.grid[2]} * group[2]};
  std::lock_guard<std::mutex> hold(kernel.lock);
  set_args(device, kernel, l);
  const cl_int code = cl().launch(device.queue(stream), kernel.kernel, 3, nullptr, all, group, 0, nullptr, nullptr);
  if (code == CL_SUCCESS) {
    device.last_kernel = kernel.text;
    return;
  }
  size_t most = 0;
  cl_ulong local = 0;
  cl().kernel_on(kernel.kernel, device.device, CL_KERNEL_GROUP_SIZE, sizeof most, &most, nullptr);
  cl().kernel_on(kernel.kernel, device.device, CL_KERNEL_LOCAL_MEMORY, sizeof local, &local, nullptr);
  fail("RuntimeError", "the kernel %s cannot be launched on %s: %s\n%s\na block has at most %zu threads on this device, and %zu of this kernel; it uses %s of local memory, of %s",
       kernel.text, device.text().c_str(), code_text(code).c_str(), launch_text(l).c_str(), device.number_of<size_t>(CL_DEVICE_GROUP_SIZE), most,
       bytes_text(local).c_str(), bytes_text(device.number_of<cl_ulong>(CL_DEVICE_LOCAL_MEMORY)).c_str());
}

}  // namespace tw
