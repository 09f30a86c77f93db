// Devices behind the C names of classic TVM and of tvm-ffi, and for the Python module.
#include <tilewright/device.h>

#include "device.h"

using namespace tw;

namespace {

const TWDeviceAPI& streams_of(DLDevice device) {
  const TWDeviceAPI& api = device_api(device.device_type);
  if (!api.create_stream) fail("ValueError", "%s has one stream only, its own", device_text(device).c_str());
  return api;
}

const int attributes_registered = [] {
  // (device type, device number, kind); what the device has no answer to is None.
  register_global("runtime.GetDeviceAttr", [](Args args) {
    const DLDevice device{static_cast<int32_t>(as_int(args[0], "a device's type")), static_cast<int32_t>(as_int(args[1], "a device's number"))};
    const auto kind = static_cast<int32_t>(as_int(args[2], "the kind of attribute"));
    const TWDeviceAPI* api = find_device_api(device.device_type);
    if (!api) return kind == kTWDeviceExist ? from_int(0) : none();
    TVMFFIAny found = none();
    check_device(api->attribute(api->self, device, kind, &found), "ask about", device);
    return found;
  });
  register_global("runtime.TVMSetStream", [](Args args) {
    const DLDevice device{static_cast<int32_t>(as_int(args[0], "a device's type")), static_cast<int32_t>(as_int(args[1], "a device's number"))};
    void* stream = args[2].type_index == kTVMFFIOpaquePtr ? args[2].v_ptr : reinterpret_cast<void*>(static_cast<uintptr_t>(as_int(args[2], "a stream")));
    set_current_stream(device, stream);
    return none();
  });
  register_global("runtime.GetCurrentStream", [](Args args) {
    TVMFFIAny found = none();
    found.v_ptr = current_stream({static_cast<int32_t>(as_int(args[0], "a device's type")), static_cast<int32_t>(as_int(args[1], "a device's number"))});
    if (found.v_ptr) found.type_index = kTVMFFIOpaquePtr;
    return found;
  });
  return 0;
}();

}  // namespace

extern "C" {
TW_EXPORT int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream) {
  return guarded([&] { set_current_stream({device_type, device_id}, stream); });
}
TW_EXPORT int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  return guarded([&] {
    const DLDevice device{device_type, device_id};
    const TWDeviceAPI& api = streams_of(device);
    check_device(api.create_stream(api.self, device, out), "make a stream on", device);
  });
}
TW_EXPORT int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  return guarded([&] {
    const DLDevice device{device_type, device_id};
    const TWDeviceAPI& api = streams_of(device);
    if (current_stream(device) == stream) set_current_stream(device, nullptr);
    check_device(api.release_stream(api.self, device, stream), "free a stream of", device);
  });
}
TW_EXPORT int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  return guarded([&] { synchronize({device_type, device_id}, stream); });
}
TW_EXPORT int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle first, TVMStreamHandle then) {
  return guarded([&] {
    const DLDevice device{device_type, device_id};
    const TWDeviceAPI& api = streams_of(device);
    check_device(api.order_streams(api.self, device, first, then), "order the streams of", device);
  });
}

TW_EXPORT int TVMDeviceAllocDataSpace(DLDevice device, size_t bytes, size_t alignment, DLDataType hint, void** out) {
  return guarded([&] {
    const TWDeviceAPI& api = device_api(device.device_type);
    const int64_t item = (hint.bits * hint.lanes + 7) / 8;
    int64_t count = item > 0 ? (static_cast<int64_t>(bytes) + item - 1) / item : static_cast<int64_t>(bytes);
    const DLTensor like{nullptr, device, 1, hint, &count, nullptr, 0};
    check_device(api.allocate(api.self, &like, bytes, alignment, "", out), "allocate on", device);
  });
}
TW_EXPORT int TVMDeviceAllocDataSpaceWithScope(DLDevice device, int ndim, const int64_t* shape, DLDataType dtype, const char* scope, void** out) {
  return guarded([&] {
    const TWDeviceAPI& api = device_api(device.device_type);
    const DLTensor like{nullptr, device, ndim, dtype, const_cast<int64_t*>(shape), nullptr, 0};
    check_device(api.allocate(api.self, &like, static_cast<size_t>(tensor_bytes(like)), 64, scope ? scope : "", out), "allocate on", device);
  });
}
TW_EXPORT int TVMDeviceFreeDataSpace(DLDevice device, void* data) {
  return guarded([&] {
    const TWDeviceAPI& api = device_api(device.device_type);
    check_device(api.release(api.self, device, data), "free memory of", device);
  });
}
TW_EXPORT int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream) {
  return guarded([&] {
    if (tensor_bytes(*from) != tensor_bytes(*to)) fail("ValueError", "a tensor of %lld bytes cannot be copied into one of %lld", static_cast<long long>(tensor_bytes(*from)), static_cast<long long>(tensor_bytes(*to)));
    if (!is_compact(*from) || !is_compact(*to)) fail("ValueError", "a tensor that is not contiguous cannot be copied between devices");
    start_copy(*from, *to, stream);
  });
}
TW_EXPORT void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int, int) {
  return alloc_workspace(static_cast<int64_t>(bytes), device_type, device_id);
}
TW_EXPORT int TVMBackendFreeWorkspace(int device_type, int device_id, void* data) { return free_workspace(data, device_type, device_id); }

TW_EXPORT int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, void* stream, void** old) {
  return guarded([&] {
    void* before = set_current_stream({device_type, device_id}, stream);
    if (old) *old = before;
  });
}
TW_EXPORT void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) { return current_stream({device_type, device_id}); }

// For the Python module, whose process may hold another runtime that exports the names above.

TW_ALIAS(TWSynchronize, TVMSynchronize) int TWSynchronize(int, int, void*);
TW_ALIAS(TWStreamCreate, TVMStreamCreate) int TWStreamCreate(int, int, void**);
TW_ALIAS(TWStreamFree, TVMStreamFree) int TWStreamFree(int, int, void*);
TW_ALIAS(TWSetStream, TVMSetStream) int TWSetStream(int, int, void*);
TW_ALIAS(TWOrderStreams, TVMStreamStreamSynchronize) int TWOrderStreams(int, int, void*, void*);
TW_ALIAS(TWCurrentStream, TVMFFIEnvGetStream) void* TWCurrentStream(int32_t, int32_t);
// Waits where one of the two is on the CPU.
TW_EXPORT int TWTensorCopy(const DLTensor* from, const DLTensor* to) {
  return guarded([&] { copy_tensor(*from, *to); });
}
}
