// Functions by name, for C++, Python and every other language in the process.
#ifndef TVM_RUNTIME_REGISTRY_H_
#define TVM_RUNTIME_REGISTRY_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "packed_func.h"

namespace tvm {
namespace runtime {

// The name of a function, and what makes it one.
class Registry {
 public:
  Registry& set_body(PackedFunc f) {
    auto set = [&] {
      const TVMFFIByteArray key = ::tilewright::detail::bytes(name_);
      ::tilewright::detail::check(::tilewright::host_api().set_global(&key, detail::Element<PackedFunc>::put(f).any().v_ptr, can_override_));
    };
    // An exception while a library is loaded would end the process.
    if (at_load_) detail::at_load(set);
    else set();
    return *this;
  }
  Registry& set_body(void (*f)(TVMArgs, TVMRetValue*)) { return make([&] { return PackedFunc(f); }); }
  template <typename F, typename = std::enable_if_t<!std::is_base_of<ObjectRef, F>::value>>
  Registry& set_body(F f) { return make([&] { return PackedFunc(std::move(f)); }); }
  // Of a function or callable without overloads: arguments are converted and checked.
  template <typename F>
  Registry& set_body_typed(F f) {
    using Signature = detail::SignatureOf<std::decay_t<F>>;
    return make([&] { return detail::typed<Signature>(std::move(f), name_); });
  }
  // Of a method: the object is the first argument.
  template <typename T, typename R, typename... Args>
  Registry& set_body_method(R (T::*f)(Args...)) {
    return set_body_typed([f](T target, Args... args) -> R { return (target.*f)(args...); });
  }
  template <typename T, typename R, typename... Args>
  Registry& set_body_method(R (T::*f)(Args...) const) {
    return set_body_typed([f](const T& target, Args... args) -> R { return (target.*f)(args...); });
  }
  // Of a method of the node that a reference refers to.
  template <typename TObjectRef, typename TNode, typename R, typename... Args, typename = std::enable_if_t<std::is_base_of<ObjectRef, TObjectRef>::value>>
  Registry& set_body_method(R (TNode::*f)(Args...)) {
    return set_body_typed([f](TObjectRef ref, Args... args) -> R { return (const_cast<TNode*>(static_cast<const TNode*>(ref.operator->()))->*f)(args...); });
  }
  template <typename TObjectRef, typename TNode, typename R, typename... Args, typename = std::enable_if_t<std::is_base_of<ObjectRef, TObjectRef>::value>>
  Registry& set_body_method(R (TNode::*f)(Args...) const) {
    return set_body_typed([f](TObjectRef ref, Args... args) -> R { return (static_cast<const TNode*>(ref.operator->())->*f)(args...); });
  }

  // A name whose function is set next. Throws there if it has one that may not be replaced.
  static Registry& Register(const std::string& name, bool can_override = false) { return entry(name, can_override, false); }
  static Registry& RegisterAtLoad(const std::string& name) { return entry(name, false, true); }
  static bool Remove(const std::string& name) {
    const detail::Owned key = detail::Element<std::string>::put(name);
    return ::tilewright::detail::call_global("ffi.FunctionRemoveGlobal", key.any()).any().v_int64 != 0;
  }
  // The function of a name, or null. The pointer is valid as long as the function is not replaced.
  static const PackedFunc* Get(const std::string& name) {
    detail::Held found = ::tilewright::detail::find_global(name);
    detail::Hold hold(lock());
    PackedFunc& slot = known()[name];
    TVMFFIObject* object = found.get();
    if (!object) return nullptr;
    if (slot == nullptr || slot.ObjectRef::get()->header() != object) slot = PackedFunc(ObjectPtr<Object>(reinterpret_cast<Object*>(object)));
    return &slot;
  }
  static std::vector<String> ListNames() {
    const detail::Owned names = ::tilewright::detail::call_global("ffi.FunctionListGlobalNames");
    std::vector<String> all;
    for (const String& name : detail::element_of<Array<String>>(names.any(), "the names")) all.push_back(name);
    return all;
  }

 private:
  template <typename F>
  Registry& make(F&& body) {
    PackedFunc f;
    if (!at_load_) return set_body(body());
    return detail::at_load([&] { f = body(); }) ? set_body(std::move(f)) : *this;
  }
  static Registry& entry(const std::string& name, bool can_override, bool at_load) {
    static auto* entries = new std::map<std::string, Registry>;
    detail::Hold hold(lock());
    Registry& made = (*entries)[name];
    made.name_ = name;
    made.can_override_ = can_override;
    made.at_load_ = at_load;
    return made;
  }
  static detail::Lock& lock() {
    static detail::Lock held;
    return held;
  }
  static std::map<std::string, PackedFunc>& known() {
    static auto* held = new std::map<std::string, PackedFunc>;  // outlives every static destructor that may still ask
    return *held;
  }
  std::string name_;
  bool can_override_ = false, at_load_ = false;
};

}  // namespace runtime
using runtime::Registry;
}  // namespace tvm

// Registers a function while the library is loaded: TVM_REGISTER_GLOBAL("name").set_body_typed(f);
#define TVM_REGISTER_GLOBAL(OpName)                                                                             \
  [[maybe_unused]] static ::tvm::runtime::Registry& TVM_STR_CONCAT(tvm_registered_, __COUNTER__) =              \
      ::tvm::runtime::Registry::RegisterAtLoad(OpName)
// In an expression that cannot name a function: makes one function pointer of a lambda.
#define TVM_STRINGIZE_DETAIL(x) #x
#define TVM_STRINGIZE(x) TVM_STRINGIZE_DETAIL(x)

#endif
