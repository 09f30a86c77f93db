// The CPU as a device: the system's memory, calls that are done when they return, and what the system says of the machine.
#include <algorithm>

#include "../platform/machine.h"
#include "../platform/memory.h"
#include "../platform/threads.h"
#include "../thread_pool.h"
#include "device.h"

namespace tw {

void* allocate_cpu(size_t bytes) {
  size_t rounded = (bytes + 63) & ~size_t{63};
  return aligned_memory(64, rounded ? rounded : 64);
}

// One core does not fill the memory's bandwidth, so long copies are shared out; threads are not started for them.
namespace {
constexpr size_t kSharedCopy = 1u << 20, kCopyPiece = 1u << 18;
struct Copy {
  char* to;
  const char* from;
  size_t bytes;
};
int32_t copy_piece(int32_t piece, int32_t pieces, void* cdata) {
  auto* c = static_cast<Copy*>(cdata);
  size_t each = (c->bytes / static_cast<size_t>(pieces) + 63) & ~size_t{63}, begin = std::min(each * static_cast<size_t>(piece), c->bytes);
  memcpy(c->to + begin, c->from + begin, piece + 1 == pieces ? c->bytes - begin : std::min(each, c->bytes - begin));
  return 0;
}
}  // namespace
void copy_memory(void* to, const void* from, size_t bytes) {
  if (bytes < kSharedCopy || !threads_started()) {
    memcpy(to, from, bytes);
    return;
  }
  Copy all{static_cast<char*>(to), static_cast<const char*>(from), bytes};
  parallel_launch(copy_piece, &all, -static_cast<int32_t>(std::min<size_t>(bytes / kCopyPiece, 1024)));
}

namespace {

int32_t attribute(void*, DLDevice device, int32_t kind, TVMFFIAny* result) {
  return guarded([&] {
    auto known = [](int64_t v) { return v ? from_int(v) : none(); };
    *result = none();
    if (kind == kTWDeviceExist) *result = from_int(device.device_id == 0);
    if (device.device_id != 0) return;
    if (kind == kTWDeviceMultiProcessorCount) *result = from_int(allowed_processors());
    if (kind == kTWDeviceMaxClockRate) *result = known(clock_rate());
    if (kind == kTWDeviceTotalGlobalMemory) *result = known(total_memory());
    if (kind == kTWDeviceAvailableGlobalMemory) *result = known(available_memory());
    if (kind != kTWDeviceName) return;
    std::string name = processor_name();
    if (!name.empty()) *result = from_string(name);
  });
}

const int cpu_registered = [] {
  register_global("device_api.cpu", [](Args) {
    TVMFFIAny table = none();
    table.type_index = kTVMFFIOpaquePtr;
    table.v_ptr = const_cast<TWDeviceAPI*>(&kCPUDevice);
    return table;
  });
  return 0;
}();

}  // namespace

const TWDeviceAPI kCPUDevice = {
    TW_DEVICE_API_VERSION, nullptr, attribute,
    [](void*, const DLTensor*, size_t bytes, size_t alignment, const char* scope, void** result) {
      return guarded([&] {
        if (*scope && strcmp(scope, "global") != 0) fail("ValueError", "the CPU has no memory scope `%s`", scope);
        if (alignment & (alignment - 1)) fail("ValueError", "memory cannot be aligned to %zu bytes, which is not a power of 2", alignment);
        size_t step = std::max<size_t>(alignment, 64);
        *result = aligned_memory(step, std::max(step, (bytes + step - 1) & ~(step - 1)));
        if (!*result) fail("MemoryError", "cannot allocate %zu bytes", bytes);
      });
    },
    [](void*, DLDevice, void* data) { return free_aligned(data), 0; },
    [](void*, const DLTensor* from, const DLTensor* to, void*) { return guarded([&] { copy_tensor(*from, *to); }); },
    [](void*, DLDevice, void*) { return 0; }, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace tw
