// Modules and kernels. PTX names kernels that are written here; a "cubin" is a shared library of this CPU, whose kernels take the addresses
// of their arguments, and behind them those of the indices of block and thread.
#include <dlfcn.h>
#include <unistd.h>

#include "state.h"

using namespace fake;

namespace {

// A tensor map as this driver writes it.
struct alignas(64) TensorMap {
  uint64_t address, extents[5], strides[4];
  uint32_t box[5];
  uint8_t type, rank, swizzle, promotion;
};
static_assert(sizeof(TensorMap) == 128, "of the size of a CUtensorMap");

struct Launch {
  unsigned grid[3], block[3], shared;
  std::vector<uint64_t> args;
  std::vector<TensorMap> maps = {};
  template <typename T>
  T arg(size_t i) const {
    T value;
    memcpy(&value, &args[i], sizeof value);
    return value;
  }
  template <typename T>
  T* pointer(size_t i) const { return reinterpret_cast<T*>(real(args[i])); }
};
struct Kernel {
  std::string kinds;  // h: an address, n: a number, m: a tensor map
  std::function<Result(const Launch&)> run;
};

// Those of PTX that are not here do nothing.
const std::map<std::string, Kernel> kernels = {
    // (x, y, factor, n): y[i] = x[i] * factor
    {"scale", {"hhnn", [](const Launch& l) {
       for (int i = 0; i < l.arg<int>(3) && i < static_cast<int>(l.grid[0] * l.block[0]); ++i) l.pointer<float>(1)[i] = l.pointer<float>(0)[i] * l.arg<float>(2);
       return kSuccess;
     }}},
    // (x, y): each block of y is one of x from its end, through shared memory
    {"turn", {"hh", [](const Launch& l) {
       std::vector<float> shared(l.shared / 4);
       for (unsigned b = 0; b < l.grid[0]; ++b) {
         for (unsigned t = 0; t < l.block[0]; ++t) shared.at(t) = l.pointer<float>(0)[b * l.block[0] + t];
         for (unsigned t = 0; t < l.block[0]; ++t) l.pointer<float>(1)[b * l.block[0] + t] = shared.at(l.block[0] - 1 - t);
       }
       return kSuccess;
     }}},
    // (x as a tensor map, y): y has the first element of x, and what the map says
    {"boxed", {"mh", [](const Launch& l) {
       const TensorMap& map = l.maps.at(0);
       float* y = l.pointer<float>(1);
       *y++ = *reinterpret_cast<float*>(real(map.address));
       for (int d = 0; d < map.rank; ++d) *y++ = static_cast<float>(map.extents[d]);
       for (int d = 0; d + 1 < map.rank; ++d) *y++ = static_cast<float>(map.strides[d]);
       for (int d = 0; d < map.rank; ++d) *y++ = static_cast<float>(map.box[d]);
       *y++ = map.type;
       *y++ = map.swizzle;
       return kSuccess;
     }}},
    // (x): an access outside of memory
    {"stray", {"h", [](const Launch&) { return kIllegalAddress; }}}};

std::string kinds_of(const Function& f) {
  if (!f.native) return kernels.count(f.name) ? kernels.at(f.name).kinds : "";
  return static_cast<const char*>(dlsym(f.module->library, (f.name + "__kinds").c_str()));
}

Result run_native(const Function& f, const Launch& l, const std::string& kinds) {
  auto* call = reinterpret_cast<int (*)(void**)>(f.native);
  for (unsigned i = 0, blocks = l.grid[0] * l.grid[1] * l.grid[2]; i < blocks; ++i)
    for (unsigned j = 0, threads = l.block[0] * l.block[1] * l.block[2]; j < threads; ++j) {
      int at[] = {static_cast<int>(i % l.grid[0]), static_cast<int>(i / l.grid[0] % l.grid[1]), static_cast<int>(i / l.grid[0] / l.grid[1]),
                  static_cast<int>(j % l.block[0]), static_cast<int>(j / l.block[0] % l.block[1]), static_cast<int>(j / l.block[0] / l.block[1])};
      std::vector<uint64_t> values = l.args;
      std::vector<void*> slots;
      for (size_t k = 0; k < kinds.size(); ++k) slots.push_back(kinds[k] == 'h' ? static_cast<void*>(real(values[k])) : &values[k]);
      for (int& index : at) slots.push_back(&index);
      if (call(slots.data())) return 719;
    }
  return kSuccess;
}

Result launch(const char* name, Function* f, Launch l, Stream* stream, void** args) {
  const auto held = hold();
  if (const Result code = enter(name)) return code;
  const std::string kinds = kinds_of(*f);
  if (l.block[0] * l.block[1] * l.block[2] > 1024 || l.shared > static_cast<unsigned>(f->dynamic)) return kInvalidValue;
  for (size_t i = 0; i < kinds.size(); ++i) {
    uint64_t value;
    memcpy(&value, args[i], sizeof value);
    if (kinds[i] == 'm') {
      if (reinterpret_cast<uintptr_t>(args[i]) % alignof(TensorMap)) return kInvalidValue;
      l.maps.push_back(*static_cast<TensorMap*>(args[i]));
    }
    if (kinds[i] != 'n' && !is_inside(value, 1, current.back()->device)) return kInvalidValue;
    l.args.push_back(value);
  }
  Context* context = current.back();
  state().calls.back() += " " + f->name + " " + std::to_string(l.grid[0]) + "x" + std::to_string(l.block[0]) + " " + std::to_string(l.shared);
  const Function kernel = {f->name, f->module, f->native, f->dynamic};
  return give(stream, [=] {
    context->clock += l.grid[0] * l.grid[1] * l.grid[2];
    if (kernel.native) return run_native(kernel, l, kinds);
    return kernels.count(kernel.name) ? kernels.at(kernel.name).run(l) : kSuccess;
  });
}

void* library_of(const char* image) {
  // The end of an ELF file is that of its table of sections.
  uint64_t table;
  uint16_t size, count;
  memcpy(&table, image + 40, 8);
  memcpy(&size, image + 58, 2);
  memcpy(&count, image + 60, 2);
  char path[] = "/tmp/fake-cubin-XXXXXX";
  const int file = mkstemp(path);
  const size_t bytes = table + size_t{size} * count;
  const bool written = write(file, image, bytes) == static_cast<ssize_t>(bytes);
  close(file);
  void* library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  return library;
}

}  // namespace

