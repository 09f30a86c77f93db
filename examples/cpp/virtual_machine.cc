// A program with a data type in the virtual machine, through the classic C++ interface:
//   virtual_machine FOLDER    (a folder that models.py wrote)
#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/registry.h>

#include <cstdio>
#include <string>

using namespace tvm::runtime;

// The tags of the constructors; `mod.get_type("Tree")` has them.
enum Tree { Word = 0x62000000, Pair };

static NDArray word(float first) {
  NDArray made = NDArray::Empty({1, 4}, DataType::Float(32), tvm::Device{kDLCPU, 0});
  const float values[] = {first, 0, 1, 2};
  made.CopyFromBytes(values, sizeof values);
  return made;
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  try {
    Module machine = Module::LoadFromFile(folder + "/program.so").GetFunction("default")(tvm::Device{kDLCPU, 0});
    ADT tree(Pair, {ADT(Word, {word(1)}), ADT(Pair, {ADT(Word, {word(20)}), ADT(Word, {word(300)})})});
    NDArray sum = machine.GetFunction("invoke")("main", tree);
    for (int i = 0; i < 4; ++i) std::printf("%.0f ", static_cast<float*>(sum->data)[i]);
    std::printf("of the virtual machine\n");
  } catch (const tvm::Error& e) {
    std::fprintf(stderr, "%s: %s\n", e.kind().c_str(), e.what());
    return 1;
  }
  return 0;
}
