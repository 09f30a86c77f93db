// The graph executor: nodes of a graph in the classic JSON form, run one after the other on tensors that are planned beforehand.
// With `debug`, nodes can also be run and timed one by one.
#include <algorithm>
#include <chrono>
#include <utility>

#include "../devices/device.h"
#include "static.h"

namespace tw {
namespace {

constexpr const char* kWhat = "the graph";

struct Node {
  std::string name, function, hash;
  std::vector<int32_t> inputs;  // entries
  int32_t first = 0, outputs = 1;
  int32_t op = -1;              // its place among the operators, below 0 for inputs and what needs no work
  bool is_input = false, is_view = false;
  int64_t offset = -1;          // a view of a piece: the byte of the shown tensor that it begins at; below 0 where all is shown
  bool is_joined = false;       // its inputs lie one after the other in its output, where kernels write them
  bool is_output = false;       // a view that a host reads: what it shows is written into its memory
};
struct Op {
  KernelCode kernel = nullptr;      // on the CPU alone; else null
  KernelCode away = nullptr;        // runs on another device, or copies from or to one
  void** args = nullptr;        // null for a packed function
  Ref<FunctionObject> packed;
  std::vector<Ref<TensorObject>> flat;
  std::vector<TVMFFIAny> values;
  int32_t node = 0;
};

int32_t copy_kernel(void** args) {
  memcpy(args[1], args[0], static_cast<size_t>(*static_cast<int64_t*>(args[2])));
  return 0;
}

class GraphExecutor : public StaticExecutor {
 public:
  GraphExecutor(Ref<ModuleObject> module, const std::string& text, std::vector<DLDevice> devices, bool debug)
      : module_(std::move(module)), devices_(std::move(devices)), debug_(debug) {
    Json graph = JsonReader(text, kWhat).read();
    if (graph.kind != Json::kObject || graph["nodes"].kind != Json::kArray) fail("ValueError", "this text is not a graph: it has no list `nodes`");
    Json meta;
    if ((code_ = module_->impl->code()) && !code_->metadata.empty()) {
      meta = JsonReader(code_->metadata).read();
      check_cpu(meta);
      has_kernels_ = true;
      if (code_->constants || code_->library->symbol("__tilewright_constants")) constants_ = constants_of(*code_->library, code_->constants, meta["constants_bytes"].integer);
    }
    metadata_ = has_kernels_ ? code_->metadata : text;
    read_nodes(graph);
    read_types(graph["attrs"]);
    make_ops(meta["kernels"]);
    place_tensors(graph["attrs"]);
    read_ends(graph);
    find_devices();
    bind();
  }
  const char* kind() const override { return debug_ ? "GraphExecutorDebug" : "GraphExecutor"; }

