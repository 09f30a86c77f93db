// The part of OpenCL that is used here, as its public specification describes it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw {

#if defined(_WIN32)
#define TW_CL_CALL __stdcall
#else
#define TW_CL_CALL
#endif

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_flags = uint64_t;
using cl_platform_id = struct cl_platform_object*;
using cl_device_id = struct cl_device_object*;
using cl_context = struct cl_context_object*;
using cl_command_queue = struct cl_queue_object*;
using cl_mem = struct cl_mem_object*;
using cl_program = struct cl_program_object*;
using cl_kernel = struct cl_kernel_object*;
using cl_event = struct cl_event_object*;
struct cl_buffer_region { size_t origin, size; };

enum : cl_int {
  CL_SUCCESS = 0, CL_DEVICE_NOT_FOUND = -1, CL_MEM_OBJECT_ALLOCATION_FAILURE = -4, CL_OUT_OF_RESOURCES = -5, CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11, CL_INVALID_KERNEL_NAME = -46, CL_INVALID_BUFFER_SIZE = -61, CL_PLATFORM_NOT_FOUND_KHR = -1001
};
enum : cl_flags {
  CL_DEVICE_TYPE_CPU = 1 << 1, CL_DEVICE_TYPE_GPU = 1 << 2, CL_DEVICE_TYPE_ACCELERATOR = 1 << 3, CL_DEVICE_TYPE_ALL = 0xFFFFFFFF,
  CL_QUEUE_PROFILING = 1 << 1, CL_MEM_READ_WRITE = 1, CL_SVM_COARSE_GRAIN_BUFFER = 1
};
// What is asked of platforms, devices, kernels, builds, events.
enum : cl_uint {
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE = 0x1000, CL_DEVICE_COMPUTE_UNITS = 0x1002, CL_DEVICE_GROUP_SIZE = 0x1004, CL_DEVICE_ITEM_SIZES = 0x1005, CL_DEVICE_CLOCK = 0x100C,
  CL_DEVICE_MAX_ALLOCATION = 0x1010, CL_DEVICE_IMAGE_WIDTH = 0x1011, CL_DEVICE_ADDRESS_ALIGNMENT = 0x1019, CL_DEVICE_CACHE_BYTES = 0x101E,
  CL_DEVICE_MEMORY = 0x101F, CL_DEVICE_LOCAL_MEMORY = 0x1023, CL_DEVICE_NAME = 0x102B, CL_DRIVER_VERSION = 0x102D, CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_SVM = 0x1053, CL_DEVICE_WARP_SIZE_NV = 0x4003, CL_DEVICE_FREE_MEMORY_AMD = 0x4039, CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043,
  CL_CONTEXT_PLATFORM = 0x1084, CL_PROGRAM_BUILD_LOG = 0x1183, CL_KERNEL_NUM_ARGS = 0x1191, CL_EVENT_STATUS = 0x11D3, CL_KERNEL_GROUP_SIZE = 0x11B0,
  CL_KERNEL_LOCAL_MEMORY = 0x11B2, CL_BUFFER_REGION = 0x1220, CL_PROFILING_END = 0x1283
};

