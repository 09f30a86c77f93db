// The virtual machine: runs the bytecode of programs with control flow, data types, closures and sizes known only at run time.
// Frames and registers stand on a stack of their own, so that calls may nest as deep as the limit says, whatever the thread's stack.
#include <atomic>
#include <memory>
#include <mutex>

#include "json.h"
#include "module.h"

extern "C" int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* key, int32_t static_index, int32_t depth, int32_t slots,
                                             int32_t overflow, int32_t parent);

namespace tw {
namespace {

int32_t type_of(const char* key) {
  TVMFFIByteArray name{key, strlen(key)};
  return TVMFFITypeGetOrAllocIndex(&name, -1, 1, 0, 1, kTVMFFIObject);
}
int32_t adt_type() {
  static const int32_t index = type_of("tilewright.ADT");
  return index;
}
int32_t closure_type() {
  static const int32_t index = type_of("tilewright.VMClosure");
  return index;
}
int32_t ref_type() {
  static const int32_t index = type_of("tilewright.VMRef");
  return index;
}

// Lists are as long as memory: what holds the last reference to a chain drops it link by link, not by recursion.
void drop_all(std::vector<TVMFFIAny>& values) {
  thread_local std::vector<TVMFFIAny>* pending = nullptr;
  if (pending) {
    pending->insert(pending->end(), values.begin(), values.end());
    values.clear();
    return;
  }
  std::vector<TVMFFIAny> queue(std::move(values));
  values.clear();
  pending = &queue;
  while (!queue.empty()) {
    TVMFFIAny last = queue.back();
    queue.pop_back();
    destroy(last);
  }
  pending = nullptr;
}

// A value of an algebraic data type, or a tuple (tag 0).
struct AdtObject : ObjectBase<AdtObject> {
  int32_t tag;
  std::vector<TVMFFIAny> fields;  // owned
  AdtObject(int32_t t, std::vector<TVMFFIAny> f) : ObjectBase(adt_type()), tag(t), fields(std::move(f)) {}
  ~AdtObject() { drop_all(fields); }
};
struct RefObject : ObjectBase<RefObject> {
  std::vector<TVMFFIAny> cell;
  explicit RefObject(TVMFFIAny owned) : ObjectBase(ref_type()), cell{owned} {}
  ~RefObject() { drop_all(cell); }
};
struct ClosureObject : ObjectBase<ClosureObject> {
  const void* home;  // the program that it belongs to
  int32_t function;
  std::vector<TVMFFIAny> captured;
  ClosureObject(const void* home, int32_t function, std::vector<TVMFFIAny> captured)
      : ObjectBase(closure_type()), home(home), function(function), captured(std::move(captured)) {}
  ~ClosureObject() { drop_all(captured); }
};

// ---- memory

// Blocks of a few sizes per power of two; freed ones are kept for the next tensor of that size, as the next run asks for the same.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  ~Pool() { trim(); }
  static constexpr size_t kHeader = 64;
  struct Block {
    std::shared_ptr<Pool> pool;
    Block* next;
    size_t size_class, bytes;
  };
  void* take(size_t bytes) {
    size_t rounded, index = size_class(bytes, &rounded);
    Block* block = nullptr;
    {
      std::lock_guard<std::mutex> hold(lock_);
      if (index < free_.size() && (block = free_[index])) {
        free_[index] = block->next;
        kept_ -= rounded;
      }
    }
    if (!block) {
      void* memory = aligned_alloc(64, kHeader + rounded);
      if (!memory) {
        trim();
        memory = aligned_alloc(64, kHeader + rounded);
      }
      if (!memory) fail("MemoryError", "cannot allocate %zu bytes for a tensor", bytes);
      block = new (memory) Block{{}, nullptr, index, rounded};
    }
    block->pool = shared_from_this();
    return reinterpret_cast<char*>(block) + kHeader;
  }
  static void give(void* data) {
    auto* block = reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
    std::shared_ptr<Pool> pool = std::move(block->pool);
    std::lock_guard<std::mutex> hold(pool->lock_);
    if (pool->free_.size() <= block->size_class) pool->free_.resize(block->size_class + 1);
    block->next = pool->free_[block->size_class];
    pool->free_[block->size_class] = block;
    pool->kept_ += block->bytes;
  }
  // Gives what is not in use back to the system.
  void trim() {
    std::lock_guard<std::mutex> hold(lock_);
    for (Block*& head : free_)
      while (Block* block = head) {
        head = block->next;
        block->~Block();
        free(block);
      }
    kept_ = 0;
  }

