// The ahead-of-time executor: one compiled entry, one arena, constants of the library; and its kernels one by one.
#include "../devices/device.h"
#include "static.h"

namespace tw {
namespace {

struct KernelArg {
  enum Kind { kInput, kOutput, kConstant, kWorkspace } kind;
  int64_t value;
  int64_t offset;  // of an output, of which a kernel may write a part: bytes from its beginning; else the memory's number
};
struct KernelCall {
  std::string name;
  KernelCode entry;
  std::vector<KernelArg> args;
  size_t device = 0;         // where it runs, or copies to
  int64_t from = -1, bytes;  // of a copy between devices: where from, and how much
};

// What kernels on one device find the constants and their workspace in. The entry gets a pair of addresses for each.
struct Memory {
  DLDevice device;
  Ref<TensorObject> constants, workspace;  // constants: of a device that is no CPU, which has those that lie from byte `first` on
  int64_t first = 0;
};

// (address, device type, device number) of what is copied, the same of where to, bytes: what an entry calls.
const int copy_registered = [] {
  register_global("tilewright.copy_between_devices", [](Args args) {
    auto end = [&](int at, int64_t* bytes) {
      const DLDevice device{static_cast<int32_t>(as_int(args[at + 1], "a device's type")), static_cast<int32_t>(as_int(args[at + 2], "a device's number"))};
      return flat_tensor(args[at].v_ptr, device, bytes);
    };
    int64_t bytes = as_int(args[6], "the number of bytes");
    copy_tensor(end(0, &bytes), end(3, &bytes));
    return none();
  });
  return 0;
}();

class AotExecutor : public StaticExecutor {
 public:
  AotExecutor(Ref<ModuleObject> module, std::shared_ptr<Library> library, const std::string& metadata, const Json& meta,
              Ref<TensorObject> constants, const std::vector<DLDevice>& devices)
      : module_(std::move(module)), library_(std::move(library)), constants_(std::move(constants)), device_(devices[0]) {
    make_memories(meta, devices);
    metadata_ = metadata;
    std::string entry = meta["entry"].kind == Json::kString ? meta["entry"].string : "__tilewright_run";
    entry_ = reinterpret_cast<KernelCode>(library_->symbol(entry));
    if (!entry_) fail("ValueError", "%s exports no `%s`: it is not a compiled model", library_->label().c_str(), entry.c_str());
    read_slots(meta["inputs"], devices, &inputs_);
    read_slots(meta["outputs"], devices, &outputs_);
    read_constants(meta);
    for (auto& name : meta["bound_params"].items) bound_.push_back(name.string);
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
    for (size_t i = 0; i < params_.size(); ++i)
      if (on_cpu(memories_[homes_[i]].device)) show(i);
    bind();
  }

  void bind() override {
    for (size_t i = 0; i < params_.size(); ++i)
      if (params_[i]->data() != place(i)) take_over(i);
    args_.clear();
    for (auto* slot : inputs_) args_.push_back(slot->data());
    for (auto* slot : outputs_) args_.push_back(slot->data());
    for (size_t m = 0; m < memories_.size(); ++m) {
      args_.push_back(constant(m, 0));
      args_.push_back(memories_[m].workspace->tensor.data);
    }
  }

  TVMFFIAny run(Args) override {
    Use use(*this);
    if (!on_cpu(device_)) set_current_device(device_);
    if (int32_t code = entry_(args_.data())) check(code, "the model", library_->label());
    return none();
  }

