// What every executor of a compiled library begins with: its metadata, whether this CPU can run it, and its constants.
#include <algorithm>
#include <cstring>

#include "devices/device.h"
#include "json.h"
#include "module.h"
#include "platform/machine.h"

namespace tw {
namespace {

// How triples for this CPU begin; empty where nobody knows.
const std::vector<const char*> kArchitectures =
#if defined(__x86_64__)
    {"x86_64"};
#elif defined(__i386__)
    {"i686", "i386", "i486", "i586"};
#elif defined(__aarch64__)
    {"aarch64", "arm64"};
#elif defined(__arm__)
    {"arm", "thumb"};
#elif defined(__riscv) && __riscv_xlen == 64
    {"riscv64"};
#else
    {};
#endif

}  // namespace

void check_cpu(const Json& meta) {
  const Json& target = meta["target"].kind == Json::kObject ? meta["target"] : meta;
  std::vector<std::string> required;
  bool amx = false;
  for (auto& f : target["features"].items) {
    required.push_back(f.string);
    amx |= f.string == "amx-tile" || f.string == "+amx-tile";
  }
  const std::string& triple = target["triple"].string;
  if (!triple.empty() && !kArchitectures.empty() && std::none_of(kArchitectures.begin(), kArchitectures.end(), [&](const char* a) { return triple.compare(0, strlen(a), a) == 0; }))
    fail("RuntimeError", "this library was compiled for %s, but this process runs on %s; compile the model for this machine", triple.c_str(), kArchitectures[0]);
  std::string missing;
  for (auto& name : missing_features(required)) missing += (missing.empty() ? "" : ", ") + name;
  if (!missing.empty())
    fail("RuntimeError", "this library was compiled for CPU `%s`, but this machine lacks the features: %s; compile the model again for this machine, or for a target without them",
         target["cpu"].string.c_str(), missing.c_str());
  const std::string refused = amx ? enable_amx() : "";
  if (!refused.empty())
    fail("RuntimeError", "this library uses tile registers (AMX), which the system does not let this process have: %s; compile the model for a target without them (-mattr=-amx-tile)",
         refused.c_str());
}

Ref<TensorObject> constants_of(const Library& library, Ref<TensorObject> given, int64_t bytes) {
  if (bytes < 0) fail("ValueError", "the metadata of %s is damaged: its constants take %lld bytes", library.label().c_str(), static_cast<long long>(bytes));
  int64_t shape[1] = {bytes > 0 ? bytes : 1};
  const DLDataType byte{kDLUInt, 8, 1};
  char* data;
  if (given) {
    auto& t = given->tensor;
    data = static_cast<char*>(t.data) + t.byte_offset;
    if (tensor_bytes(t) < bytes) fail("ValueError", "the constants hold %lld bytes, but the model needs %lld", static_cast<long long>(tensor_bytes(t)), static_cast<long long>(bytes));
  } else {
    data = static_cast<char*>(library.symbol("__tilewright_constants"));
    if (!data && bytes > 0) fail("ValueError", "%s exports no `__tilewright_constants`, but the model needs %lld bytes of them", library.label().c_str(), static_cast<long long>(bytes));
  }
  if (data && reinterpret_cast<uintptr_t>(data) % 64 == 0)
    return tensor_view(DLTensor{data, {kDLCPU, 0}, 1, byte, shape, nullptr, 0}, given ? Ref<>::share(given.get()) : Ref<>());
  auto copy = empty_tensor(1, shape, byte, DLDevice{kDLCPU, 0});
  if (bytes > 0) memcpy(copy->tensor.data, data, static_cast<size_t>(bytes));
  return copy;
}

DLDevice device_among(const std::vector<DLDevice>& given, DLDevice wanted) {
  std::string text;
  for (auto& d : given) {
    if (d.device_type == wanted.device_type && d.device_id == wanted.device_id) return d;
    text += (text.empty() ? "" : ", ") + device_text(d);
  }
  fail("ValueError", "the model was compiled for %s among others, but the executor was created with %s only; give all devices", device_text(wanted).c_str(), text.c_str());
}

DLDevice device_of(const Json& pair) {
  if (pair.items.size() != 2) fail("ValueError", "the metadata is damaged: a device is [type, number]");
  return {static_cast<int32_t>(pair.items[0].integer), static_cast<int32_t>(pair.items[1].integer)};
}
void need_type(const std::string& label, int32_t type, const std::vector<DLDevice>& devices) {
  for (auto& d : devices)
    if (d.device_type != type)
      fail("ValueError", "%s was compiled for %s; create it with %s, not %s", label.c_str(), type == kDLCPU ? "the CPU" : (device_type_text(type) + " devices").c_str(),
           device_text({type, 0}).c_str(), device_text(d).c_str());
}

Ref<ModuleObject> make_executor(Ref<ModuleObject> module, const Code& code, std::vector<DLDevice> devices, Ref<TensorObject> bytecode) {
  std::string label = code.library->label();
  Json meta = JsonReader(code.metadata).read();
  if (meta.kind != Json::kObject) fail("ValueError", "the metadata of %s is no JSON object", label.c_str());
  const std::string& executor = meta["executor"].string;
  if (bytecode && executor != "vm") fail("ValueError", "%s holds a model for the ahead-of-time executor, which has no bytecode", label.c_str());
  if (executor == "kernels")
    fail("ValueError", "%s holds the kernels of a graph only; graph_executor.create(graph_json, library, device) runs them", label.c_str());
  if (executor == "graph") return make_graph_executor(std::move(module), meta["graph"].string, std::move(devices), false);
  check_cpu(meta);
  const auto& compiled = meta["devices"].items;
  const int32_t type = compiled.empty() ? static_cast<int32_t>(kDLCPU) : device_of(compiled[0]).device_type;
  if (compiled.size() < 2) need_type(label, type, devices);
  for (auto& d : devices) need_device(d);
  auto constants = constants_of(*code.library, code.constants, meta["constants_bytes"].integer);
  if (compiled.size() > 1) {  // in the order in which the code counts them
    std::vector<DLDevice> ordered;
    for (auto& d : compiled) ordered.push_back(device_among(devices, device_of(d)));
    devices = std::move(ordered);
  }
  if (executor == "vm") return make_machine(std::move(module), code.library, meta, std::move(constants), std::move(bytecode), devices);
  return make_aot_executor(std::move(module), code.library, code.metadata, meta, std::move(constants), devices);
}

}  // namespace tw
