// The virtual machine as a module: functions by name, arguments, inputs that stay set; runs programs with control flow, data types,
// closures and sizes known only at run time.
#include <atomic>
#include <chrono>

#include "../devices/device.h"
#include "../json.h"
#include "run.h"

namespace tw {
namespace {

class Machine : public ModuleImpl {
 public:
  Machine(Ref<ModuleObject> module, std::shared_ptr<Library> library, const Json& meta, Ref<TensorObject> constants, Ref<TensorObject> bytecode, const std::vector<DLDevice>& devices)
      : module_(std::move(module)), library_(std::move(library)), constants_(std::move(constants)) {
    auto* code = static_cast<const char*>(library_->symbol("__tilewright_bytecode"));
    int64_t bytes = meta["bytecode_bytes"].integer;
    if (bytecode) {
      code = static_cast<const char*>(bytecode->tensor.data);
      bytes = tensor_bytes(bytecode->tensor);
    }
    if (!code || bytes <= 0) fail("ValueError", "%s exports no `__tilewright_bytecode`: it is not a program for the virtual machine", library_->label().c_str());
    program_ = std::make_unique<Program>(code, static_cast<size_t>(bytes), *library_, constants_, devices);
  }
  const char* kind() const override { return "VirtualMachine"; }

  static const std::map<std::string, TVMFFIAny (Machine::*)(Args)>& methods() {
    static const std::map<std::string, TVMFFIAny (Machine::*)(Args)> all = {
        {"invoke", &Machine::invoke}, {"invoke_closure", &Machine::invoke_closure}, {"set_input", &Machine::set_input},
        {"set_one_input", &Machine::set_one_input}, {"set_outputs", &Machine::set_outputs}, {"invoke_stateful", &Machine::invoke_stateful},
        {"get_output", &Machine::get_output}, {"get_num_outputs", &Machine::get_num_outputs},
        {"get_function_arity", &Machine::get_function_arity}, {"get_function_param_name", &Machine::get_function_param_name},
        {"get_input_index", &Machine::get_input_index}, {"set_depth_limit", &Machine::set_depth_limit}, {"trim", &Machine::trim}, {"peak_memory", &Machine::peak_memory}, {"profile", &Machine::profile}};
    return all;
  }
  std::vector<std::string> function_names() override { return keys(methods()); }
  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    auto it = methods().find(name);
    if (it == methods().end()) return {};
    auto method = it->second;
    auto owner = Ref<ModuleObject>::share(self);
    return make_function([this, owner, method](Args args) { return (this->*method)(args); });
  }

 private:
  using Values = std::vector<TVMFFIAny>;
  // Owned values that are dropped unless they are handed over.
  struct Owned {
    Values values;
    ~Owned() { drop_all(values); }
    Values release() { return std::move(values); }
  };

