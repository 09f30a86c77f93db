// Libraries of devices: what drives those of one type, in a file beside the runtime, which is opened when the first of them is used.
#include "../platform/files.h"
#include "../platform/loader.h"
#include "device.h"

namespace tw {
namespace {

// Memory of the CPU that belongs to devices ("cuda_host") is of the same library; accelerators are external devices.
std::string library_of(const std::string& type) {
  return library_beside("tilewright_" + (type == "ext_dev" ? "vta" : type.substr(0, type.find('_'))));
}

const int libraries_registered = [] {
  // (type, its name): its table; the path of the library where there is none.
  register_global("runtime.OpenDevices", [](Args args) {
    const std::string path = library_of(as_string(args[1]));
    FileIdentity file;
    std::string whole;
    if (!identify(path, &file, &whole)) return from_string(path);
    auto open = reinterpret_cast<decltype(&TWOpenDevices)>(symbol_of(open_library(path), "TWOpenDevices"));
    if (!open) fail("RuntimeError", "%s is no library of devices: it has no function `TWOpenDevices`", path.c_str());
    const TWDeviceAPI* table = nullptr;
    if (open(TWGetHostAPI(), static_cast<int32_t>(as_int(args[0], "a device's type")), &table)) throw Raised{};
    TVMFFIAny answer = none();
    answer.type_index = kTVMFFIOpaquePtr;
    answer.v_ptr = const_cast<TWDeviceAPI*>(table);
    return answer;
  });
  return 0;
}();

}  // namespace
}  // namespace tw
