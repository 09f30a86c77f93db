// An NVRTC that makes PTX for the fake driver: each `extern "C" __global__ void NAME(` is a kernel, and a line with #error is one.
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {
struct Program {
  std::string source, log, code, options;
};
const std::string kKernel = "extern \"C\" __global__ void ", kBounds = "__launch_bounds__(";

std::string compiled(const Program& p) {
  std::string code = ".version 8.0\n.target " + p.options + "\n";
  for (size_t at = p.source.find(kKernel); at != std::string::npos; at = p.source.find(kKernel, at + 1)) {
    size_t from = at + kKernel.size();
    if (p.source.compare(from, kBounds.size(), kBounds) == 0) from = p.source.find(") ", from) + 2;
    code += ".entry " + p.source.substr(from, p.source.find('(', from) - from) + "()\n";
  }
  return code;
}
// Whether a folder among the options has a file.
bool has_header(const Program& p, const std::string& name) {
  const std::string option = "--include-path=";
  for (size_t at = p.options.find(option); at != std::string::npos; at = p.options.find(option, at + 1)) {
    const size_t from = at + option.size();
    if (std::ifstream(p.options.substr(from, p.options.find(' ', from) - from) + "/" + name)) return true;
  }
  return false;
}
}  // namespace

FAKE int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
  return *program = new Program{source, "", "", ""}, 0;
}
FAKE int nvrtcDestroyProgram(Program** program) { return delete *program, *program = nullptr, 0; }
FAKE int nvrtcCompileProgram(Program* p, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option.rfind("--gpu-architecture=", 0) && option.rfind("--std=", 0) && option.rfind("-I", 0) && option.rfind("--include-path=", 0)) return p->log = "nvrtc: error: unrecognized option " + option, 5;
    p->options += (i ? " " : "") + option;
  }
  const size_t header = p->source.find("#include <");
  if (header != std::string::npos && !has_header(*p, p->source.substr(header + 10, p->source.find('>', header) - header - 10)))
    return p->log = "kernels.cu(1): catastrophic error: cannot open source file \"cuda_fp16.h\"\n", 6;
  const size_t error = p->source.find("#error");
  if (error == std::string::npos) return p->code = compiled(*p), 0;
  size_t line = 1;
  for (size_t i = 0; i < error; ++i) line += p->source[i] == '\n';
  p->log = "kernels.cu(" + std::to_string(line) + "): catastrophic error: #error directive\n";
  return 6;
}
FAKE int nvrtcGetProgramLogSize(Program* p, size_t* bytes) { return *bytes = p->log.size() + 1, 0; }
FAKE int nvrtcGetProgramLog(Program* p, char* text) { return memcpy(text, p->log.c_str(), p->log.size() + 1), 0; }
FAKE int nvrtcGetCUBINSize(Program* p, size_t* bytes) { return *bytes = p->code.size() + 1, 0; }
FAKE int nvrtcGetCUBIN(Program* p, char* code) { return memcpy(code, p->code.c_str(), p->code.size() + 1), 0; }
FAKE int nvrtcGetPTXSize(Program* p, size_t* bytes) { return nvrtcGetCUBINSize(p, bytes); }
FAKE int nvrtcGetPTX(Program* p, char* code) { return nvrtcGetCUBIN(p, code); }
FAKE int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 4, 0; }
FAKE int nvrtcGetNumSupportedArchs(int* count) { return *count = 3, 0; }
FAKE int nvrtcGetSupportedArchs(int* numbers) { return numbers[0] = 70, numbers[1] = 80, numbers[2] = 90, 0; }
FAKE const char* nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INTERNAL_ERROR"; }
