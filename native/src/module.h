// Modules: something that answers names with functions, and imports others that it may ask in turn.
#pragma once
#include <map>
#include <memory>
#include <unordered_map>

#include "core.h"
#include "platform/locks.h"

namespace tw {

struct ModuleObject;

struct Code;

class ModuleImpl {
 public:
  virtual ~ModuleImpl() = default;
  virtual const char* kind() const = 0;
  // What tells its class: the address of the class's kClass.
  virtual const void* class_of() const { return nullptr; }
  virtual Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) = 0;
  // Those of its functions that can be listed, for messages.
  virtual std::vector<std::string> function_names() { return {}; }
  // For the module's own code, which may keep it: a function that does not keep the module alive.
  virtual Ref<FunctionObject> inner_function(const std::string&, ModuleObject*) { return {}; }
  // The compiled code that it holds, if it is a library.
  virtual const Code* code() const { return nullptr; }
};

struct ModuleObject : ObjectBase<ModuleObject> {
  std::unique_ptr<ModuleImpl> impl;
  std::vector<Ref<ModuleObject>> imports;
  std::unordered_map<std::string, Ref<FunctionObject>> import_cache;
  std::unordered_map<const char*, Ref<FunctionObject>> found;  // by the address of a name in the module's own code
  explicit ModuleObject(std::unique_ptr<ModuleImpl> i) : ObjectBase(kTVMFFIModule), impl(std::move(i)) {}
  Ref<FunctionObject> find(const std::string& name, bool query_imports);
};
// A module's implementation, where it is of a class that has a kClass; else null. (The library is compiled without type information.)
template <typename T>
T* implementation(ModuleObject* module) {
  return module->impl->class_of() == &T::kClass ? static_cast<T*>(module->impl.get()) : nullptr;
}
template <typename T>
std::vector<std::string> keys(const std::map<std::string, T>& methods) {
  std::vector<std::string> all;
  for (auto& m : methods) all.push_back(m.first);
  return all;
}
Ref<ModuleObject> make_module(std::unique_ptr<ModuleImpl> impl);
ModuleObject* as_module(const TVMFFIAny& value);

// Compiled code: a shared library, or addresses of code made in this process.
class Library {
 public:
  virtual ~Library() = default;
  virtual void* symbol(const std::string& name) const = 0;
  virtual std::string label() const = 0;
  // What keeps a symbol's data alive, where that is not the library.
  virtual Ref<> owner(const std::string&) const { return {}; }
};

struct Json;
// Makes the modules that a library holds as data, and imports them.
void load_imports(ModuleObject* module, const Library& library);
// Gives external code the constants that it receives at run time.
void give_constants(ModuleObject* module, const Library& library);

// A library, what it says of itself (JSON text), and its constants where they are not inside it.
struct Code {
  std::shared_ptr<Library> library;
  std::string metadata;
  Ref<TensorObject> constants;
};

// The module of a library: fills what its code reaches the runtime by, and loads what it imports.
Ref<ModuleObject> library_module(std::shared_ptr<Library> library, std::string metadata, Ref<TensorObject> constants);

// The executor of a compiled model, or the virtual machine of a program; `metadata` as its JSON text. Throws when this CPU cannot run it.
// `bytecode` replaces what the library holds.
Ref<ModuleObject> make_executor(Ref<ModuleObject> library_module, const Code& code, std::vector<DLDevice> devices, Ref<TensorObject> bytecode);
Ref<ModuleObject> make_aot_executor(Ref<ModuleObject> library_module, std::shared_ptr<Library> library, const std::string& metadata,
                                    const Json& meta, Ref<TensorObject> constants, const std::vector<DLDevice>& devices);
// A device as metadata tell it: [type, number].
DLDevice device_of(const Json& pair);
// Throws unless all devices are of the type that `label` was compiled for.
void need_type(const std::string& label, int32_t type, const std::vector<DLDevice>& devices);
// The device among those given that code was compiled for; throws where it is not there.
DLDevice device_among(const std::vector<DLDevice>& given, DLDevice wanted);
// The executor of a graph in the classic JSON form. Its functions are kernels of the module's code where it has some, else packed
// functions of the module and its imports. With `debug` it also runs and times single nodes.
Ref<ModuleObject> make_graph_executor(Ref<ModuleObject> module, const std::string& graph_json, std::vector<DLDevice> devices, bool debug);
Ref<ModuleObject> make_machine(Ref<ModuleObject> library_module, std::shared_ptr<Library> library, const Json& meta,
                               Ref<TensorObject> constants, Ref<TensorObject> bytecode, std::vector<DLDevice> devices);
// The same as classic programs open it: its function `init` tells the devices.
Ref<ModuleObject> make_late_machine(Ref<ModuleObject> library_module, const Code& code);

// Throws when this CPU cannot run what the metadata describes.
void check_cpu(const Json& meta);
// The constants given, else those in the library, aligned as kernels expect.
Ref<TensorObject> constants_of(const Library& library, Ref<TensorObject> given, int64_t bytes);

// CPU features of LLVM's naming; empty when all are there, else the missing ones.
std::vector<std::string> missing_features(const std::vector<std::string>& required);

}  // namespace tw
