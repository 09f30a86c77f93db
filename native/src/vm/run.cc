// The loop over instructions.
#include <chrono>

#include "run.h"

namespace tw {

// Runs a kernel on the pointers that are set up, and notes how long it took and on what.
int32_t Run::timed(int32_t kernel, const int32_t* tensors, int32_t n) {
  using Clock = std::chrono::steady_clock;
  KernelRecord record{kernel, 0, {}};
  for (int32_t i = 0; i < n; ++i) {
    const DLTensor& t = tensor(tensors[i]);
    record.shapes += (i ? ", " : "") + dtype_text(t.dtype) + "[";
    for (int32_t d = 0; d < t.ndim; ++d) record.shapes += (d ? ", " : "") + std::to_string(t.shape[d]);
    record.shapes += "]";
  }
  auto begin = Clock::now();
  int32_t code = p_.kernels[static_cast<size_t>(kernel)].entry(pointers_.data());
  const DLDevice device = p_.devices[static_cast<size_t>(p_.kernels[static_cast<size_t>(kernel)].device)];
  if (!on_cpu(device)) synchronize(device, current_stream(device));
  record.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  records_->push_back(std::move(record));
  return code;
}

TVMFFIAny Run::loop() {
  const int32_t* text = p_.text.data();
  int32_t at = function_->begin;
  std::vector<TVMFFIAny> args;
  for (;;) {
    const int32_t* w = text + at;
    switch (w[0]) {
      case kRet: {
        // A register dies with its frame, so that its value can be taken; a constant stays.
        TVMFFIAny result;
        if (w[1] >= 0) { result = slot(w[1]); slot(w[1]) = none(); } else { result = own(value(w[1])); }
        while (stack_.size() > base_) { destroy(stack_.back()); stack_.pop_back(); }
        if (frames_.empty()) return result;
        Frame back = frames_.back();
        frames_.pop_back();
        function_ = back.function;
        base_ = back.base;
        at = back.at;
        put(back.result, result);
        continue;
      }
      case kMove: put(w[1], own(value(w[2]))); at += 3; continue;
      case kFatal: fail("TVMError", "%s: %s", function_->name.c_str(), p_.messages[static_cast<size_t>(w[1])].c_str());
      case kGoto: at = jump(at, w[1]); continue;
      case kIf: at = element(tensor(w[1]), 0) ? at + 3 : jump(at, w[2]); continue;
      case kIfTag: at = adt(w[1]).tag == w[2] ? at + 4 : jump(at, w[3]); continue;
      case kGetField: {
        const AdtObject& v = adt(w[2]);
        if (static_cast<size_t>(w[3]) >= v.fields.size()) fail("IndexError", "%s: field %d of a value with %zu was asked for", function_->name.c_str(), w[3], v.fields.size());
        put(w[1], own(v.fields[static_cast<size_t>(w[3])]));
        at += 4;
        continue;
      }
      case kAllocAdt: put(w[1], from_object(&make<AdtObject>(w[2], own_all(w + 4, w[3]))->header)); at += 4 + w[3]; continue;
      case kAllocClosure: put(w[1], from_object(&make<ClosureObject>(&p_, w[2], own_all(w + 4, w[3]))->header)); at += 4 + w[3]; continue;
      case kInvoke: {
        args = own_all(w + 4, w[3]);
        enter(p_.functions[static_cast<size_t>(w[2])], args, at + 4 + w[3], w[1]);
        at = function_->begin;
        continue;
      }
      case kTailInvoke: {
        args = own_all(w + 3, w[2]);
        replace(p_.functions[static_cast<size_t>(w[1])], args);
        at = function_->begin;
        continue;
      }
      case kInvokeClosure: {
        args.clear();
        const Function& f = closure(w[2], w + 4, w[3], &args);
        enter(f, args, at + 4 + w[3], w[1]);
        at = function_->begin;
        continue;
      }
      case kTailInvokeClosure: {
        args.clear();
        const Function& f = closure(w[1], w + 3, w[2], &args);
        replace(f, args);
        at = function_->begin;
        continue;
      }
      case kKernel: {
        // w: kernel, n, sizes..., m, tensors (inputs, then outputs)
        const Kernel& k = p_.kernels[static_cast<size_t>(w[1])];
        int32_t n = w[2];
        const int32_t* operands = w + 3;
        int32_t m = operands[n];
        if (!p_.on_cpus) prepare(k, operands + n + 1, m);
        pointers_.clear();
        for (int32_t i = 0; i < m; ++i) {
          const DLTensor& t = tensor(operands[n + 1 + i]);
          pointers_.push_back(static_cast<char*>(t.data) + t.byte_offset);
        }
        for (int32_t i = 0; i < n; ++i) {
          integer(operands[i]);
          pointers_.push_back(const_cast<int64_t*>(&value(operands[i]).v_int64));
        }
        if (int32_t code = records_ ? timed(w[1], operands + n + 1, m) : k.entry(pointers_.data())) {
          if (Ref<ErrorObject> error = take_raised()) { set_raised(error); throw Raised{}; }
          fail("RuntimeError", "the kernel %s failed with code %d", k.name.c_str(), code);
        }
        at += 4 + n + m;
        continue;
      }
      case kAllocStatic: {
        const TensorSpec& s = p_.specs[static_cast<size_t>(w[2])];
        put(w[1], allocate(s, static_cast<int32_t>(s.shape.size()), s.shape.data(), s.bytes));
        at += 3;
        continue;
      }
      case kAlloc: {
        const TensorSpec& s = p_.specs[static_cast<size_t>(w[2])];
        auto& shape = sizes(w + 4, w[3]);
        int64_t bytes = (s.dtype.bits * s.dtype.lanes + 7) / 8;
        for (int64_t d : shape) if (!multiply_bytes(bytes, d)) fail("MemoryError", "%s: a tensor of shape %s is larger than memory", function_->name.c_str(), shape_text(w[3], shape.data()).c_str());
        put(w[1], allocate(s, w[3], shape.data(), static_cast<size_t>(bytes)));
        at += 4 + w[3];
        continue;
      }
      case kReshapeStatic: {
        const TensorSpec& s = p_.specs[static_cast<size_t>(w[3])];
        put(w[1], reshaped(value(w[2]), static_cast<int32_t>(s.shape.size()), s.shape.data()));
        at += 4;
        continue;
      }
      case kPartStatic: {
        const TensorSpec& s = p_.specs[static_cast<size_t>(w[4])];
        put(w[1], part(value(w[2]), int64_t{64} * w[3], s));
        at += 5;
        continue;
      }
      case kReshape: put(w[1], reshaped(value(w[2]), w[3], sizes(w + 4, w[3]).data())); at += 4 + w[3]; continue;
      case kShapeOf: {
        const DLTensor& t = tensor(w[2]);
        if (w[3] >= t.ndim) fail("IndexError", "%s: dimension %d of a tensor of shape %s was asked for", function_->name.c_str(), w[3], shape_text(t.ndim, t.shape).c_str());
        put(w[1], from_int(t.shape[w[3]]));
        at += 4;
        continue;
      }
      case kInt: put(w[1], from_int(arithmetic(w[2], integer(w[3]), integer(w[4]), integer(w[5])))); at += 6; continue;
      case kLoadInt: put(w[1], from_int(static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(w[2])) | static_cast<uint64_t>(static_cast<uint32_t>(w[3])) << 32))); at += 4; continue;
      case kLoadElement: put(w[1], from_int(element(tensor(w[2]), integer(w[3])))); at += 4; continue;
      case kCopy: {
        const DLTensor &from = tensor(w[1]), &to = tensor(w[2]);
        copy_tensor(from, to);
        at += 3;
        continue;
      }
      case kRefNew: put(w[1], from_object(&make<RefObject>(own(value(w[2])))->header)); at += 3; continue;
      case kRefRead: put(w[1], own(ref(w[2])->cell[0])); at += 3; continue;
      case kRefWrite: {
        RefObject* r = ref(w[1]);
        TVMFFIAny old = r->cell[0];
        r->cell[0] = own(value(w[2]));
        destroy(old);
        at += 3;
        continue;
      }
      case kKill:
        for (int32_t i = 0; i < w[1]; ++i) destroy(slot(w[2 + i]));
        at += 2 + w[1];
        continue;
      case kNeed: {
        // w: condition, message, n, the numbers that stand where the message has kNumberHere
        if (!integer(w[1])) {
          std::string text;
          int32_t i = 0;
          for (char c : p_.messages[static_cast<size_t>(w[2])])
            if (c == kNumberHere && i < w[3]) text += std::to_string(integer(w[4 + i++]));
            else text += c;
          fail("ValueError", "%s: %s", function_->name.c_str(), text.c_str());
        }
        at += 4 + w[3];
        continue;
      }
    }
  }
}

}  // namespace tw
