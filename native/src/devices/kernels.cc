// Modules of code for devices: their functions launch kernels, which are loaded when they are first needed on a device.
#include <atomic>

#include "../json.h"
#include "../module.h"
#include "device.h"

namespace tw {
namespace {

constexpr const char* kExtents[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "tir.use_dyn_shared_memory"};
constexpr size_t kShared = 6;
constexpr const char* kCooperative = "tir.use_cooperative_launch";  // says something of the kernel; no number belongs to it
constexpr size_t kFewArgs = 24;                                     // more do not lie on the stack

struct Assertion {
  std::string kind, text;          // of its error
  bool has_value;                  // a number follows the text
};
struct KernelInfo {
  std::string name;
  size_t code;                     // which piece of the module's code it is in
  std::vector<DLDataType> types;   // of its arguments
  std::vector<size_t> extents;     // what each number after the arguments says: an index into kExtents
  bool cooperative;
  std::vector<TWTensorMap> maps;
  std::vector<Assertion> asserts;  // with some, it takes a report behind its arguments
  std::string place;               // of the text that it comes from, "file:line"; empty where none is known
};

// What threads whose assertion fails write: how many they are, and of the first one the number of its assertion, a value, its block, itself
// (tir/transform/function/device_asserts.py).
class Report {
 public:
  explicit Report(DLDevice device) {
    const int64_t words[1] = {kWords};
    memory_ = empty_tensor(1, words, DLDataType{kDLInt, 32, 1}, device);
    clear_tensor(memory_->tensor);
  }
  void* address() const { return memory_->tensor.data; }

  // Waits for the launch. Throws the error of an assertion that failed.
  void read(const KernelInfo& k) const {
    int32_t words[kWords];
    fetch_tensor(memory_->tensor, words);
    const auto which = static_cast<size_t>(words[kWhich]);
    if (words[kFailed] == 0 || which >= k.asserts.size()) return;
    const Assertion& a = k.asserts[which];
    const int32_t *block = words + kPlace, *thread = block + 3;
    const auto value = static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(words[kHigh])) << 32 | static_cast<uint32_t>(words[kLow]));
    const std::string others = words[kFailed] == 1 ? "" : format(", and %d more times", words[kFailed] - 1);
    fail(a.kind.c_str(), "%s%s\n  in the kernel `%s` on %s, thread (%d, %d, %d) of block (%d, %d, %d)%s", a.text.c_str(), a.has_value ? std::to_string(value).c_str() : "",
         k.name.c_str(), device_text(memory_->tensor.device).c_str(), thread[0], thread[1], thread[2], block[0], block[1], block[2], others.c_str());
  }

 private:
  enum { kFailed, kWhich, kLow, kHigh, kPlace, kWords = kPlace + 6 };
  Ref<TensorObject> memory_;
};

// [argument, type of the elements, swizzle, extents, strides without the last one, box]
TWTensorMap tensor_map_of(const Json& item) {
  const auto& parts = item.items;
  TWTensorMap map{};
  const size_t rank = parts.size() == 6 ? parts[3].items.size() : 0;
  if (rank < 1 || rank > kTWMostTensorRank || parts[4].items.size() + 1 != rank || parts[5].items.size() != rank)
    fail("ValueError", "the device code that the library holds is damaged; export it again");
  map.arg = static_cast<int32_t>(parts[0].integer);
  map.rank = static_cast<int32_t>(rank);
  map.type = parse_dtype(parts[1].string);
  map.swizzle = static_cast<int32_t>(parts[2].integer);
  for (size_t d = 0; d < rank; ++d) {
    map.extents[d] = parts[3].items[d].integer;
    map.strides[d] = d + 1 < rank ? parts[4].items[d].integer : 1;
    map.box[d] = static_cast<uint32_t>(parts[5].items[d].integer);
  }
  return map;
}

// What is loaded on one device.
struct OnDevice {
  DLDevice device;
  std::vector<void*> code;         // null: not yet
  std::vector<void*> kernels;
};

