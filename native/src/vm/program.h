// A program as it is loaded: tables and code, all checked once, so that running needs no checks of its own.
#pragma once
#include <map>

#include "../module.h"

namespace tw {

// What follows an instruction's word, letter by letter; relay/backend/vm/code.py writes by the same table.
// d register written; s operand (below 0: a constant); S number of operands, then these; t target of a jump; f function, whose
// parameters the operands are; c function, whose first parameters they are; k kernel; m message; y type; Y type of known sizes;
// R number of registers, then these; n number not below 0; x any number; o operation on sizes.
#define TW_INSTRUCTIONS(X)                                                                                            \
  X(Ret, "s") X(Move, "ds") X(Fatal, "m") X(Goto, "t") X(If, "st") X(IfTag, "sxt") X(GetField, "dsn")                 \
  X(AllocAdt, "dxS") X(AllocClosure, "dcS") X(Invoke, "dfS") X(TailInvoke, "fS") X(InvokeClosure, "dsS")              \
  X(TailInvokeClosure, "sS") X(Kernel, "kSS") X(AllocStatic, "dY") X(Alloc, "dyS") X(ReshapeStatic, "dsY")            \
  X(Reshape, "dsS") X(ShapeOf, "dsn") X(Int, "dosss") X(LoadInt, "dxx") X(LoadElement, "dss") X(RefNew, "ds")         \
  X(RefRead, "ds") X(RefWrite, "ss") X(Kill, "R") X(Need, "smS") X(PartStatic, "dsnY")             \
  X(Copy, "ss")
enum Op : int32_t {
#define TW_NAME(name, layout) k##name,
  TW_INSTRUCTIONS(TW_NAME)
#undef TW_NAME
  kNumOps
};
constexpr char kNumberHere = 1;  // in a message of Need: one of its numbers
enum IntOp : int32_t { kAdd, kSub, kMul, kFloorDiv, kFloorMod, kMin, kMax, kEq, kLt, kSelect, kNumIntOps };

struct TensorSpec {
  DLDataType dtype;
  std::vector<int64_t> shape;  // -1: not known before the run
  size_t bytes;
  int32_t device;              // its place among the machine's devices
};

struct Kernel {
  std::string name;
  int32_t (*entry)(void** args);
  int32_t device;
};

struct Function {
  std::string name;
  std::vector<std::string> param_names;
  std::vector<int32_t> param_specs;  // of entries: index of a TensorSpec, or -1 for what is not a tensor
  int32_t params, registers, begin, end;
};

class Reader;

class Program {
 public:
  Program(const char* code, size_t size, const Library& library, Ref<TensorObject> constants, const std::vector<DLDevice>& devices);
  ~Program() { for (auto& c : constants) destroy(c); }

  std::vector<DLDevice> devices;
  bool on_cpus = true;  // all of them are
  std::vector<TensorSpec> specs;
  std::vector<std::string> messages;
  std::vector<Kernel> kernels;
  std::vector<TVMFFIAny> constants;
  std::vector<Function> functions;
  std::map<std::string, int32_t> by_name;
  std::vector<int32_t> text;

 private:
  int32_t read_device(Reader& in);
  void read_constant(Reader& in, TensorObject& all);
  TensorSpec read_spec(Reader& in);
  void read_function(Reader& in);
  void check(const Function& f, Reader& in);
};

}  // namespace tw
