// A virtual machine as classic programs open it: `vm_load_executable` of a library makes it, and its function `init` tells its devices.
#include "../json.h"
#include "../module.h"

namespace tw {
namespace {

class LateMachine final : public ModuleImpl {
 public:
  LateMachine(Ref<ModuleObject> library, const Code& code) : library_(std::move(library)), code_(code) {}
  const char* kind() const override { return "VirtualMachine"; }
  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    if (name == "init") {
      auto module = Ref<ModuleObject>::share(self);
      return make_function([this, module](Args args) { return init(args); });
    }
    std::lock_guard<Mutex> hold(lock_);
    if (!machine_) fail("RuntimeError", "the virtual machine has no devices yet, so that it has no function `%s`; call `init` first, with a device's type, number and kind of allocator", name.c_str());
    return machine_->find(name, false);
  }
  std::vector<std::string> function_names() override {
    std::lock_guard<Mutex> hold(lock_);
    return machine_ ? machine_->impl->function_names() : std::vector<std::string>{"init"};
  }

 private:
  // (type, number and kind of allocator of a device)...; memory is kept in pools whichever is asked for.
  TVMFFIAny init(Args args) {
    if (args.count < 3 || args.count % 3) fail("TypeError", "init takes the type, the number and the kind of allocator of each device, but was given %d arguments", args.count);
    std::vector<DLDevice> devices;
    for (int32_t i = 0; i < args.count; i += 3) {
      devices.push_back({static_cast<int32_t>(as_int(args[i], "a device's type")), static_cast<int32_t>(as_int(args[i + 1], "a device's number"))});
      as_int(args[i + 2], "the kind of allocator");
    }
    // Classic programs name the CPU behind another device, which one that was compiled for that device does not ask for.
    if (JsonReader(code_.metadata).read()["devices"].items.size() < 2) devices.resize(1);
    auto made = make_executor(library_, code_, std::move(devices), {});
    std::lock_guard<Mutex> hold(lock_);
    machine_ = std::move(made);
    return none();
  }

  Ref<ModuleObject> library_, machine_;
  const Code& code_;  // the library's
  Mutex lock_;
};

}  // namespace

Ref<ModuleObject> make_late_machine(Ref<ModuleObject> library, const Code& code) {
  return make_module(std::make_unique<LateMachine>(std::move(library), code));
}
}  // namespace tw
