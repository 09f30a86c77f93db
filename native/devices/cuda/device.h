// Devices of CUDA: their contexts, which they share with other libraries of the process, and their memory.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "driver.h"
#include "memory.h"

namespace tw {

struct CudaDevice {
  const int number;
  CUdevice device = 0;
  CUcontext context = nullptr;  // the primary one
  std::string name;
  Memory memory;
  std::atomic<const char*> last_kernel{nullptr};  // what was launched last, for errors that arrive later

  explicit CudaDevice(int n);
  int attribute(int which) const;
  std::string text() const { return format("cuda(%d)", number); }
};

// Made when it is first used, and kept. Throws where the driver knows no such device.
CudaDevice& cuda_device(DLDevice device);
// Those that were used.
std::vector<CudaDevice*> used_devices();

// The context of a device is this thread's as long as this lives.
class Current {
 public:
  explicit Current(const CudaDevice& device);
  Current(const Current&) = delete;
  ~Current();

 private:
  bool pushed_ = false;
};

// Throws what a code of the driver means; `what` completes "cannot ... cuda(0)".
void check(CUresult code, const char* what, const CudaDevice& device);
// What is behind the words of an error: that the device is lost, and which kernel was launched last.
std::string fault_text(CUresult code, const CudaDevice& device);

}  // namespace tw