 private:
  // "arenas" and "constant_ranges" are there where a device is none of the CPUs: bytes of the workspace of each, and where its constants
  // begin and end among all. CPUs share one workspace, whose parts the code knows.
  void make_memories(const Json& meta, const std::vector<DLDevice>& devices) {
    const auto &arenas = meta["arenas"].items, &ranges = meta["constant_ranges"].items;
    if (arenas.size() > devices.size() || arenas.size() != ranges.size()) fail("ValueError", "the library's metadata is damaged: %zu arenas on %zu devices", arenas.size(), devices.size());
    for (size_t m = 0; m < std::max<size_t>(arenas.size(), 1); ++m) {
      Memory memory{devices[m], {}, {}};
      const int64_t workspace = std::max<int64_t>(arenas.empty() ? meta["workspace_bytes"].integer : arenas[m].integer, 64);
      memory.workspace = memory_of_model("intermediate values", workspace, memory.device, values_in(meta["kernels"], static_cast<int64_t>(m)));
      if (on_cpu(memory.device)) {
        clear_tensor(memory.workspace->tensor);  // pages are there before the first run
      } else {
        const auto& range = ranges[m].items;
        const int64_t begin = range.size() == 2 ? range[0].integer : -1, end = range.size() == 2 ? range[1].integer : -1;
        if (begin < 0 || end < begin || end > tensor_bytes(constants_->tensor)) fail("ValueError", "the library's metadata is damaged: constants of device %zu", m);
        int64_t bytes[1] = {end - begin};
        memory.first = begin;
        memory.constants = memory_of_model("constants", bytes[0], memory.device);
        copy_tensor(flat_tensor(constants_data() + begin, {kDLCPU, 0}, bytes), memory.constants->tensor);
      }
      memories_.push_back(std::move(memory));
    }
  }
  // The values in the workspace of a device: bytes, and the kernel that writes them, which comes before those that read them.
  static std::vector<std::pair<int64_t, std::string>> values_in(const Json& kernels, int64_t memory) {
    std::map<int64_t, std::pair<int64_t, std::string>> found;
    for (auto& kernel : kernels.items)
      for (size_t i = 0; i < std::min(kernel["args"].items.size(), kernel["arg_bytes"].items.size()); ++i) {
        const auto& arg = kernel["args"].items[i].items;
        if (arg.size() < 2 || arg[0].string != "workspace" || (arg.size() > 2 ? arg[2].integer : 0) != memory) continue;
        auto& value = found[arg[1].integer];
        if (kernel["arg_bytes"].items[i].integer > value.first) value = {kernel["arg_bytes"].items[i].integer, kernel["name"].string};
      }
    std::vector<std::pair<int64_t, std::string>> values;
    for (auto& v : found) values.push_back(v.second);
    return values;
  }
  char* constants_data() const { return static_cast<char*>(constants_->tensor.data); }
  // The byte of a device's constants that is at `offset` among all; as a number, since none need be there.
  char* constant(size_t memory, int64_t offset) const {
    const Memory& m = memories_[memory];
    if (on_cpu(m.device)) return constants_data() + offset;
    return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(m.constants->tensor.data) + static_cast<uintptr_t>(offset - m.first));
  }
  char* place(size_t i) const { return constant(homes_[i], offsets_[i]); }
  // Makes a parameter a view of the constants.
  void show(size_t i) {
    const Memory& m = memories_[homes_[i]];
    params_[i]->view(place(i), m.device, Ref<>::share((on_cpu(m.device) ? constants_ : m.constants).get()));
    params_[i]->constant = on_cpu(m.device) && !owns_constants_;
  }

  // A parameter that was given as memory of a caller's: its values are copied, where they differ.
  void take_over(size_t i) {
    Slot& s = *params_[i];
    auto given = s.tensor;
    show(i);
    write(s, given->tensor);
  }