 protected:
  Method find_method(const std::string& name) const override {
    static const std::map<std::string, Method> debugging = {
        {"execute_node", static_cast<Method>(&GraphExecutor::execute_node)}, {"get_node_output", static_cast<Method>(&GraphExecutor::get_node_output)},
        {"debug_get_output", static_cast<Method>(&GraphExecutor::debug_get_output)}, {"run_ops", static_cast<Method>(&GraphExecutor::run_ops)},
        {"get_num_nodes", static_cast<Method>(&GraphExecutor::get_num_nodes)}};
    static const std::map<std::string, Method> kernels = {
        {"get_num_kernels", static_cast<Method>(&GraphExecutor::get_num_kernels)}, {"get_kernel_name", static_cast<Method>(&GraphExecutor::get_kernel_name)},
        {"run_kernel", static_cast<Method>(&GraphExecutor::run_kernel)}};
    for (auto* table : {&kernels, debug_ ? &debugging : &kernels}) {
      auto it = table->find(name);
      if (it != table->end()) return it->second;
    }
    return StaticExecutor::find_method(name);
  }
  bool parameter(const Slot& s) const override {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (&slots_[i] == &s) return is_param_[i];
    return false;
  }
  void unshare(Slot& s) override {
    auto old = s.tensor;
    s.allocate(old->tensor.device);
    copy_tensor(old->tensor, s.tensor->tensor);
    s.constant = false;
    bind();
  }
  void bind() override {
    auto show = [&](int32_t to, int32_t from, int64_t offset = 0) {
      auto& whole = entry(from).tensor;
      entry(to).view(static_cast<char*>(entry(from).data()) + offset, whole->tensor.device, Ref<>::share(whole.get()));
    };
    for (auto& node : nodes_)
      if (node.is_output) show(node.inputs[0], node.first);
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {  // parts may have parts
      int64_t offset = 0;
      for (size_t i = 0; node->is_joined && i < node->inputs.size(); offset += sizes_[static_cast<size_t>(node->inputs[i++])]) show(node->inputs[i], node->first, offset);
    }
    for (auto& node : nodes_)
      if (node.is_view && !node.is_output) show(node.first, node.inputs[0], std::max<int64_t>(node.offset, 0));
    for (auto& op : ops_) {
      const Node& node = nodes_[static_cast<size_t>(op.node)];
      size_t i = 0;
      auto each = [&](int32_t e) {
        Slot& s = entry(e);
        if (op.args) {
          op.args[i++] = s.data();
        } else {
          TVMFFIAny& v = op.values[i];
          v.type_index = kTVMFFITensor;
          v.v_obj = &(op.flat.empty() ? s.tensor : flatten(&op.flat[i], s))->header;
          ++i;
        }
      };
      for (int32_t e : node.inputs) each(e);
      for (int32_t k = 0; k < node.outputs; ++k) each(node.first + k);
      if (op.kernel == copy_kernel) op.args[2] = &sizes_[static_cast<size_t>(node.first)];
    }
  }
  // What is called for each kernel is to be fast; the rest of this file runs once.
  [[gnu::hot]] TVMFFIAny run(Args) override {
    Use use(*this);
    for (const Op& op : ops_) run_op(op);
    return none();
  }

 private:
  Slot& entry(int32_t e) { return slots_[static_cast<size_t>(e)]; }
  static Ref<TensorObject>& flatten(Ref<TensorObject>* place, const Slot& s) {
    int64_t count = 1;
    for (int64_t d : s.shape) count *= d;
    *place = tensor_view(DLTensor{s.data(), s.tensor->tensor.device, 1, s.dtype, &count, nullptr, 0}, Ref<>::share(s.tensor.get()));
    return *place;
  }
  [[gnu::hot, gnu::always_inline]] inline void run_op(const Op& op) {
    if (!op.kernel) return run_other(op);
    if (int32_t code = op.kernel(op.args)) failed(op, code);
  }
  // What is no kernel on the CPU alone.
  void run_other(const Op& op) {
    if (op.packed) {
      TVMFFIAny result = call(op.packed.get(), op.values.data(), static_cast<int32_t>(op.values.size()));
      return destroy(result);
    }
    const Node& node = nodes_[static_cast<size_t>(op.node)];
    if (op.away == copy_kernel) return copy_tensor(entry(node.inputs[0]).tensor->tensor, entry(node.first).tensor->tensor);
    set_current_device(device_of(node));
    if (int32_t code = op.away(op.args)) failed(op, code);
  }
  [[noreturn]] void failed(const Op& op, int32_t code) const {
    const Node& node = nodes_[static_cast<size_t>(op.node)];
    check(code, "node `" + node.name + "`", code_ ? code_->library->label() : "the graph");
    throw Raised{};
  }

  // ---- reading

