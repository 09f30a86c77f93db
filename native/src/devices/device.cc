// Tables of devices by type, and what the runtime does through them.
#include "device.h"

#include <atomic>
#include <cstdlib>
#include <memory>

#include "../platform/memory.h"

namespace tw {
namespace {

constexpr int32_t kTypes = 64;
constexpr int32_t kRemote = 128;  // types of devices of other machines begin here, as in classic TVM: session * 128 + type
constexpr int32_t kMicroDev = 35; // microcontrollers, which DLPack has no number for; that of classic TVM
std::atomic<const TWDeviceAPI*> known[kTypes + 2];  // by type, of remote devices, and null for types that nobody knows

const char* name_of(int32_t type) {
  static const char* const names[] = {nullptr, "cpu", "cuda", "cuda_host", "opencl", nullptr, nullptr, "vulkan", "metal", "vpi",
                                      "rocm", "rocm_host", "ext_dev", "cuda_managed", "oneapi", "webgpu", "hexagon"};
  if (type >= kRemote) return "rpc";
  if (type == kMicroDev) return "micro_dev";
  return type > 0 && type < static_cast<int32_t>(sizeof names / sizeof names[0]) ? names[type] : nullptr;
}
std::atomic<const TWDeviceAPI*>& slot_of(int32_t type) { return known[type >= kRemote ? kTypes : type >= 0 && type < kTypes ? type : kTypes + 1]; }

// What answers for a type: a function of this process, or else a library beside the runtime. A text is where that would be.
TVMFFIAny ask_for(int32_t type, const char* name) {
  if (auto make = get_global(format("device_api.%s", name))) return call(make.get(), nullptr, 0);
  auto open = get_global("runtime.OpenDevices");
  if (!open) return none();
  TVMFFIAny given[] = {from_int(type), none()};
  given[1].type_index = kTVMFFIRawStr;
  given[1].v_c_str = name;
  return call(open.get(), given, 2);
}

const TWDeviceAPI* look_up(int32_t type, bool needed) {
  const char* name = name_of(type);
  TVMFFIAny found = name ? ask_for(type, name) : none();
  if (found.type_index == kTVMFFINone || is_string(found)) {
    const std::string place = is_string(found) ? ", nor a library " + as_string(found) : "";
    destroy(found);
    if (!needed) return nullptr;
    fail("ValueError", "device type %s has no runtime in this process: %s%s", device_type_text(type).c_str(),
         name ? format("there is no function `device_api.%s`", name).c_str() : "DLPack knows no such type", place.c_str());
  }
  if (found.type_index != kTVMFFIOpaquePtr || !found.v_ptr) {
    destroy(found);
    fail("TypeError", "`device_api.%s` must return a table of functions (TWDeviceAPI) as a pointer", name);
  }
  auto* api = static_cast<const TWDeviceAPI*>(found.v_ptr);
  if (api->version != TW_DEVICE_API_VERSION)
    fail("RuntimeError", "the runtime of %s devices speaks version %d of the device API, but this process speaks version %d", name, api->version, TW_DEVICE_API_VERSION);
  const TWDeviceAPI* before = nullptr;
  return slot_of(type).compare_exchange_strong(before, api) ? api : before;
}

struct DeviceMemory {
  DLDevice device;
  void* data;
  // What fails here has nobody to be told, and must not take the place of the error that is on its way.
  static void release(void* owner) {
    auto* m = static_cast<DeviceMemory*>(owner);
    auto pending = take_raised();
    if (device_api(m->device.device_type).release(device_api(m->device.device_type).self, m->device, m->data)) take_raised();
    if (pending) set_raised(std::move(pending));
    delete m;
  }
};

// Memory of the CPU for the time of a copy.
struct Staging {
  std::unique_ptr<void, void (*)(void*)> memory;
  int64_t bytes;
  explicit Staging(int64_t n) : memory(allocate_cpu(static_cast<size_t>(n)), free_aligned), bytes(n) {
    if (!memory) fail("MemoryError", "cannot allocate %lld bytes", static_cast<long long>(n));
  }
  DLTensor tensor() { return flat_tensor(memory.get(), {kDLCPU, 0}, &bytes); }
};

struct Stream {
  DLDevice device;
  void* stream;
};
thread_local std::vector<Stream> streams;
thread_local std::vector<DLDevice> current_devices;  // at most one of each type

// The table that a copy between two tensors goes through; null where no device does it alone.
const TWDeviceAPI* copier(DLDevice from, DLDevice to) {
  if (on_cpu(from)) return &device_api(to.device_type);
  const TWDeviceAPI* api = &device_api(from.device_type);
  return on_cpu(to) || api == &device_api(to.device_type) ? api : nullptr;
}

}  // namespace

DLTensor flat_tensor(void* data, DLDevice device, int64_t* bytes) { return DLTensor{data, device, 1, {kDLUInt, 8, 1}, bytes, nullptr, 0}; }

std::string device_type_text(int32_t type) {
  const char* name = name_of(type);
  return name ? name : std::to_string(type);
}
std::string device_text(DLDevice d) {
  const char* name = name_of(d.device_type);
  return name ? format("%s(%d)", name, d.device_id) : format("device %d(%d)", d.device_type, d.device_id);
}

const TWDeviceAPI& device_api(int32_t type) {
  const TWDeviceAPI* api = slot_of(type).load(std::memory_order_acquire);
  return api ? *api : *look_up(type, true);
}
const TWDeviceAPI* find_device_api(int32_t type) {
  const TWDeviceAPI* api = slot_of(type).load(std::memory_order_acquire);
  if (api) return api;
  try {
    return look_up(type, false);
  } catch (const Raised&) {  // its driver is not here, for instance
    take_raised();
  } catch (const Error&) {
  }
  return nullptr;
}
void need_device(DLDevice d) {
  if (on_cpu(d)) return;
  const TWDeviceAPI& api = device_api(d.device_type);
  TVMFFIAny found = none();
  check_device(api.attribute(api.self, d, kTWDeviceExist, &found), "ask about", d);
  if (found.v_int64 == 0) fail("ValueError", "there is no device %s", device_text(d).c_str());
}
void check_device(int32_t code, const char* what, DLDevice device) {
  if (code == 0) return;
  if (Ref<ErrorObject> error = take_raised()) {
    set_raised(std::move(error));
    throw Raised{};
  }
  fail("RuntimeError", "cannot %s %s: its runtime returned code %d", what, device_text(device).c_str(), code);
}

void allocate_tensor(TensorObject& t, const char* scope) {
  DLTensor& tensor = t.tensor;
  const auto bytes = static_cast<size_t>(tensor_bytes(tensor));
  if (on_cpu(tensor.device)) {
    if (scope && *scope && strcmp(scope, "global") != 0) fail("ValueError", "the CPU has no memory scope `%s`", scope);
    void* memory = allocate_cpu(bytes);
    if (!memory) fail("MemoryError", "cannot allocate %zu bytes for a tensor of shape %s", bytes, shape_text(tensor.ndim, tensor.shape).c_str());
    tensor.data = t.owner = memory;
    t.release = free_aligned;
    return;
  }
  const TWDeviceAPI& api = device_api(tensor.device.device_type);
  auto memory = std::make_unique<DeviceMemory>(DeviceMemory{tensor.device, nullptr});
  check_device(api.allocate(api.self, &tensor, bytes ? bytes : 1, 64, scope ? scope : "", &memory->data), "allocate on", tensor.device);
  tensor.data = memory->data;
  t.owner = memory.release();
  t.release = DeviceMemory::release;
}

void start_copy(const DLTensor& from, const DLTensor& to, void* stream) {
  const int64_t bytes = tensor_bytes(from);
  if (bytes == 0) return;
  if (on_cpu(from.device) && on_cpu(to.device)) {
    copy_memory(static_cast<char*>(to.data) + to.byte_offset, static_cast<const char*>(from.data) + from.byte_offset, static_cast<size_t>(bytes));
    return;
  }
  if (const TWDeviceAPI* api = copier(from.device, to.device)) {
    check_device(api->copy(api->self, &from, &to, stream), "copy on", on_cpu(from.device) ? to.device : from.device);
    return;
  }
  Staging host(bytes);
  copy_tensor(from, host.tensor());
  copy_tensor(host.tensor(), to);
}

void copy_tensor(const DLTensor& from, const DLTensor& to) {
  const int64_t bytes = tensor_bytes(from);
  if (bytes != tensor_bytes(to)) fail("ValueError", "a tensor of %lld bytes cannot be copied into one of %lld", static_cast<long long>(bytes), static_cast<long long>(tensor_bytes(to)));
  if (!is_compact(to)) fail("ValueError", "a tensor of shape %s on %s that is not contiguous cannot be written", shape_text(to.ndim, to.shape).c_str(), device_text(to.device).c_str());
  if (on_cpu(from.device) && on_cpu(to.device)) {
    gather(from, static_cast<char*>(to.data) + to.byte_offset);
    return;
  }
  if (!is_compact(from)) {
    if (!on_cpu(from.device)) fail("ValueError", "a tensor of shape %s on %s is not contiguous, so that it cannot be copied", shape_text(from.ndim, from.shape).c_str(), device_text(from.device).c_str());
    Staging host(bytes);
    gather(from, host.memory.get());
    copy_tensor(host.tensor(), to);
    return;
  }
  const DLDevice device = on_cpu(from.device) ? to.device : from.device;
  void* stream = current_stream(device);
  start_copy(from, to, stream);
  if (on_cpu(from.device) || on_cpu(to.device)) synchronize(device, stream);
}

void fetch_tensor(const DLTensor& from, void* to) {
  if (on_cpu(from.device)) return gather(from, to);
  int64_t bytes = tensor_bytes(from);
  copy_tensor(from, flat_tensor(to, {kDLCPU, 0}, &bytes));
}

void clear_tensor(const DLTensor& t) {
  const int64_t bytes = tensor_bytes(t);
  if (bytes == 0) return;
  if (on_cpu(t.device)) {
    memset(static_cast<char*>(t.data) + t.byte_offset, 0, static_cast<size_t>(bytes));
    return;
  }
  Staging host(bytes);
  memset(host.memory.get(), 0, static_cast<size_t>(bytes));
  copy_tensor(host.tensor(), t);
}

DLDevice current_device(int32_t type) {
  for (auto& d : current_devices)
    if (d.device_type == type) return d;
  return {type, 0};
}
void set_current_device(DLDevice device) {
  for (auto& d : current_devices)
    if (d.device_type == device.device_type) {
      d = device;
      return;
    }
  current_devices.push_back(device);
}
void* current_stream(DLDevice device) {
  for (auto& s : streams)
    if (same_device(s.device, device)) return s.stream;
  return nullptr;
}
void* set_current_stream(DLDevice device, void* stream) {
  if (!on_cpu(device)) {
    const TWDeviceAPI& api = device_api(device.device_type);
    if (api.set_stream) check_device(api.set_stream(api.self, device, stream), "set the stream of", device);
  }
  for (auto& s : streams)
    if (same_device(s.device, device)) return std::exchange(s.stream, stream);
  streams.push_back({device, stream});
  return nullptr;
}
void synchronize(DLDevice device, void* stream) {
  if (on_cpu(device)) return;
  const TWDeviceAPI& api = device_api(device.device_type);
  check_device(api.synchronize(api.self, device, stream), "wait for", device);
}

}  // namespace tw
