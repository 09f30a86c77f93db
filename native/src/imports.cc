// Modules beside the compiled code of a library: those that a host makes of its functions, those that a library holds as data,
// and the constants that they receive.
#include "json.h"
#include "module.h"
#include "platform/loader.h"

namespace tw {
namespace {

// A module whose functions a function of the host finds by their names.
class FinderModule : public ModuleImpl {
 public:
  FinderModule(std::string kind, Ref<FunctionObject> find) : kind_(std::move(kind)), find_(std::move(find)) {}
  const char* kind() const override { return kind_.c_str(); }
  Ref<FunctionObject> get_function(const std::string& name, ModuleObject*) override {
    TVMFFIAny key = from_string(name);
    TVMFFIAny found;
    try {
      found = call(find_.get(), &key, 1);
    } catch (...) {
      destroy(key);
      throw;
    }
    destroy(key);
    if (found.type_index == kTVMFFIFunction) return Ref<FunctionObject>::steal(found.v_obj);
    bool absent = found.type_index == kTVMFFINone;
    destroy(found);
    if (!absent) fail("TypeError", "the module of kind `%s` must return the name `%s` with a function or None", kind_.c_str(), name.c_str());
    return {};
  }

 private:
  std::string kind_;
  Ref<FunctionObject> find_;
};

// What tvm-ffi writes as `__tvm_ffi__library_bin`: its size, the tree of imports in compressed rows, then each module's kind
// and, but for "_lib", its bytes. Numbers are of 8 bytes; texts have their length before them.
class LibraryBin {
 public:
  explicit LibraryBin(const char* data) : at_(data), end_(data + 8) {
    uint64_t size = number(), most = symbol_bytes(data);
    if (size > most || size + 8 > most) damaged();
    end_ = at_ + size;
  }
  uint64_t number() {
    uint64_t v;
    if (end_ - at_ < 8) damaged();
    memcpy(&v, at_, 8);
    at_ += 8;
    return v;
  }
  std::string text() {
    uint64_t n = number();
    if (n > static_cast<uint64_t>(end_ - at_)) damaged();
    std::string s(at_, n);
    at_ += n;
    return s;
  }
  std::vector<uint64_t> numbers() {
    uint64_t n = number();
    if (n > static_cast<uint64_t>(end_ - at_) / 8) damaged();
    std::vector<uint64_t> all(n);
    for (auto& v : all) v = number();
    return all;
  }
  [[noreturn]] static void damaged() { fail("ValueError", "the modules that the library holds are damaged; export it again"); }

 private:
  const char *at_, *end_;
};

Ref<ModuleObject> made_of(const std::string& kind, const std::string& bytes) {
  auto loader = get_global("runtime.module.loadbinary_" + kind);
  if (!loader) loader = get_global("ffi.Module.load_from_bytes." + kind);
  if (!loader)
    fail("ValueError", "the library holds a module of kind `%s`, but nothing here can load it: import the package that made it, or register"
         " `runtime.module.loadbinary_%s`, a function from bytes to a module", kind.c_str(), kind.c_str());
  TVMFFIAny data = from_string(bytes, true);
  TVMFFIAny made;
  try {
    made = call(loader.get(), &data, 1);
  } catch (...) {
    destroy(data);
    throw;
  }
  destroy(data);
  if (made.type_index != kTVMFFIModule) {
    destroy(made);
    fail("TypeError", "`runtime.module.loadbinary_%s` must return a module", kind.c_str());
  }
  return Ref<ModuleObject>::steal(made.v_obj);
}

const int imports_registered = [] {
  // (kind, function from a name to a function or None)
  register_global("runtime.ModuleFromFinder", [](Args args) {
    if (args[1].type_index != kTVMFFIFunction) fail("TypeError", "a module is made of a kind and of a function that finds functions");
    return from_ref(make_module(std::make_unique<FinderModule>(as_string(args[0]), Ref<FunctionObject>::share(args[1].v_obj))));
  });
  return 0;
}();

}  // namespace

void load_imports(ModuleObject* module, const Library& library) {
  auto* data = static_cast<const char*>(library.symbol("__tvm_ffi__library_bin"));
  if (!data) return;
  LibraryBin in(data);
  auto rows = in.numbers(), children = in.numbers();
  if (rows.empty()) LibraryBin::damaged();
  std::vector<Ref<ModuleObject>> modules;
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    std::string kind = in.text();
    modules.push_back(kind == "_lib" ? Ref<ModuleObject>::share(module) : made_of(kind, in.text()));
  }
  for (size_t i = 0; i + 1 < rows.size(); ++i)
    for (uint64_t j = rows[i]; j < rows[i + 1]; ++j) {
      if (j >= children.size() || children[j] >= modules.size()) LibraryBin::damaged();
      modules[i]->imports.push_back(modules[children[j]]);
    }
}

// `__tilewright_external`: the length of a JSON text, the text, and at the next multiple of 64 the bytes of the constants. The text
// is a list of {"init": function, "constants": [{"dtype", "shape", "offset"}]}.
void give_constants(ModuleObject* module, const Library& library) {
  const char* const symbol = "__tilewright_external";
  auto* data = static_cast<char*>(library.symbol(symbol));
  if (!data) return;
  uint64_t length;
  memcpy(&length, data, 8);
  const Json list = JsonReader(std::string(data + 8, length), "what the library says of its external constants").read();
  char* bytes = data + (8 + length + 63) / 64 * 64;
  for (auto& entry : list.items) {
    const std::string& name = entry["init"].string;
    auto init = module->find(name, true);
    if (!init) fail("ValueError", "external code receives constants, but neither the library nor its imports have the function `%s` that takes them", name.c_str());
    std::vector<TVMFFIAny> items;
    for (auto& c : entry["constants"].items) {
      std::vector<int64_t> shape;
      for (auto& d : c["shape"].items) shape.push_back(d.integer);
      DLTensor t{bytes + c["offset"].integer, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), parse_dtype(c["dtype"].string), shape.data(), nullptr, 0};
      items.push_back(from_ref(tensor_view(t, library.owner(symbol))));
    }
    TVMFFIAny array = from_object(&make<ArrayObject>(std::move(items))->header);
    TVMFFIAny result;
    try {
      result = call(init.get(), &array, 1);
    } catch (...) {
      destroy(array);
      throw;
    }
    destroy(array);
    int64_t code = result.type_index == kTVMFFIInt ? result.v_int64 : 0;
    destroy(result);
    if (code) fail("RuntimeError", "`%s` refused its constants with code %lld", name.c_str(), static_cast<long long>(code));
  }
}

}  // namespace tw