  void read_nodes(const Json& graph) {
    int32_t entries = 0;
    for (auto& item : graph["nodes"].items) {
      Node node;
      node.name = item["name"].string;
      const std::string& op = item["op"].string;
      const Json& attrs = item["attrs"].kind == Json::kObject ? item["attrs"] : item["attr"];
      node.first = entries;
      node.is_input = op == "null";
      if (!node.is_input) {
        if (op != "tvm_op") fail("ValueError", "node %zu (`%s`) of the graph is a `%s`; a node is `null` (an input) or `tvm_op`", nodes_.size(), node.name.c_str(), op.c_str());
        node.function = attrs["func_name"].string;
        node.hash = attrs["hash"].string;
        bool no_work = node.function == "__nop";
        int64_t n = attrs.has("num_outputs") ? whole(attrs["num_outputs"]) : 1;
        if (n < 0 || n > (1 << 20)) bad(node, "its number of outputs");
        node.outputs = static_cast<int32_t>(n);
        flat_.push_back(attrs.has("flatten_data") && whole(attrs["flatten_data"]) != 0);
        for (auto& in : item["inputs"].items) node.inputs.push_back(entry_of(in, node));
        node.is_view = no_work && node.inputs.size() == 1;
        node.is_joined = no_work && !node.is_view;
        if (node.is_view && attrs.has("offset")) {
          node.offset = whole(attrs["offset"]);
          if (node.offset < 0 || node.offset > kMostBytes || node.offset % 64) bad(node, "its offset, which must be a multiple of 64");
        }
        if (no_work && (node.inputs.empty() || node.outputs != 1)) bad(node, "a view has one output, of one input or several that it joins");
      } else {
        flat_.push_back(false);
      }
      entries += node.outputs;
      nodes_.push_back(std::move(node));
    }
    entries_ = entries;
    const Json& rows = graph["node_row_ptr"];
    bool same = rows.kind != Json::kArray || rows.items.size() == nodes_.size() + 1;
    for (size_t i = 0; same && i < rows.items.size(); ++i) same = rows.items[i].integer == (i < nodes_.size() ? nodes_[i].first : entries);
    if (!same) fail("ValueError", "the graph is damaged: node_row_ptr does not fit the outputs of its nodes");
  }
  static int64_t whole(const Json& j) { return j.kind == Json::kString ? strtoll(j.string.c_str(), nullptr, 10) : j.integer; }
  [[noreturn]] void bad(const Node& node, const char* what) const { fail("ValueError", "the graph is damaged at node %zu (`%s`): %s", nodes_.size(), node.name.c_str(), what); }
  int32_t entry_of(const Json& reference, const Node& at) const {
    if (reference.items.size() < 2) bad(at, "a reference to a tensor is [node, output, version]");
    int64_t n = reference.items[0].integer, k = reference.items[1].integer;
    if (n < 0 || n >= static_cast<int64_t>(nodes_.size())) bad(at, "it reads a node that does not come before it");
    const Node& from = nodes_[static_cast<size_t>(n)];
    if (k < 0 || k >= from.outputs) bad(at, "it reads an output that its input does not have");
    return from.first + static_cast<int32_t>(k);
  }
  // What an attribute says of each entry: ["list_int", [...]].
  std::vector<Json> listed(const Json& attrs, const char* name, bool needed) const {
    const Json& pair = attrs[name];
    if (pair.kind != Json::kArray || pair.items.size() != 2) {
      if (needed) fail("ValueError", "the graph is damaged: its attrs have no `%s`", name);
      return {};
    }
    if (pair.items[1].items.size() != static_cast<size_t>(entries_))
      fail("ValueError", "the graph is damaged: attrs `%s` has %zu values for %d tensors", name, pair.items[1].items.size(), entries_);
    return pair.items[1].items;
  }