// X(name, its symbol in the library, result, parameters)
#define TW_CL_FUNCTIONS(X)                                                                                                                     \
  X(platforms, clGetPlatformIDs, cl_int, (cl_uint room, cl_platform_id * found, cl_uint * count))                                              \
  X(platform_info, clGetPlatformInfo, cl_int, (cl_platform_id platform, cl_uint what, size_t room, void* value, size_t* bytes))                \
  X(devices, clGetDeviceIDs, cl_int, (cl_platform_id platform, cl_flags type, cl_uint room, cl_device_id * found, cl_uint * count))            \
  X(device_info, clGetDeviceInfo, cl_int, (cl_device_id device, cl_uint what, size_t room, void* value, size_t* bytes))                        \
  X(create_context, clCreateContext, cl_context, (const intptr_t* properties, cl_uint count, const cl_device_id* devices,                      \
                                                  void (TW_CL_CALL * tell)(const char*, const void*, size_t, void*), void* data, cl_int* code)) \
  X(create_queue, clCreateCommandQueue, cl_command_queue, (cl_context context, cl_device_id device, cl_flags properties, cl_int* code))        \
  X(release_queue, clReleaseCommandQueue, cl_int, (cl_command_queue queue))                                                                    \
  X(flush, clFlush, cl_int, (cl_command_queue queue))                                                                                          \
  X(finish, clFinish, cl_int, (cl_command_queue queue))                                                                                        \
  X(create_buffer, clCreateBuffer, cl_mem, (cl_context context, cl_flags flags, size_t bytes, void* host, cl_int* code))                       \
  X(create_part, clCreateSubBuffer, cl_mem, (cl_mem buffer, cl_flags flags, cl_uint type, const void* region, cl_int* code))                   \
  X(release_buffer, clReleaseMemObject, cl_int, (cl_mem buffer))                                                                               \
  X(read, clEnqueueReadBuffer, cl_int, (cl_command_queue queue, cl_mem from, cl_uint wait, size_t offset, size_t bytes, void* to,              \
                                        cl_uint count, const cl_event* first, cl_event* event))                                                \
  X(write, clEnqueueWriteBuffer, cl_int, (cl_command_queue queue, cl_mem to, cl_uint wait, size_t offset, size_t bytes, const void* from,      \
                                          cl_uint count, const cl_event* first, cl_event* event))                                              \
  X(copy, clEnqueueCopyBuffer, cl_int, (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t bytes,    \
                                        cl_uint count, const cl_event* first, cl_event* event))                                                \
  X(create_program, clCreateProgramWithSource, cl_program, (cl_context context, cl_uint count, const char** texts, const size_t* bytes,        \
                                                            cl_int* code))                                                                     \
  X(build, clBuildProgram, cl_int, (cl_program program, cl_uint count, const cl_device_id* devices, const char* options,                       \
                                    void (TW_CL_CALL * tell)(cl_program, void*), void* data))                                                  \
  X(build_info, clGetProgramBuildInfo, cl_int, (cl_program program, cl_device_id device, cl_uint what, size_t room, void* value, size_t* bytes)) \
  X(release_program, clReleaseProgram, cl_int, (cl_program program))                                                                           \
  X(create_kernel, clCreateKernel, cl_kernel, (cl_program program, const char* name, cl_int* code))                                            \
  X(release_kernel, clReleaseKernel, cl_int, (cl_kernel kernel))                                                                               \
  X(kernel_info, clGetKernelInfo, cl_int, (cl_kernel kernel, cl_uint what, size_t room, void* value, size_t* bytes))                           \
  X(kernel_on, clGetKernelWorkGroupInfo, cl_int, (cl_kernel kernel, cl_device_id device, cl_uint what, size_t room, void* value, size_t* bytes)) \
  X(set_arg, clSetKernelArg, cl_int, (cl_kernel kernel, cl_uint index, size_t bytes, const void* value))                                       \
  X(launch, clEnqueueNDRangeKernel, cl_int, (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset,               \
                                             const size_t* all, const size_t* group, cl_uint count, const cl_event* first, cl_event* event))   \
  X(marker, clEnqueueMarkerWithWaitList, cl_int, (cl_command_queue queue, cl_uint count, const cl_event* first, cl_event* event))              \
  X(barrier, clEnqueueBarrierWithWaitList, cl_int, (cl_command_queue queue, cl_uint count, const cl_event* first, cl_event* event))            \
  X(wait, clWaitForEvents, cl_int, (cl_uint count, const cl_event* events))                                                                    \
  X(event_time, clGetEventProfilingInfo, cl_int, (cl_event event, cl_uint what, size_t room, void* value, size_t* bytes))                      \
  X(event_info, clGetEventInfo, cl_int, (cl_event event, cl_uint what, size_t room, void* value, size_t* bytes))                               \
  X(release_event, clReleaseEvent, cl_int, (cl_event event))

// The same of OpenCL 2.0, for memory that host and device share.
#define TW_CL_SHARED_FUNCTIONS(X)                                                                                                              \
  X(allocate_shared, clSVMAlloc, void*, (cl_context context, cl_flags flags, size_t bytes, cl_uint alignment))                                 \
  X(release_shared, clSVMFree, void, (cl_context context, void* data))                                                                         \
  X(copy_shared, clEnqueueSVMMemcpy, cl_int, (cl_command_queue queue, cl_uint wait, void* to, const void* from, size_t bytes, cl_uint count,   \
                                              const cl_event* first, cl_event* event))                                                         \
  X(set_shared_arg, clSetKernelArgSVMPointer, cl_int, (cl_kernel kernel, cl_uint index, const void* address))

}  // namespace tw