// A line of JSON, {"type": "cuda", "form": "ptx", "code": [bytes of each piece], "kernels": [{"name", "code", "args": [types], "launch":
// [what the numbers after the arguments say], "maps": [tensor maps], "asserts": [[kind, text, whether a number follows]],
// "place"}]}, and the pieces of code.
class DeviceModule : public ModuleImpl {
 public:
  // keep: what lives as long as the module.
  DeviceModule(std::string bytes, TVMFFIAny keep) : bytes_(std::move(bytes)), keep_(keep) {
    const size_t end = bytes_.find('\n');
    const Json head = JsonReader(bytes_.substr(0, end), "the description of device code").read();
    kind_ = head["type"].string;
    form_ = head["form"].string;
    type_ = static_cast<int32_t>(head["device_type"].integer);
    size_t at = end == std::string::npos ? bytes_.size() : end + 1;
    for (auto& size : head["code"].items) {
      if (size.integer < 0 || static_cast<size_t>(size.integer) > bytes_.size() - at) damaged();
      pieces_.push_back({at, static_cast<size_t>(size.integer)});
      at += static_cast<size_t>(size.integer);
    }
    for (auto& item : head["kernels"].items) {
      KernelInfo k{item["name"].string, static_cast<size_t>(item["code"].integer), {}, {}, false, {}, {}, item["place"].string};
      if (k.code >= pieces_.size()) damaged();
      for (auto& t : item["args"].items) k.types.push_back(parse_dtype(t.string));
      for (auto& m : item["maps"].items) k.maps.push_back(tensor_map_of(m));
      for (auto& m : k.maps)
        if (m.arg < 0 || static_cast<size_t>(m.arg) >= k.types.size()) damaged();
      for (auto& a : item["asserts"].items) {
        if (a.items.size() != 3) damaged();
        k.asserts.push_back({a.items[0].string, a.items[1].string, a.items[2].integer != 0});
      }
      for (auto& e : item["launch"].items) {
        if (e.string == kCooperative) {
          k.cooperative = true;
          continue;
        }
        size_t i = 0;
        while (i <= kShared && e.string != kExtents[i]) ++i;
        if (i > kShared) fail("ValueError", "the kernel `%s` is bound to `%s`; a launch has %s to threadIdx.z and %s", k.name.c_str(), e.string.c_str(), kExtents[0], kExtents[kShared]);
        k.extents.push_back(i);
      }
      kernels_.push_back(std::move(k));
    }
  }
  ~DeviceModule() override {
    auto pending = take_raised();  // as when memory is freed, nobody is there to be told
    for (auto& d : loaded_) {
      const TWDeviceAPI& api = device_api(d.device.device_type);
      for (void* code : d.code)
        if (code && api.release_code(api.self, d.device, code)) take_raised();
    }
    if (pending) set_raised(std::move(pending));
    destroy(keep_);
  }
  const char* kind() const override { return kind_.c_str(); }

  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    for (size_t i = 0; i < kernels_.size(); ++i)
      if (kernels_[i].name == name) {
        auto owner = Ref<ModuleObject>::share(self);
        return make_function([this, owner, i](Args args) {
          launch(i, args);
          return none();
        });
      }
    return {};
  }

 private:
  [[noreturn]] static void damaged() { fail("ValueError", "the device code that the library holds is damaged; export it again"); }

  // The device of the tensors among the arguments, which must be one; of mere addresses, that which the thread has set.
  DLDevice device_of(const KernelInfo& k, Args args) const {
    const DLTensor* first = nullptr;
    for (int32_t i = 0; i < static_cast<int32_t>(k.types.size()); ++i) {
      const DLTensor* t = as_tensor(args[i]);
      if (!t) continue;
      if (t->device.device_type != type_ || (first && !same_device(first->device, t->device)))
        fail("ValueError", "the kernel `%s` runs on %s, but its argument %d is a tensor on %s; copy it first", k.name.c_str(),
             first ? device_text(first->device).c_str() : (device_type_text(type_) + " devices").c_str(), i, device_text(t->device).c_str());
      if (!first) first = t;
    }
    return first ? first->device : current_device(type_);
  }
  static uint64_t value(const KernelInfo& k, int32_t i, const TVMFFIAny& given) {
    const DLDataType type = k.types[static_cast<size_t>(i)];
    if (type.code == kDLOpaque) {
      if (const DLTensor* t = as_tensor(given)) return reinterpret_cast<uintptr_t>(t->data) + t->byte_offset;
      if (given.type_index == kTVMFFIOpaquePtr || given.type_index == kTVMFFINone) return reinterpret_cast<uintptr_t>(given.v_ptr);
      fail("TypeError", "argument %d of the kernel `%s` must be a tensor or an address, got a value of type index %d", i, k.name.c_str(), given.type_index);
    }
    if (type.code != kDLFloat) return static_cast<uint64_t>(as_int(given, format("argument %d of the kernel `%s`", i, k.name.c_str()).c_str()));
    const double number = given.type_index == kTVMFFIFloat ? given.v_float64 : static_cast<double>(as_int(given, format("argument %d of the kernel `%s`", i, k.name.c_str()).c_str()));
    uint64_t bits = 0;
    const float narrow = static_cast<float>(number);
    if (type.bits == 32) memcpy(&bits, &narrow, 4);
    else if (type.bits == 64) memcpy(&bits, &number, 8);
    else fail("TypeError", "argument %d of the kernel `%s` is a %s, which cannot be passed by value", i, k.name.c_str(), dtype_text(type).c_str());
    return bits;
  }
  void launch(size_t index, Args args) {
    const KernelInfo& k = kernels_[index];
    if (k.asserts.empty()) return launch_with(index, args, nullptr);
    const Report report(device_of(k, args));
    launch_with(index, args, report.address());
    report.read(k);
  }
  // report: the address that the kernel takes behind its arguments; null where it takes none.
  void launch_with(size_t index, Args args, void* report) {
    const KernelInfo& k = kernels_[index];
    const auto n = static_cast<int32_t>(k.types.size()), all = n + static_cast<int32_t>(k.extents.size());
    if (args.count != all) fail("TypeError", "the kernel `%s` takes %d arguments and %zu numbers of its launch, but %d values were given", k.name.c_str(), n, k.extents.size(), args.count);
    const DLDevice device = device_of(k, args);
    uint64_t extents[kShared + 1] = {1, 1, 1, 1, 1, 1, 0};
    for (int32_t i = n; i < all; ++i) {
      const size_t which = k.extents[static_cast<size_t>(i - n)];
      const int64_t extent = as_int(args[i], kExtents[which]);
      if (extent < 0 || (which < kShared && extent > UINT32_MAX)) fail("ValueError", "the kernel `%s` cannot be launched with %s = %lld", k.name.c_str(), kExtents[which], static_cast<long long>(extent));
      if (extent == 0 && which < kShared) return;  // nothing to do; drivers refuse it
      extents[which] = static_cast<uint64_t>(extent);
    }
    const size_t given = k.types.size() + (report ? 1 : 0);
    uint64_t few[kFewArgs];
    std::vector<uint64_t> many(given > kFewArgs ? given : 0);
    void* few_addresses[kFewArgs];
    std::vector<void*> many_addresses(many.size());
    uint64_t* values = many.empty() ? few : many.data();
    void** addresses = many.empty() ? few_addresses : many_addresses.data();
    for (int32_t i = 0; i < n; ++i) {
      values[i] = value(k, i, args[i]);
      addresses[i] = &values[i];
    }
    const DLDataType* types = k.types.data();
    std::vector<DLDataType> with_report;
    if (report) {
      values[n] = reinterpret_cast<uintptr_t>(report);
      addresses[n] = &values[n];
      with_report = k.types;
      with_report.push_back({kDLOpaque, 64, 1});
      types = with_report.data();
    }
    TWLaunch l{kernel_on(device, index), {}, {}, static_cast<size_t>(extents[kShared]), addresses, types, static_cast<int32_t>(given), k.cooperative,
               k.maps.data(), static_cast<int32_t>(k.maps.size())};
    for (size_t i = 0; i < 3; ++i) {
      l.grid[i] = static_cast<uint32_t>(extents[i]);
      l.block[i] = static_cast<uint32_t>(extents[i + 3]);
    }
    const TWDeviceAPI& api = device_api(device.device_type);
    check_device(api.launch(api.self, device, &l, current_stream(device)), "launch a kernel on", device);
  }
  void* kernel_on(DLDevice device, size_t index) {
    std::lock_guard<Mutex> hold(lock_);
    OnDevice* there = nullptr;
    for (auto& d : loaded_)
      if (same_device(d.device, device)) there = &d;
    const TWDeviceAPI& api = device_api(device.device_type);
    if (!there) {
      if (!api.launch) fail("RuntimeError", "the runtime of %s devices launches no kernels", device_type_text(device.device_type).c_str());
      need_device(device);
      loaded_.push_back({device, std::vector<void*>(pieces_.size()), std::vector<void*>(kernels_.size())});
      there = &loaded_.back();
    }
    if (void* known = there->kernels[index]) return known;
    const KernelInfo& k = kernels_[index];
    void*& code = there->code[k.code];
    if (!code) check_device(api.load_code(api.self, device, form_.c_str(), bytes_.data() + pieces_[k.code].first, pieces_[k.code].second, &code), "load code on", device);
    void* found = nullptr;
    check_device(api.find_kernel(api.self, device, code, k.name.c_str(), k.place.c_str(), &found), "find a kernel on", device);
    return there->kernels[index] = found;
  }

  std::string bytes_, kind_, form_;
  TVMFFIAny keep_;
  int32_t type_ = 0;
  std::vector<std::pair<size_t, size_t>> pieces_;  // where each begins in the bytes, and how long it is
  std::vector<KernelInfo> kernels_;
  Mutex lock_;
  std::vector<OnDevice> loaded_;
};

const int kernels_registered = [] {
  const auto load = [](Args args) { return from_ref(make_module(std::make_unique<DeviceModule>(as_string(args[0]), args.count > 1 ? own(args[1]) : none()))); };
  register_global("runtime.DeviceModule", load);
  register_global("runtime.module.loadbinary_tilewright_device", load);
  register_global("__tvm_set_device", [](Args args) {
    set_current_device({static_cast<int32_t>(as_int(args[0], "a device's type")), static_cast<int32_t>(as_int(args[1], "a device's number"))});
    return none();
  });
  return 0;
}();

}  // namespace
}  // namespace tw
