#include "thread_streams.h"

namespace tw {
namespace {

struct Set {
  std::vector<CUstream> streams;  // by number of the device
  ~Set() {
    for (size_t i = 0; i < streams.size(); ++i)
      if (streams[i]) guarded([&] { set_thread_stream(cuda_device({kDLCUDA, static_cast<int32_t>(i)}), nullptr); });
  }
};
thread_local Set set;

}  // namespace

CUstream thread_stream(const CudaDevice& device) {
  const auto i = static_cast<size_t>(device.number);
  return i < set.streams.size() ? set.streams[i] : nullptr;
}

void set_thread_stream(CudaDevice& device, CUstream stream) {
  const CUstream before = thread_stream(device);
  if (before == stream) return;
  const auto i = static_cast<size_t>(device.number);
  if (set.streams.size() <= i) set.streams.resize(i + 1);
  const Current here(device);
  device.memory.streams.set(before, stream);
  set.streams[i] = stream;
}

}  // namespace tw
