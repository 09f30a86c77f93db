// Libraries as modules: symbol look-up, imports, and the context that compiled code reaches the runtime by.
#include "module.h"

#include <algorithm>
#include <set>

#include "devices/device.h"
#include "json.h"
#include "platform/locks.h"
#include "pool.h"
#include "thread_pool.h"

namespace tw {

Ref<ModuleObject> make_module(std::unique_ptr<ModuleImpl> impl) {
  return Ref<ModuleObject>::steal(make<ModuleObject>(std::move(impl)));
}
ModuleObject* as_module(const TVMFFIAny& value) {
  if (value.type_index != kTVMFFIModule) fail("TypeError", "expected a module, got a value of type index %d", value.type_index);
  return reinterpret_cast<ModuleObject*>(value.v_obj);
}
Ref<FunctionObject> ModuleObject::find(const std::string& name, bool query_imports) {
  if (auto f = impl->get_function(name, this)) return f;
  if (query_imports)
    for (auto& other : imports)
      if (auto f = other->find(name, true)) return f;
  return {};
}

namespace {

Mutex context_lock;
std::map<std::string, void*>& context_symbols() {
  static auto* symbols = new std::map<std::string, void*>;
  return *symbols;
}
std::map<std::string, void*>& system_symbols() {
  static auto* symbols = new std::map<std::string, void*>;
  return *symbols;
}

// Where libraries keep the module that they belong to, and the modules made of each: one library may be opened several times.
std::unordered_map<ModuleObject**, std::vector<ModuleObject*>>& bound_modules() {
  static auto* bound = new std::unordered_map<ModuleObject**, std::vector<ModuleObject*>>;
  return *bound;
}
// A reference, unless the object is on its way out.
Ref<ModuleObject> share_if_alive(ModuleObject* module) {
  uint64_t* count = &module->header.combined_ref_count;
  uint64_t seen = __atomic_load_n(count, __ATOMIC_RELAXED);
  while (static_cast<uint32_t>(seen) != 0)
    if (__atomic_compare_exchange_n(count, &seen, seen + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return Ref<ModuleObject>::steal(module);
  return {};
}
// A function by its name, for code in the library that the slot is of: what its module or the imports have stays found under the
// address of the name, which is in that library; a global one is looked up each time, since it may be replaced.
Ref<FunctionObject> known_to(ModuleObject** slot, const char* name) {
  Ref<ModuleObject> module;
  if (slot) {
    std::lock_guard<Mutex> hold(context_lock);
    auto all = bound_modules().find(slot);
    if (all != bound_modules().end())
      for (size_t i = 0; !module && i < all->second.size(); ++i) module = share_if_alive(all->second[i]);
    if (module) {
      auto it = module->found.find(name);
      if (it != module->found.end()) return it->second;
    }
  }
  if (!module) return get_global(name);
  // Not under the lock: what is asked may be a function of the host.
  auto found = module->impl->inner_function(name, module.get());
  for (size_t i = 0; !found && i < module->imports.size(); ++i) found = module->imports[i]->find(name, true);
  if (!found) return get_global(name);
  std::lock_guard<Mutex> hold(context_lock);
  module->found[name] = found;
  return found;
}
int32_t call_from(void* slot, const char* name, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  return guarded([&] {
    auto f = known_to(static_cast<ModuleObject**>(slot), name);
    if (!f) fail("ValueError", "compiled code calls the function `%s`, which is not registered; use register_func, or import_module the module that has it", name);
    *result = call(f.get(), args, count);
  });
}
int32_t call_packed(const char* name, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  return call_from(nullptr, name, args, count, result);
}
const TWContext kContext = {parallel_launch, [](const char* kind, const char* message) { set_raised(kind, message); },
                            alloc_workspace, Pool::give, call_packed, call_from,
                            free_workspace};

class SymbolLibrary : public Library {
 public:
  std::map<std::string, void*> symbols;
  std::map<std::string, Ref<TensorObject>> held;
  TVMFFIAny keep_alive = none();
  ~SymbolLibrary() override { destroy(keep_alive); }
  void* symbol(const std::string& name) const override {
    auto it = symbols.find(name);
    return it == symbols.end() ? nullptr : it->second;
  }
  std::string label() const override { return "the compiled module"; }
  Ref<> owner(const std::string& name) const override {
    auto it = held.find(name);
    return it == held.end() ? Ref<>() : Ref<>::share(it->second.get());
  }
};

// A library, and the code that it holds as data.
class JoinedLibrary : public Library {
 public:
  JoinedLibrary(std::shared_ptr<Library> own, std::vector<std::shared_ptr<Library>> held) : own_(std::move(own)), held_(std::move(held)) {}
  void* symbol(const std::string& name) const override {
    void* found = own_->symbol(name);
    for (size_t i = 0; !found && i < held_.size(); ++i) found = held_[i]->symbol(name);
    return found;
  }
  std::string label() const override { return own_->label(); }
  Ref<> owner(const std::string& name) const override { return own_->owner(name); }

 private:
  std::shared_ptr<Library> own_;
  std::vector<std::shared_ptr<Library>> held_;
};

// The prefix stands before the name of a function in its symbol; names that none has with it are looked up without.
class SystemLibrary : public Library {
 public:
  explicit SystemLibrary(std::string prefix) : prefix_(std::move(prefix)) {}
  void* symbol(const std::string& name) const override {
    const size_t head = name.compare(0, 10, "__tvm_ffi_") == 0 ? 10 : 0;
    std::lock_guard<Mutex> hold(context_lock);
    auto it = system_symbols().find(name.substr(0, head) + prefix_ + name.substr(head));
    if (it == system_symbols().end()) it = system_symbols().find(name);
    return it == system_symbols().end() ? nullptr : it->second;
  }
  std::string label() const override { return "the system library"; }

 private:
  std::string prefix_;
};

// The devices among arguments, as Device values or as pairs of numbers; the first CPU where there is none.
std::vector<DLDevice> devices_of(Args args, int32_t from) {
  std::vector<DLDevice> found;
  for (int32_t i = from; i < args.count; ++i) {
    const TVMFFIAny& v = args[i];
    if (v.type_index == kTVMFFIDevice) {
      found.push_back(v.v_device);
    } else if (v.type_index == kTVMFFIArray) {
      auto* list = reinterpret_cast<TVMFFISeqCell*>(v.v_obj + 1);  // which another library may have made
      for (int64_t k = 0; k < list->size; ++k) {
        const TVMFFIAny& item = static_cast<TVMFFIAny*>(list->data)[k];
        if (item.type_index != kTVMFFIDevice) fail("TypeError", "expected a list of devices, but it holds a value of type index %d", item.type_index);
        found.push_back(item.v_device);
      }
    } else if (v.type_index == kTVMFFIInt && i + 1 < args.count) {
      found.push_back({static_cast<int32_t>(v.v_int64), static_cast<int32_t>(as_int(args[++i], "a device's number"))});
    } else {
      fail("TypeError", "expected a device such as cpu(0), got a value of type index %d", v.type_index);
    }
  }
  if (found.empty()) found.push_back({kDLCPU, 0});
  return found;
}

class LibraryModule : public ModuleImpl {
 public:
  explicit LibraryModule(Code code) : code_(std::move(code)) {
    if (auto* target = static_cast<const char*>(symbol("__tilewright_target"))) check_cpu(JsonReader(target).read());
    if (auto* context = static_cast<TWContext*>(symbol("__tilewright_context"))) *context = kContext;
    std::map<std::string, void*> context;
    {
      // Not held while symbols are looked up: those of the system library are under it too.
      std::lock_guard<Mutex> hold(context_lock);
      context = context_symbols();
    }
    for (auto& entry : context)
      if (auto* slot = static_cast<void**>(symbol(entry.first))) *slot = entry.second;
    if (code_.metadata.empty())
      if (auto* text = static_cast<const char*>(symbol("__tilewright_metadata"))) code_.metadata = text;
  }
  const char* kind() const override { return "library"; }
  const Code* code() const override { return &code_; }
  const Library& library() const { return *code_.library; }
  // Symbols are looked for in the held code as well, once it is loaded.
  void join(const ModuleObject* self) {
    std::vector<std::shared_ptr<Library>> held;
    for (auto& other : self->imports)
      if (const Code* code = other->impl->code())
        if (code->library->symbol("__tilewright_held_code")) held.push_back(code->library);
    if (!held.empty()) code_.library = std::make_shared<JoinedLibrary>(code_.library, std::move(held));
  }

  Ref<FunctionObject> inner_function(const std::string& name, ModuleObject* self) override {
    {
      std::lock_guard<RecursiveMutex> hold(constants_lock_);
      if (!constants_given_) {
        constants_given_ = true;  // what takes them may call on
        try {
          give_constants(self, library());
        } catch (...) {
          constants_given_ = false;
          throw;
        }
      }
    }
    void* address = symbol("__tvm_ffi_" + name);
    return address ? make_raw_function(self, reinterpret_cast<TVMFFISafeCallType>(address), nullptr) : Ref<FunctionObject>();
  }

  void bind_self(ModuleObject* self) {
    slot_ = static_cast<ModuleObject**>(symbol("__tvm_ffi__library_ctx"));
    if (!slot_) return;
    std::lock_guard<Mutex> hold(context_lock);
    // A library before the code that it holds: what it imports is found.
    auto& all = bound_modules()[slot_];
    all.insert(all.begin(), self_ = self);
    *slot_ = self;
  }
  ~LibraryModule() override {
    if (!slot_) return;
    std::lock_guard<Mutex> hold(context_lock);
    auto& all = bound_modules()[slot_];
    all.erase(std::find(all.begin(), all.end(), self_));
    *slot_ = all.empty() ? nullptr : all.back();
    if (all.empty()) bound_modules().erase(slot_);
  }

  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    std::string key = name == "__tvm_main__" ? "main" : name;
    if (void* address = symbol("__tvm_ffi_" + key)) {
      incref(self);  // code lives as long as its functions
      return make_raw_function(self, reinterpret_cast<TVMFFISafeCallType>(address), [](void* p) { decref(p); });
    }
    if (code_.metadata.empty()) return {};
    auto module = Ref<ModuleObject>::share(self);
    if (name == "default" || name == "main" || name == "cuda_graph_create" || name == model_name()) {
      return make_function([this, module](Args args) { return from_ref(make_executor(module, code_, devices_of(args, 0), {})); });
    }
    if (name == "debug_create") {  // (name of the model, devices...)
      return make_function([this, module](Args args) {
        std::string model = as_string(args[0]);
        if (model != "default" && model != model_name()) fail("ValueError", "%s has no model `%s`; it has `%s`", code_.library->label().c_str(), model.c_str(), model_name().c_str());
        Json meta = JsonReader(code_.metadata).read();
        if (meta["graph"].string.empty()) fail("ValueError", "%s says nothing of the graph that it was compiled from, which the debug executor runs", code_.library->label().c_str());
        return from_ref(make_graph_executor(module, meta["graph"].string, devices_of(args, 1), true));
      });
    }
    if (name == "get_graph_json") {
      return make_function([this, module](Args) { return from_string(JsonReader(code_.metadata).read()["graph"].string); });
    }
    if (name == "load_executable") {  // (devices..., bytecode as a tensor of bytes): bytecode that was saved apart
      return make_function([this, module](Args args) {
        if (args[0].type_index != kTVMFFIDevice) fail("TypeError", "load_executable takes a device first");
        const TVMFFIAny& bytecode = args[args.count - 1];
        if (bytecode.type_index != kTVMFFITensor) fail("TypeError", "load_executable takes the bytecode as a tensor");
        return from_ref(make_executor(module, code_, devices_of(Args{args.values, args.count - 1}, 0), Ref<TensorObject>::share(bytecode.v_obj)));
      });
    }
    if (name == "vm_load_executable" && JsonReader(code_.metadata).read()["executor"].string == "vm") {
      return make_function([this, module](Args) { return from_ref(make_late_machine(module, code_)); });
    }
    if (name == "get_metadata") {
      return make_function([this, module](Args) { return from_string(code_.metadata); });
    }
    return {};
  }
  std::vector<std::string> function_names() override {
    if (code_.metadata.empty()) return {};
    return {"default", model_name(), "debug_create", "get_graph_json", "get_metadata", "load_executable", "vm_load_executable"};
  }

 private:
  void* symbol(const std::string& name) const { return code_.library->symbol(name); }
  // Looked for by hand: the metadata of a large model is long, and every look-up of a function comes here.
  const std::string& model_name() {
    std::call_once(named_, [this] {
      const std::string key = "\"mod_name\": \"";
      size_t at = code_.metadata.find(key);
      if (at != std::string::npos) name_ = code_.metadata.substr(at + key.size(), code_.metadata.find('"', at + key.size()) - at - key.size());
    });
    return name_;
  }

  Code code_;
  ModuleObject *self_ = nullptr, **slot_ = nullptr;
  RecursiveMutex constants_lock_;
  bool constants_given_ = false;
  std::once_flag named_;
  std::string name_ = "default";
};

}  // namespace

Ref<ModuleObject> library_module(std::shared_ptr<Library> library, std::string metadata, Ref<TensorObject> constants) {
  auto impl = std::make_unique<LibraryModule>(Code{std::move(library), std::move(metadata), std::move(constants)});
  LibraryModule* raw = impl.get();
  auto module = make_module(std::move(impl));
  load_imports(module.get(), raw->library());
  raw->join(module.get());
  raw->bind_self(module.get());
  return module;
}

namespace {

void register_modules() {
  // (address of a library's slot, name, arguments...): a call by code that the host runs
  register_global("runtime.CallFrom", [](Args args) {
    static Mutex lock;
    static auto* names = new std::set<std::string>;  // each name has one address, by which known_to keeps what it found
    const char* name;
    {
      std::lock_guard<Mutex> hold(lock);
      name = names->insert(as_string(args[1])).first->c_str();
    }
    auto f = known_to(reinterpret_cast<ModuleObject**>(as_int(args[0], "the address of a slot")), name);
    if (!f) fail("ValueError", "compiled code calls the function `%s`, which is not registered; use register_func, or import_module the module that has it", name);
    return call(f.get(), args.values + 2, args.count - 2);
  });
  // (graph JSON, module, devices...)
  register_global("tvm.graph_executor.create", [](Args args) {
    return from_ref(make_graph_executor(Ref<ModuleObject>::share(as_module(args[1])), as_string(args[0]), devices_of(args, 2), false));
  });
  register_global("tvm.graph_executor_debug.create", [](Args args) {
    return from_ref(make_graph_executor(Ref<ModuleObject>::share(as_module(args[1])), as_string(args[0]), devices_of(args, 2), true));
  });
  register_global("runtime.SystemLib", [](Args args) {
    return from_ref(library_module(std::make_shared<SystemLibrary>(args.count ? as_string(args[0]) : ""), "", {}));
  });
  // (keep_alive, metadata JSON or "", constants or None, name 0, address or tensor 0, name 1, ...)
  register_global("runtime.ModuleFromSymbols", [](Args args) {
    auto library = std::make_shared<SymbolLibrary>();
    library->keep_alive = own(args[0]);
    Ref<TensorObject> constants;
    if (args[2].type_index == kTVMFFITensor) constants = Ref<TensorObject>::share(args[2].v_obj);
    for (int32_t i = 3; i + 1 < args.count; i += 2) {
      std::string name = as_string(args[i]);
      if (args[i + 1].type_index == kTVMFFITensor) {  // data: the library keeps it
        auto tensor = library->held[name] = Ref<TensorObject>::share(args[i + 1].v_obj);
        library->symbols[name] = static_cast<char*>(tensor->tensor.data) + tensor->tensor.byte_offset;
      } else {
        library->symbols[name] = reinterpret_cast<void*>(as_int(args[i + 1], "a symbol's address"));
      }
    }
    return from_ref(library_module(library, as_string(args[1]), constants));
  });
  register_global("runtime.ModuleGetFunction", [](Args args) {
    return from_ref(as_module(args[0])->find(as_string(args[1]), as_int(args[2], "query_imports") != 0));
  });
  // The path of a module's library; other words, or none, for one that is no file.
  register_global("runtime.ModuleLabel", [](Args args) {
    const Code* code = as_module(args[0])->impl->code();
    return from_string(code ? code->library->label() : "");
  });
  register_global("runtime.ModuleGetTypeKey", [](Args args) { return from_string(as_module(args[0])->impl->kind()); });
  register_global("runtime.ModuleImport", [](Args args) {
    auto* module = as_module(args[0]);
    auto* other = as_module(args[1]);
    std::function<bool(ModuleObject*)> reaches = [&](ModuleObject* m) {
      if (m == module) return true;
      for (auto& next : m->imports)
        if (reaches(next.get())) return true;
      return false;
    };
    if (reaches(other)) fail("ValueError", "importing this module would make a cycle of imports");
    module->imports.push_back(Ref<ModuleObject>::share(other));
    module->import_cache.clear();
    module->found.clear();
    return none();
  });
  register_global("runtime.ModuleClearImports", [](Args args) {
    as_module(args[0])->imports.clear();
    as_module(args[0])->import_cache.clear();
    as_module(args[0])->found.clear();
    return none();
  });
  register_global("runtime.ModuleImports", [](Args args) {
    std::vector<TVMFFIAny> items;
    for (auto& other : as_module(args[0])->imports) items.push_back(from_ref(other));
    return from_object(&make<ArrayObject>(std::move(items))->header);
  });
}
const int modules_registered = (register_modules(), 0);

}  // namespace
}  // namespace tw

using namespace tw;

extern "C" {
// The function stays owned by the module, which caches it.
TW_EXPORT int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library, const char* name, TVMFFIObjectHandle* out) {
  return guarded([&] {
    auto* module = static_cast<ModuleObject*>(library);
    std::lock_guard<Mutex> hold(context_lock);
    auto& slot = module->import_cache[name];
    if (!slot)
      for (auto& other : module->imports)
        if ((slot = other->find(name, true))) break;
    if (!slot) slot = get_global(name);
    if (!slot) fail("ValueError", "function `%s` is neither in the imported modules nor registered globally", name);
    *out = slot.get();
  });
}
TW_EXPORT int TVMFFIEnvModRegisterContextSymbol(const char* name, void* symbol) {
  std::lock_guard<Mutex> hold(context_lock);
  context_symbols()[name] = symbol;
  return 0;
}
TW_EXPORT int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol) {
  std::lock_guard<Mutex> hold(context_lock);
  system_symbols()[name] = symbol;
  return 0;
}
TW_OWN_ALIAS(TWModLookupFromImports, TVMFFIEnvModLookupFromImports) int TWModLookupFromImports(TVMFFIObjectHandle, const char*, TVMFFIObjectHandle*);
TW_ALIAS(TVMBackendRegisterSystemLibSymbol, TVMFFIEnvModRegisterSystemLibSymbol) int TVMBackendRegisterSystemLibSymbol(const char*, void*);
}
