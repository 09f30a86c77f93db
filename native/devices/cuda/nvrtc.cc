#include "nvrtc.h"

#include <cstdio>
#include <cstdlib>

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
  int (*version)(int* major, int* minor) = nullptr;
  int (*architecture_count)(int* count) = nullptr;
  int (*architectures)(int* numbers) = nullptr;
  const char* (*error_string)(int code) = nullptr;
  Driver library;

  explicit Nvrtc(const std::vector<std::string>& names) : library(names) {
    if (!library)
      fail("RuntimeError", "CUDA source is compiled by NVRTC, which is not here: %s cannot be opened (%s). Install the package nvidia-cuda-nvrtc"
           " (or the toolkit of CUDA), or build the library where NVRTC is installed, so that it has PTX", kNames[0].c_str(), library.why().c_str());
    const bool complete = library.find("nvrtcCreateProgram", &create) && library.find("nvrtcCompileProgram", &compile) &&
                          library.find("nvrtcDestroyProgram", &destroy) && library.find("nvrtcGetProgramLogSize", &log_size) &&
                          library.find("nvrtcGetProgramLog", &log) && library.find("nvrtcGetCUBINSize", &cubin_size) &&
                          library.find("nvrtcGetCUBIN", &cubin) && library.find("nvrtcGetPTXSize", &ptx_size) && library.find("nvrtcGetPTX", &ptx) &&
                          library.find("nvrtcVersion", &version) && library.find("nvrtcGetNumSupportedArchs", &architecture_count) && library.find("nvrtcGetSupportedArchs", &architectures) &&
                          library.find("nvrtcGetErrorString", &error_string);
    if (!complete) fail("RuntimeError", "%s is older than NVRTC of CUDA 11.2; install a newer one (the package nvidia-cuda-nvrtc)", library.name().c_str());
  }
};

// Where the library may be beside the system's: in the toolkit that variables of the environment name.
std::vector<std::string> names_of_libraries(const std::string& known) {
  std::vector<std::string> names = kNames;
#if !defined(_WIN32)
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable)) names.push_back(std::string(folder) + "/lib64/libnvrtc.so");
  names.push_back("/usr/local/cuda/lib64/libnvrtc.so");
#endif
  if (!known.empty()) names.insert(names.begin(), known);
  return names;
}

// The folder of CUDA's headers, as toolkits and NVIDIA's packages have it near the library; empty where it is not there.
std::string header_folder(const Nvrtc& nvrtc) {
  for (const char* near : {"../include", "../../include", "../../cuda_runtime/include"}) {
    const std::string folder = nvrtc.library.folder() + near;
    if (FILE* file = std::fopen((folder + "/cuda_fp16.h").c_str(), "r")) {
      std::fclose(file);
      return folder;
    }
  }
  return "";
}

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
    opened = new Nvrtc(names_of_libraries(parts.empty() ? "" : parts[0]));
  }
  const Nvrtc& nvrtc = *opened;
  const int wanted = device.attribute(kComputeMajor) * 10 + device.attribute(kComputeMinor);
  int count = 0, newest = 0, major = 0, minor = 0;
  bool serves = false;
  nvrtc.version(&major, &minor);
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
  // Instructions that one architecture alone has, as those of matrix units from 9.0 on, have a name of their own.
  const char* own = wanted >= 90 && major >= 12 ? "a" : "";
  std::vector<std::string> options = {serves ? format("--gpu-architecture=sm_%d%s", wanted, own) : format("--gpu-architecture=compute_%d", newest), "--std=c++17"};
  for (size_t i = 1; i < parts.size(); ++i) options.push_back(parts[i]);
  const std::string headers = parts.size() > 1 ? "" : header_folder(nvrtc);
  if (!headers.empty()) options.push_back("--include-path=" + headers);
  std::vector<const char*> given;
  for (const std::string& option : options) given.push_back(option.c_str());
  if (const int code = nvrtc.compile(program.handle, static_cast<int>(given.size()), given.data())) {
    const std::string log = program.text(nvrtc.log_size, nvrtc.log);
    const bool lacks_headers = log.find("cannot open source file") != std::string::npos;
    fail("RuntimeError", "NVRTC cannot compile the kernels of %s: %s\n%s%s", device.text().c_str(), nvrtc.error_string(code), with_source(log, source).c_str(),
         lacks_headers ? "\nCUDA's headers are missing: install the package nvidia-cuda-runtime (or the toolkit of CUDA), or build the library where NVRTC is installed, so that it has PTX" : "");
  }
  return serves ? program.text(nvrtc.cubin_size, nvrtc.cubin) : program.text(nvrtc.ptx_size, nvrtc.ptx);
}

}  // namespace tw
