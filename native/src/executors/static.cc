// Inputs, outputs and parameters of executors of graphs with fixed shapes.
#include "static.h"

#include <algorithm>

#include "../devices/device.h"

namespace tw {

Ref<TensorObject> memory_of_model(const char* what, int64_t bytes, DLDevice device, std::vector<std::pair<int64_t, std::string>> values) {
  constexpr size_t kTold = 3;
  const int64_t shape[1] = {bytes};
  try {
    return empty_tensor(1, shape, DLDataType{kDLUInt, 8, 1}, device);
  } catch (const Raised&) {  // of a device's library
    auto error = take_raised();
    if (error->kind != "MemoryError") {
      set_raised(std::move(error));
      throw;
    }
    std::sort(values.begin(), values.end(), [](auto& a, auto& b) { return a.first > b.first; });
    std::string text;
    for (size_t i = 0; i < std::min(values.size(), kTold); ++i)
      text += format("%s`%s` (%lld bytes)", i ? ", " : ". The largest are those of ", values[i].second.c_str(), static_cast<long long>(values[i].first));
    fail("MemoryError", "the %s of the model take %lld bytes: %s%s", what, static_cast<long long>(bytes), error->message.c_str(), text.c_str());
  }
}

int64_t bytes_in_memory(const DLTensor& t) {
  int64_t count = 1;
  for (int32_t i = 0; i < t.ndim; ++i) count *= t.shape[i];
  return t.dtype.bits == 1 ? count : tensor_bytes(t);
}

int64_t Slot::bytes() const {
  DLTensor like{nullptr, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), dtype, const_cast<int64_t*>(shape.data()), nullptr, 0};
  return bytes_in_memory(like);
}
void Slot::allocate(DLDevice device) {
  tensor = empty_tensor(static_cast<int32_t>(shape.size()), shape.data(), dtype, device);
  clear_tensor(tensor->tensor);
}
void Slot::view(void* data, DLDevice device, Ref<> keep) {
  tensor = tensor_view(DLTensor{data, device, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0}, std::move(keep));
}

Slot read_slot(const Json& item) {
  Slot slot;
  slot.name = item["name"].string;
  slot.dtype = parse_dtype(item["dtype"].string);
  for (auto& d : item["shape"].items) slot.shape.push_back(d.integer);
  return slot;
}

const std::map<std::string, StaticExecutor::Method>& StaticExecutor::methods() {
  static const std::map<std::string, Method> all = {
      {"set_input", &StaticExecutor::set_input}, {"set_input_zero_copy", &StaticExecutor::set_input_zero_copy},
      {"set_output_zero_copy", &StaticExecutor::set_output_zero_copy}, {"get_input", &StaticExecutor::get_input},
      {"get_output", &StaticExecutor::get_output}, {"copy_output", &StaticExecutor::get_output}, {"run", &StaticExecutor::run},
      {"get_num_inputs", &StaticExecutor::get_num_inputs}, {"get_num_outputs", &StaticExecutor::get_num_outputs},
      {"get_input_index", &StaticExecutor::get_input_index}, {"get_input_name", &StaticExecutor::get_input_name},
      {"get_input_dtype", &StaticExecutor::get_input_dtype},
      {"get_output_index", &StaticExecutor::get_output_index}, {"get_output_name", &StaticExecutor::get_output_name},
      {"get_metadata", &StaticExecutor::get_metadata}, {"is_bound", &StaticExecutor::is_bound},
      {"is_param", &StaticExecutor::is_param}, {"load_params", &StaticExecutor::load_params},
      {"share_params", &StaticExecutor::share_params}};
  return all;
}
StaticExecutor::Method StaticExecutor::find_method(const std::string& name) const {
  auto it = methods().find(name);
  return it == methods().end() ? nullptr : it->second;
}
std::vector<std::string> StaticExecutor::function_names() { return keys(methods()); }
Ref<FunctionObject> StaticExecutor::get_function(const std::string& name, ModuleObject* self) {
  Method method = find_method(name);
  if (!method) return {};
  auto owner = Ref<ModuleObject>::share(self);
  return make_function([this, owner, method](Args args) { return (this->*method)(args); });
}