  void read_types(const Json& attrs) {
    auto shapes = listed(attrs, "shape", true), dtypes = listed(attrs, "dltype", true);
    for (size_t e = 0; e < static_cast<size_t>(entries_); ++e) {
      Slot s;
      s.dtype = parse_dtype(dtypes[e].string);
      int64_t bytes = (s.dtype.bits * s.dtype.lanes + 7) / 8;
      for (auto& d : shapes[e].items) {
        s.shape.push_back(d.integer);
        if (d.integer < 0 || !multiply_bytes(bytes, d.integer)) fail("ValueError", "the graph is damaged: tensor %zu has the shape %s", e, shape_text(static_cast<int32_t>(s.shape.size()), s.shape.data()).c_str());
      }
      slots_.push_back(std::move(s));
      sizes_.push_back(slots_.back().bytes());
    }
    for (auto& node : nodes_)
      for (int32_t k = 0; k < node.outputs; ++k) entry(node.first + k).name = node.name;
  }
  void place_tensors(const Json& attrs) {
    auto ids = listed(attrs, "storage_id", true);
    auto types = listed(attrs, "device_index", false), numbers = listed(attrs, "device_id", false);
    auto offsets = listed(attrs, "storage_offset", false), constant = listed(attrs, "constant_offset", false);
    is_param_.resize(slots_.size());
    std::vector<bool> is_input(slots_.size());
    for (auto& node : nodes_)
      if (node.is_input) is_input[static_cast<size_t>(node.first)] = true;
    std::vector<DLDevice> at;
    for (size_t e = 0; e < slots_.size(); ++e) at.push_back(device_of(types.empty() ? nullptr : &types[e], numbers.empty() ? nullptr : &numbers[e]));
    for (auto& d : devices_) need_device(d);
    // Tensors that are planned share arenas, one for each device; those of one storage share that; inputs and constants stand alone.
    std::vector<int64_t> arena_bytes(devices_.size(), 0), needed(devices_.size(), 0);
    std::map<int64_t, std::pair<int64_t, DLDevice>> pools;
    auto planned = [&](size_t e) { return !offsets.empty() && offsets[e].integer >= 0; };
    auto alone = [&](size_t e) { return !offsets.empty() || ids[e].integer < 0; };
    for (size_t e = 0; e < slots_.size(); ++e) {
      if (planned(e)) {
        if (offsets[e].integer > kMostBytes) fail("ValueError", "the graph is damaged: tensor %zu begins at byte %lld of its arena", e, static_cast<long long>(offsets[e].integer));
        if (offsets[e].integer % 64) fail("ValueError", "the graph is damaged: tensor %zu begins at byte %lld of its arena, which is not a multiple of 64", e, static_cast<long long>(offsets[e].integer));
        int64_t& n = arena_bytes[index_of(at[e])];
        n = std::max(n, offsets[e].integer + sizes_[e]);
        needed[index_of(at[e])] += (sizes_[e] + 63) / 64 * 64;
      } else if (!alone(e)) {
        auto& pool = pools[ids[e].integer];
        pool.first = std::max(pool.first, sizes_[e]);
        pool.second = at[e];
      }
    }
    for (size_t i = 0; i < devices_.size(); ++i)
      if (arena_bytes[i] > needed[i]) fail("ValueError", "the graph is damaged: its arena takes %lld bytes for tensors of %lld", static_cast<long long>(arena_bytes[i]), static_cast<long long>(needed[i]));
    auto memory = [&](int64_t bytes, DLDevice device) {
      std::vector<std::pair<int64_t, std::string>> values;
      for (size_t e = 0; e < slots_.size(); ++e)
        if (!alone(e) || planned(e))
          if (same_device(at[e], device)) values.emplace_back(sizes_[e], slots_[e].name);
      auto made = memory_of_model("intermediate values", std::max<int64_t>(bytes, 64), device, std::move(values));
      if (on_cpu(device)) clear_tensor(made->tensor);  // pages are there before the first run
      return made;
    };
    std::vector<Ref<TensorObject>> arenas;
    for (size_t i = 0; i < devices_.size(); ++i) arenas.push_back(memory(arena_bytes[i], devices_[i]));
    std::map<int64_t, Ref<TensorObject>> made;
    for (auto& p : pools) made[p.first] = memory(p.second.first, p.second.second);
    for (size_t e = 0; e < slots_.size(); ++e) {
      Slot& s = slots_[e];
      int64_t place = constant.empty() || !is_input[e] ? -1 : constant[e].integer;
      is_param_[e] = place >= 0;
      if (place >= 0 && constants_) {
        if (place > kMostBytes || place + sizes_[e] > tensor_bytes(constants_->tensor) || place % 64) fail("ValueError", "the graph does not fit the library: tensor %zu lies outside its constants", e);
        s.view(static_cast<char*>(constants_->tensor.data) + place, {kDLCPU, on_cpu(at[e]) ? at[e].device_id : 0}, Ref<>::share(constants_.get()));
        s.constant = on_cpu(at[e]);
        if (!s.constant) {
          auto values = s.tensor;
          s.tensor = empty_tensor(static_cast<int32_t>(s.shape.size()), s.shape.data(), s.dtype, at[e]);
          copy_tensor(values->tensor, s.tensor->tensor);
        }
      } else if (planned(e)) {
        auto& arena = arenas[index_of(at[e])];
        s.view(static_cast<char*>(arena->tensor.data) + offsets[e].integer, at[e], Ref<>::share(arena.get()));
      } else if (alone(e)) {
        s.allocate(at[e]);
      } else {
        auto& pool = made[ids[e].integer];
        s.view(pool->tensor.data, at[e], Ref<>::share(pool.get()));
      }
    }
  }
  DLDevice device_of(const Json* type, const Json* number) const {
    const int32_t wanted = type ? static_cast<int32_t>(type->integer) : static_cast<int32_t>(kDLCPU);
    if (number) return device_among(devices_, {wanted, static_cast<int32_t>(number->integer)});
    for (auto& d : devices_)
      if (d.device_type == wanted) return d;
    need_type("the graph", wanted, devices_);
    return devices_[0];
  }
  size_t index_of(DLDevice device) const {
    for (size_t i = 0; i < devices_.size(); ++i)
      if (devices_[i].device_type == device.device_type && devices_[i].device_id == device.device_id) return i;
    return 0;
  }

