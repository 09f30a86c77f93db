#include "library.h"

extern "C" TW_EXPORT int32_t TWOpenDevices(const TWHostAPI* host, int32_t device_type, const TWDeviceAPI** table) {
  tilewright::use_host_api(host);
  return tw::guarded([&] { *table = tw::open_devices(device_type); });
}
