#include "code.h"

#include "../common/source_lines.h"
#include "nvrtc.h"
#include "tensor_maps.h"

namespace tw {
namespace {

constexpr size_t kOpenShared = 48 << 10;  // what each kernel may have; more is asked for
constexpr size_t kLogBytes = 16 << 10;

int attribute_of(const CudaKernel& kernel, int which) {
  int value = 0;
  return cuda().function_attribute(&value, which, kernel.function) == CUDA_SUCCESS ? value : 0;
}

std::string machine_text(const CudaDevice& device) {
  return format("%s (%s, compute capability %d.%d)", device.text().c_str(), device.name.c_str(), device.attribute(kComputeMajor), device.attribute(kComputeMinor));
}

// What to do where code and driver, or code and device, do not belong together.
std::string remedy(CUresult code, const CudaDevice& device) {
  const int version = cuda().version;
  if (code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return format("; it is of a newer CUDA than the driver's, which is %d.%d: install a newer driver, or build with NVRTC of that version", version / 1000, version % 1000 / 10);
  if (code == CUDA_ERROR_NO_BINARY_FOR_GPU) return format("; it is for other devices: build for -arch=sm_%d%d", device.attribute(kComputeMajor), device.attribute(kComputeMinor));
  return "";
}

// Allows a kernel more shared memory than each has.
void allow_shared(const CudaDevice& device, CudaKernel& kernel, size_t bytes) {
  if (bytes <= kernel.allowed_shared) return;
  const auto most = static_cast<size_t>(device.attribute(kMaxSharedOptIn));
  if (most && bytes + kernel.declared_shared > most)
    fail("ValueError", "the kernel `%s` asks for %zu bytes of shared memory for each block, and %s has %zu; use smaller tiles", kernel.name, bytes + kernel.declared_shared,
         device.text().c_str(), most);
  check(cuda().set_function_attribute(kernel.function, kFunctionMaxDynamicShared, static_cast<int>(bytes)), "allow a kernel more shared memory on", device);
  kernel.allowed_shared = bytes;
}

}  // namespace

std::unique_ptr<CudaCode> load_code(CudaDevice& device, const std::string& form, std::string data) {
  const bool is_text = form == "ptx";
  if (form == "cuda") data = compile_cuda(data, device);
  else if (!is_text && form != "cubin" && form != "fatbin") fail("ValueError", "%s loads code in the forms ptx, cubin, fatbin and cuda, not %s", device.text().c_str(), form.c_str());
  std::string log(kLogBytes, '\0');
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {&log[0], reinterpret_cast<void*>(log.size())};
  auto code = std::make_unique<CudaCode>();
  const CUresult result = cuda().load_module(&code->module, data.c_str(), 2, options, values);
  if (result == CUDA_SUCCESS) return code;
  log.resize(strnlen(log.c_str(), log.size()));
  const std::string said = log.empty() ? "" : "\n" + (is_text ? with_source(log, data) : log);
  fail("RuntimeError", "%s cannot load %s code: %s%s%s%s", machine_text(device).c_str(), form.c_str(), code_text(result).c_str(), remedy(result, device).c_str(),
       fault_text(result, device).c_str(), said.c_str());
}

CudaKernel* find_kernel(CudaDevice& device, CudaCode& code, const std::string& name, const std::string& place) {
  auto kernel = std::make_unique<CudaKernel>(CudaKernel{nullptr, kept(name), kept(kernel_text(name, place)), 0, 0});
  const CUresult result = cuda().find_function(&kernel->function, code.module, name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) fail("ValueError", "the code on %s has no kernel `%s`; in CUDA source it must be declared extern \"C\" __global__", device.text().c_str(), name.c_str());
  check(result, "find a kernel on", device);
  kernel->declared_shared = static_cast<size_t>(attribute_of(*kernel, kFunctionShared));
  kernel->allowed_shared = kernel->declared_shared < kOpenShared ? kOpenShared - kernel->declared_shared : 0;
  code.kernels.push_back(std::move(kernel));
  return code.kernels.back().get();
}

void launch_kernel(CudaDevice& device, const TWLaunch& l, CUstream stream) {
  auto& kernel = *static_cast<CudaKernel*>(l.kernel);
  allow_shared(device, kernel, l.shared_bytes);
  if (l.cooperative && !(cuda().launch_cooperative && device.attribute(kCooperativeLaunch)))
    fail("ValueError", "the blocks of the kernel `%s` wait for each other, but %s or its driver has no cooperative launches", kernel.name, device.text().c_str());
  const auto shared = static_cast<unsigned>(l.shared_bytes);
  const KernelArgs args(device, l);
  const unsigned *g = l.grid, *b = l.block;
  const CUresult code = l.cooperative ? cuda().launch_cooperative(kernel.function, g[0], g[1], g[2], b[0], b[1], b[2], shared, stream, args.get())
                                      : cuda().launch(kernel.function, g[0], g[1], g[2], b[0], b[1], b[2], shared, stream, args.get(), nullptr);
  if (code == CUDA_SUCCESS) {
    device.last_kernel = kernel.text;
    return;
  }
  const std::string limits = format("a block has at most %d threads on this device, and %d of this kernel, whose threads use %d registers",
                                    device.attribute(kMaxThreadsPerBlock), attribute_of(kernel, kFunctionMaxThreads), attribute_of(kernel, kFunctionRegisters));
  fail("RuntimeError", "the kernel %s cannot be launched on %s: %s%s\n%s\n%s", kernel.text, device.text().c_str(), code_text(code).c_str(),
       fault_text(code, device).c_str(), launch_text(l).c_str(), limits.c_str());
}

}  // namespace tw
