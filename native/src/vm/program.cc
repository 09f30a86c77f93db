// Reading bytecode and checking it.
#include "program.h"

#include "../devices/device.h"

#include <algorithm>

namespace tw {

class Reader {
 public:
  Reader(const char* data, size_t size) : data_(data), size_(size) {}
  int64_t word() {
    if (at_ + 8 > size_) damaged("it is cut off");
    int64_t v;
    memcpy(&v, data_ + at_, 8);
    at_ += 8;
    return v;
  }
  int32_t small(const char* what, int64_t low = 0, int64_t high = 1 << 30) {
    int64_t v = word();
    if (v < low || v > high) damaged(what);
    return static_cast<int32_t>(v);
  }
  // A number of things that take at least `unit` bytes each.
  size_t count(const char* what, size_t unit = 8) {
    int64_t v = word();
    if (v < 0 || static_cast<uint64_t>(v) > (size_ - at_) / unit) damaged(what);
    return static_cast<size_t>(v);
  }
  std::string text() {
    size_t n = count("the length of a name", 1);
    std::string s(data_ + at_, n);
    at_ += (n + 7) / 8 * 8;
    if (at_ > size_) damaged("it is cut off");
    return s;
  }
  bool done() const { return at_ == size_; }
  [[noreturn]] void damaged(const char* what) {
    fail("ValueError", "the bytecode is damaged: %s (at byte %zu of %zu); compile the program again", what, at_, size_);
  }

 private:
  const char* data_;
  size_t size_, at_ = 0;
};

namespace {

const char* const kLayouts[] = {
#define TW_LAYOUT(name, layout) layout,
    TW_INSTRUCTIONS(TW_LAYOUT)
#undef TW_LAYOUT
};

// FNV-1a over words of 8 bytes.
uint64_t checksum(const char* data, size_t size) {
  uint64_t h = 0xcbf29ce484222325;
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t word;
    memcpy(&word, data + i, 8);
    h = (h ^ word) * 0x100000001b3;
  }
  return h;
}

constexpr int64_t kMagic = 0x344d56776c6974;  // "tilwVM4"

}  // namespace

Program::Program(const char* code, size_t size, const Library& library, Ref<TensorObject> constants, const std::vector<DLDevice>& all) : devices(all) {
  for (auto& d : devices) on_cpus &= on_cpu(d);
  Reader in(code, size);
  if (in.word() != kMagic) in.damaged("it does not begin as bytecode of this version does");
  auto sum = static_cast<uint64_t>(in.word());
  if (sum != checksum(code + 16, size - 16)) in.damaged("its checksum does not agree");
  for (size_t n = in.count("the number of tensor types"); n--;) specs.push_back(read_spec(in));
  for (size_t n = in.count("the number of messages"); n--;) messages.push_back(in.text());
  for (size_t n = in.count("the number of kernels"); n--;) {
    Kernel k{in.text(), nullptr, 0};
    k.device = read_device(in);
    k.entry = reinterpret_cast<int32_t (*)(void**)>(library.symbol(k.name));
    if (!k.entry) fail("ValueError", "%s does not export the kernel `%s` that its bytecode calls", library.label().c_str(), k.name.c_str());
    kernels.push_back(std::move(k));
  }
  for (size_t n = in.count("the number of constants"); n--;) read_constant(in, *constants.get());
  for (size_t n = in.count("the number of functions"); n--;) read_function(in);
  size_t words = in.count("the length of the code");
  text.resize(words);
  for (auto& w : text) w = in.small("a word of the code", INT32_MIN, INT32_MAX);
  if (!in.done()) in.damaged("something follows its end");
  for (auto& f : functions) check(f, in);
}

int32_t Program::read_device(Reader& in) { return in.small("a device", 0, static_cast<int64_t>(devices.size()) - 1); }

// On another device than the CPU it is a copy.
void Program::read_constant(Reader& in, TensorObject& all) {
  const TensorSpec& spec = specs[static_cast<size_t>(in.small("the type of a constant", 0, static_cast<int64_t>(specs.size()) - 1))];
  const int64_t offset = in.word();
  if (offset < 0 || offset % 64 || offset + static_cast<int64_t>(spec.bytes) > tensor_bytes(all.tensor)) in.damaged("a constant lies outside of the constants");
  const DLDevice device = devices[static_cast<size_t>(spec.device)];
  DLTensor t{static_cast<char*>(all.tensor.data) + offset, {kDLCPU, on_cpu(device) ? device.device_id : 0}, static_cast<int32_t>(spec.shape.size()), spec.dtype, const_cast<int64_t*>(spec.shape.data()), nullptr, 0};
  // A function may return a constant, which then outlives the machine.
  if (on_cpu(device)) return constants.push_back(from_ref(tensor_view(t, Ref<>::share(&all))));
  auto there = empty_tensor(t.ndim, t.shape, t.dtype, device);
  copy_tensor(t, there->tensor);
  constants.push_back(from_ref(std::move(there)));
}

