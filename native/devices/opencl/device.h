// Devices of OpenCL, in a stable order: GPUs, then accelerators, then CPUs; among these in the order of platforms, and of their devices.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver.h"
#include "memory.h"

namespace tw {

struct OpenCLDevice {
  const int number;
  const cl_platform_id platform;
  const cl_device_id device;
  cl_context context = nullptr;
  std::string name;
  int version = 0;  // 120 is OpenCL 1.2
  std::unique_ptr<Memory> memory;

  // What it is used for is made at the first use; what is asked of it needs none of that.
  OpenCLDevice(int n, cl_platform_id p, cl_device_id d);
  void open();

  std::string text() const { return format("opencl(%d)", number); }
  std::string text_of(cl_uint what) const;
  template <typename T>
  T number_of(cl_uint what, T otherwise = 0) const {
    T value = 0;
    return cl().device_info(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
  }

  cl_command_queue queue(void* stream) const { return stream ? static_cast<cl_command_queue>(stream) : own_; }
  cl_command_queue create_queue() const;
  cl_command_queue create_stream();
  void release_stream(void* stream);
  // Waits for a stream; null: for all.
  void finish(void* stream);
  // Events at the end of all that the streams were given so far; the caller releases them.
  std::vector<cl_event> ends();

  std::atomic<const char*> last_kernel{nullptr};

 private:
  cl_command_queue own_ = nullptr;
  std::mutex lock_;
  std::vector<cl_command_queue> streams_;
};

int device_count();
// Opened. Throws where there is no such device.
OpenCLDevice& opencl_device(DLDevice device);
// The same without opening it; null where there is none.
OpenCLDevice* find_device(DLDevice device);

// Throws what a code means; `what` completes "cannot ... opencl(0)".
void check(cl_int code, const char* what, const OpenCLDevice& device);

}  // namespace tw
