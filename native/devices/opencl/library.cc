// The table of functions of OpenCL's devices. Streams are command queues.
#include "../common/library.h"

#include "attributes.h"
#include "copies.h"
#include "program.h"

namespace tw {
namespace {

struct Event {
  cl_event event = nullptr;
  ~Event() { set(nullptr); }
  void set(cl_event next) {
    if (event) cl().release_event(event);
    event = next;
  }
};

cl_ulong nanoseconds(const OpenCLDevice& device, const Event& e) {
  cl_ulong time = 0;
  if (!e.event) fail("ValueError", "an event of %s was not recorded", device.text().c_str());
  check(cl().wait(1, &e.event), "wait for", device);
  check(cl().event_time(e.event, CL_PROFILING_END, sizeof time, &time, nullptr), "read the clock of", device);
  return time;
}

template <typename F>
int32_t run(DLDevice id, F body) {
  return guarded([&] { body(opencl_device(id)); });
}
cl_event end_of(OpenCLDevice& d, void* stream) {
  cl_event event = nullptr;
  check(cl().marker(d.queue(stream), 0, nullptr, &event), "record an event on", d);
  check(cl().flush(d.queue(stream)), "record an event on", d);
  return event;
}

const TWDeviceAPI kTable = {
    TW_DEVICE_API_VERSION, nullptr,
    [](void*, DLDevice id, int32_t kind, TVMFFIAny* result) { return guarded([&] { *result = attribute_of(id, kind); }); },
    [](void*, const DLTensor* like, size_t bytes, size_t, const char* scope, void** result) {
      return run(like->device, [&](OpenCLDevice& d) {
        if (*scope && strcmp(scope, "global") != 0) fail("ValueError", "%s has no memory scope `%s`; it has global", d.text().c_str(), scope);
        *result = d.memory->allocate(*like, bytes);
      });
    },
    [](void*, DLDevice id, void* data) { return run(id, [&](OpenCLDevice& d) { d.memory->release(data); }); },
    [](void*, const DLTensor* from, const DLTensor* to, void* stream) { return guarded([&] { copy_tensor(*from, *to, stream); }); },
    [](void*, DLDevice id, void* stream) { return run(id, [&](OpenCLDevice& d) { d.finish(stream); }); },
    [](void*, DLDevice id, void** result) { return run(id, [&](OpenCLDevice& d) { *result = d.create_stream(); }); },
    [](void*, DLDevice id, void* stream) { return run(id, [&](OpenCLDevice& d) { d.release_stream(stream); }); },
    [](void*, DLDevice id, void*) { return run(id, [](OpenCLDevice&) {}); },  // each call is given its stream
    [](void*, DLDevice id, void* first, void* then) {
      return run(id, [&](OpenCLDevice& d) {
        const cl_event event = end_of(d, first);
        const cl_int code = cl().barrier(d.queue(then), 1, &event, nullptr);
        cl().release_event(event);
        check(code, "order the streams of", d);
      });
    },
    [](void*, DLDevice id, const char* form, const void* data, size_t bytes, void** result) {
      return run(id, [&](OpenCLDevice& d) { *result = build_program(d, form, std::string(static_cast<const char*>(data), bytes)).release(); });
    },
    [](void*, DLDevice, void* code) { return delete static_cast<Program*>(code), 0; },
    [](void*, DLDevice id, void* code, const char* name, const char* place, void** result) {
      return run(id, [&](OpenCLDevice& d) { *result = find_kernel(d, *static_cast<Program*>(code), name, place); });
    },
    [](void*, DLDevice id, const TWLaunch* launch, void* stream) { return run(id, [&](OpenCLDevice& d) { launch_kernel(d, *launch, stream); }); },
    [](void*, DLDevice id, void** result) { return run(id, [&](OpenCLDevice&) { *result = new Event; }); },
    [](void*, DLDevice, void* event) { return delete static_cast<Event*>(event), 0; },
    [](void*, DLDevice id, void* event, void* stream) { return run(id, [&](OpenCLDevice& d) { static_cast<Event*>(event)->set(end_of(d, stream)); }); },
    [](void*, DLDevice id, void* begin, void* end, double* seconds) {
      return run(id, [&](OpenCLDevice& d) {
        const cl_ulong last = nanoseconds(d, *static_cast<Event*>(end)), first = nanoseconds(d, *static_cast<Event*>(begin));
        *seconds = static_cast<double>(static_cast<int64_t>(last - first)) * 1e-9;
      });
    }};

}  // namespace

const TWDeviceAPI* open_devices(int32_t) {
  cl();
  return &kTable;
}

}  // namespace tw
