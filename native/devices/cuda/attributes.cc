#include "attributes.h"

#include "../common/library.h"

namespace tw {
namespace {

TVMFFIAny version_text(const CudaDevice& d) { return known(format("%d.%d", d.attribute(kComputeMajor), d.attribute(kComputeMinor))); }
TVMFFIAny dimensions_text(const CudaDevice& d) { return known(format("[%d, %d, %d]", d.attribute(kMaxBlockX), d.attribute(kMaxBlockY), d.attribute(kMaxBlockZ))); }
TVMFFIAny total_memory(const CudaDevice& d) {
  size_t bytes = 0;
  check(cuda().device_memory(&bytes, d.device), "ask for the memory of", d);
  return known(static_cast<int64_t>(bytes));
}

}  // namespace

TVMFFIAny attribute_of(DLDevice id, int32_t kind) {
  const bool exists = id.device_id >= 0 && id.device_id < cuda().count;
  if (kind == kTWDeviceExist || !exists) return kind == kTWDeviceExist ? known(exists) : tilewright::detail::none();
  const CudaDevice& d = cuda_device(id);
  switch (kind) {
    case kTWDeviceMaxThreadsPerBlock: return known(d.attribute(kMaxThreadsPerBlock));
    case kTWDeviceWarpSize: return known(d.attribute(kWarpSize));
    case kTWDeviceMaxSharedMemoryPerBlock: return known(d.attribute(kMaxSharedPerBlock));
    case kTWDeviceComputeVersion: return version_text(d);
    case kTWDeviceName: return known(d.name);
    case kTWDeviceMaxClockRate: return known(d.attribute(kClockRate));
    case kTWDeviceMultiProcessorCount: return known(d.attribute(kMultiprocessors));
    case kTWDeviceMaxThreadDimensions: return dimensions_text(d);
    case kTWDeviceMaxRegistersPerBlock: return known(d.attribute(kMaxRegisters));
    case kTWDeviceApiVersion: return known(cuda().version);
    case kTWDeviceL2CacheSizeBytes: return known(d.attribute(kL2Bytes));
    case kTWDeviceTotalGlobalMemory: return total_memory(d);
    case kTWDeviceAvailableGlobalMemory: return known(static_cast<int64_t>(d.memory.available()));
    default: return tilewright::detail::none();
  }
}

}  // namespace tw
