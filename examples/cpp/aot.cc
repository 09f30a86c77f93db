// A model in the ahead-of-time executor, through the small interface:
//   aot FOLDER    (a folder that models.py wrote)
#include <tilewright/host.h>

#include <cstdio>

using namespace tilewright;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  try {
    Module executor = Module::load(folder + "/model.so")["default"](cpu()).module();
    executor["set_input"]("x", Tensor({2, 2}, std::vector<float>{0, 10, 20, 30}));
    executor["run"]();
    Tensor y = executor["get_output"](0).tensor();
    for (int64_t i = 0; i < y.count(); ++i) std::printf("%.0f ", y.data<float>()[i]);
    std::printf("ahead of time\n");
    executor["set_input"]("x", Tensor({2, 3}, std::vector<float>(6)));
  } catch (const Error& e) {
    std::printf("%s: %s\n", e.kind().c_str(), e.what());
  }
  return 0;
}
