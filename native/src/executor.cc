// The ahead-of-time executor: one compiled entry, one arena, constants of the library; and its kernels one by one.
#include <atomic>
#include <cmath>

#include "json.h"
#include "module.h"

namespace tw {
namespace {

using Entry = int32_t (*)(void** args);

struct Slot {
  std::string name;
  DLDataType dtype;
  std::vector<int64_t> shape;
  Ref<TensorObject> tensor;
};

struct KernelArg {
  enum Kind { kInput, kOutput, kConstant, kWorkspace } kind;
  int64_t value;
};
struct Kernel {
  std::string name;
  Entry entry;
  std::vector<KernelArg> args;
};

class Executor : public ModuleImpl {
 public:
  Executor(Ref<ModuleObject> module, std::shared_ptr<Library> library, const std::string& metadata, const Json& meta,
           Ref<TensorObject> constants, DLDevice device)
      : module_(std::move(module)), library_(std::move(library)), constants_(std::move(constants)), metadata_(metadata) {
    std::string entry = meta["entry"].kind == Json::kString ? meta["entry"].string : "__tilewright_run";
    entry_ = reinterpret_cast<Entry>(library_->symbol(entry));
    if (!entry_) fail("ValueError", "%s exports no `%s`: it is not a compiled model", library_->label().c_str(), entry.c_str());
    read_slots(meta["inputs"], device, &inputs_);
    read_slots(meta["outputs"], device, &outputs_);
    constants_data_ = static_cast<char*>(constants_->tensor.data);
    int64_t bytes = meta["workspace_bytes"].integer;
    int64_t shape[1] = {bytes > 64 ? bytes : 64};
    workspace_ = empty_tensor(1, shape, DLDataType{kDLUInt, 8, 1}, device);
    memset(workspace_->tensor.data, 0, static_cast<size_t>(shape[0]));  // pages are there before the first run
    read_kernels(meta["kernels"]);
    bind();
  }

  const char* kind() const override { return "AotExecutor"; }

  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    static const std::map<std::string, TVMFFIAny (Executor::*)(Args)> methods = {
        {"set_input", &Executor::set_input}, {"set_input_zero_copy", &Executor::set_input_zero_copy},
        {"set_output_zero_copy", &Executor::set_output_zero_copy}, {"get_input", &Executor::get_input},
        {"get_output", &Executor::get_output}, {"copy_output", &Executor::get_output}, {"run", &Executor::run},
        {"get_num_inputs", &Executor::get_num_inputs}, {"get_num_outputs", &Executor::get_num_outputs},
        {"get_input_index", &Executor::get_input_index}, {"get_input_name", &Executor::get_input_name},
        {"get_output_index", &Executor::get_output_index}, {"get_output_name", &Executor::get_output_name},
        {"get_num_kernels", &Executor::get_num_kernels}, {"get_kernel_name", &Executor::get_kernel_name},
        {"run_kernel", &Executor::run_kernel}, {"get_kernel_args", &Executor::get_kernel_args},
        {"get_metadata", &Executor::get_metadata}};
    auto it = methods.find(name);
    if (it == methods.end()) return {};
    auto method = it->second;
    auto owner = Ref<ModuleObject>::share(self);
    return make_function([this, owner, method](Args args) { return (this->*method)(args); });
  }

 private:
  static void read_slots(const Json& list, DLDevice device, std::vector<Slot>* out) {
    for (auto& item : list.items) {
      Slot slot;
      slot.name = item["name"].string;
      slot.dtype = parse_dtype(item["dtype"].string);
      for (auto& d : item["shape"].items) slot.shape.push_back(d.integer);
      slot.tensor = empty_tensor(static_cast<int32_t>(slot.shape.size()), slot.shape.data(), slot.dtype, device);
      memset(slot.tensor->tensor.data, 0, static_cast<size_t>(tensor_bytes(slot.tensor->tensor)));
      out->push_back(std::move(slot));
    }
  }

  void read_kernels(const Json& list) {
    static const std::map<std::string, KernelArg::Kind> kinds = {
        {"input", KernelArg::kInput}, {"output", KernelArg::kOutput}, {"constant", KernelArg::kConstant}, {"workspace", KernelArg::kWorkspace}};
    for (auto& item : list.items) {
      Kernel k;
      k.name = item["name"].string;
      k.entry = reinterpret_cast<Entry>(library_->symbol(item["symbol"].string));
      for (auto& arg : item["args"].items) {
        auto kind = arg.items.size() >= 2 ? kinds.find(arg.items[0].string) : kinds.end();
        if (kind == kinds.end()) fail("ValueError", "the library's metadata is damaged: argument of kernel `%s`", k.name.c_str());
        k.args.push_back({kind->second, arg.items[1].integer});
      }
      kernels_.push_back(std::move(k));
    }
  }

  static void* data_of(const Ref<TensorObject>& t) { return static_cast<char*>(t->tensor.data) + t->tensor.byte_offset; }

