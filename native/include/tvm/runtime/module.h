// Modules: something that answers names with functions, and imports others that may be asked in turn.
#ifndef TVM_RUNTIME_MODULE_H_
#define TVM_RUNTIME_MODULE_H_

#include <map>
#include <string>
#include <vector>

#include "packed_func.h"

namespace tvm {
namespace runtime {

class ModuleNode;

// A reference to a module: one that the runtime made, or one of a class in C++ that derives from ModuleNode.
class Module : public ObjectRef {
 public:
  Module() = default;
  explicit Module(ObjectPtr<Object> node) : ObjectRef(std::move(node)) {}
  ModuleNode* operator->();
  const ModuleNode* operator->() const;
  using ContainerType = ModuleNode;

  // The function of a name, with the imported modules if they are to be asked too; null where there is none.
  PackedFunc GetFunction(const String& name, bool query_imports = false);
  void Import(Module other);
  // A library from a file (`.so`, `.dylib`), or what the function `runtime.module.loadfile_FORMAT` makes of a file of another format, which
  // is that of its name unless it is given. Throws where it is none.
  static Module LoadFromFile(const String& file_name, const String& format = "");
};

// What can be done with modules of a kind.
enum ModulePropertyMask : int { kBinarySerializable = 0b001, kRunnable = 0b010, kDSOExportable = 0b100 };

// The base of modules in C++: a class says what kind it is, and which functions it has.
class ModuleNode : public Object {
 public:
  virtual ~ModuleNode() = default;
  ModuleNode() = default;
  virtual const char* type_key() const = 0;
  // sptr_to_self: what a function keeps that needs the module.
  virtual PackedFunc GetFunction(const String& name, const ObjectPtr<Object>& sptr_to_self) = 0;
  virtual void SaveToFile(const String& file_name, const String&) {
    LOG(FATAL) << "ValueError: module[" << type_key() << "] does not support SaveToFile (" << file_name << ')';
  }
  virtual String GetSource(const String& = "") { return ""; }
  virtual String GetFormat() { return ""; }
  virtual int GetPropertyMask() const { return 0; }
  bool IsRunnable() const { return GetPropertyMask() & ModulePropertyMask::kRunnable; }
  bool IsDSOExportable() const { return GetPropertyMask() & ModulePropertyMask::kDSOExportable; }
  bool IsBinarySerializable() const { return GetPropertyMask() & ModulePropertyMask::kBinarySerializable; }
  virtual bool ImplementsFunction(const String& name, bool query_imports = false) { return GetFunction(name, query_imports) != nullptr; }

  PackedFunc GetFunction(const String& name, bool query_imports = false);
  // A function of the imported modules, or a global one; throws where there is none.
  const PackedFunc* GetFuncFromEnv(const String& name);
  virtual inline void Import(Module other);
  virtual inline void ClearImports();
  virtual const std::vector<Module>& imports() const { return imports_; }

  static constexpr const char* _type_key = "runtime.Module";
  TVM_DECLARE_BASE_OBJECT_INFO(ModuleNode, Object)

  // The module as the runtime knows it; a new reference.
  virtual inline detail::Owned handle();

 protected:
  std::vector<Module> imports_;