 private:
  static size_t size_class(size_t bytes, size_t* rounded) {
    if (bytes <= 64) { *rounded = 64; return 0; }
    unsigned top = 63 - static_cast<unsigned>(__builtin_clzll(bytes - 1));  // 2^top < bytes <= 2^(top + 1)
    size_t step = (size_t{1} << top) / 4;
    size_t parts = (bytes - (size_t{1} << top) + step - 1) / step;  // 1..4
    *rounded = (((size_t{1} << top) + parts * step) + 63) & ~size_t{63};
    return (top - 6) * 4 + parts;
  }
  static_assert(sizeof(Block) <= kHeader, "the header stands in one cache line before the data");
  std::mutex lock_;
  std::vector<Block*> free_;
  size_t kept_ = 0;
};

std::string described(const TVMFFIAny& v) {
  switch (v.type_index) {
    case kTVMFFINone: return "nothing";
    case kTVMFFIInt: return "an integer";
    case kTVMFFIBool: return "a bool";
    case kTVMFFIFloat: return "a float";
    case kTVMFFITensor: case kTVMFFIDLTensorPtr: return "a tensor";
    case kTVMFFIArray: case kTVMFFIList: return "a list";
    case kTVMFFIFunction: return "a function of the host";
    default: break;
  }
  if (is_string(v)) return "a string";
  if (v.type_index == adt_type()) return "a tuple or a value of a data type";
  if (v.type_index == closure_type()) return "a function";
  if (v.type_index == ref_type()) return "a reference";
  return format("a value of type index %d", v.type_index);
}

// ---- the program

// What follows an instruction's word, letter by letter; relay/backend/vm/code.py writes by the same table.
// d register written; s operand (below 0: a constant); S number of operands, then these; t target of a jump; f function, whose
// parameters the operands are; c function, whose first parameters they are; k kernel; m message; y type; Y type of known sizes;
// R number of registers, then these; n number not below 0; x any number; o operation on sizes.
#define TW_INSTRUCTIONS(X)                                                                                            \
  X(Ret, "s") X(Move, "ds") X(Fatal, "m") X(Goto, "t") X(If, "st") X(IfTag, "sxt") X(GetField, "dsn")                 \
  X(AllocAdt, "dxS") X(AllocClosure, "dcS") X(Invoke, "dfS") X(TailInvoke, "fS") X(InvokeClosure, "dsS")              \
  X(TailInvokeClosure, "sS") X(Kernel, "kSS") X(AllocStatic, "dY") X(Alloc, "dyS") X(ReshapeStatic, "dsY")            \
  X(Reshape, "dsS") X(ShapeOf, "dsn") X(Int, "dosss") X(LoadInt, "dxx") X(LoadElement, "dss") X(RefNew, "ds")         \
  X(RefRead, "ds") X(RefWrite, "ss") X(Kill, "R") X(NeedSize, "ssm")
enum Op : int32_t {
#define TW_NAME(name, layout) k##name,
  TW_INSTRUCTIONS(TW_NAME)
#undef TW_NAME
  kNumOps
};
const char* const kLayouts[] = {
#define TW_LAYOUT(name, layout) layout,
    TW_INSTRUCTIONS(TW_LAYOUT)
#undef TW_LAYOUT
};
enum IntOp : int32_t { kAdd, kSub, kMul, kFloorDiv, kFloorMod, kMin, kMax, kEq, kLt, kSelect, kNumIntOps };

struct TensorSpec {
  DLDataType dtype;
  std::vector<int64_t> shape;  // -1: not known before the run
  size_t bytes;
  bool is_tensor;
};
struct Kernel {
  std::string name;
  int32_t (*entry)(void** args);
};
struct Function {
  std::string name;
  std::vector<std::string> param_names;
  std::vector<int32_t> param_specs;  // of entries: index of a TensorSpec, or -1 for what is no tensor
  int32_t params, registers, begin, end;
};

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

constexpr int64_t kMagic = 0x314d56776c6974;  // "tilwVM1"

// What is compiled, checked once when it is loaded, so that running needs no checks of its own.
class Program {
 public:
  Program(const char* code, size_t size, const Library& library, char* constants, int64_t constant_bytes) {
    Reader in(code, size);
    if (in.word() != kMagic) in.damaged("it does not begin as bytecode of this version does");
    if (static_cast<uint64_t>(in.word()) != checksum(code + 16, size - 16)) in.damaged("its checksum does not agree");
    for (size_t n = in.count("the number of tensor types"); n--;) specs.push_back(read_spec(in));
    for (size_t n = in.count("the number of messages"); n--;) messages.push_back(in.text());
    for (size_t n = in.count("the number of kernels"); n--;) {
      Kernel k{in.text(), nullptr};
      k.entry = reinterpret_cast<int32_t (*)(void**)>(library.symbol(k.name));
      if (!k.entry) fail("ValueError", "%s does not export the kernel `%s` that its bytecode calls", library.label().c_str(), k.name.c_str());
      kernels.push_back(std::move(k));
    }
    for (size_t n = in.count("the number of constants"); n--;) {
      const TensorSpec& spec = specs[static_cast<size_t>(in.small("the type of a constant", 0, static_cast<int64_t>(specs.size()) - 1))];
      int64_t offset = in.word();
      if (offset < 0 || offset % 64 || offset + static_cast<int64_t>(spec.bytes) > constant_bytes) in.damaged("a constant lies outside of the constants");
      DLTensor t{constants + offset, {kDLCPU, 0}, static_cast<int32_t>(spec.shape.size()), spec.dtype, const_cast<int64_t*>(spec.shape.data()), nullptr, 0};
      this->constants.push_back(from_ref(tensor_view(t, {})));
    }
    for (size_t n = in.count("the number of functions"); n--;) read_function(in);
    size_t words = in.count("the length of the code");
    text.resize(words);
    for (auto& w : text) w = in.small("a word of the code", INT32_MIN, INT32_MAX);
    if (!in.done()) in.damaged("something follows its end");
    for (auto& f : functions) check(f, in);
  }
  ~Program() { for (auto& c : constants) destroy(c); }