  void bind() {
    args_.clear();
    for (auto& slot : inputs_) args_.push_back(data_of(slot.tensor));
    for (auto& slot : outputs_) args_.push_back(data_of(slot.tensor));
    args_.push_back(constants_data_);
    args_.push_back(workspace_->tensor.data);
  }

  static std::string names(const std::vector<Slot>& slots) {
    std::string text;
    for (auto& s : slots) text += (text.empty() ? "`" : ", `") + s.name + "`";
    return text.empty() ? "none" : text;
  }
  static int64_t find(const std::vector<Slot>& slots, const std::string& name) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].name == name) return static_cast<int64_t>(i);
    return -1;
  }
  static Slot& slot(std::vector<Slot>& slots, const TVMFFIAny& key, const char* what) {
    int64_t index;
    if (is_string(key)) {
      index = find(slots, as_string(key));
      if (index < 0) fail("ValueError", "the model has no %s named `%s`; its %ss are: %s", what, as_string(key).c_str(), what, names(slots).c_str());
    } else {
      index = as_int(key, "the key");
      if (index < 0 || index >= static_cast<int64_t>(slots.size()))
        fail("IndexError", "%s index %lld is out of range: the model has %zu (%s)", what, static_cast<long long>(index), slots.size(), names(slots).c_str());
    }
    return slots[static_cast<size_t>(index)];
  }

  static const DLTensor* matching(const Slot& s, const TVMFFIAny& value, const char* what) {
    const DLTensor* t = as_tensor(value);
    const char* name = s.name.c_str();
    if (!t) fail("TypeError", "%s `%s` must be a tensor, got a value of type index %d", what, name, value.type_index);
    if (t->device.device_type != kDLCPU) fail("ValueError", "%s `%s` must be on the CPU, but is on device type %d; copy it first", what, name, t->device.device_type);
    bool same = t->ndim == static_cast<int32_t>(s.shape.size());
    for (int32_t i = 0; same && i < t->ndim; ++i) same = t->shape[i] == s.shape[static_cast<size_t>(i)];
    if (!same)
      fail("ValueError", "%s `%s` must have shape %s, got %s", what, name, shape_text(static_cast<int32_t>(s.shape.size()), s.shape.data()).c_str(), shape_text(t->ndim, t->shape).c_str());
    bool is_bool = s.dtype.bits == 1 && (t->dtype.code == kDLBool || t->dtype.bits == 1);
    if (!is_bool && memcmp(&t->dtype, &s.dtype, sizeof s.dtype) != 0)
      fail("TypeError", "%s `%s` must have dtype %s, got %s; convert it first (array.astype(\"%s\"))", what, name, dtype_text(s.dtype).c_str(), dtype_text(t->dtype).c_str(), dtype_text(s.dtype).c_str());
    if (!is_compact(*t)) fail("ValueError", "%s `%s` of shape %s is not contiguous; copy it first (numpy.ascontiguousarray)", what, name, shape_text(t->ndim, t->shape).c_str());
    return t;
  }
  static void copy(const DLTensor& from, const DLTensor& to) {
    memcpy(static_cast<char*>(to.data) + to.byte_offset, static_cast<const char*>(from.data) + from.byte_offset, static_cast<size_t>(bytes_of(to)));
  }
  // A bool is one byte in memory.
  static int64_t bytes_of(const DLTensor& t) {
    int64_t count = 1;
    for (int32_t i = 0; i < t.ndim; ++i) count *= t.shape[i];
    return t.dtype.bits == 1 ? count : tensor_bytes(t);
  }

  TVMFFIAny set_input(Args args) {
    Use use(*this);
    Slot& s = slot(inputs_, args[0], "input");
    const DLTensor* t = matching(s, args[1], "input");
    if (data_of(s.tensor) != static_cast<char*>(t->data) + t->byte_offset) copy(*t, s.tensor->tensor);
    return none();
  }
  TVMFFIAny share(std::vector<Slot>& slots, Args args, const char* what) {
    Slot& s = slot(slots, args[0], what);
    const DLTensor* t = matching(s, args[1], what);
    auto address = reinterpret_cast<uintptr_t>(t->data) + t->byte_offset;
    if (address % 64)
      fail("ValueError", "%s `%s` starts at address %#zx: without a copy it must be aligned to 64 bytes; make it with nd.empty, or use set_input", what, s.name.c_str(), static_cast<size_t>(address));
    if (args[1].type_index == kTVMFFITensor) {
      s.tensor = Ref<TensorObject>::share(args[1].v_obj);
    } else {
      s.tensor = tensor_view(*t, {});  // a plain DLTensor*: the caller keeps it alive, as in classic TVM
    }
    bind();
    return none();
  }
  TVMFFIAny set_input_zero_copy(Args args) { return share(inputs_, args, "input"); }
  TVMFFIAny set_output_zero_copy(Args args) { return share(outputs_, args, "output"); }
  TVMFFIAny fetch(std::vector<Slot>& slots, Args args, const char* what) {
    Slot& s = slot(slots, args[0], what);
    if (args.count > 1 && args[1].type_index != kTVMFFINone) {
      copy(s.tensor->tensor, *matching(s, args[1], what));
      return own(args[1]);
    }
    return from_ref(s.tensor);
  }
  TVMFFIAny get_input(Args args) { return fetch(inputs_, args, "input"); }
  TVMFFIAny get_output(Args args) { return fetch(outputs_, args, "output"); }

  void check(int32_t code, const char* name) {
    if (code == 0) return;
    if (Ref<ErrorObject> error = take_raised()) {
      set_raised(error);
      throw Raised{};
    }
    fail("RuntimeError", "%s of %s failed with code %d", name, library_->label().c_str(), code);
  }
  // Buffers belong to one caller at a time; two at once would read each other's half-written results.
  struct Use {
    explicit Use(Executor& e) : busy(e.busy_) {
      if (busy.exchange(true, std::memory_order_acquire))
        fail("RuntimeError", "the executor is in use by another thread: make one for each thread, library[\"default\"](device)");
    }
    ~Use() { busy.store(false, std::memory_order_release); }
    std::atomic<bool>& busy;
  };
  std::atomic<bool> busy_{false};

  TVMFFIAny run(Args) {
    Use use(*this);
    check(entry_(args_.data()), "the model");
    return none();
  }

  Kernel& kernel(Args args) {
    int64_t i = as_int(args[0], "the kernel's index");
    if (i < 0 || i >= static_cast<int64_t>(kernels_.size())) fail("IndexError", "kernel %lld is out of range: the model has %zu", static_cast<long long>(i), kernels_.size());
    return kernels_[static_cast<size_t>(i)];
  }
  TVMFFIAny run_kernel(Args args) {
    Kernel& k = kernel(args);
    if (!k.entry) fail("ValueError", "kernel `%s` is not exported by %s", k.name.c_str(), library_->label().c_str());
    void* pointers[64];
    if (k.args.size() > 64) fail("ValueError", "kernel `%s` has %zu arguments; at most 64 are supported", k.name.c_str(), k.args.size());
    for (size_t i = 0; i < k.args.size(); ++i) pointers[i] = address(k.args[i]);
    int64_t times = args.count > 1 ? as_int(args[1], "the number of runs") : 1;
    Use use(*this);
    for (int64_t i = 0; i < times; ++i) check(k.entry(pointers), k.name.c_str());
    return none();
  }
  void* address(const KernelArg& a) {
    auto at = [&](std::vector<Slot>& slots) -> void* {
      if (a.value < 0 || a.value >= static_cast<int64_t>(slots.size())) fail("ValueError", "the library's metadata is damaged: a kernel names slot %lld", static_cast<long long>(a.value));
      return data_of(slots[static_cast<size_t>(a.value)].tensor);
    };
    switch (a.kind) {
      case KernelArg::kInput: return at(inputs_);
      case KernelArg::kOutput: return at(outputs_);
      case KernelArg::kConstant: return constants_data_ + a.value;
      default: return static_cast<char*>(workspace_->tensor.data) + a.value;
    }
  }
  TVMFFIAny get_kernel_args(Args args) {
    std::vector<TVMFFIAny> items;
    for (auto& a : kernel(args).args) items.push_back(from_int(static_cast<int64_t>(reinterpret_cast<uintptr_t>(address(a)))));
    return from_object(&make<ArrayObject>(std::move(items))->header);
  }
  TVMFFIAny get_num_kernels(Args) { return from_int(static_cast<int64_t>(kernels_.size())); }
  TVMFFIAny get_kernel_name(Args args) { return from_string(kernel(args).name); }
  TVMFFIAny get_num_inputs(Args) { return from_int(static_cast<int64_t>(inputs_.size())); }
  TVMFFIAny get_num_outputs(Args) { return from_int(static_cast<int64_t>(outputs_.size())); }
  TVMFFIAny get_input_index(Args args) { return from_int(find(inputs_, as_string(args[0]))); }
  TVMFFIAny get_output_index(Args args) { return from_int(find(outputs_, as_string(args[0]))); }
  TVMFFIAny get_input_name(Args args) { return from_string(slot(inputs_, args[0], "input").name); }
  TVMFFIAny get_output_name(Args args) { return from_string(slot(outputs_, args[0], "output").name); }
  TVMFFIAny get_metadata(Args) { return from_string(metadata_); }

  Ref<ModuleObject> module_;
  std::shared_ptr<Library> library_;
  Ref<TensorObject> constants_, workspace_;
  std::string metadata_;
  char* constants_data_ = nullptr;
  Entry entry_ = nullptr;
  std::vector<Slot> inputs_, outputs_;
  std::vector<Kernel> kernels_;
  std::vector<void*> args_;
};

}  // namespace

Ref<ModuleObject> make_aot_executor(Ref<ModuleObject> module, std::shared_ptr<Library> library, const std::string& metadata, const Json& meta,
                                    Ref<TensorObject> constants, DLDevice device) {
  return make_module(std::make_unique<Executor>(std::move(module), std::move(library), metadata, meta, std::move(constants), device));
}

}  // namespace tw
