// Modules: something that answers names with functions, and imports others that it may ask in turn.
#pragma once
#include <map>
#include <memory>
#include <unordered_map>

#include "core.h"

namespace tw {

struct ModuleObject;

class ModuleImpl {
 public:
  virtual ~ModuleImpl() = default;
  virtual const char* kind() const = 0;
  virtual Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) = 0;
};

struct ModuleObject : ObjectBase<ModuleObject> {
  std::unique_ptr<ModuleImpl> impl;
  std::vector<Ref<ModuleObject>> imports;
  std::unordered_map<std::string, Ref<FunctionObject>> import_cache;
  explicit ModuleObject(std::unique_ptr<ModuleImpl> i) : ObjectBase(kTVMFFIModule), impl(std::move(i)) {}
  Ref<FunctionObject> find(const std::string& name, bool query_imports);
};
Ref<ModuleObject> make_module(std::unique_ptr<ModuleImpl> impl);
ModuleObject* as_module(const TVMFFIAny& value);

// Compiled code: a shared library, or addresses of code made in this process.
class Library {
 public:
  virtual ~Library() = default;
  virtual void* symbol(const std::string& name) const = 0;
  virtual std::string label() const = 0;
};

// The executor of a compiled model, or the virtual machine of a program; `metadata` as its JSON text. Throws when this CPU cannot run it.
// `bytecode` replaces what the library holds.
Ref<ModuleObject> make_executor(Ref<ModuleObject> library_module, std::shared_ptr<Library> library,
                                const std::string& metadata, Ref<TensorObject> constants, DLDevice device, Ref<TensorObject> bytecode);
struct Json;
Ref<ModuleObject> make_aot_executor(Ref<ModuleObject> library_module, std::shared_ptr<Library> library, const std::string& metadata,
                                    const Json& meta, Ref<TensorObject> constants, DLDevice device);
Ref<ModuleObject> make_machine(Ref<ModuleObject> library_module, std::shared_ptr<Library> library, const Json& meta,
                               Ref<TensorObject> constants, Ref<TensorObject> bytecode);

// CPU features of LLVM's naming; empty when all are there, else the missing ones.
std::vector<std::string> missing_features(const std::vector<std::string>& required);
void enable_amx();

}  // namespace tw