  const Function& function(const TVMFFIAny& name) const {
    std::string key = as_string(name);
    auto it = program_->by_name.find(key);
    if (it != program_->by_name.end()) return program_->functions[static_cast<size_t>(it->second)];
    std::string known;
    for (auto& f : program_->functions) known += (known.empty() ? "" : ", ") + f.name;
    fail("ValueError", "the program has no function `%s`; it has %s", key.c_str(), known.c_str());
  }
  const TensorSpec* spec_of(const Function& f, int32_t i) const {
    int32_t spec = f.param_specs[static_cast<size_t>(i)];
    return spec < 0 ? nullptr : &program_->specs[static_cast<size_t>(spec)];
  }
  static std::string spec_text(const TensorSpec& s) {
    std::string text;
    for (size_t i = 0; i < s.shape.size(); ++i) text += (i ? ", " : "") + (s.shape[i] < 0 ? std::string("?") : std::to_string(s.shape[i]));
    return "(" + text + (s.shape.size() == 1 ? ",) " : ") ") + dtype_text(s.dtype);
  }
  static void check(const TensorSpec& s, const DLTensor& t, const char* name, const Function& f) {
    bool same = t.ndim == static_cast<int32_t>(s.shape.size());
    for (int32_t i = 0; same && i < t.ndim; ++i) same = s.shape[static_cast<size_t>(i)] < 0 || t.shape[i] == s.shape[static_cast<size_t>(i)];
    bool is_bool = s.dtype.bits == 1 && (t.dtype.code == kDLBool || t.dtype.bits == 1);
    if (!same || (!is_bool && memcmp(&t.dtype, &s.dtype, sizeof s.dtype) != 0))
      fail(same ? "TypeError" : "ValueError", "argument `%s` of %s must be a tensor %s, but is %s %s", name, f.name.c_str(), spec_text(s).c_str(),
           shape_text(t.ndim, t.shape).c_str(), dtype_text(t.dtype).c_str());
  }
  // A tensor that kernels on a device can read: there, compact, aligned, and owned by a reference.
  TVMFFIAny usable(const TVMFFIAny& v, const DLTensor& t, DLDevice device) const {
    bool aligned = (reinterpret_cast<uintptr_t>(t.data) + t.byte_offset) % 64 == 0;
    bool there = on_cpu(device) ? on_cpu(t.device) : same_device(t.device, device);
    if (v.type_index == kTVMFFITensor && aligned && there && is_compact(t)) return own(v);
    auto copy = on_cpu(device) ? empty_tensor(t.ndim, t.shape, t.dtype, {kDLCPU, 0}) : away_->tensor(t.ndim, t.shape, t.dtype, device, static_cast<size_t>(tensor_bytes(t)));
    copy_tensor(t, copy->tensor);
    return from_ref(std::move(copy));
  }
  DLDevice device_of(const TensorSpec& s) const { return program_->devices[static_cast<size_t>(s.device)]; }
  TVMFFIAny number(const TensorSpec& s, const TVMFFIAny& v) const {
    auto t = empty_tensor(0, nullptr, s.dtype, {kDLCPU, 0});
    double real = v.type_index == kTVMFFIFloat ? v.v_float64 : static_cast<double>(v.v_int64);
    int64_t whole = v.type_index == kTVMFFIFloat ? static_cast<int64_t>(v.v_float64) : v.v_int64;
    void* to = t->tensor.data;
    if (s.dtype.code == kDLFloat && s.dtype.bits == 32) { float f = static_cast<float>(real); memcpy(to, &f, 4); }
    else if (s.dtype.code == kDLFloat && s.dtype.bits == 64) memcpy(to, &real, 8);
    else if (s.dtype.code == kDLInt || s.dtype.code == kDLUInt || s.dtype.code == kDLBool) memcpy(to, &whole, static_cast<size_t>(s.dtype.bits + 7) / 8);
    else fail("TypeError", "a number cannot be made a %s; give a tensor", dtype_text(s.dtype).c_str());
    TVMFFIAny made = from_ref(std::move(t));
    if (on_cpu(device_of(s))) return made;
    Owned here{{made}};
    return usable(made, *as_tensor(made), device_of(s));
  }
  TVMFFIAny argument(const Function& f, int32_t i, const TVMFFIAny& v) const {
    const TensorSpec* spec = spec_of(f, i);
    const char* name = f.param_names[static_cast<size_t>(i)].c_str();
    if (!spec) return structure(v, name);
    if (const DLTensor* t = as_tensor(v)) {
      check(*spec, *t, name, f);
      return usable(v, *t, device_of(*spec));
    }
    bool is_number = v.type_index == kTVMFFIInt || v.type_index == kTVMFFIBool || v.type_index == kTVMFFIFloat;
    if (is_number && spec->shape.empty()) return number(*spec, v);
    fail("TypeError", "argument `%s` of %s must be a tensor %s, but %s was given", name, f.name.c_str(), spec_text(*spec).c_str(), described(v).c_str());
  }
  TVMFFIAny structure(const TVMFFIAny& v, const char* name) const {
    if (const DLTensor* t = as_tensor(v)) {  // where nothing says its device, it stays on its own, if that is one of the program's
      for (auto& d : program_->devices)
        if (same_device(d, t->device)) return usable(v, *t, d);
      return usable(v, *t, program_->devices[0]);
    }
    if (v.type_index == kTVMFFIArray) {
      auto* list = reinterpret_cast<TVMFFISeqCell*>(v.v_obj + 1);
      Owned fields;
      for (int64_t i = 0; i < list->size; ++i) fields.values.push_back(structure(static_cast<TVMFFIAny*>(list->data)[i], name));
      return from_object(&make<AdtObject>(0, fields.release())->header);
    }
    if (v.type_index == adt_type() || v.type_index == closure_type() || v.type_index == ref_type()) return own(v);
    fail("TypeError", "argument `%s` must be a tensor, a tuple or a value of a data type, but %s was given", name, described(v).c_str());
  }
  Values arguments(const Function& f, const TVMFFIAny* given, int32_t n) const {
    if (n != f.params) fail("TypeError", "%s takes %d arguments, but %d were given", f.name.c_str(), f.params, n);
    Owned out;
    for (int32_t i = 0; i < n; ++i) out.values.push_back(argument(f, i, given[i]));
    return out.release();
  }
  TVMFFIAny run(const Function& f, Values args) { return Run(*program_, pool_, away_, limit_).call(f, std::move(args)); }