FAKE Result cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options, void** values) {
  const auto held = hold();
  if (const Result code = enter("cuModuleLoadDataEx")) return code;
  auto made = std::make_unique<Module>();
  const char* text = static_cast<const char*>(image);
  if (memcmp(text, "\x7f" "ELF", 4) == 0) made->library = library_of(text);
  else made->text = text;
  if (!made->library && made->text.find(".version") == std::string::npos) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5) strcpy(static_cast<char*>(values[i]), "ptxas application ptx input, line 2; fatal   : Missing .version directive at start of file\nptxas fatal   : Ptx assembly aborted due to errors\n");
    return kInvalidPtx;
  }
  state().modules.insert(*module = made.release());
  return kSuccess;
}
FAKE Result cuModuleUnload(Module* module) {
  const auto held = hold();
  if (const Result code = enter("cuModuleUnload")) return code;
  if (!state().modules.erase(module)) return kInvalidHandle;
  return delete module, kSuccess;  // its library stays: streams may still run what is in it
}
FAKE Result cuModuleGetFunction(Function** function, Module* module, const char* name) {
  const auto held = hold();
  if (const Result code = enter("cuModuleGetFunction")) return code;
  auto made = std::make_unique<Function>();
  made->name = name;
  made->module = module;
  if (module->library) made->native = dlsym(module->library, name);
  else if (module->text.find(std::string(".entry ") + name + "(") == std::string::npos) return kNotFound;
  if (module->library && !made->native) return kNotFound;
  *function = made.get();
  module->functions.push_back(std::move(made));
  return kSuccess;
}
FAKE Result cuTensorMapEncodeTiled(TensorMap* map, int type, unsigned rank, void* address, const uint64_t* extents, const uint64_t* strides, const uint32_t* box,
                                   const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  const auto held = hold();
  if (const Result code = enter("cuTensorMapEncodeTiled")) return code;
  if (reinterpret_cast<uintptr_t>(map) % alignof(TensorMap) || rank < 1 || rank > 5 || interleave || fill || reinterpret_cast<uintptr_t>(address) % 16) return kInvalidValue;
  *map = {};
  map->address = reinterpret_cast<uintptr_t>(address);
  map->type = static_cast<uint8_t>(type);
  map->rank = static_cast<uint8_t>(rank);
  map->swizzle = static_cast<uint8_t>(swizzle);
  map->promotion = static_cast<uint8_t>(promotion);
  for (unsigned d = 0; d < rank; ++d) {
    if (steps[d] != 1 || !extents[d] || !box[d] || box[d] > 256) return kInvalidValue;
    map->extents[d] = extents[d];
    map->box[d] = box[d];
    if (d + 1 < rank && strides[d] % 16) return kInvalidValue;
    if (d + 1 < rank) map->strides[d] = strides[d];
  }
  return kSuccess;
}
FAKE Result cuFuncGetAttribute(int* value, int which, Function*) {
  const std::map<int, int> values = {{0, 640}, {1, 256}, {4, 102}};
  auto found = values.find(which);
  return found == values.end() ? kInvalidValue : (*value = found->second, kSuccess);
}
FAKE Result cuFuncSetAttribute(Function* function, int which, int value) {
  const auto held = hold();
  if (const Result code = enter("cuFuncSetAttribute")) return code;
  if (which != 8 || value > state().settings["shared"]) return kInvalidValue;
  return function->dynamic = value, kSuccess;
}
FAKE Result cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream* stream, void** args, void**) {
  return launch("cuLaunchKernel", f, {{gx, gy, gz}, {bx, by, bz}, shared, {}}, stream, args);
}
FAKE Result cuLaunchCooperativeKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream* stream, void** args) {
  return launch("cuLaunchCooperativeKernel", f, {{gx, gy, gz}, {bx, by, bz}, shared, {}}, stream, args);
}