namespace {
std::string names(const std::vector<Slot*>& slots) {
  std::string text;
  size_t shown = 0;
  for (auto* s : slots) {
    if (++shown > 32) return text + ", ...";
    text += (text.empty() ? "`" : ", `") + s->name + "`";
  }
  return text.empty() ? "none" : text;
}
}  // namespace

int64_t StaticExecutor::find(const std::vector<Slot*>& slots, const std::string& name) {
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i]->name == name) return static_cast<int64_t>(i);
  return -1;
}
Slot& StaticExecutor::slot(const std::vector<Slot*>& slots, const TVMFFIAny& key, const char* what) {
  int64_t index;
  if (is_string(key)) {
    index = find(slots, as_string(key));
    if (index < 0) fail("ValueError", "the model has no %s named `%s`; its %ss are: %s", what, as_string(key).c_str(), what, names(slots).c_str());
  } else {
    index = as_int(key, "the key");
    if (index < 0 || index >= static_cast<int64_t>(slots.size()))
      fail("IndexError", "%s index %lld is out of range: the model has %zu (%s)", what, static_cast<long long>(index), slots.size(), names(slots).c_str());
  }
  return *slots[static_cast<size_t>(index)];
}

const DLTensor* StaticExecutor::matching(const Slot& s, const TVMFFIAny& value, const char* what, bool contiguous) {
  const DLTensor* t = as_tensor(value);
  const char* name = s.name.c_str();
  if (!t) fail("TypeError", "%s `%s` must be a tensor, got a value of type index %d", what, name, value.type_index);
  bool same = t->ndim == static_cast<int32_t>(s.shape.size());
  for (int32_t i = 0; same && i < t->ndim; ++i) same = t->shape[i] == s.shape[static_cast<size_t>(i)];
  if (!same)
    fail("ValueError", "%s `%s` must have shape %s, got %s", what, name, shape_text(static_cast<int32_t>(s.shape.size()), s.shape.data()).c_str(), shape_text(t->ndim, t->shape).c_str());
  bool is_bool = s.dtype.bits == 1 && (t->dtype.code == kDLBool || t->dtype.bits == 1);
  if (!is_bool && memcmp(&t->dtype, &s.dtype, sizeof s.dtype) != 0)
    fail("TypeError", "%s `%s` must have dtype %s, got %s; convert it first (array.astype(\"%s\"))", what, name, dtype_text(s.dtype).c_str(), dtype_text(t->dtype).c_str(), dtype_text(s.dtype).c_str());
  if (contiguous && !is_compact(*t)) fail("ValueError", "%s `%s` of shape %s is not contiguous; copy it first (numpy.ascontiguousarray)", what, name, shape_text(t->ndim, t->shape).c_str());
  return t;
}