  // (function, arguments... or none, for those of set_input)
  TVMFFIAny invoke(Args args) {
    const Function& f = function(args[0]);
    return run(f, args.count == 1 ? stored_inputs(f) : arguments(f, args.values + 1, args.count - 1));
  }
  // (function, arguments... or none, for those of set_input): runs it and returns a JSON list of [kernel, seconds, shapes of its
  // tensors], after the seconds of all.
  TVMFFIAny profile(Args args) {
    const Function& f = function(args[0]);
    Owned inputs{args.count == 1 ? stored_inputs(f) : arguments(f, args.values + 1, args.count - 1)};
    std::vector<KernelRecord> records;
    auto begin = std::chrono::steady_clock::now();
    Owned result{{Run(*program_, pool_, away_, limit_, &records).call(f, inputs.release())}};
    std::string text = "[" + format("%.9g", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    for (auto& r : records) text += format(", [\"%s\", %.9g, \"%s\"]", kernel_name(r.kernel).c_str(), r.seconds, r.shapes.c_str());
    return from_string(text + "]");
  }
  const std::string& kernel_name(int32_t i) const { return program_->kernels[static_cast<size_t>(i)].name; }
  TVMFFIAny invoke_closure(Args args) {
    if (args[0].type_index != closure_type()) fail("TypeError", "a function of this program was expected, but %s was given", described(args[0]).c_str());
    auto* c = reinterpret_cast<ClosureObject*>(args[0].v_obj);
    if (c->home != program_.get()) fail("ValueError", "this function belongs to another program");
    const Function& f = program_->functions[static_cast<size_t>(c->function)];
    int32_t held = static_cast<int32_t>(c->captured.size());
    if (held + args.count - 1 != f.params) fail("TypeError", "%s takes %d arguments, but %d were given", f.name.c_str(), f.params - held, args.count - 1);
    Owned all;
    for (auto& x : c->captured) all.values.push_back(own(x));
    for (int32_t i = 1; i < args.count; ++i) all.values.push_back(argument(f, held + i - 1, args[i]));
    return run(f, all.release());
  }
  TVMFFIAny set_input(Args args) {
    const Function& f = function(args[0]);
    Owned fresh{arguments(f, args.values + 1, args.count - 1)};
    std::lock_guard<Mutex> hold(lock_);
    std::swap(inputs_[f.name].values, fresh.values);
    return none();
  }
  int32_t parameter(const Function& f, const TVMFFIAny& key) const {
    if (is_string(key)) {
      std::string name = as_string(key);
      for (int32_t i = 0; i < f.params; ++i)
        if (f.param_names[static_cast<size_t>(i)] == name) return i;
      std::string known;
      for (auto& n : f.param_names) known += (known.empty() ? "" : ", ") + n;
      fail("ValueError", "%s has no parameter `%s`; it has %s", f.name.c_str(), name.c_str(), known.empty() ? "none" : known.c_str());
    }
    int64_t i = as_int(key, "the parameter's index");
    if (i < 0 || i >= f.params) fail("IndexError", "parameter %lld is out of range: %s has %d", static_cast<long long>(i), f.name.c_str(), f.params);
    return static_cast<int32_t>(i);
  }
  TVMFFIAny set_one_input(Args args) {
    const Function& f = function(args[0]);
    int32_t i = parameter(f, args[1]);
    TVMFFIAny fresh = argument(f, i, args[2]);
    std::lock_guard<Mutex> hold(lock_);
    Values& all = inputs_[f.name].values;
    all.resize(static_cast<size_t>(f.params), none());
    std::swap(all[static_cast<size_t>(i)], fresh);
    destroy(fresh);
    return none();
  }
  TVMFFIAny set_outputs(Args args) {
    const Function& f = function(args[0]);
    Owned fresh;
    for (int32_t i = 1; i < args.count; ++i) {
      const DLTensor* t = as_tensor(args[i]);
      if (!t || args[i].type_index != kTVMFFITensor || !is_compact(*t)) fail("TypeError", "output %d must be a compact tensor", i - 1);
      fresh.values.push_back(own(args[i]));
    }
    std::lock_guard<Mutex> hold(lock_);
    std::swap(outputs_[f.name].values, fresh.values);
    return none();
  }
  // What set_input and set_one_input set for a function.
  Values stored_inputs(const Function& f) {
    Owned inputs;
    {
      std::lock_guard<Mutex> hold(lock_);
      for (auto& v : inputs_[f.name].values) inputs.values.push_back(own(v));
    }
    inputs.values.resize(static_cast<size_t>(f.params), none());
    for (int32_t i = 0; i < f.params; ++i)
      if (inputs.values[static_cast<size_t>(i)].type_index == kTVMFFINone)
        fail("ValueError", "the input `%s` of %s was not set; call set_input first", f.param_names[static_cast<size_t>(i)].c_str(), f.name.c_str());
    return inputs.release();
  }
  TVMFFIAny invoke_stateful(Args args) {
    const Function& f = function(args[0]);
    Owned inputs{stored_inputs(f)}, wanted;
    {
      std::lock_guard<Mutex> hold(lock_);
      for (auto& v : outputs_[f.name].values) wanted.values.push_back(own(v));
    }
    Owned result{{run(f, inputs.release())}};
    if (!wanted.values.empty()) write_outputs(result.values[0], wanted.values);
    std::lock_guard<Mutex> hold(lock_);
    std::swap(result_.values, result.values);
    return none();
  }
  static void write_outputs(const TVMFFIAny& result, const Values& wanted) {
    size_t n = result.type_index == adt_type() ? reinterpret_cast<AdtObject*>(result.v_obj)->fields.size() : 1;
    if (n != wanted.size()) fail("ValueError", "the program has %zu outputs, but %zu tensors were set for them", n, wanted.size());
    for (size_t i = 0; i < n; ++i) {
      const TVMFFIAny& v = result.type_index == adt_type() ? reinterpret_cast<AdtObject*>(result.v_obj)->fields[i] : result;
      const DLTensor *from = as_tensor(v), *to = as_tensor(wanted[i]);
      if (!from) fail("TypeError", "output %zu is not a tensor, so that it cannot be written into one", i);
      bool same = from->ndim == to->ndim && memcmp(&from->dtype, &to->dtype, sizeof to->dtype) == 0;
      for (int32_t d = 0; same && d < to->ndim; ++d) same = from->shape[d] == to->shape[d];
      if (!same) fail("ValueError", "output %zu is %s %s, but the tensor set for it is %s %s", i, shape_text(from->ndim, from->shape).c_str(), dtype_text(from->dtype).c_str(),
                      shape_text(to->ndim, to->shape).c_str(), dtype_text(to->dtype).c_str());
      copy_tensor(*from, *to);
    }
  }
  TVMFFIAny get_output(Args args) {
    std::lock_guard<Mutex> hold(lock_);
    if (result_.values.empty()) fail("ValueError", "there is no output: call invoke_stateful first");
    const TVMFFIAny& v = result_.values[0];
    if (v.type_index != adt_type()) return own(v);
    auto& fields = reinterpret_cast<AdtObject*>(v.v_obj)->fields;
    int64_t i = args.count ? as_int(args[0], "the output's index") : 0;
    if (i < 0 || static_cast<size_t>(i) >= fields.size()) fail("IndexError", "output %lld is out of range: there are %zu", static_cast<long long>(i), fields.size());
    return own(fields[static_cast<size_t>(i)]);
  }
  TVMFFIAny get_num_outputs(Args) {
    std::lock_guard<Mutex> hold(lock_);
    if (result_.values.empty()) return from_int(0);
    const TVMFFIAny& v = result_.values[0];
    return from_int(v.type_index == adt_type() ? static_cast<int64_t>(reinterpret_cast<AdtObject*>(v.v_obj)->fields.size()) : 1);
  }
  TVMFFIAny get_function_arity(Args args) { return from_int(function(args[0]).params); }
  TVMFFIAny get_function_param_name(Args args) {
    const Function& f = function(args[0]);
    return from_string(f.param_names[static_cast<size_t>(parameter(f, args[1]))]);
  }
  TVMFFIAny get_input_index(Args args) { return from_int(parameter(function(args.count > 1 ? args[1] : main_), args[0])); }
  TVMFFIAny set_depth_limit(Args args) {
    int64_t n = as_int(args[0], "the depth limit");
    if (n < 1) fail("ValueError", "the depth limit must be positive, got %lld", static_cast<long long>(n));
    limit_ = static_cast<size_t>(n);
    return none();
  }
  // The most bytes that tensors of runs took at once since this was last asked; workspaces of kernels are not among them.
  TVMFFIAny peak_memory(Args) { return from_int(static_cast<int64_t>(pool_->peak())); }
  TVMFFIAny trim(Args) {
    pool_->trim();
    away_->trim();
    return none();
  }

  Ref<ModuleObject> module_;
  std::shared_ptr<Library> library_;
  Ref<TensorObject> constants_;
  std::unique_ptr<Program> program_;
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
  std::shared_ptr<DevicePool> away_ = std::make_shared<DevicePool>();
  std::atomic<size_t> limit_{100000};
  TVMFFIAny main_ = from_string("main");
  Mutex lock_;
  std::map<std::string, Owned> inputs_, outputs_;
  Owned result_;
};

}  // namespace

Ref<ModuleObject> make_machine(Ref<ModuleObject> module, std::shared_ptr<Library> library, const Json& metadata, Ref<TensorObject> constants,
                               Ref<TensorObject> bytecode, std::vector<DLDevice> devices) {
  return make_module(std::make_unique<Machine>(std::move(module), std::move(library), metadata, std::move(constants), std::move(bytecode), devices));
}

}  // namespace tw