TensorSpec Program::read_spec(Reader& in) {
  TensorSpec s;
  s.dtype.code = static_cast<uint8_t>(in.small("a data type", 0, 255));
  s.dtype.bits = static_cast<uint8_t>(in.small("a data type", 0, 255));
  s.dtype.lanes = static_cast<uint16_t>(in.small("a data type", 1, 65535));
  s.device = read_device(in);
  size_t ndim = in.count("a number of dimensions");
  int64_t bytes = (s.dtype.bits * s.dtype.lanes + 7) / 8;
  for (size_t i = 0; i < ndim; ++i) {
    s.shape.push_back(in.word());
    if (s.shape.back() < -1) in.damaged("a dimension is negative");
    if (!multiply_bytes(bytes, std::max<int64_t>(s.shape.back(), 0))) in.damaged("a tensor is larger than memory");
  }
  s.bytes = static_cast<size_t>(bytes);
  return s;
}

void Program::read_function(Reader& in) {
  Function f;
  f.name = in.text();
  f.params = in.small("a number of parameters");
  for (int32_t i = 0; i < f.params; ++i) {
    f.param_names.push_back(in.text());
    f.param_specs.push_back(in.small("the type of a parameter", -1, static_cast<int64_t>(specs.size()) - 1));
  }
  f.registers = in.small("a number of registers", f.params, 1 << 24);
  f.begin = in.small("where a function begins");
  f.end = in.small("where a function ends", f.begin);
  by_name[f.name] = static_cast<int32_t>(functions.size());
  functions.push_back(std::move(f));
}

// Walks a function's instructions; refuses registers, targets and table entries that are not there.
void Program::check(const Function& f, Reader& in) {
  if (static_cast<size_t>(f.end) > text.size() || f.begin == f.end) in.damaged("a function lies outside of the code");
  std::vector<bool> starts(static_cast<size_t>(f.end - f.begin));
  std::vector<int32_t> targets;
  int32_t at = f.begin, op = -1;
  auto next = [&] {
    if (at >= f.end) in.damaged("an instruction is cut off");
    return text[static_cast<size_t>(at++)];
  };
  auto entry = [&](size_t size, const char* what) {
    int32_t i = next();
    if (i < 0 || static_cast<size_t>(i) >= size) in.damaged(what);
    return static_cast<size_t>(i);
  };
  auto operand = [&] {
    int32_t r = next();
    if (r >= f.registers || r < -static_cast<int32_t>(constants.size())) in.damaged("an operand is not there");
  };
  while (at < f.end) {
    starts[static_cast<size_t>(at - f.begin)] = true;
    op = static_cast<int32_t>(entry(kNumOps, "an unknown instruction"));
    int32_t least = 0, most = INT32_MAX;
    for (const char* c = kLayouts[op]; *c; ++c) switch (*c) {
      case 'd': entry(static_cast<size_t>(f.registers), "a register is not there"); break;
      case 's': operand(); break;
      case 'S': {
        int32_t n = next();
        if (n < least || n > most || n > f.end - at) in.damaged("a wrong number of operands");
        while (n--) operand();
        break;
      }
      case 'R': {
        int32_t n = next();
        if (n < 0 || n > f.end - at) in.damaged("a wrong number of registers");
        while (n--) entry(static_cast<size_t>(f.registers), "a register is not there");
        break;
      }
      case 't': targets.push_back(next()); break;
      case 'f': least = most = functions[entry(functions.size(), "a called function is not there")].params; break;
      case 'c': most = functions[entry(functions.size(), "a called function is not there")].params; break;
      case 'k': entry(kernels.size(), "a kernel is not there"); break;
      case 'm': entry(messages.size(), "a message is not there"); break;
      case 'y': entry(specs.size(), "a type is not there"); break;
      case 'Y':
        for (int64_t d : specs[entry(specs.size(), "a type is not there")].shape)
          if (d < 0) in.damaged("a dimension is not known");
        break;
      case 'n': if (next() < 0) in.damaged("an index is negative"); break;
      case 'o': entry(kNumIntOps, "an unknown operation on sizes"); break;
      default: next();
    }
  }
  bool ends = op == kRet || op == kTailInvoke || op == kTailInvokeClosure || op == kFatal || op == kGoto;
  if (!ends) in.damaged("a function does not end in a return");
  for (int32_t t : targets)
    if (t < f.begin || t >= f.end || !starts[static_cast<size_t>(t - f.begin)]) in.damaged("a jump leads nowhere");
}

}  // namespace tw
