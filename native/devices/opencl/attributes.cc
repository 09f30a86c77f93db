#include "attributes.h"

#include "../common/library.h"

namespace tw {
namespace {

// Threads that run together; OpenCL itself does not tell.
int64_t warp_size(const OpenCLDevice& d) {
  const cl_uint nvidia = d.number_of<cl_uint>(CL_DEVICE_WARP_SIZE_NV);
  return nvidia ? nvidia : d.number_of<cl_uint>(CL_DEVICE_WAVEFRONT_WIDTH_AMD, 1);
}
TVMFFIAny dimensions(const OpenCLDevice& d) {
  size_t most[8] = {};
  if (cl().device_info(d.device, CL_DEVICE_ITEM_SIZES, sizeof most, most, nullptr)) return tilewright::detail::none();
  return known(format("[%zu, %zu, %zu]", most[0], most[1], most[2]));
}
TVMFFIAny large(cl_ulong value) { return known(static_cast<int64_t>(value)); }

}  // namespace

TVMFFIAny attribute_of(DLDevice id, int32_t kind) {
  const OpenCLDevice* found = find_device(id);
  if (kind == kTWDeviceExist || !found) return kind == kTWDeviceExist ? known(found != nullptr) : tilewright::detail::none();
  const OpenCLDevice& d = *found;
  switch (kind) {
    case kTWDeviceMaxThreadsPerBlock: return large(d.number_of<size_t>(CL_DEVICE_GROUP_SIZE));
    case kTWDeviceWarpSize: return known(warp_size(d));
    case kTWDeviceMaxSharedMemoryPerBlock: return large(d.number_of<cl_ulong>(CL_DEVICE_LOCAL_MEMORY));
    case kTWDeviceComputeVersion: return known(format("%d.%d", d.version / 100, d.version / 10 % 10));
    case kTWDeviceName: return known(d.name);
    case kTWDeviceMaxClockRate: return large(d.number_of<cl_uint>(CL_DEVICE_CLOCK) * cl_ulong{1000});
    case kTWDeviceMultiProcessorCount: return large(d.number_of<cl_uint>(CL_DEVICE_COMPUTE_UNITS));
    case kTWDeviceMaxThreadDimensions: return dimensions(d);
    case kTWDeviceApiVersion: return known(static_cast<int64_t>(d.version));
    case kTWDeviceDriverVersion: return known(d.text_of(CL_DRIVER_VERSION));
    case kTWDeviceL2CacheSizeBytes: return large(d.number_of<cl_ulong>(CL_DEVICE_CACHE_BYTES));
    case kTWDeviceTotalGlobalMemory: return large(d.number_of<cl_ulong>(CL_DEVICE_MEMORY));
    case kTWDeviceAvailableGlobalMemory: return large(opencl_device(id).memory->available());
    case kTWDeviceTextureSpatialLimit: return large(d.number_of<size_t>(CL_DEVICE_IMAGE_WIDTH));
    default: return tilewright::detail::none();
  }
}

}  // namespace tw
