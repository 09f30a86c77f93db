// An operator of a library, and a model in the graph executor, through the classic C++ interface:
//   graph_executor FOLDER    (a folder that models.py wrote)
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

static std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  ICHECK(in) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A function of a library, on arrays of the C interface.
static void one_operator(const std::string& folder) {
  tvm::runtime::Module library = tvm::runtime::Module::LoadFromFile(folder + "/addone.so");
  tvm::runtime::PackedFunc f = library.GetFunction("addone");
  ICHECK(f != nullptr);
  DLTensor *x, *y;
  int64_t shape[1] = {10};
  TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &x);
  TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &y);
  for (int i = 0; i < 10; ++i) static_cast<float*>(x->data)[i] = static_cast<float>(i);
  f(x, y);
  for (int i = 0; i < 10; ++i) ICHECK_EQ(static_cast<float*>(y->data)[i], static_cast<float>(i) + 1.0f);
  TVMArrayFree(x);
  TVMArrayFree(y);
  std::printf("addone: as expected\n");
}

// A library that contains its graph and parameters.
static void one_file(const std::string& folder) {
  DLDevice dev{kDLCPU, 0};
  tvm::runtime::Module factory = tvm::runtime::Module::LoadFromFile(folder + "/model.so");
  tvm::runtime::Module gmod = factory.GetFunction("default")(dev);
  tvm::runtime::PackedFunc set_input = gmod.GetFunction("set_input");
  tvm::runtime::PackedFunc get_output = gmod.GetFunction("get_output");
  tvm::runtime::PackedFunc run = gmod.GetFunction("run");
  tvm::runtime::NDArray x = tvm::runtime::NDArray::Empty({2, 2}, DLDataType{kDLFloat, 32, 1}, dev);
  tvm::runtime::NDArray y = tvm::runtime::NDArray::Empty({2, 2}, DLDataType{kDLFloat, 32, 1}, dev);
  for (int i = 0; i < 4; ++i) static_cast<float*>(x->data)[i] = 10.0f * static_cast<float>(i);
  set_input("x", x);
  run();
  get_output(0, y);
  for (int i = 0; i < 4; ++i) std::printf("%.0f ", static_cast<float*>(y->data)[i]);
  std::printf("from one file\n");
}

// Graph, library and parameters in three files.
static void three_files(const std::string& folder) {
  tvm::runtime::Module library = tvm::runtime::Module::LoadFromFile(folder + "/deploy.so");
  std::string json_data = contents(folder + "/deploy.json"), params_data = contents(folder + "/deploy.params");
  TVMByteArray params_arr;
  params_arr.data = params_data.c_str();
  params_arr.size = params_data.length();
  int device_type = kDLCPU, device_id = 0;
  tvm::runtime::Module mod = (*tvm::runtime::Registry::Get("tvm.graph_executor.create"))(json_data, library, device_type, device_id);
  DLTensor* x;
  int64_t shape[2] = {2, 2};
  TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, device_type, device_id, &x);
  for (int i = 0; i < 4; ++i) static_cast<float*>(x->data)[i] = static_cast<float>(i);
  mod.GetFunction("set_input")("x", x);
  mod.GetFunction("load_params")(params_arr);
  mod.GetFunction("run")();
  tvm::runtime::NDArray y = mod.GetFunction("get_output")(0);
  for (int i = 0; i < 4; ++i) std::printf("%.0f ", static_cast<float*>(y->data)[i]);
  std::printf("from three files\n");
  TVMArrayFree(x);
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  try {
    one_operator(folder);
    one_file(folder);
    three_files(folder);
  } catch (const tvm::Error& e) {
    std::fprintf(stderr, "%s: %s\n", e.kind().c_str(), e.what());
    return 1;
  }
  return 0;
}
