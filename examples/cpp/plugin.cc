// Functions and a kind of modules in C++ for every program that loads this library: Python (ctypes.CDLL), a server of remote calls, a host in
// C++. It is linked with no runtime; it finds the one of the process.
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <string>

using namespace tvm::runtime;

// plugin.scale(array, factor): in place.
TVM_REGISTER_GLOBAL("plugin.scale").set_body_typed([](NDArray array, double factor) {
  CHECK(array.DataType() == DataType::Float(32)) << "TypeError: plugin.scale takes float32, but was given " << array.DataType();
  CHECK(array.IsContiguous()) << "ValueError: plugin.scale takes contiguous arrays";
  auto* data = static_cast<float*>(array->data);
  for (int64_t i = 0; i < array.Shape().Product(); ++i) data[i] *= static_cast<float>(factor);
  return array;
});

// plugin.apply(f, x, n): f(...f(f(x))), n times. What f raises goes through.
TVM_REGISTER_GLOBAL("plugin.apply").set_body([](TVMArgs args, TVMRetValue* rv) {
  PackedFunc f = args[0];
  *rv = args[1];
  for (int i = 0; i < static_cast<int>(args[2]); ++i) *rv = f(*rv);
});

// A module with a function for each number: counter["add_3"]().
class CounterModule : public ModuleNode {
 public:
  const char* type_key() const final { return "counter"; }
  PackedFunc GetFunction(const String& name, const ObjectPtr<Object>& sptr_to_self) final {
    const std::string text = name;
    if (text.rfind("add_", 0) != 0) return PackedFunc();
    const int step = std::stoi(text.substr(4));
    return PackedFunc([this, sptr_to_self, step](TVMArgs, TVMRetValue* rv) { *rv = count_ += step; });
  }

 private:
  int64_t count_ = 0;
};
TVM_REGISTER_GLOBAL("plugin.counter").set_body_typed([]() { return Module(make_object<CounterModule>()); });
