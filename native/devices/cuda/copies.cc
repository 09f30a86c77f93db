#include "copies.h"

#include "../common/tensors.h"
#include "thread_streams.h"

namespace tw {
namespace {

bool on_host(const DLTensor& t) { return t.device.device_type != kDLCUDA; }
CUdeviceptr place(const DLTensor& t) { return reinterpret_cast<CUdeviceptr>(address_of(t)); }

// Whether a device may read the memory of another.
bool reaches(const CudaDevice& from, const CudaDevice& to) {
  int can = 0;
  return cuda().can_access_peer(&can, to.device, from.device) == CUDA_SUCCESS && can;
}
void through_host(CudaDevice& from, CudaDevice& to, const DLTensor& source, const DLTensor& target, CUstream stream) {
  const size_t bytes = bytes_of(source);
  std::unique_ptr<char[]> host(new char[bytes]);
  {
    const Current current(from);
    check(cuda().to_host(host.get(), place(source), bytes, stream), "copy from", from);
    check(cuda().synchronize_stream(stream), "copy from", from);
  }
  const Current current(to);
  check(cuda().to_device(place(target), host.get(), bytes, thread_stream(to)), "copy to", to);
  check(cuda().synchronize_stream(thread_stream(to)), "copy to", to);
}
// Behind what either was given before, and before what they are given next.
void to_peer(CudaDevice& from, CudaDevice& to, const DLTensor& source, const DLTensor& target, CUstream stream) {
  order(to, thread_stream(to), from, stream);
  check(cuda().to_peer(place(target), to.context, place(source), from.context, bytes_of(source), stream), "copy to another device from", from);
  order(from, stream, to, thread_stream(to));
}

}  // namespace

void copy_tensor(const DLTensor& from, const DLTensor& to, CUstream stream) {
  const size_t bytes = bytes_of(from);
  if (on_host(from) && on_host(to)) {
    // Devices may still work with either.
    for (CudaDevice* d : used_devices()) {
      const Current current(*d);
      check(cuda().synchronize_context(), "wait for", *d);
    }
    memcpy(address_of(to), address_of(from), bytes);
    return;
  }
  CudaDevice& device = cuda_device(on_host(from) ? to.device : from.device);
  const Current current(device);
  if (on_host(from)) return check(cuda().to_device(place(to), address_of(from), bytes, stream), "copy to", device);
  if (on_host(to)) return check(cuda().to_host(address_of(to), place(from), bytes, stream), "copy from", device);
  CudaDevice& other = cuda_device(to.device);
  if (&other == &device) return check(cuda().within(place(to), place(from), bytes, stream), "copy on", device);
  if (!reaches(device, other)) return through_host(device, other, from, to, stream);
  to_peer(device, other, from, to, stream);
}

}  // namespace tw