void StaticExecutor::write(Slot& s, const DLTensor& value) {
  if (!on_cpu(s.tensor->tensor.device) || !on_cpu(value.device)) {
    if (s.constant) unshare(s);
    copy_tensor(value, s.tensor->tensor);
    return;
  }
  const char* from = static_cast<const char*>(value.data) + value.byte_offset;
  auto size = static_cast<size_t>(bytes_in_memory(value));
  if (s.data() == from) return;
  if (s.constant) {
    if (memcmp(s.data(), from, size) == 0) return;
    unshare(s);
  }
  memcpy(s.data(), from, size);
}
TVMFFIAny StaticExecutor::set_input(Args args) {
  Use use(*this);
  Slot& s = input(args[0]);
  const DLTensor* t = matching(s, args[1], "input", false);
  if (is_compact(*t) || !on_cpu(t->device)) {
    write(s, *t);
  } else {  // apart first: it may be a view of the input itself
    auto copy = empty_tensor(t->ndim, t->shape, t->dtype, {kDLCPU, 0});
    gather(*t, copy->tensor.data);
    write(s, copy->tensor);
  }
  return none();
}
TVMFFIAny StaticExecutor::share(Slot& s, const TVMFFIAny& value, const char* what) {
  const DLTensor* t = matching(s, value, what);
  const DLDevice mine = s.tensor->tensor.device;
  if (t->device.device_type != mine.device_type || (!on_cpu(mine) && t->device.device_id != mine.device_id))
    fail("ValueError", "%s `%s` lies on %s: memory of %s cannot stand for it; copy it first", what, s.name.c_str(), device_text(mine).c_str(), device_text(t->device).c_str());
  auto address = reinterpret_cast<uintptr_t>(t->data) + t->byte_offset;
  if (address % 64)
    fail("ValueError", "%s `%s` starts at address %#zx: without a copy it must be aligned to 64 bytes; make it with nd.empty, or use set_input", what, s.name.c_str(), static_cast<size_t>(address));
  if (value.type_index == kTVMFFITensor) {
    s.tensor = Ref<TensorObject>::share(value.v_obj);
  } else {
    s.tensor = tensor_view(*t, {});  // a plain DLTensor*: the caller keeps it alive, as in classic TVM
  }
  s.constant = false;
  bind();
  return none();
}
TVMFFIAny StaticExecutor::set_input_zero_copy(Args args) {
  Use use(*this);
  return share(input(args[0]), args[1], "input");
}
TVMFFIAny StaticExecutor::set_output_zero_copy(Args args) {
  Use use(*this);
  return share(slot(outputs_, args[0], "output"), args[1], "output");
}
TVMFFIAny StaticExecutor::get_input(Args args) {
  Slot& s = input(args[0]);
  if (s.constant && (args.count < 2 || args[1].type_index == kTVMFFINone)) {
    Use use(*this);
    unshare(s);  // who asks for the tensor itself may write to it
  }
  return fetch(s, args, "input");
}
TVMFFIAny StaticExecutor::is_bound(Args args) {
  std::string name = as_string(args[0]);
  for (auto& b : bound_)
    if (b == name) return from_int(1);
  return from_int(0);
}
TVMFFIAny StaticExecutor::fetch(Slot& s, Args args, const char* what) {
  if (args.count > 1 && args[1].type_index != kTVMFFINone) {
    const DLTensor* to = matching(s, args[1], what);
    if (on_cpu(to->device) && on_cpu(s.tensor->tensor.device)) memcpy(static_cast<char*>(to->data) + to->byte_offset, s.data(), static_cast<size_t>(bytes_in_memory(*to)));
    else copy_tensor(s.tensor->tensor, *to);
    return own(args[1]);
  }
  return from_ref(s.tensor);
}
void StaticExecutor::check(int32_t code, const std::string& name, const std::string& label) {
  if (code == 0) return;
  if (Ref<ErrorObject> error = take_raised()) {
    set_raised(error);
    throw Raised{};
  }
  fail("RuntimeError", "%s of %s failed with code %d", name.c_str(), label.c_str(), code);
}

// ---- parameter files, in the layout of classic TVM

namespace {
class ParamReader {
 public:
  ParamReader(const char* data, size_t size) : begin_(data), at_(data), end_(data + size) {}
  const char* bytes(uint64_t n) {
    if (n > static_cast<uint64_t>(end_ - at_)) fail("ValueError", "the parameters end at byte %td, inside a value: the file is truncated or damaged", end_ - begin_);
    const char* found = at_;
    at_ += n;
    return found;
  }
  template <typename T> T take() {
    T value;
    memcpy(&value, bytes(sizeof(T)), sizeof(T));
    return value;
  }
  ptrdiff_t at() const { return at_ - begin_; }

 private:
  const char *begin_, *at_, *end_;
};
}  // namespace