  std::vector<TensorSpec> specs;
  std::vector<std::string> messages;
  std::vector<Kernel> kernels;
  std::vector<TVMFFIAny> constants;
  std::vector<Function> functions;
  std::map<std::string, int32_t> by_name;
  std::vector<int32_t> text;

 private:
  TensorSpec read_spec(Reader& in) {
    TensorSpec s;
    s.is_tensor = true;
    s.dtype.code = static_cast<uint8_t>(in.small("a data type", 0, 255));
    s.dtype.bits = static_cast<uint8_t>(in.small("a data type", 0, 255));
    s.dtype.lanes = static_cast<uint16_t>(in.small("a data type", 1, 65535));
    size_t ndim = in.count("a number of dimensions");
    __int128 bytes = (s.dtype.bits * s.dtype.lanes + 7) / 8;
    for (size_t i = 0; i < ndim; ++i) {
      s.shape.push_back(in.word());
      if (s.shape.back() < -1) in.damaged("a dimension is negative");
      bytes *= s.shape.back() < 0 ? 0 : s.shape.back();
      if (bytes > (int64_t{1} << 47)) in.damaged("a tensor is larger than memory");
    }
    s.bytes = static_cast<size_t>(bytes);
    return s;
  }
  void read_function(Reader& in) {
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
  void check(const Function& f, Reader& in) {
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
};

// ---- running

struct Frame {
  const Function* function;
  int32_t at;        // the next instruction of the caller
  size_t base;       // the caller's first register
  int32_t result;    // where the caller wants the result
};

// One run of one function: a stack of registers and frames of its own, so that several threads may run one program.
class Run {
 public:
  Run(const Program& program, const std::shared_ptr<Pool>& pool, size_t depth_limit) : p_(program), pool_(pool), limit_(depth_limit) {}
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
  TVMFFIAny allocate(DLDataType dtype, int32_t ndim, const int64_t* shape, size_t bytes) {
    void* data = pool_->take(bytes);
    auto t = Ref<TensorObject>::steal(make<TensorObject>());
    t->tensor = DLTensor{data, {kDLCPU, 0}, 0, dtype, nullptr, nullptr, 0};
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
  std::vector<int64_t>& sizes(const int32_t* operands, int32_t n) {
    scratch_.clear();
    for (int32_t i = 0; i < n; ++i) {
      scratch_.push_back(integer(operands[i]));
      if (scratch_.back() < 0) fail("ValueError", "%s: dimension %d of a result would be %lld", function_->name.c_str(), i, static_cast<long long>(scratch_.back()));
    }
    return scratch_;
  }
  static int64_t element(const DLTensor& t, int64_t i) {
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

  TVMFFIAny loop() {
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
        case kFatal: fail("RuntimeError", "%s: %s", function_->name.c_str(), p_.messages[static_cast<size_t>(w[1])].c_str());
        case kGoto: at = w[1]; continue;
        case kIf: at = element(tensor(w[1]), 0) ? at + 3 : w[2]; continue;
        case kIfTag: at = adt(w[1]).tag == w[2] ? at + 4 : w[3]; continue;
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
          pointers_.clear();
          for (int32_t i = 0; i < m; ++i) {
            const DLTensor& t = tensor(operands[n + 1 + i]);
            pointers_.push_back(static_cast<char*>(t.data) + t.byte_offset);
          }
          for (int32_t i = 0; i < n; ++i) {
            integer(operands[i]);
            pointers_.push_back(const_cast<int64_t*>(&value(operands[i]).v_int64));
          }
          if (int32_t code = k.entry(pointers_.data())) {
            if (Ref<ErrorObject> error = take_raised()) { set_raised(error); throw Raised{}; }
            fail("RuntimeError", "the kernel %s failed with code %d", k.name.c_str(), code);
          }
          at += 4 + n + m;
          continue;
        }
        case kAllocStatic: {
          const TensorSpec& s = p_.specs[static_cast<size_t>(w[2])];
          put(w[1], allocate(s.dtype, static_cast<int32_t>(s.shape.size()), s.shape.data(), s.bytes));
          at += 3;
          continue;
        }
        case kAlloc: {
          const TensorSpec& s = p_.specs[static_cast<size_t>(w[2])];
          auto& shape = sizes(w + 4, w[3]);
          __int128 bytes = (s.dtype.bits * s.dtype.lanes + 7) / 8;
          for (int64_t d : shape) if ((bytes *= d) > (int64_t{1} << 47)) fail("MemoryError", "%s: a tensor of shape %s is larger than memory", function_->name.c_str(), shape_text(w[3], shape.data()).c_str());
          put(w[1], allocate(s.dtype, w[3], shape.data(), static_cast<size_t>(bytes)));
          at += 4 + w[3];
          continue;
        }
        case kReshapeStatic: {
          const TensorSpec& s = p_.specs[static_cast<size_t>(w[3])];
          put(w[1], reshaped(value(w[2]), static_cast<int32_t>(s.shape.size()), s.shape.data()));
          at += 4;
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
        case kNeedSize: {
          int64_t a = integer(w[1]), b = integer(w[2]);
          if (a != b) fail("ValueError", "%s: %s, but they are %lld and %lld", function_->name.c_str(), p_.messages[static_cast<size_t>(w[3])].c_str(), static_cast<long long>(a), static_cast<long long>(b));
          at += 4;
          continue;
        }
      }
    }
  }
  RefObject* ref(int32_t operand) const {
    const TVMFFIAny& v = value(operand);
    if (v.type_index != ref_type()) wrong("a reference", v);
    return reinterpret_cast<RefObject*>(v.v_obj);
  }

  const Program& p_;
  std::shared_ptr<Pool> pool_;
  size_t limit_, base_ = 0;
  uint32_t turns_ = 0;
  const Function* function_ = nullptr;
  std::vector<TVMFFIAny> stack_;
  std::vector<Frame> frames_;
  std::vector<void*> pointers_;
  std::vector<int64_t> scratch_;
};

// ---- the module

class Machine : public ModuleImpl {
 public:
  Machine(Ref<ModuleObject> module, std::shared_ptr<Library> library, const Json& meta, Ref<TensorObject> constants, Ref<TensorObject> bytecode)
      : module_(std::move(module)), library_(std::move(library)), constants_(std::move(constants)) {
    auto* code = static_cast<const char*>(library_->symbol("__tilewright_bytecode"));
    int64_t bytes = meta["bytecode_bytes"].integer;
    if (bytecode) {
      code = static_cast<const char*>(bytecode->tensor.data);
      bytes = tensor_bytes(bytecode->tensor);
    }
    if (!code || bytes <= 0) fail("ValueError", "%s exports no `__tilewright_bytecode`: it is no program for the virtual machine", library_->label().c_str());
    auto& t = constants_->tensor;
    program_ = std::make_unique<Program>(code, static_cast<size_t>(bytes), *library_, static_cast<char*>(t.data), tensor_bytes(t));
  }
  const char* kind() const override { return "VirtualMachine"; }

  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    static const std::map<std::string, TVMFFIAny (Machine::*)(Args)> methods = {
        {"invoke", &Machine::invoke}, {"invoke_closure", &Machine::invoke_closure}, {"set_input", &Machine::set_input},
        {"set_one_input", &Machine::set_one_input}, {"set_outputs", &Machine::set_outputs}, {"invoke_stateful", &Machine::invoke_stateful},
        {"get_output", &Machine::get_output}, {"get_num_outputs", &Machine::get_num_outputs},
        {"get_function_arity", &Machine::get_function_arity}, {"get_function_param_name", &Machine::get_function_param_name},
        {"get_input_index", &Machine::get_input_index}, {"set_depth_limit", &Machine::set_depth_limit}, {"trim", &Machine::trim}};
    auto it = methods.find(name);
    if (it == methods.end()) return {};
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
    if (t.device.device_type != kDLCPU) fail("ValueError", "argument `%s` of %s must be on the CPU, but is on device type %d; copy it first", name, f.name.c_str(), t.device.device_type);
    bool same = t.ndim == static_cast<int32_t>(s.shape.size());
    for (int32_t i = 0; same && i < t.ndim; ++i) same = s.shape[static_cast<size_t>(i)] < 0 || t.shape[i] == s.shape[static_cast<size_t>(i)];
    bool is_bool = s.dtype.bits == 1 && (t.dtype.code == kDLBool || t.dtype.bits == 1);
    if (!same || (!is_bool && memcmp(&t.dtype, &s.dtype, sizeof s.dtype) != 0))
      fail(same ? "TypeError" : "ValueError", "argument `%s` of %s must be a tensor %s, but is %s %s", name, f.name.c_str(), spec_text(s).c_str(),
           shape_text(t.ndim, t.shape).c_str(), dtype_text(t.dtype).c_str());
  }
  // A tensor that kernels can read: compact, aligned, and owned by a reference.
  static TVMFFIAny usable(const TVMFFIAny& v, const DLTensor& t) {
    bool aligned = (reinterpret_cast<uintptr_t>(t.data) + t.byte_offset) % 64 == 0;
    if (v.type_index == kTVMFFITensor && aligned && is_compact(t)) return own(v);
    auto copy = empty_tensor(t.ndim, t.shape, t.dtype, {kDLCPU, 0});
    gather(t, static_cast<char*>(copy->tensor.data));
    return from_ref(std::move(copy));
  }
  static void gather(const DLTensor& t, char* to) {
    const char* from = static_cast<const char*>(t.data) + t.byte_offset;
    if (is_compact(t)) { memcpy(to, from, static_cast<size_t>(tensor_bytes(t))); return; }
    size_t item = static_cast<size_t>((t.dtype.bits * t.dtype.lanes + 7) / 8);
    std::vector<int64_t> index(static_cast<size_t>(t.ndim), 0);
    for (int64_t n = tensor_bytes(t) / static_cast<int64_t>(item); n-- > 0; to += item) {
      int64_t offset = 0;
      for (int32_t d = 0; d < t.ndim; ++d) offset += index[static_cast<size_t>(d)] * t.strides[d];
      memcpy(to, from + offset * static_cast<int64_t>(item), item);
      for (int32_t d = t.ndim - 1; d >= 0 && ++index[static_cast<size_t>(d)] == t.shape[d]; --d) index[static_cast<size_t>(d)] = 0;
    }
  }
  TVMFFIAny number(const TensorSpec& s, const TVMFFIAny& v) const {
    auto t = empty_tensor(0, nullptr, s.dtype, {kDLCPU, 0});
    double real = v.type_index == kTVMFFIFloat ? v.v_float64 : static_cast<double>(v.v_int64);
    int64_t whole = v.type_index == kTVMFFIFloat ? static_cast<int64_t>(v.v_float64) : v.v_int64;
    void* to = t->tensor.data;
    if (s.dtype.code == kDLFloat && s.dtype.bits == 32) { float f = static_cast<float>(real); memcpy(to, &f, 4); }
    else if (s.dtype.code == kDLFloat && s.dtype.bits == 64) memcpy(to, &real, 8);
    else if (s.dtype.code == kDLInt || s.dtype.code == kDLUInt || s.dtype.code == kDLBool) memcpy(to, &whole, static_cast<size_t>(s.dtype.bits + 7) / 8);
    else fail("TypeError", "a number cannot be made a %s; give a tensor", dtype_text(s.dtype).c_str());
    return from_ref(std::move(t));
  }
  TVMFFIAny argument(const Function& f, int32_t i, const TVMFFIAny& v) const {
    const TensorSpec* spec = spec_of(f, i);
    const char* name = f.param_names[static_cast<size_t>(i)].c_str();
    if (!spec) return structure(v, name);
    if (const DLTensor* t = as_tensor(v)) {
      check(*spec, *t, name, f);
      return usable(v, *t);
    }
    bool is_number = v.type_index == kTVMFFIInt || v.type_index == kTVMFFIBool || v.type_index == kTVMFFIFloat;
    if (is_number && spec->shape.empty()) return number(*spec, v);
    fail("TypeError", "argument `%s` of %s must be a tensor %s, but %s was given", name, f.name.c_str(), spec_text(*spec).c_str(), described(v).c_str());
  }
  TVMFFIAny structure(const TVMFFIAny& v, const char* name) const {
    if (const DLTensor* t = as_tensor(v)) return usable(v, *t);
    if (v.type_index == kTVMFFIArray) {
      auto* array = reinterpret_cast<ArrayObject*>(v.v_obj);
      Owned fields;
      for (auto& item : array->items) fields.values.push_back(structure(item, name));
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
  TVMFFIAny run(const Function& f, Values args) { return Run(*program_, pool_, limit_).call(f, std::move(args)); }

  TVMFFIAny invoke(Args args) {
    const Function& f = function(args[0]);
    return run(f, arguments(f, args.values + 1, args.count - 1));
  }
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
    std::lock_guard<std::mutex> hold(lock_);
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
    std::lock_guard<std::mutex> hold(lock_);
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
    std::lock_guard<std::mutex> hold(lock_);
    std::swap(outputs_[f.name].values, fresh.values);
    return none();
  }
  TVMFFIAny invoke_stateful(Args args) {
    const Function& f = function(args[0]);
    Owned inputs, wanted;
    {
      std::lock_guard<std::mutex> hold(lock_);
      for (auto& v : inputs_[f.name].values) inputs.values.push_back(own(v));
      for (auto& v : outputs_[f.name].values) wanted.values.push_back(own(v));
    }
    inputs.values.resize(static_cast<size_t>(f.params), none());
    for (int32_t i = 0; i < f.params; ++i)
      if (inputs.values[static_cast<size_t>(i)].type_index == kTVMFFINone)
        fail("ValueError", "the input `%s` of %s was not set; call set_input first", f.param_names[static_cast<size_t>(i)].c_str(), f.name.c_str());
    Owned result{{run(f, inputs.release())}};
    if (!wanted.values.empty()) write_outputs(result.values[0], wanted.values);
    std::lock_guard<std::mutex> hold(lock_);
    std::swap(result_.values, result.values);
    return none();
  }
  static void write_outputs(const TVMFFIAny& result, const Values& wanted) {
    size_t n = result.type_index == adt_type() ? reinterpret_cast<AdtObject*>(result.v_obj)->fields.size() : 1;
    if (n != wanted.size()) fail("ValueError", "the program has %zu outputs, but %zu tensors were set for them", n, wanted.size());
    for (size_t i = 0; i < n; ++i) {
      const TVMFFIAny& v = result.type_index == adt_type() ? reinterpret_cast<AdtObject*>(result.v_obj)->fields[i] : result;
      const DLTensor *from = as_tensor(v), *to = as_tensor(wanted[i]);
      if (!from) fail("TypeError", "output %zu is no tensor, so that it cannot be written into one", i);
      bool same = from->ndim == to->ndim && memcmp(&from->dtype, &to->dtype, sizeof to->dtype) == 0;
      for (int32_t d = 0; same && d < to->ndim; ++d) same = from->shape[d] == to->shape[d];
      if (!same) fail("ValueError", "output %zu is %s %s, but the tensor set for it is %s %s", i, shape_text(from->ndim, from->shape).c_str(), dtype_text(from->dtype).c_str(),
                      shape_text(to->ndim, to->shape).c_str(), dtype_text(to->dtype).c_str());
      gather(*from, static_cast<char*>(to->data) + to->byte_offset);
    }
  }
  TVMFFIAny get_output(Args args) {
    std::lock_guard<std::mutex> hold(lock_);
    if (result_.values.empty()) fail("ValueError", "there is no output: call invoke_stateful first");
    const TVMFFIAny& v = result_.values[0];
    if (v.type_index != adt_type()) return own(v);
    auto& fields = reinterpret_cast<AdtObject*>(v.v_obj)->fields;
    int64_t i = args.count ? as_int(args[0], "the output's index") : 0;
    if (i < 0 || static_cast<size_t>(i) >= fields.size()) fail("IndexError", "output %lld is out of range: there are %zu", static_cast<long long>(i), fields.size());
    return own(fields[static_cast<size_t>(i)]);
  }
  TVMFFIAny get_num_outputs(Args) {
    std::lock_guard<std::mutex> hold(lock_);
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
  TVMFFIAny trim(Args) { pool_->trim(); return none(); }

  Ref<ModuleObject> module_;
  std::shared_ptr<Library> library_;
  Ref<TensorObject> constants_;
  std::unique_ptr<Program> program_;
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
  std::atomic<size_t> limit_{100000};
  TVMFFIAny main_ = from_string("main");
  std::mutex lock_;
  std::map<std::string, Owned> inputs_, outputs_;
  Owned result_;
};

// The containers as Python and C++ hosts see them.
void register_containers() {
  register_global("runtime.ADTTypeIndex", [](Args) { return from_int(adt_type()); });
  register_global("runtime.VMClosureTypeIndex", [](Args) { return from_int(closure_type()); });
  register_global("runtime.ADT", [](Args args) {
    std::vector<TVMFFIAny> fields;
    int64_t tag = as_int(args[0], "the tag");
    for (int32_t i = 1; i < args.count; ++i) fields.push_back(own(args[i]));
    return from_object(&make<AdtObject>(static_cast<int32_t>(tag), std::move(fields))->header);
  });
  register_global("runtime.VMRef", [](Args args) { return from_object(&make<RefObject>(own(args[0]))->header); });
  register_global("runtime.VMRefTypeIndex", [](Args) { return from_int(ref_type()); });
  register_global("runtime.VMRefGet", [](Args args) {
    if (args[0].type_index != ref_type()) fail("TypeError", "a reference was expected, but %s was given", described(args[0]).c_str());
    return own(reinterpret_cast<RefObject*>(args[0].v_obj)->cell[0]);
  });
  static auto adt = [](const TVMFFIAny& v) {
    if (v.type_index != adt_type()) fail("TypeError", "a value of a data type was expected, but %s was given", described(v).c_str());
    return reinterpret_cast<AdtObject*>(v.v_obj);
  };
  register_global("runtime.GetADTTag", [](Args args) { return from_int(adt(args[0])->tag); });
  register_global("runtime.GetADTSize", [](Args args) { return from_int(static_cast<int64_t>(adt(args[0])->fields.size())); });
  register_global("runtime.GetADTFields", [](Args args) {
    auto& fields = adt(args[0])->fields;
    int64_t i = as_int(args[1], "the field's index");
    if (i < 0 || static_cast<size_t>(i) >= fields.size()) fail("IndexError", "field %lld of a value with %zu was asked for", static_cast<long long>(i), fields.size());
    return own(fields[static_cast<size_t>(i)]);
  });
}
const int containers_registered = (register_containers(), 0);

}  // namespace

Ref<ModuleObject> make_machine(Ref<ModuleObject> module, std::shared_ptr<Library> library, const Json& metadata, Ref<TensorObject> constants,
                               Ref<TensorObject> bytecode) {
  return make_module(std::make_unique<Machine>(std::move(module), std::move(library), metadata, std::move(constants), std::move(bytecode)));
}

}  // namespace tw
