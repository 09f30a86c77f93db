// One run of one function.
#pragma once
#include "../devices/device.h"
#include "../pool.h"
#include "program.h"
#include "values.h"

namespace tw {

struct Frame {
  const Function* function;
  int32_t at;        // the next instruction of the caller
  size_t base;       // the caller's first register
  int32_t result;    // where the caller wants the result
};
// A call of a kernel, as a profiled run notes it.
struct KernelRecord {
  int32_t kernel;
  double seconds;
  std::string shapes;
};
// One run of one function: a stack of registers and frames of its own, so that several threads may run one program.
class Run {
 public:
  Run(const Program& program, const std::shared_ptr<Pool>& pool, const std::shared_ptr<DevicePool>& away, size_t depth_limit, std::vector<KernelRecord>* records = nullptr)
      : p_(program), pool_(pool), away_(away), limit_(depth_limit), records_(records) {}
  ~Run() { while (!stack_.empty()) { destroy(stack_.back()); stack_.pop_back(); } }

  // Takes the arguments over.
  TVMFFIAny call(const Function& f, std::vector<TVMFFIAny> args) {
    for (auto& a : args) stack_.push_back(a);
    stack_.resize(static_cast<size_t>(f.registers), none());
    function_ = &f;
    return loop();
  }

 private:
  const TVMFFIAny& value(int32_t operand) const { return operand >= 0 ? stack_[base_ + static_cast<size_t>(operand)] : p_.constants[static_cast<size_t>(-operand - 1)]; }
  TVMFFIAny& slot(int32_t r) { return stack_[base_ + static_cast<size_t>(r)]; }
  void put(int32_t r, TVMFFIAny owned) {
    TVMFFIAny old = slot(r);
    slot(r) = owned;
    destroy(old);
  }
  const DLTensor& tensor(int32_t operand) const {
    const DLTensor* t = as_tensor(value(operand));
    if (!t) wrong("a tensor", value(operand));
    return *t;
  }
  int64_t integer(int32_t operand) const {
    const TVMFFIAny& v = value(operand);
    if (v.type_index != kTVMFFIInt) wrong("a size", v);
    return v.v_int64;
  }
  const AdtObject& adt(int32_t operand) const {
    const TVMFFIAny& v = value(operand);
    if (v.type_index != adt_type()) wrong("a tuple or a value of a data type", v);
    return *reinterpret_cast<AdtObject*>(v.v_obj);
  }
  [[noreturn]] void wrong(const char* wanted, const TVMFFIAny& v) const {
    fail("TypeError", "%s: %s was expected, but %s was found", function_->name.c_str(), wanted, described(v).c_str());
  }
  std::vector<TVMFFIAny> own_all(const int32_t* operands, int32_t n) const {
    std::vector<TVMFFIAny> out(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = own(value(operands[i]));
    return out;
  }
  TVMFFIAny allocate(const TensorSpec& spec, int32_t ndim, const int64_t* shape, size_t bytes) {
    const DLDevice device = p_.devices[static_cast<size_t>(spec.device)];
    if (!on_cpu(device)) return from_ref(away_->tensor(ndim, shape, spec.dtype, device, bytes));
    void* data = pool_->take(bytes);
    auto t = Ref<TensorObject>::steal(make<TensorObject>());
    t->tensor = DLTensor{data, device, 0, spec.dtype, nullptr, nullptr, 0};
    t->set_dims(ndim, shape, nullptr);
    t->owner = data;
    t->release = Pool::give;
    return from_ref(std::move(t));
  }
  TVMFFIAny reshaped(const TVMFFIAny& v, int32_t ndim, const int64_t* shape) {
    const DLTensor* from = as_tensor(v);
    if (!from) wrong("a tensor", v);
    DLTensor like = *from;
    like.ndim = ndim;
    like.shape = const_cast<int64_t*>(shape);
    like.strides = nullptr;
    if (tensor_bytes(like) != tensor_bytes(*from))
      fail("ValueError", "%s: a tensor of shape %s cannot take the shape %s: it holds another number of elements", function_->name.c_str(),
           shape_text(from->ndim, from->shape).c_str(), shape_text(ndim, shape).c_str());
    return from_ref(tensor_view(like, Ref<>::share(v.v_obj)));
  }
  // The tensor that lies in another from byte `offset` on.
  TVMFFIAny part(const TVMFFIAny& v, int64_t offset, const TensorSpec& s) {
    const DLTensor* from = as_tensor(v);
    if (!from) wrong("a tensor", v);
    if (offset + static_cast<int64_t>(s.bytes) > tensor_bytes(*from))
      fail("ValueError", "%s: a tensor of shape %s has no part of %zu bytes at byte %lld", function_->name.c_str(), shape_text(from->ndim, from->shape).c_str(), s.bytes,
           static_cast<long long>(offset));
    return from_ref(tensor_view(DLTensor{static_cast<char*>(from->data) + offset, from->device, static_cast<int32_t>(s.shape.size()), s.dtype, const_cast<int64_t*>(s.shape.data()), nullptr, from->byte_offset}, Ref<>::share(v.v_obj)));
  }
  std::vector<int64_t>& sizes(const int32_t* operands, int32_t n) {
    scratch_.clear();
    for (int32_t i = 0; i < n; ++i) {
      scratch_.push_back(integer(operands[i]));
      if (scratch_.back() < 0) fail("ValueError", "%s: dimension %d of a result would be %lld", function_->name.c_str(), i, static_cast<long long>(scratch_.back()));
    }
    return scratch_;
  }
  static int64_t element(const DLTensor& t, int64_t i) {
    if (!on_cpu(t.device)) {
      auto here = empty_tensor(t.ndim, t.shape, t.dtype, {kDLCPU, 0});
      copy_tensor(t, here->tensor);
      return element(here->tensor, i);
    }
    const char* data = static_cast<const char*>(t.data) + t.byte_offset;
    int64_t count = 1;
    for (int32_t d = 0; d < t.ndim; ++d) count *= t.shape[d];
    if (i < 0 || i >= count) fail("IndexError", "element %lld of a tensor of %lld was asked for", static_cast<long long>(i), static_cast<long long>(count));
    switch (t.dtype.bits) {
      case 64: return t.dtype.code == kDLFloat ? static_cast<int64_t>(reinterpret_cast<const double*>(data)[i]) : reinterpret_cast<const int64_t*>(data)[i];
      case 32: return t.dtype.code == kDLFloat ? static_cast<int64_t>(reinterpret_cast<const float*>(data)[i])
                      : t.dtype.code == kDLUInt ? static_cast<int64_t>(reinterpret_cast<const uint32_t*>(data)[i]) : reinterpret_cast<const int32_t*>(data)[i];
      case 16: return t.dtype.code == kDLUInt ? reinterpret_cast<const uint16_t*>(data)[i] : reinterpret_cast<const int16_t*>(data)[i];
      default: return t.dtype.code == kDLInt ? reinterpret_cast<const int8_t*>(data)[i] : reinterpret_cast<const uint8_t*>(data)[i];
    }
  }
  int64_t arithmetic(int32_t op, int64_t a, int64_t b, int64_t c) const {
    switch (op) {
      case kAdd: return a + b;
      case kSub: return a - b;
      case kMul: return a * b;
      case kFloorDiv: case kFloorMod: {
        if (b == 0) fail("ValueError", "%s: a size is divided by zero", function_->name.c_str());
        // By -1 the least number wraps around; dividing it traps.
        if (b == -1) return op == kFloorDiv ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : 0;
        int64_t q = a / b, r = a % b;
        if (r != 0 && (r < 0) != (b < 0)) { --q; r += b; }
        return op == kFloorDiv ? q : r;
      }
      case kMin: return a < b ? a : b;
      case kMax: return a > b ? a : b;
      case kEq: return a == b;
      case kLt: return a < b;
      default: return a ? b : c;
    }
  }

  void enter(const Function& f, std::vector<TVMFFIAny>& args, int32_t at, int32_t result) {
    if (frames_.size() >= limit_) {
      for (auto& a : args) destroy(a);
      fail("RecursionError", "calls nest deeper than %zu; the last one is of %s. Does its recursion have a base case?", limit_, f.name.c_str());
    }
    if ((frames_.size() & 1023) == 0) interruptible(args);
    frames_.push_back({function_, at, base_, result});
    base_ = stack_.size();
    stack_.insert(stack_.end(), args.begin(), args.end());
    stack_.resize(base_ + static_cast<size_t>(f.registers), none());
    function_ = &f;
  }
  void replace(const Function& f, std::vector<TVMFFIAny>& args) {
    if ((++turns_ & 1023) == 0) interruptible(args);
    while (stack_.size() > base_) { destroy(stack_.back()); stack_.pop_back(); }
    stack_.insert(stack_.end(), args.begin(), args.end());
    stack_.resize(base_ + static_cast<size_t>(f.registers), none());
    function_ = &f;
  }
  // Where a jump leads. One that leads back may be a loop without an end.
  int32_t jump(int32_t from, int32_t to) {
    if (to <= from && (++turns_ & 1023) == 0 && check_signals() != 0) throw Raised{};
    return to;
  }
  // A kernel gets mere addresses: its tensors must be on its device. Of programs for CPUs alone that is known.
  void prepare(const Kernel& k, const int32_t* tensors, int32_t n) const {
    const DLDevice device = p_.devices[static_cast<size_t>(k.device)];
    for (int32_t i = 0; i < n; ++i) {
      const DLDevice at = tensor(tensors[i]).device;
      if (!same_device(at, device) && !(on_cpu(at) && on_cpu(device)))
        fail("ValueError", "%s: the kernel %s runs on %s, but its argument %d is on %s", function_->name.c_str(), k.name.c_str(), device_text(device).c_str(), i, device_text(at).c_str());
    }
    if (!on_cpu(device)) set_current_device(device);
  }
  void interruptible(std::vector<TVMFFIAny>& args) {
    if (check_signals() == 0) return;
    for (auto& a : args) destroy(a);
    throw Raised{};
  }
  const Function& closure(int32_t operand, const int32_t* operands, int32_t n, std::vector<TVMFFIAny>* args) {
    const TVMFFIAny& v = value(operand);
    if (v.type_index != closure_type()) wrong("a function", v);
    auto* c = reinterpret_cast<ClosureObject*>(v.v_obj);
    if (c->home != &p_) fail("ValueError", "a function of another program was called; its code is not here");
    const Function& f = p_.functions[static_cast<size_t>(c->function)];
    int32_t given = static_cast<int32_t>(c->captured.size()) + n;
    if (given != f.params) fail("TypeError", "%s takes %d arguments, but %d were given", f.name.c_str(), f.params - static_cast<int32_t>(c->captured.size()), n);
    args->reserve(static_cast<size_t>(given));
    for (auto& x : c->captured) args->push_back(own(x));
    for (int32_t i = 0; i < n; ++i) args->push_back(own(value(operands[i])));
    return f;
  }

  TVMFFIAny loop();
  int32_t timed(int32_t kernel, const int32_t* tensors, int32_t n);
  RefObject* ref(int32_t operand) const {
    const TVMFFIAny& v = value(operand);
    if (v.type_index != ref_type()) wrong("a reference", v);
    return reinterpret_cast<RefObject*>(v.v_obj);
  }

  const Program& p_;
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<DevicePool> away_;
  size_t limit_, base_ = 0;
  uint32_t turns_ = 0;
  const Function* function_ = nullptr;
  std::vector<TVMFFIAny> stack_;
  std::vector<Frame> frames_;
  std::vector<void*> pointers_;
  std::vector<KernelRecord>* records_;
  std::vector<int64_t> scratch_;
};

}  // namespace tw