  // Where a node's kernel runs.
  DLDevice device_of(const Node& node) {
    if (node.outputs) return entry(node.first).tensor->tensor.device;
    return node.inputs.empty() ? devices_[0] : entry(node.inputs[0]).tensor->tensor.device;
  }
  // Kernels get mere addresses, so that all tensors of one must be on its device.
  void find_devices() {
    for (auto& op : ops_) {
      if (!op.kernel) continue;
      const Node& node = nodes_[static_cast<size_t>(op.node)];
      const DLDevice at = device_of(node);
      bool away = !on_cpu(at);
      for (int32_t e : node.inputs) {
        const DLDevice from = entry(e).tensor->tensor.device;
        if (op.kernel == copy_kernel) away |= !on_cpu(from);
        else if (!same_device(from, at) && !(on_cpu(from) && on_cpu(at)))
          fail("ValueError", "the graph is damaged: the kernel of node `%s` runs on %s, but is given a tensor on %s", node.name.c_str(), device_text(at).c_str(), device_text(from).c_str());
      }
      if (away) op.away = std::exchange(op.kernel, nullptr);
    }
  }

  void read_ends(const Json& graph) {
    for (auto& n : graph["arg_nodes"].items) {
      if (n.integer < 0 || n.integer >= static_cast<int64_t>(nodes_.size()) || !nodes_[static_cast<size_t>(n.integer)].is_input)
        fail("ValueError", "the graph is damaged: arg_nodes names node %lld, which is not an input", static_cast<long long>(n.integer));
      inputs_.push_back(&entry(nodes_[static_cast<size_t>(n.integer)].first));
    }
    const Json& names = graph["attrs"]["output_names"];
    for (auto& head : graph["heads"].items) {
      Slot& s = entry(entry_of(head, Node{}));
      size_t i = outputs_.size();
      bool is_input = std::find(inputs_.begin(), inputs_.end(), &s) != inputs_.end();
      if (names.items.size() == 2 && i < names.items[1].items.size() && !is_input) s.name = names.items[1].items[i].string;
      outputs_.push_back(&s);
    }
    for (auto& n : nodes_) {
      if (!n.is_view || n.offset >= 0 || std::find(outputs_.begin(), outputs_.end(), &entry(n.first)) == outputs_.end()) continue;
      bool computed = false, taken = std::find(outputs_.begin(), outputs_.end(), &entry(n.inputs[0])) != outputs_.end();
      for (auto& from : nodes_) {
        if (n.inputs[0] >= from.first && n.inputs[0] < from.first + from.outputs) computed = !from.is_input && !from.is_view;
        taken |= from.is_output && from.inputs[0] == n.inputs[0];
      }
      n.is_output = computed && !taken;
    }
    const Json& bound = graph["attrs"]["bound_params"];
    if (bound.items.size() == 2)
      for (auto& name : bound.items[1].items) bound_.push_back(name.string);
  }

