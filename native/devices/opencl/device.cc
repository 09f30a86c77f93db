#include "device.h"

#include <algorithm>

namespace tw {
namespace {

using Devices = std::vector<std::unique_ptr<OpenCLDevice>>;

struct Found {
  int rank;
  cl_platform_id platform;
  cl_device_id device;
};

int rank_of(cl_device_id device) {
  cl_flags type = 0;
  cl().device_info(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
  return type & CL_DEVICE_TYPE_GPU ? 0 : type & CL_DEVICE_TYPE_ACCELERATOR ? 1 : 2;
}

Devices look_for_devices() {
  cl_uint count = 0;
  std::vector<Found> found;
  if (cl().platforms(0, nullptr, &count) != CL_SUCCESS) count = 0;
  std::vector<cl_platform_id> platforms(count);
  if (count) cl().platforms(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    cl_uint here = 0;
    if (cl().devices(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &here) != CL_SUCCESS || here == 0) continue;
    std::vector<cl_device_id> ids(here);
    cl().devices(platform, CL_DEVICE_TYPE_ALL, here, ids.data(), nullptr);
    for (cl_device_id id : ids) found.push_back({rank_of(id), platform, id});
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.rank < b.rank; });
  Devices made;
  for (const Found& f : found) made.push_back(std::make_unique<OpenCLDevice>(static_cast<int>(made.size()), f.platform, f.device));
  return made;
}

Devices& devices() {
  static auto* all = new Devices(look_for_devices());
  return *all;
}

std::string found_text() {
  const int n = device_count();
  if (n == 0) return "OpenCL finds none; its loader reads the names of drivers from files *.icd in /etc/OpenCL/vendors, or in the folder OCL_ICD_VENDORS";
  return n == 1 ? "OpenCL finds one device, opencl(0)" : format("OpenCL finds %d devices, opencl(0) to opencl(%d)", n, n - 1);
}

}  // namespace

int device_count() { return static_cast<int>(devices().size()); }
OpenCLDevice* find_device(DLDevice d) {
  return d.device_id >= 0 && d.device_id < device_count() ? devices()[static_cast<size_t>(d.device_id)].get() : nullptr;
}
OpenCLDevice& opencl_device(DLDevice d) {
  OpenCLDevice* found = find_device(d);
  if (!found) fail("ValueError", "there is no device opencl(%d): %s", d.device_id, found_text().c_str());
  found->open();
  return *found;
}

OpenCLDevice::OpenCLDevice(int n, cl_platform_id p, cl_device_id d) : number(n), platform(p), device(d), name(text_of(CL_DEVICE_NAME)) {
  int major = 1, minor = 0;
  sscanf(text_of(CL_DEVICE_VERSION).c_str(), "OpenCL %d.%d", &major, &minor);
  version = major * 100 + minor * 10;
}

void OpenCLDevice::open() {
  std::lock_guard<std::mutex> hold(lock_);
  if (memory) return;
  const intptr_t properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<intptr_t>(platform), 0};
  cl_int code = CL_SUCCESS;
  if (!context) context = cl().create_context(properties, 1, &device, nullptr, nullptr, &code);
  check(code, "make a context on", *this);
  own_ = create_queue();
  memory = std::make_unique<Memory>(*this);
}

std::string OpenCLDevice::text_of(cl_uint what) const {
  size_t bytes = 0;
  if (cl().device_info(device, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, '\0');
  cl().device_info(device, what, bytes, &text[0], nullptr);
  text.resize(strnlen(text.c_str(), bytes));
  return text;
}

cl_command_queue OpenCLDevice::create_queue() const {
  cl_int code = CL_SUCCESS;
  cl_command_queue made = cl().create_queue(context, device, CL_QUEUE_PROFILING, &code);
  check(code, "make a command queue on", *this);
  return made;
}
cl_command_queue OpenCLDevice::create_stream() {
  cl_command_queue made = create_queue();
  std::lock_guard<std::mutex> hold(lock_);
  streams_.push_back(made);
  return made;
}
void OpenCLDevice::release_stream(void* stream) {
  finish(stream);
  std::lock_guard<std::mutex> hold(lock_);
  streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
  check(cl().release_queue(static_cast<cl_command_queue>(stream)), "free a stream of", *this);
}

void OpenCLDevice::finish(void* stream) {
  std::vector<cl_command_queue> queues = {queue(stream)};
  if (!stream) {
    std::lock_guard<std::mutex> hold(lock_);
    queues.insert(queues.end(), streams_.begin(), streams_.end());
  }
  for (cl_command_queue q : queues) {
    const cl_int code = cl().finish(q);
    const char* kernel = last_kernel.load();
    if (code) fail("RuntimeError", "%s fails: %s%s", text().c_str(), code_text(code).c_str(), kernel ? format("; the last kernel that it was given is %s", kernel).c_str() : "");
  }
}

std::vector<cl_event> OpenCLDevice::ends() {
  std::vector<cl_event> events;
  std::lock_guard<std::mutex> hold(lock_);
  std::vector<cl_command_queue> queues = streams_;
  queues.push_back(own_);
  for (cl_command_queue q : queues) {
    cl_event event = nullptr;
    if (cl().marker(q, 0, nullptr, &event) != CL_SUCCESS) continue;
    cl().flush(q);
    events.push_back(event);
  }
  return events;
}

void check(cl_int code, const char* what, const OpenCLDevice& device) {
  if (code != CL_SUCCESS) fail("RuntimeError", "cannot %s %s: %s", what, device.text().c_str(), code_text(code).c_str());
}

}  // namespace tw
