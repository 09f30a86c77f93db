#include "device.h"

namespace tw {
namespace {

std::mutex devices_lock;
std::vector<std::unique_ptr<CudaDevice>>& devices() {
  static auto* all = new std::vector<std::unique_ptr<CudaDevice>>(static_cast<size_t>(cuda().count));
  return *all;
}

std::string found_text() {
  const int n = cuda().count;
  return n == 0 ? "its driver finds no GPU" : n == 1 ? "its driver finds one GPU, cuda(0)" : format("its driver finds %d GPUs, cuda(0) to cuda(%d)", n, n - 1);
}

}  // namespace

CudaDevice::CudaDevice(int n) : number(n), memory(*this) {
  char text[256] = "";
  check(cuda().device_get(&device, n), "open", *this);
  if (cuda().device_name(text, sizeof text, device) == CUDA_SUCCESS) name = text;
  check(cuda().retain_primary(&context, device), "make a context on", *this);
}

int CudaDevice::attribute(int which) const {
  int value = 0;
  return cuda().device_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

CudaDevice& cuda_device(DLDevice d) {
  if (d.device_id < 0 || d.device_id >= cuda().count) fail("ValueError", "there is no device cuda(%d): %s", d.device_id, found_text().c_str());
  std::lock_guard<std::mutex> hold(devices_lock);
  auto& slot = devices()[static_cast<size_t>(d.device_id)];
  if (!slot) slot = std::make_unique<CudaDevice>(d.device_id);
  return *slot;
}

std::vector<CudaDevice*> used_devices() {
  std::lock_guard<std::mutex> hold(devices_lock);
  std::vector<CudaDevice*> used;
  for (auto& d : devices())
    if (d) used.push_back(d.get());
  return used;
}

Current::Current(const CudaDevice& device) {
  CUcontext now = nullptr;
  cuda().current_context(&now);
  if (now == device.context) return;
  check(cuda().push_context(device.context), "use the context of", device);
  pushed_ = true;
}
Current::~Current() {
  CUcontext popped;
  if (pushed_) cuda().pop_context(&popped);
}

std::string fault_text(CUresult code, const CudaDevice& device) {
  if (!is_fatal(code)) return "";
  const char* kernel = device.last_kernel.load();
  return (kernel ? format("; the last kernel that it was given is %s", kernel) : std::string()) +
         format("; %s can do nothing more in this process, start a new one for it; other devices go on", device.text().c_str()) +
         (code == CUDA_ERROR_ILLEGAL_ADDRESS ? ". Compiled with the option tir.instrument_bound_checkers, kernels say which access is outside, and its line" : "");
}

void check(CUresult code, const char* what, const CudaDevice& device) {
  if (code == CUDA_SUCCESS) return;
  fail("RuntimeError", "cannot %s %s: %s%s", what, device.text().c_str(), code_text(code).c_str(), fault_text(code, device).c_str());
}

}  // namespace tw
