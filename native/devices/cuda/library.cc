// The table of functions of CUDA's devices. The types cuda and cuda_host share it: that is memory of the CPU that devices reach faster.
#include "../common/library.h"

#include "attributes.h"
#include "code.h"
#include "copies.h"
#include "graph.h"
#include "thread_streams.h"

namespace tw {
namespace {

CUstream stream_of(void* stream) { return static_cast<CUstream>(stream); }

int32_t allocate(void*, const DLTensor* like, size_t bytes, size_t, const char* scope, void** result) {
  return guarded([&] {
    CudaDevice& device = cuda_device(like->device);
    if (*scope && strcmp(scope, "global") != 0) fail("ValueError", "%s has no memory scope `%s`; it has global", device.text().c_str(), scope);
    if (like->device.device_type == kDLCUDA) {
      *result = device.memory.allocate(*like, bytes);
      return;
    }
    const Current current(device);
    const CUresult code = cuda().allocate_host(result, bytes, kHostPortable);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) fail("MemoryError", "the system has no %s of memory that %s may reach, for %s", bytes_text(bytes).c_str(), device.text().c_str(), tensor_text(*like).c_str());
    check(code, "allocate memory of the CPU for", device);
  });
}

int32_t release(void*, DLDevice id, void* data) {
  return guarded([&] {
    CudaDevice& device = cuda_device(id);
    if (id.device_type == kDLCUDA) return device.memory.release(data);
    const Current current(device);
    check(cuda().release_host(data), "free memory of the CPU for", device);
  });
}

int32_t synchronize(void*, DLDevice id, void* stream) {
  return guarded([&] {
    CudaDevice& device = cuda_device(id);
    const Current current(device);
    check(stream ? cuda().synchronize_stream(stream_of(stream)) : cuda().synchronize_context(), "wait for", device);
  });
}

int32_t order_streams(void*, DLDevice id, void* first, void* then) {
  return guarded([&] { order(cuda_device(id), stream_of(first), cuda_device(id), stream_of(then)); });
}

// A function of the table whose result is a handle.
template <typename F>
int32_t handle(DLDevice id, void** result, F make) {
  return guarded([&] {
    CudaDevice& device = cuda_device(id);
    const Current current(device);
    *result = make(device);
  });
}
template <typename F>
int32_t run(DLDevice id, F body) {
  return guarded([&] {
    CudaDevice& device = cuda_device(id);
    const Current current(device);
    body(device);
  });
}

const TWDeviceAPI kTable = {
    TW_DEVICE_API_VERSION, nullptr,
    [](void*, DLDevice id, int32_t kind, TVMFFIAny* result) { return guarded([&] { *result = attribute_of(id, kind); }); },
    allocate, release,
    [](void*, const DLTensor* from, const DLTensor* to, void* stream) { return guarded([&] { copy_tensor(*from, *to, stream_of(stream)); }); },
    synchronize,
    [](void*, DLDevice id, void** result) { return handle(id, result, [](CudaDevice& d) { return d.memory.streams.create(); }); },
    [](void*, DLDevice id, void* stream) { return run(id, [&](CudaDevice& d) { d.memory.streams.release(stream_of(stream)); }); },
    [](void*, DLDevice id, void* stream) { return id.device_type == kDLCUDA ? guarded([&] { set_thread_stream(cuda_device(id), stream_of(stream)); }) : 0; },
    order_streams,
    [](void*, DLDevice id, const char* form, const void* data, size_t bytes, void** result) {
      return handle(id, result, [&](CudaDevice& d) { return load_code(d, form, std::string(static_cast<const char*>(data), bytes)).release(); });
    },
    [](void*, DLDevice id, void* code) {
      return run(id, [&](CudaDevice& d) {
        const std::unique_ptr<CudaCode> last(static_cast<CudaCode*>(code));
        check(cuda().unload_module(last->module), "unload code of", d);
      });
    },
    [](void*, DLDevice id, void* code, const char* name, const char* place, void** result) {
      return handle(id, result, [&](CudaDevice& d) { return find_kernel(d, *static_cast<CudaCode*>(code), name, place); });
    },
    [](void*, DLDevice id, const TWLaunch* launch, void* stream) { return run(id, [&](CudaDevice& d) { launch_kernel(d, *launch, stream_of(stream)); }); },
    [](void*, DLDevice id, void** result) {
      return handle(id, result, [](CudaDevice& d) {
        CUevent made = nullptr;
        check(cuda().create_event(&made, 0), "make an event on", d);
        return made;
      });
    },
    [](void*, DLDevice id, void* event) { return run(id, [&](CudaDevice& d) { check(cuda().release_event(static_cast<CUevent>(event)), "free an event of", d); }); },
    [](void*, DLDevice id, void* event, void* stream) {
      return run(id, [&](CudaDevice& d) { check(cuda().record_event(static_cast<CUevent>(event), stream_of(stream)), "record an event on", d); });
    },
    [](void*, DLDevice id, void* begin, void* end, double* seconds) {
      return run(id, [&](CudaDevice& d) {
        float milliseconds = 0;
        check(cuda().synchronize_event(static_cast<CUevent>(end)), "wait for", d);
        check(cuda().elapsed(&milliseconds, static_cast<CUevent>(begin), static_cast<CUevent>(end)), "read the clock of", d);
        *seconds = static_cast<double>(milliseconds) * 1e-3;
      });
    }};

}  // namespace

const TWDeviceAPI* open_devices(int32_t) {
  static const bool ready = (cuda(), register_graphs(), true);
  return ready ? &kTable : nullptr;
}

}  // namespace tw
