#include "copies.h"

#include "../common/tensors.h"

namespace tw {
namespace {

bool on_host(const DLTensor& t) { return t.device.device_type != kDLOpenCL; }

void from_host(OpenCLDevice& device, const void* from, const DLTensor& to, size_t bytes, cl_command_queue queue) {
  const Place place = device.memory->find(address_of(to), bytes, "the target of a copy");
  check(place.buffer ? cl().write(queue, place.buffer, 0, place.offset, bytes, from, 0, nullptr, nullptr)
                     : cl().copy_shared(queue, 0, place.address, from, bytes, 0, nullptr, nullptr), "copy to", device);
}
void to_host(OpenCLDevice& device, const DLTensor& from, void* to, size_t bytes, cl_command_queue queue) {
  const Place place = device.memory->find(address_of(from), bytes, "the source of a copy");
  check(place.buffer ? cl().read(queue, place.buffer, 0, place.offset, bytes, to, 0, nullptr, nullptr)
                     : cl().copy_shared(queue, 0, to, place.address, bytes, 0, nullptr, nullptr), "copy from", device);
}
void within(OpenCLDevice& device, const DLTensor& from, const DLTensor& to, size_t bytes, cl_command_queue queue) {
  const Place source = device.memory->find(address_of(from), bytes, "the source of a copy"), target = device.memory->find(address_of(to), bytes, "the target of a copy");
  check(source.buffer ? cl().copy(queue, source.buffer, target.buffer, source.offset, target.offset, bytes, 0, nullptr, nullptr)
                      : cl().copy_shared(queue, 0, target.address, source.address, bytes, 0, nullptr, nullptr), "copy on", device);
}

}  // namespace

void copy_tensor(const DLTensor& from, const DLTensor& to, void* stream) {
  const size_t bytes = bytes_of(from);
  OpenCLDevice& device = opencl_device(on_host(from) ? to.device : from.device);
  const cl_command_queue queue = device.queue(stream);
  if (on_host(from)) return from_host(device, address_of(from), to, bytes, queue);
  if (on_host(to)) return to_host(device, from, address_of(to), bytes, queue);
  OpenCLDevice& other = opencl_device(to.device);
  if (&other == &device) return within(device, from, to, bytes, queue);
  // Devices have contexts of their own, which share nothing.
  const std::unique_ptr<char[]> host(new char[bytes]);
  to_host(device, from, host.get(), bytes, queue);
  check(cl().finish(queue), "copy from", device);
  other.finish(nullptr);  // it may still read what was there
  from_host(other, host.get(), to, bytes, other.queue(nullptr));
  check(cl().finish(other.queue(nullptr)), "copy to", other);
}

}  // namespace tw
