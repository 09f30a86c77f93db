// The ahead-of-time executor: one compiled entry, one arena, constants of the library; and its kernels one by one.
#include "static.h"

namespace tw {
namespace {

struct KernelArg {
  enum Kind { kInput, kOutput, kConstant, kWorkspace } kind;
  int64_t value;
  int64_t offset;  // bytes from the beginning of an output, of which a kernel may write a part
};
struct KernelCall {
  std::string name;
  Kernel entry;
  std::vector<KernelArg> args;
};

class AotExecutor : public StaticExecutor {
 public:
  AotExecutor(Ref<ModuleObject> module, std::shared_ptr<Library> library, const std::string& metadata, const Json& meta,
              Ref<TensorObject> constants, const std::vector<DLDevice>& devices)
      : module_(std::move(module)), library_(std::move(library)), constants_(std::move(constants)), device_(devices[0]) {
    metadata_ = metadata;
    std::string entry = meta["entry"].kind == Json::kString ? meta["entry"].string : "__tilewright_run";
    entry_ = reinterpret_cast<Kernel>(library_->symbol(entry));
    if (!entry_) fail("ValueError", "%s exports no `%s`: it is not a compiled model", library_->label().c_str(), entry.c_str());
    read_slots(meta["inputs"], devices, &inputs_);
    read_slots(meta["outputs"], devices, &outputs_);
    read_constants(meta);
    for (auto& name : meta["bound_params"].items) bound_.push_back(name.string);
    int64_t bytes = meta["workspace_bytes"].integer;
    int64_t shape[1] = {bytes > 64 ? bytes : 64};
    workspace_ = empty_tensor(1, shape, DLDataType{kDLUInt, 8, 1}, device_);
    memset(workspace_->tensor.data, 0, static_cast<size_t>(shape[0]));  // pages are there before the first run
    read_kernels(meta["kernels"]);
    bind();
  }

  const char* kind() const override { return "AotExecutor"; }

 protected:
  Method find_method(const std::string& name) const override {
    static const std::map<std::string, Method> methods = {
        {"get_num_kernels", static_cast<Method>(&AotExecutor::get_num_kernels)}, {"get_kernel_name", static_cast<Method>(&AotExecutor::get_kernel_name)},
        {"run_kernel", static_cast<Method>(&AotExecutor::run_kernel)}, {"get_kernel_args", static_cast<Method>(&AotExecutor::get_kernel_args)}};
    auto it = methods.find(name);
    return it == methods.end() ? StaticExecutor::find_method(name) : it->second;
  }

  // A parameter of the graph is a constant here; it can be set all the same.
  Slot& input(const TVMFFIAny& key) override {
    if (is_string(key)) {
      std::string name = as_string(key);
      if (find(inputs_, name) < 0) {
        int64_t i = find(params_, name);
        if (i >= 0) return *params_[static_cast<size_t>(i)];
      }
    }
    return slot(inputs_, key, "input");
  }
  bool has_input(const std::string& name) const override { return find(inputs_, name) >= 0 || find(params_, name) >= 0; }

  // Kernels find constants by their place in the blob, so that a changed one needs a blob of its own.
  void unshare(Slot&) override {
    if (!owns_constants_) {
      int64_t bytes[1] = {tensor_bytes(constants_->tensor)};
      auto copy = empty_tensor(1, bytes, DLDataType{kDLUInt, 8, 1}, {kDLCPU, 0});
      memcpy(copy->tensor.data, constants_->tensor.data, static_cast<size_t>(bytes[0]));
      constants_ = std::move(copy);
      owns_constants_ = true;
    }
    for (size_t i = 0; i < params_.size(); ++i) {
      params_[i]->view(constants_data() + offsets_[i], device_, Ref<>::share(constants_.get()));
      params_[i]->constant = false;
    }
    bind();
  }

  void bind() override {
    for (size_t i = 0; i < params_.size(); ++i)
      if (params_[i]->data() != constants_data() + offsets_[i]) take_over(i);
    args_.clear();
    for (auto* slot : inputs_) args_.push_back(slot->data());
    for (auto* slot : outputs_) args_.push_back(slot->data());
    args_.push_back(constants_data());
    args_.push_back(workspace_->tensor.data);
  }

  TVMFFIAny run(Args) override {
    Use use(*this);
    if (int32_t code = entry_(args_.data())) check(code, "the model", library_->label());
    return none();
  }

 private:
  char* constants_data() const { return static_cast<char*>(constants_->tensor.data); }

  // A parameter that was given as memory of a caller's: its values are copied, where they differ.
  void take_over(size_t i) {
    Slot& s = *params_[i];
    auto given = s.tensor;
    char* place = constants_data() + offsets_[i];
    size_t size = static_cast<size_t>(s.bytes());
    s.view(place, device_, Ref<>::share(constants_.get()));
    s.constant = !owns_constants_;
    const char* from = static_cast<const char*>(given->tensor.data) + given->tensor.byte_offset;
    if (memcmp(place, from, size) == 0) return;
    if (!owns_constants_) unshare(s);
    memcpy(s.data(), from, size);
  }