 private:
  std::map<std::string, PackedFunc> found_;
};

namespace detail {

using ::tilewright::detail::call_global;
using ::tilewright::detail::Held;

// The runtime's modules that stand for nodes in C++, both ways. An entry goes when the runtime's module does.
struct Nodes {
  struct Handle {
    TVMFFIObject* module;
    uint64_t number;
  };
  Lock lock;
  uint64_t count = 0;
  std::map<const TVMFFIObject*, ModuleNode*> by_handle;
  std::map<const ModuleNode*, Handle> by_node;
  inline bool share(const ModuleNode* node, TVMFFIObject** out);
};
inline Nodes& nodes() {
  static auto* all = new Nodes;  // outlives every static destructor that may still ask
  return *all;
}
// A reference, unless the object is on its way out.
inline bool keep_if_alive(TVMFFIObject* object) {
  uint64_t seen = __atomic_load_n(&object->combined_ref_count, __ATOMIC_RELAXED);
  while (static_cast<uint32_t>(seen) != 0)
    if (__atomic_compare_exchange_n(&object->combined_ref_count, &seen, seen + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return true;
  return false;
}

// The module that stands for a node, if there is one; a new reference.
inline bool Nodes::share(const ModuleNode* node, TVMFFIObject** out) {
  Hold hold(lock);
  auto known = by_node.find(node);
  if (known == by_node.end() || !keep_if_alive(known->second.module)) return false;
  *out = known->second.module;
  return true;
}

// What the runtime's module for a node holds: the node, asked for functions by their names.
class Finder {
 public:
  Finder(ObjectPtr<ModuleNode> node, uint64_t number) : node_(std::move(node)), number_(number) {}
  Finder(Finder&&) = default;
  ~Finder() {
    if (!node_) return;
    Nodes& all = nodes();
    Hold hold(all.lock);
    auto known = all.by_node.find(node_.get());
    if (known == all.by_node.end() || known->second.number != number_) return;
    all.by_handle.erase(known->second.module);
    all.by_node.erase(known);
  }
  void operator()(const TVMFFIAny* args, int32_t, TVMFFIAny* result) const {
    *result = Element<PackedFunc>::put(node_->GetFunction(element_of<String>(args[0], "the name"), ObjectPtr<Object>(node_))).release();
  }

 private:
  ObjectPtr<ModuleNode> node_;
  uint64_t number_;
};

// A module that the runtime made.
class RuntimeModule final : public ModuleNode {
 public:
  explicit RuntimeModule(Owned module) : module_(std::move(module)), kind_(element_of<std::string>(call_global("runtime.ModuleGetTypeKey", module_.any()).any(), "the kind")) {}
  const char* type_key() const final { return kind_.c_str(); }
  PackedFunc GetFunction(const String& name, const ObjectPtr<Object>&) final { return look_up(name, false); }
  bool ImplementsFunction(const String& name, bool query_imports) final { return look_up(name, query_imports) != nullptr; }
  void Import(Module other) final {
    call_global("runtime.ModuleImport", module_.any(), other->handle().any());
  }
  void ClearImports() final { call_global("runtime.ModuleClearImports", module_.any()); }
  inline const std::vector<Module>& imports() const final;
  Owned handle() final { return module_; }

 private:
  PackedFunc look_up(const String& name, bool query_imports) const {
    return element_of<PackedFunc>(call_global("runtime.ModuleGetFunction", module_.any(), Element<String>::put(name).any(), ::tilewright::detail::of_int(query_imports, kTVMFFIBool)).any(), "the function");
  }
  Owned module_;
  std::string kind_;
  mutable std::vector<Module> listed_;
};

template <>
struct Element<Module> {
  static Owned put(const Module& module) { return module.defined() ? const_cast<ModuleNode*>(module.operator->())->handle() : Owned(); }
  static std::optional<Module> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFINone) return Module();
    if (any.type_index != kTVMFFIModule) return std::nullopt;
    {
      Hold hold(nodes().lock);
      auto known = nodes().by_handle.find(any.v_obj);
      if (known != nodes().by_handle.end()) return Module(ObjectPtr<Object>(static_cast<Object*>(known->second)));
    }
    return Module(make_object<RuntimeModule>(Owned::copy_of(any)));
  }
  static std::string name() { return ModuleNode::_type_key; }
};
// A module is one of the runtime's in the calling convention.
inline Owned Element<ObjectRef>::put(const ObjectRef& ref) {
  return ref.defined() && ref->IsInstance<ModuleNode>() ? Element<Module>::put(Module(GetDataPtr<Object>(ref))) : shared(ref);
}
inline std::optional<ObjectRef> Element<ObjectRef>::get(const TVMFFIAny& any) {
  if (any.type_index == kTVMFFIModule) return *Element<Module>::get(any);
  if (any.type_index == kTVMFFISmallStr || any.type_index == kTVMFFIRawStr) return *Element<String>::get(any);
  if (any.type_index != kTVMFFINone && !::tilewright::detail::is_object(any)) return std::nullopt;
  return ObjectRef(ObjectPtr<Object>(any.type_index == kTVMFFINone ? nullptr : reinterpret_cast<Object*>(any.v_obj)));
}

inline const std::vector<Module>& RuntimeModule::imports() const {
  const Owned found = call_global("runtime.ModuleImports", module_.any());
  listed_.clear();
  for (const Module& m : element_of<Array<Module>>(found.any(), "the imports")) listed_.push_back(m);
  return listed_;
}
}  // namespace detail

inline detail::Owned ModuleNode::handle() {
  detail::Nodes& all = detail::nodes();
  TVMFFIObject* known = nullptr;
  if (all.share(this, &known)) return detail::Owned(::tilewright::detail::of_object(known));
  uint64_t number;
  {
    detail::Hold hold(all.lock);
    number = ++all.count;
  }
  const detail::Held find = ::tilewright::detail::make_function(detail::Finder(GetObjectPtr<ModuleNode>(this), number));
  const detail::Owned kind = detail::Element<std::string>::put(type_key());
  detail::Owned made = detail::call_global("runtime.ModuleFromFinder", kind.any(), ::tilewright::detail::of_object(find.get()));
  for (Module& other : imports_) detail::call_global("runtime.ModuleImport", made.any(), other->handle().any());
  detail::Hold hold(all.lock);
  all.by_node[this] = {made.any().v_obj, number};
  all.by_handle[made.any().v_obj] = this;
  return made;
}

inline ModuleNode* Module::operator->() { return static_cast<ModuleNode*>(get_mutable()); }
inline const ModuleNode* Module::operator->() const { return static_cast<const ModuleNode*>(data_.get()); }
inline PackedFunc Module::GetFunction(const String& name, bool query_imports) { return operator->()->GetFunction(name, query_imports); }
inline void Module::Import(Module other) { operator->()->Import(std::move(other)); }
inline Module Module::LoadFromFile(const String& file_name, const String& format) {
  const detail::Owned name = detail::Element<String>::put(file_name), kind = detail::Element<String>::put(format);
  return detail::element_of<Module>(detail::call_global("runtime.ModuleLoadFromFile", name.any(), kind.any()).any(), "the module");
}

inline PackedFunc ModuleNode::GetFunction(const String& name, bool query_imports) {
  PackedFunc found = GetFunction(name, GetObjectPtr<Object>(this));
  if (found == nullptr && query_imports)
    for (const Module& other : imports())
      if ((found = Module(other).GetFunction(name, true)) != nullptr) break;
  return found;
}
inline void ModuleNode::Import(Module other) {
  std::vector<const ModuleNode*> rest{other.operator->()};
  while (!rest.empty()) {
    const ModuleNode* next = rest.back();
    rest.pop_back();
    ICHECK(next != this) << "ValueError: importing this module would make a cycle of imports";
    for (const Module& m : next->imports()) rest.push_back(m.operator->());
  }
  TVMFFIObject* known = nullptr;
  detail::nodes().share(this, &known);
  const detail::Held held(known);
  if (known) detail::call_global("runtime.ModuleImport", ::tilewright::detail::of_object(known), other->handle().any());
  imports_.push_back(std::move(other));
}
inline void ModuleNode::ClearImports() {
  TVMFFIObject* known = nullptr;
  detail::nodes().share(this, &known);
  const detail::Held held(known);
  if (known) detail::call_global("runtime.ModuleClearImports", ::tilewright::detail::of_object(known));
  imports_.clear();
  found_.clear();
}
inline const PackedFunc* ModuleNode::GetFuncFromEnv(const String& name) {
  auto known = found_.find(name);
  if (known != found_.end()) return &known->second;
  PackedFunc found;
  for (const Module& other : imports())
    if (found == nullptr) found = Module(other).GetFunction(name, true);
  if (found == nullptr) {
    detail::Held global = ::tilewright::detail::find_global(name);
    ICHECK(global.get()) << "ValueError: Cannot find function " << name << " in the imported modules or global registry.";
    found = PackedFunc(ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(global.release())));
  }
  return &(found_[name] = found);
}

inline TVMPODValue_::operator Module() const { return get<Module>(); }

namespace symbol {
constexpr const char* tvm_module_main = "__tvm_main__";
constexpr const char* tvm_ffi_symbol_prefix = "__tvm_ffi_";
}  // namespace symbol

}  // namespace runtime
using runtime::Module;
using runtime::ModuleNode;
}  // namespace tvm

#endif