  void read_slots(const Json& list, const std::vector<DLDevice>& devices, std::vector<Slot*>* out) {
    for (auto& item : list.items) {
      slots_.push_back(read_slot(item));
      const Json& at = item["device"];  // [type, number], where there are several
      slots_.back().allocate(at.items.empty() ? device_ : device_among(devices, device_of(at)));
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
      const size_t home = memory_number(item["memory"].integer);
      if (!on_cpu(memories_[home].device) && (offset < memories_[home].first || offset + s.bytes() > memories_[home].first + tensor_bytes(memories_[home].constants->tensor)))
        fail("ValueError", "the library's metadata is damaged: parameter `%s` is not on its device", s.name.c_str());
      params_.push_back(&s);
      offsets_.push_back(offset);
      homes_.push_back(home);
      show(params_.size() - 1);
    }
  }
  void read_kernels(const Json& list) {
    static const std::map<std::string, KernelArg::Kind> kinds = {
        {"input", KernelArg::kInput}, {"output", KernelArg::kOutput}, {"constant", KernelArg::kConstant}, {"workspace", KernelArg::kWorkspace}};
    for (auto& item : list.items) {
      KernelCall k;
      k.name = item["name"].string;
      k.entry = reinterpret_cast<KernelCode>(library_->symbol(item["symbol"].string));
      for (auto& arg : item["args"].items) {
        auto kind = arg.items.size() >= 2 ? kinds.find(arg.items[0].string) : kinds.end();
        if (kind == kinds.end()) fail("ValueError", "the library's metadata is damaged: argument of kernel `%s`", k.name.c_str());
        k.args.push_back({kind->second, arg.items[1].integer, arg.items.size() > 2 ? arg.items[2].integer : 0});
      }
      k.device = memory_number(item["memory"].integer);
      if (item.has("copied_from")) {
        k.from = static_cast<int64_t>(memory_number(item["copied_from"].integer));
        k.bytes = item["arg_bytes"].items.empty() ? 0 : item["arg_bytes"].items[0].integer;
        if (k.args.size() != 2) fail("ValueError", "the library's metadata is damaged: copy `%s`", k.name.c_str());
      }
      kernels_.push_back(std::move(k));
    }
  }

  size_t memory_number(int64_t i) const {
    if (i < 0 || i >= static_cast<int64_t>(memories_.size())) fail("ValueError", "the library's metadata is damaged: there is no device %lld", static_cast<long long>(i));
    return static_cast<size_t>(i);
  }
  void run_once(KernelCall& k, std::vector<void*>& pointers) {
    if (k.from >= 0) {
      copy_tensor(flat_tensor(pointers[0], memories_[static_cast<size_t>(k.from)].device, &k.bytes), flat_tensor(pointers[1], memories_[k.device].device, &k.bytes));
      return;
    }
    if (int32_t code = k.entry(pointers.data())) check(code, k.name, library_->label());
  }

  KernelCall& kernel(Args args) {
    int64_t i = as_int(args[0], "the kernel's index");
    if (i < 0 || i >= static_cast<int64_t>(kernels_.size())) fail("IndexError", "kernel %lld is out of range: the model has %zu", static_cast<long long>(i), kernels_.size());
    return kernels_[static_cast<size_t>(i)];
  }
  TVMFFIAny run_kernel(Args args) {
    KernelCall& k = kernel(args);
    if (!k.entry && k.from < 0) fail("ValueError", "kernel `%s` is not exported by %s", k.name.c_str(), library_->label().c_str());
    std::vector<void*> pointers;
    for (auto& a : k.args) pointers.push_back(address(a));
    int64_t times = args.count > 1 ? as_int(args[1], "the number of runs") : 1;
    Use use(*this);
    if (!on_cpu(memories_[k.device].device)) set_current_device(memories_[k.device].device);
    for (int64_t i = 0; i < times; ++i) run_once(k, pointers);
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
      case KernelArg::kConstant: return constant(memory_number(a.offset), a.value);
      default: return static_cast<char*>(memories_[memory_number(a.offset)].workspace->tensor.data) + a.value;
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
  Ref<TensorObject> constants_;  // of the library
  std::vector<Memory> memories_;
  DLDevice device_;
  bool owns_constants_ = false;
  KernelCode entry_ = nullptr;
  std::vector<Slot*> params_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> homes_;    // the memory of each parameter
  std::vector<KernelCall> kernels_;
  std::vector<void*> args_;
};

}  // namespace

Ref<ModuleObject> make_aot_executor(Ref<ModuleObject> module, std::shared_ptr<Library> library, const std::string& metadata, const Json& meta,
                                    Ref<TensorObject> constants, const std::vector<DLDevice>& devices) {
  return make_module(std::make_unique<AotExecutor>(std::move(module), std::move(library), metadata, meta, std::move(constants), devices));
}

}  // namespace tw