  // What the library says of a kernel that a node calls must be what the graph says: kernels trust their arguments.
  void check_kernel(const Json& kernel, const Node& node) const {
    size_t count = node.inputs.size() + static_cast<size_t>(node.outputs);
    bool same = kernel["args"].kind != Json::kArray || kernel["args"].items.size() == count;
    const auto& bytes = kernel["arg_bytes"].items;
    for (size_t i = 0; same && i < bytes.size() && i < count; ++i) {
      size_t outputs_from = node.inputs.size();
      int32_t e = i < outputs_from ? node.inputs[i] : node.first + static_cast<int32_t>(i - outputs_from);
      same = bytes[i].integer == sizes_[static_cast<size_t>(e)];
    }
    if (!same || (!node.hash.empty() && kernel.has("hash") && kernel["hash"].string != node.hash))
      fail("ValueError", "the function `%s` of the library is not the one that node `%s` of the graph was compiled for: library and graph do not belong together", node.function.c_str(), node.name.c_str());
  }
  void check_view(const Node& node) const {
    int64_t size = sizes_[static_cast<size_t>(node.first)], all = sizes_[static_cast<size_t>(node.inputs[0])];
    if (node.offset < 0 && size != all) fail("ValueError", "the graph is damaged: the view `%s` is of another size than what it shows", node.name.c_str());
    if (node.offset >= 0 && node.offset + size > all) fail("ValueError", "the graph is damaged: the slice `%s` ends outside of what it is cut from", node.name.c_str());
  }
  // Kernels take what they write for aligned, and nothing of it for read-only.
  void check_joined(const Node& node) const {
    int64_t offset = 0;
    for (int32_t e : node.inputs) {
      bool written = false;
      for (auto& from : nodes_) written |= e >= from.first && e < from.first + from.outputs && !from.is_input && !from.is_view;
      if (!written) fail("ValueError", "the graph is damaged: `%s` joins a tensor that is not written", node.name.c_str());
      if (offset % 64) fail("ValueError", "the graph is damaged: `%s` joins a tensor at byte %lld, which is not a multiple of 64", node.name.c_str(), static_cast<long long>(offset));
      offset += sizes_[static_cast<size_t>(e)];
    }
    if (offset != sizes_[static_cast<size_t>(node.first)]) fail("ValueError", "the graph is damaged: the tensors that `%s` joins are of another size than the result", node.name.c_str());
  }
  void make_ops(const Json& described) {
    std::map<std::string, const Json*> kernels;
    for (auto& k : described.items) kernels[k["name"].string] = &k;
    size_t pointers = 0;
    for (auto& node : nodes_)
      if (!node.is_input) pointers += node.inputs.size() + static_cast<size_t>(node.outputs) + 1;
    pointers_.resize(pointers);
    size_t at = 0;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      Node& node = nodes_[n];
      if (node.is_view) check_view(node);
      if (node.is_joined) check_joined(node);
      if (node.is_input || node.is_view || node.is_joined) continue;
      Op op;
      op.node = static_cast<int32_t>(n);
      size_t count = node.inputs.size() + static_cast<size_t>(node.outputs);
      if (node.function == "__copy") {
        if (count != 2 || sizes_[static_cast<size_t>(node.inputs[0])] != sizes_[static_cast<size_t>(node.first)]) fail("ValueError", "the graph is damaged: the copy `%s` changes the size", node.name.c_str());
        op.kernel = copy_kernel;
      } else if (kernels.count(node.function)) {
        op.kernel = reinterpret_cast<KernelCode>(code_->library->symbol(node.function));
        check_kernel(*kernels[node.function], node);
      }
      if (op.kernel) {
        op.args = &pointers_[at];
        at += count + 1;
      } else {
        op.packed = module_->find(node.function, true);
        if (!op.packed)
          fail("ValueError", "the library has no function `%s`, which node `%s` of the graph calls: do library and graph belong together?", node.function.c_str(), node.name.c_str());
        op.values.resize(count);
        if (flat_[n]) op.flat.resize(count);
      }
      node.op = static_cast<int32_t>(ops_.size());
      ops_.push_back(std::move(op));
    }
  }

  // ---- one kernel at a time, in the order of their calls

