// What a server offers beside its registered functions: modules by name, measurements, and the loop that answers a client.
#include "endpoint.h"
#include "../module.h"

namespace tw::rpc {
namespace {

DLDevice device_of(const TVMFFIAny& type, const TVMFFIAny& number) {
  return {static_cast<int32_t>(as_int(type, "a device's type")), static_cast<int32_t>(as_int(number, "a device's number"))};
}

// (module or None, name, device type, device number, number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
//  repeats_to_cooldown, cache_flush_bytes, name of the function before each repeat): the function that measures
TVMFFIAny time_evaluator(Args args) {
  const std::string name = as_string(args[1]), before = as_string(args[11]);
  Ref<FunctionObject> function = args[0].type_index == kTVMFFINone ? get_global(name) : as_module(args[0])->find(name, true);
  if (!function) fail("AttributeError", "there is no function `%s` to measure", name.c_str());
  Ref<FunctionObject> first = before.empty() ? Ref<FunctionObject>() : get_global(before);
  if (!before.empty() && !first) fail("AttributeError", "there is no function `%s` to call before each repeat", before.c_str());
  auto value = [](Ref<FunctionObject>& f) {
    TVMFFIAny v = none();
    if (f) v.type_index = kTVMFFIFunction, v.v_obj = &f->header;
    return v;
  };
  TVMFFIAny device = none();
  device.type_index = kTVMFFIDevice;
  device.v_device = device_of(args[2], args[3]);
  const TVMFFIAny all[] = {value(function), args[4], args[5], args[6], args[7], args[8], args[9], args[10], value(first), device};
  return call(get_global("runtime.TimeEvaluator").get(), all, 10);
}

const int registered = [] {
  register_global("tvm.rpc.server.ModuleGetFunction", [](Args args) {
    auto found = as_module(args[0])->find(as_string(args[1]), as_int(args[2], "whether imports are asked") != 0);
    return found ? from_ref(std::move(found)) : none();
  });
  register_global("ffi.SystemLib", [](Args) { return call(get_global("runtime.SystemLib").get(), nullptr, 0); });
  register_global("tvm.rpc.server.ImportModule", [](Args args) { return call(get_global("runtime.ModuleImport").get(), args.values, 2); });
  register_global("runtime.RPCTimeEvaluator", time_evaluator);
  // (socket, name of the other side, bytes of a message, seconds of silence in a message, and between two or 0): answers it until it ends
  // the session.
  register_global("rpc.Serve", [](Args args) {
    auto session = std::make_shared<Endpoint>(socket_of(args[0]), as_string(args[1]), true);
    if (args.count > 4) {
      Patience patience;
      patience.within = static_cast<int>(1000 * as_int(args[3], "seconds"));
      if (as_int(args[4], "seconds") > 0) patience.between = static_cast<int>(1000 * as_int(args[4], "seconds"));
      session->limit(static_cast<uint64_t>(as_int(args[2], "bytes")), patience);
    }
    session->serve();
    session->free_memory();
    return none();
  });
  return 0;
}();

}  // namespace
}  // namespace tw::rpc