  void read_slots(const Json& list, const std::vector<DLDevice>& devices, std::vector<Slot*>* out) {
    for (auto& item : list.items) {
      slots_.push_back(read_slot(item));
      const Json& at = item["device"];  // [type, number], where there are several
      bool several = at.items.size() == 2;
      slots_.back().allocate(several ? device_among(devices, {static_cast<int32_t>(at.items[0].integer), static_cast<int32_t>(at.items[1].integer)}) : device_);
      out->push_back(&slots_.back());
    }
  }
  void read_constants(const Json& meta) {
    int64_t total = meta["constants_bytes"].integer;
    for (auto& item : meta["params"].items) {
      slots_.push_back(read_slot(item));
      Slot& s = slots_.back();
      int64_t offset = item["offset"].integer;
      if (offset < 0 || offset + s.bytes() > total) fail("ValueError", "the library's metadata is damaged: parameter `%s` lies outside the constants", s.name.c_str());
      s.view(constants_data() + offset, device_, Ref<>::share(constants_.get()));
      s.constant = true;
      params_.push_back(&s);
      offsets_.push_back(offset);
    }
  }
  void read_kernels(const Json& list) {
    static const std::map<std::string, KernelArg::Kind> kinds = {
        {"input", KernelArg::kInput}, {"output", KernelArg::kOutput}, {"constant", KernelArg::kConstant}, {"workspace", KernelArg::kWorkspace}};
    for (auto& item : list.items) {
      KernelCall k;
      k.name = item["name"].string;
      k.entry = reinterpret_cast<Kernel>(library_->symbol(item["symbol"].string));
      for (auto& arg : item["args"].items) {
        auto kind = arg.items.size() >= 2 ? kinds.find(arg.items[0].string) : kinds.end();
        if (kind == kinds.end()) fail("ValueError", "the library's metadata is damaged: argument of kernel `%s`", k.name.c_str());
        k.args.push_back({kind->second, arg.items[1].integer, arg.items.size() > 2 ? arg.items[2].integer : 0});
      }
      kernels_.push_back(std::move(k));
    }
  }

  KernelCall& kernel(Args args) {
    int64_t i = as_int(args[0], "the kernel's index");
    if (i < 0 || i >= static_cast<int64_t>(kernels_.size())) fail("IndexError", "kernel %lld is out of range: the model has %zu", static_cast<long long>(i), kernels_.size());
    return kernels_[static_cast<size_t>(i)];
  }
  TVMFFIAny run_kernel(Args args) {
    KernelCall& k = kernel(args);
    if (!k.entry) fail("ValueError", "kernel `%s` is not exported by %s", k.name.c_str(), library_->label().c_str());
    std::vector<void*> pointers;
    for (auto& a : k.args) pointers.push_back(address(a));
    int64_t times = args.count > 1 ? as_int(args[1], "the number of runs") : 1;
    Use use(*this);
    for (int64_t i = 0; i < times; ++i)
      if (int32_t code = k.entry(pointers.data())) check(code, k.name, library_->label());
    return none();
  }
  void* address(const KernelArg& a) {
    auto at = [&](const std::vector<Slot*>& slots) -> void* {
      if (a.value < 0 || a.value >= static_cast<int64_t>(slots.size())) fail("ValueError", "the library's metadata is damaged: a kernel names slot %lld", static_cast<long long>(a.value));
      const Slot& s = *slots[static_cast<size_t>(a.value)];
      if (a.offset < 0 || a.offset > s.bytes()) fail("ValueError", "the library's metadata is damaged: a kernel names byte %lld of slot %lld", static_cast<long long>(a.offset), static_cast<long long>(a.value));
      return static_cast<char*>(s.data()) + a.offset;
    };
    switch (a.kind) {
      case KernelArg::kInput: return at(inputs_);
      case KernelArg::kOutput: return at(outputs_);
      case KernelArg::kConstant: return constants_data() + a.value;
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

  Ref<ModuleObject> module_;
  std::shared_ptr<Library> library_;
  Ref<TensorObject> constants_, workspace_;
  DLDevice device_;
  bool owns_constants_ = false;
  Kernel entry_ = nullptr;
  std::vector<Slot*> params_;
  std::vector<int64_t> offsets_;
  std::vector<KernelCall> kernels_;
  std::vector<void*> args_;
};

}  // namespace

Ref<ModuleObject> make_aot_executor(Ref<ModuleObject> module, std::shared_ptr<Library> library, const std::string& metadata, const Json& meta,
                                    Ref<TensorObject> constants, const std::vector<DLDevice>& devices) {
  return make_module(std::make_unique<AotExecutor>(std::move(module), std::move(library), metadata, meta, std::move(constants), devices));
}

}  // namespace tw
