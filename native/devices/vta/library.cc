// The table of functions of accelerators as devices.
#include "../common/library.h"

#include <cstring>

#include "../common/tensors.h"
#include "code.h"
#include "functions.h"

namespace tw {
namespace {

template <typename F>
int32_t run(DLDevice id, F body) {
  return guarded([&] {
    const auto device = accelerator(id.device_id);
    std::lock_guard<std::mutex> hold(device->lock);
    body(*device);
  });
}

TVMFFIAny attribute_of(DLDevice id, int32_t kind) {
  if (kind == kTWDeviceExist) return known(static_cast<int64_t>(has_accelerator(id.device_id)));
  const auto device = accelerator(id.device_id);
  std::lock_guard<std::mutex> hold(device->lock);
  switch (kind) {
    case kTWDeviceName: {
      if (!device->configured()) return known(std::string("VTA, not configured"));
      const Description& d = device->machine().d;
      return known(format("VTA %lldx%lldx%lld, %s", static_cast<long long>(d.batch), static_cast<long long>(d.block_in),
                          static_cast<long long>(d.block_out), d.timed ? "cycle by cycle" : "functional"));
    }
    case kTWDeviceTotalGlobalMemory: return known(static_cast<int64_t>(kDramBytes));
    case kTWDeviceAvailableGlobalMemory: return known(static_cast<int64_t>(kDramBytes - device->dram.used()));
    case kTWDeviceMaxClockRate: return device->configured() ? known(device->machine().d.frequency * 1000) : tilewright::detail::none();
    default: return tilewright::detail::none();
  }
}

uint64_t place_of(const DLTensor& t) { return reinterpret_cast<uint64_t>(address_of(t)); }
const char* copying() { return "a copy of a tensor:"; }

// Copies through the CPU's view of the memory, and keeps its caches right.
void copy_tensor(const DLTensor& from, const DLTensor& to) {
  const size_t bytes = bytes_of(from);
  std::string held;
  const char* data = address_of(from);
  if (from.device.device_type == kDLExtDev) {
    const auto device = accelerator(from.device.device_id);
    std::lock_guard<std::mutex> hold(device->lock);
    device->dram.invalidate(place_of(from), bytes);
    held.assign(reinterpret_cast<const char*>(device->dram.cpu(place_of(from), bytes, copying)), bytes);
    data = held.data();
  }
  if (to.device.device_type != kDLExtDev) {
    memcpy(address_of(to), data, bytes);
    return;
  }
  const auto device = accelerator(to.device.device_id);
  std::lock_guard<std::mutex> hold(device->lock);
  memcpy(device->dram.cpu(place_of(to), bytes, copying), data, bytes);
  device->dram.flush(place_of(to), bytes);
}

const TWDeviceAPI kTable = {
    TW_DEVICE_API_VERSION, nullptr,
    [](void*, DLDevice id, int32_t kind, TVMFFIAny* result) { return guarded([&] { *result = attribute_of(id, kind); }); },
    [](void*, const DLTensor* like, size_t bytes, size_t, const char* scope, void** result) {
      return run(like->device, [&](Accelerator& a) {
        if (*scope && strcmp(scope, "global") != 0) fail("ValueError", "%s has no memory scope `%s`; it has global", a.text().c_str(), scope);
        *result = reinterpret_cast<void*>(a.dram.allocate(bytes));
      });
    },
    [](void*, DLDevice id, void* data) { return run(id, [&](Accelerator& a) { a.dram.release(reinterpret_cast<uint64_t>(data)); }); },
    [](void*, const DLTensor* from, const DLTensor* to, void*) { return guarded([&] { copy_tensor(*from, *to); }); },
    [](void*, DLDevice id, void*) { return run(id, [](Accelerator&) {}); },  // all is done at once
    nullptr, nullptr, nullptr, nullptr,                                      // one order
    [](void*, DLDevice id, const char* form, const void* data, size_t bytes, void** result) {
      return guarded([&] {
        if (strcmp(form, "vta") != 0) fail("ValueError", "an accelerator runs no code of the form `%s`", form);
        *result = new Code(accelerator(id.device_id), std::string(static_cast<const char*>(data), bytes));
      });
    },
    [](void*, DLDevice, void* code) { return delete static_cast<Code*>(code), 0; },
    [](void*, DLDevice, void* code, const char* name, const char*, void** result) {
      return guarded([&] { *result = static_cast<Code*>(code)->find(name); });
    },
    [](void*, DLDevice, const TWLaunch* launch, void*) {
      return guarded([&] {
        std::vector<uint64_t> addresses;
        for (int32_t n = 0; n < launch->num_args; ++n) {
          if (launch->types[n].code != kDLOpaque) fail("TypeError", "argument %d of a kernel for an accelerator is no tensor", n);
          addresses.push_back(reinterpret_cast<uint64_t>(*static_cast<void* const*>(launch->args[n])));
        }
        auto* kernel = static_cast<Kernel*>(launch->kernel);
        kernel->owner->launch(kernel, addresses);
      });
    },
    [](void*, DLDevice, void** result) { return *result = new double(0), 0; },
    [](void*, DLDevice, void* event) { return delete static_cast<double*>(event), 0; },
    [](void*, DLDevice id, void* event, void*) { return run(id, [&](Accelerator& a) { *static_cast<double*>(event) = a.seconds(); }); },
    [](void*, DLDevice, void* begin, void* end, double* seconds) {
      return *seconds = *static_cast<double*>(end) - *static_cast<double*>(begin), 0;
    }};

}  // namespace

const TWDeviceAPI* open_devices(int32_t) {
  register_functions();
  return &kTable;
}

}  // namespace tw