  const Op& kernel(Args args) const {
    int64_t i = as_int(args[0], "the kernel's index");
    if (i < 0 || i >= static_cast<int64_t>(ops_.size())) fail("IndexError", "kernel %lld is out of range: the graph has %zu", static_cast<long long>(i), ops_.size());
    return ops_[static_cast<size_t>(i)];
  }
  TVMFFIAny run_kernel(Args args) {
    const Op& op = kernel(args);
    int64_t times = args.count > 1 ? as_int(args[1], "the number of runs") : 1;
    Use use(*this);
    for (int64_t i = 0; i < times; ++i) run_op(op);
    return none();
  }
  TVMFFIAny get_num_kernels(Args) { return from_int(static_cast<int64_t>(ops_.size())); }
  TVMFFIAny get_kernel_name(Args args) { return from_string(nodes_[static_cast<size_t>(kernel(args).node)].function); }

  // ---- one node at a time

  const Node& node(const TVMFFIAny& key) const {
    if (is_string(key)) {
      std::string name = as_string(key);
      for (auto& n : nodes_)
        if (n.name == name) return n;
      fail("AttributeError", "the graph has no node named `%s`", name.c_str());
    }
    int64_t i = as_int(key, "the node's index");
    if (i < 0 || i >= static_cast<int64_t>(nodes_.size())) fail("IndexError", "node %lld is out of range: the graph has %zu", static_cast<long long>(i), nodes_.size());
    return nodes_[static_cast<size_t>(i)];
  }
  TVMFFIAny execute_node(Args args) {
    const Node& n = node(args[0]);
    Use use(*this);
    if (n.op >= 0) run_op(ops_[static_cast<size_t>(n.op)]);
    return none();
  }
  // (node, output): a copy, since later nodes may write over it.
  TVMFFIAny get_node_output(Args args) {
    const Node& n = node(args[0]);
    int64_t k = args.count > 1 ? as_int(args[1], "the output's index") : 0;
    if (k < 0 || k >= n.outputs) fail("IndexError", "output %lld is out of range: node `%s` has %d", static_cast<long long>(k), n.name.c_str(), n.outputs);
    Slot& s = entry(n.first + static_cast<int32_t>(k));
    auto copy = empty_tensor(static_cast<int32_t>(s.shape.size()), s.shape.data(), s.dtype, s.tensor->tensor.device);
    copy_tensor(s.tensor->tensor, copy->tensor);
    return from_ref(std::move(copy));
  }
  // (node, tensor or None): runs everything up to a node; its first output.
  TVMFFIAny debug_get_output(Args args) {
    const Node& n = node(args[0]);
    {
      Use use(*this);
      for (auto& op : ops_)
        if (&nodes_[static_cast<size_t>(op.node)] <= &n) run_op(op);
    }
    if (args.count > 1 && args[1].type_index != kTVMFFINone) return fetch(entry(n.first), args, "the output of node");
    TVMFFIAny key = args[0];
    return get_node_output(Args{&key, 1});
  }
  // Seconds of each node in one run, as the bytes of doubles.
  TVMFFIAny run_ops(Args) {
    using Clock = std::chrono::steady_clock;
    Use use(*this);
    std::vector<double> seconds(nodes_.size(), 0);
    auto last = Clock::now();
    for (const Op& op : ops_) {
      run_op(op);
      if (op.away) synchronize(device_of(nodes_[static_cast<size_t>(op.node)]), nullptr);
      auto now = Clock::now();
      seconds[static_cast<size_t>(op.node)] = std::chrono::duration<double>(now - last).count();
      last = now;
    }
    return from_string(std::string(reinterpret_cast<char*>(seconds.data()), seconds.size() * sizeof(double)), true);
  }
  TVMFFIAny get_num_nodes(Args) { return from_int(static_cast<int64_t>(nodes_.size())); }

  Ref<ModuleObject> module_;
  const Code* code_ = nullptr;
  std::vector<DLDevice> devices_;
  bool debug_, has_kernels_ = false;
  Ref<TensorObject> constants_;
  int32_t entries_ = 0;
  std::vector<Node> nodes_;
  std::vector<bool> flat_, is_param_;
  std::vector<int64_t> sizes_;
  std::vector<void*> pointers_;
  std::vector<Op> ops_;
};

}  // namespace

Ref<ModuleObject> make_graph_executor(Ref<ModuleObject> module, const std::string& graph_json, std::vector<DLDevice> devices, bool debug) {
  return make_module(std::make_unique<GraphExecutor>(std::move(module), graph_json, std::move(devices), debug));
}

}  // namespace tw