std::vector<Parameter> read_params(const char* data, size_t size) {
  ParamReader in(data, size);
  if (in.take<uint64_t>() != 0xF7E58D4F05049CB7u) fail("ValueError", "these bytes are no parameter file: they do not begin with its magic number");
  in.take<uint64_t>();
  auto count = in.take<uint64_t>();
  std::vector<Parameter> found;
  for (uint64_t i = 0; i < count; ++i) {
    auto length = in.take<uint64_t>();
    Parameter p{};
    p.name.assign(in.bytes(length), length);
    found.push_back(std::move(p));
  }
  if (in.take<uint64_t>() != count) fail("ValueError", "the parameter file is damaged: it has %zu names but another number of arrays", found.size());
  for (auto& p : found) {
    if (in.take<uint64_t>() != 0xDD5E40F096B4A13Fu) fail("ValueError", "the parameter file is damaged at byte %td: no array begins there", in.at());
    in.bytes(16);
    auto ndim = in.take<int32_t>();
    p.dtype = in.take<DLDataType>();
    if (ndim < 0 || ndim > 32) fail("ValueError", "the parameter file is damaged at byte %td: an array has %d dimensions", in.at(), ndim);
    int64_t bytes = (p.dtype.bits * p.dtype.lanes + 7) / 8;
    bool fits = true;
    for (int32_t d = 0; d < ndim; ++d) {
      p.shape.push_back(in.take<int64_t>());
      fits = multiply_bytes(bytes, p.shape.back()) && fits;
    }
    auto stored = in.take<int64_t>();
    if (!fits || bytes != stored) fail("ValueError", "the parameter file is damaged: `%s` of shape %s has %lld bytes", p.name.c_str(), shape_text(ndim, p.shape.data()).c_str(), static_cast<long long>(stored));
    p.data = in.bytes(static_cast<uint64_t>(stored));
  }
  return found;
}

namespace {
// A value that is dropped at the end.
struct Value {
  TVMFFIAny any;
  explicit Value(TVMFFIAny owned) : any(owned) {}
  Value(const Value&) = delete;
  ~Value() { destroy(any); }
};
// The bytes of an argument: a bytes object, or a plain byte array.
std::pair<const char*, size_t> bytes_of(const TVMFFIAny& v, std::string* held) {
  if (v.type_index == kTVMFFIBytes) {
    auto& cell = reinterpret_cast<BytesObject*>(v.v_obj)->cell;
    return {cell.data, cell.size};
  }
  *held = as_string(v);
  return {held->data(), held->size()};
}
}  // namespace

// Sets what the parameters name and the model has; what it does not have was folded away when it was compiled.
TVMFFIAny StaticExecutor::load_params(Args args) {
  Use use(*this);
  std::string held;
  auto [data, size] = bytes_of(args[0], &held);
  for (auto& p : read_params(data, size)) {
    if (!has_input(p.name)) continue;
    Value key(from_string(p.name));
    Slot& s = input(key.any);
    DLTensor t{const_cast<char*>(p.data), {kDLCPU, 0}, static_cast<int32_t>(p.shape.size()), p.dtype, p.shape.data(), nullptr, 0};
    TVMFFIAny value{};
    value.type_index = kTVMFFIDLTensorPtr;
    value.v_ptr = &t;
    write(s, *matching(s, value, "parameter"));
  }
  return none();
}
// (other executor, parameters): uses the other one's memory for the inputs that the parameters name.
TVMFFIAny StaticExecutor::share_params(Args args) {
  auto* other = implementation<StaticExecutor>(as_module(args[0]));
  if (!other) fail("TypeError", "share_params takes another executor of a static graph, but was given a module of kind %s", as_module(args[0])->impl->kind());
  if (other == this) return none();
  Use use(*this);
  std::string held;
  auto [data, size] = bytes_of(args[1], &held);
  for (auto& p : read_params(data, size)) {
    if (!has_input(p.name)) continue;
    if (!other->has_input(p.name)) fail("ValueError", "the other executor has no parameter `%s` to share", p.name.c_str());
    Value key(from_string(p.name));
    Slot& theirs = other->input(key.any);
    Slot& mine = input(key.any);
    Value value(from_ref(theirs.tensor));
    share(mine, value.any, "parameter");
    mine.constant |= theirs.constant;
  }
  return none();
}

}  // namespace tw
