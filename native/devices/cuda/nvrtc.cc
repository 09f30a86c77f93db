#include "nvrtc.h"

#include "../common/source_lines.h"

namespace tw {
namespace {

#if defined(_WIN32)
const std::vector<std::string> kNames = {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"};
#else
const std::vector<std::string> kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
#endif

using nvrtcProgram = struct nvrtcProgramObject*;

struct Nvrtc {
  int (*create)(nvrtcProgram* program, const char* source, const char* name, int headers, const char* const* texts, const char* const* names) = nullptr;
  int (*compile)(nvrtcProgram program, int count, const char* const* options) = nullptr;
  int (*destroy)(nvrtcProgram* program) = nullptr;
  int (*log_size)(nvrtcProgram program, size_t* bytes) = nullptr;
  int (*log)(nvrtcProgram program, char* text) = nullptr;
  int (*cubin_size)(nvrtcProgram program, size_t* bytes) = nullptr;
  int (*cubin)(nvrtcProgram program, char* code) = nullptr;
  int (*ptx_size)(nvrtcProgram program, size_t* bytes) = nullptr;
  int (*ptx)(nvrtcProgram program, char* code) = nullptr;
  int (*architecture_count)(int* count) = nullptr;
  int (*architectures)(int* numbers) = nullptr;
  const char* (*error_string)(int code) = nullptr;
  Driver library;

  explicit Nvrtc(const std::vector<std::string>& names) : library(names) {
    if (!library)
      fail("RuntimeError", "CUDA source is compiled by NVRTC, which is not here: %s cannot be opened (%s). Install the package nvidia-cuda-nvrtc"
           " (or the toolkit of CUDA), or build for a target that makes ptx", kNames[0].c_str(), library.why().c_str());
    const bool complete = library.find("nvrtcCreateProgram", &create) && library.find("nvrtcCompileProgram", &compile) &&
                          library.find("nvrtcDestroyProgram", &destroy) && library.find("nvrtcGetProgramLogSize", &log_size) &&
                          library.find("nvrtcGetProgramLog", &log) && library.find("nvrtcGetCUBINSize", &cubin_size) &&
                          library.find("nvrtcGetCUBIN", &cubin) && library.find("nvrtcGetPTXSize", &ptx_size) && library.find("nvrtcGetPTX", &ptx) &&
                          library.find("nvrtcGetNumSupportedArchs", &architecture_count) && library.find("nvrtcGetSupportedArchs", &architectures) &&
                          library.find("nvrtcGetErrorString", &error_string);
    if (!complete) fail("RuntimeError", "%s is older than NVRTC of CUDA 11.2; install a newer one (the package nvidia-cuda-nvrtc)", library.name().c_str());
  }
};

// What the process knows of NVRTC: the path of the library, where it is not among the system's, and options, such as folders of headers.
std::vector<std::string> known_parts() {
  std::vector<std::string> parts;
  if (!tilewright::detail::find_global("runtime.cuda.nvrtc").get()) return parts;
  const auto found = tilewright::detail::call_global("runtime.cuda.nvrtc");
  if (found.any().type_index != kTVMFFIArray) return parts;
  auto* list = tilewright::detail::content<TVMFFISeqCell>(found.any().v_obj);
  for (int64_t i = 0; i < list->size; ++i) {
    TVMFFIByteArray bytes;
    if (tilewright::detail::bytes_of(static_cast<const TVMFFIAny*>(list->data)[i], &bytes)) parts.push_back(tilewright::detail::text(bytes));
  }
  return parts;
}

struct Program {
  const Nvrtc& nvrtc;
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle) nvrtc.destroy(&handle);
  }
  std::string text(int (*size)(nvrtcProgram, size_t*), int (*read)(nvrtcProgram, char*)) const {
    size_t n = 0;
    if (size(handle, &n) || n == 0) return "";
    std::string all(n, '\0');
    read(handle, &all[0]);
    return all;
  }
};

}  // namespace

std::string compile_cuda(const std::string& source, const CudaDevice& device) {
  std::vector<std::string> parts = known_parts();
  static std::mutex lock;
  static const Nvrtc* opened = nullptr;
  std::lock_guard<std::mutex> hold(lock);
  if (!opened) {
    std::vector<std::string> names = kNames;
    if (!parts.empty() && !parts[0].empty()) names.insert(names.begin(), parts[0]);
    opened = new Nvrtc(names);
  }
  const Nvrtc& nvrtc = *opened;
  const int wanted = device.attribute(kComputeMajor) * 10 + device.attribute(kComputeMinor);
  int count = 0, newest = 0;
  bool serves = false;
  nvrtc.architecture_count(&count);
  std::vector<int> known(static_cast<size_t>(count));
  if (count) nvrtc.architectures(known.data());
  for (const int number : known) {
    serves |= number == wanted;
    if (number <= wanted && number > newest) newest = number;
  }
  if (!serves && !newest) fail("RuntimeError", "%s compiles for no device of compute capability %d.%d, such as %s", nvrtc.library.name().c_str(), wanted / 10, wanted % 10, device.text().c_str());
  Program program{nvrtc};
  if (const int code = nvrtc.create(&program.handle, source.c_str(), "kernels.cu", 0, nullptr, nullptr)) fail("RuntimeError", "NVRTC makes no program: %s", nvrtc.error_string(code));
  std::vector<std::string> options = {serves ? format("--gpu-architecture=sm_%d", wanted) : format("--gpu-architecture=compute_%d", newest), "--std=c++17"};
  for (size_t i = 1; i < parts.size(); ++i) options.push_back(parts[i]);
  std::vector<const char*> given;
  for (const std::string& option : options) given.push_back(option.c_str());
  if (const int code = nvrtc.compile(program.handle, static_cast<int>(given.size()), given.data()))
    fail("RuntimeError", "NVRTC cannot compile the kernels of %s: %s\n%s", device.text().c_str(), nvrtc.error_string(code), with_source(program.text(nvrtc.log_size, nvrtc.log), source).c_str());
  return serves ? program.text(nvrtc.cubin_size, nvrtc.cubin) : program.text(nvrtc.ptx_size, nvrtc.ptx);
}

}  // namespace tw
