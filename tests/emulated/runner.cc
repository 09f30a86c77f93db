// runner LIBRARY PARAMS RESULTS: runs a compiled model twice, and writes what it computes.
//
// PARAMS are the inputs as save_param_dict writes them. RESULTS: for each output int32 type code, bits and rank, int64 extents, elements.
#include <tilewright/host.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace tilewright;

static std::string contents(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

static std::string outputs(const Module& executor) {
  std::string all;
  for (int64_t i = 0, n = executor["get_num_outputs"]().integer(); i < n; ++i) {
    Tensor t = executor["get_output"](i).tensor();
    const int32_t head[3] = {t->dtype.code, t->dtype.bits, t->ndim};
    all.append(reinterpret_cast<const char*>(head), sizeof head);
    all.append(reinterpret_cast<const char*>(t->shape), sizeof(int64_t) * static_cast<size_t>(t->ndim));
    all.append(static_cast<const char*>(t->data) + t->byte_offset, static_cast<size_t>(t.count()) * ((t->dtype.bits + 7) / 8));
  }
  return all;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "runner LIBRARY PARAMS RESULTS\n"), 2;
  try {
    Module executor = Module::load(argv[1])["default"](cpu()).module();
    executor["load_params"](Value::bytes(contents(argv[2])));
    executor["run"]();
    const std::string first = outputs(executor);
    executor["run"]();
    if (outputs(executor) != first) return fprintf(stderr, "a second run gives something else\n"), 1;
    std::ofstream(argv[3], std::ios::binary) << first;
  } catch (const Error& error) {
    return fprintf(stderr, "%s: %s\n", error.kind().c_str(), error.what()), 1;
  }
}
