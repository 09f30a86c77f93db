// Packed functions with a signature, and functions of a library that are packed functions.
#ifndef TVM_RUNTIME_TYPED_PACKED_FUNC_H_
#define TVM_RUNTIME_TYPED_PACKED_FUNC_H_

#include "../../tilewright/packed.h"
#include "packed_func.h"

namespace tvm {
namespace runtime {
namespace detail {

// The names of types in messages.
template <typename T, typename = void>
struct TypeText {
  static std::string name() { return Element<T>::name(); }
};
#define TVM_TYPE_TEXT(Type, text) \
  template <>                     \
  struct TypeText<Type> {         \
    static std::string name() { return text; } \
  };
TVM_TYPE_TEXT(void, "void")
TVM_TYPE_TEXT(void*, "handle")
TVM_TYPE_TEXT(DLTensor*, "DLTensor*")
TVM_TYPE_TEXT(const char*, "str")
TVM_TYPE_TEXT(Device, "DLDevice")
TVM_TYPE_TEXT(DLDataType, "DLDataType")
TVM_TYPE_TEXT(runtime::DataType, "DataType")
TVM_TYPE_TEXT(TVMArgs, "TVMArgs")
TVM_TYPE_TEXT(TVMArgValue, "TVMArgValue")
TVM_TYPE_TEXT(TVMRetValue, "TVMRetValue")
TVM_TYPE_TEXT(TVMByteArray, "bytes")
#undef TVM_TYPE_TEXT
template <typename T>
struct TypeText<T, std::enable_if_t<std::is_enum<T>::value>> {
  static std::string name() { return "int"; }
};
template <typename T>
struct TypeText<T*> {
  static std::string name() { return "handle"; }
};

// The argument of a type.
template <typename T, typename = void>
struct Argument {
  static T get(const TVMFFIAny& any) { return static_cast<T>(TVMArgValue(any)); }
};
template <>
struct Argument<TVMRetValue> {
  static TVMRetValue get(const TVMFFIAny& any) { return TVMRetValue(Owned::copy_of(any)); }
};
template <>
struct Argument<const char*> {
  static const char* get(const TVMFFIAny& any) {
    TVMFFIByteArray found;
    if (!::tilewright::detail::bytes_of(any, &found)) throw Error("TypeError", "expected str but got " + kind_of(any));
    return any.type_index == kTVMFFISmallStr ? any.v_bytes : found.data;
  }
};
template <>
struct Argument<const DLTensor*> {
  static const DLTensor* get(const TVMFFIAny& any) { return TVMArgValue(any).operator DLTensor*(); }
};
template <typename T>
struct Argument<T*> {
  static T* get(const TVMFFIAny& any) { return static_cast<T*>(TVMArgValue(any).operator void*()); }
};
template <>
struct Argument<DLTensor*> {
  static DLTensor* get(const TVMFFIAny& any) { return TVMArgValue(any).operator DLTensor*(); }
};
template <typename T>
struct Argument<T, std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, bool>::value>> {
  static T get(const TVMFFIAny& any) {
    const int64_t wide = TVMArgValue(any);
    const T value = static_cast<T>(wide);
    if (static_cast<int64_t>(value) != wide) throw Error("ValueError", std::to_string(wide) + " does not fit into " + TypeText<T>::name());
    return value;
  }
};

[[noreturn]] inline void wrong_count(const char* name, const std::string& signature, size_t wanted, int32_t given) {
  throw Error("TypeError", "Function " + (name + signature) + " expects " + std::to_string(wanted) + " arguments, but " + std::to_string(given) + " were provided.");
}
[[noreturn]] inline void wrong_argument(const char* name, const std::string& signature, size_t i, const Error& e) {
  throw Error(e.kind(), "In function " + (name + signature) + ": error while converting argument " + std::to_string(i) + ": " + e.what());
}

template <typename FType>
struct Signature;
template <typename R, typename... Args>
struct Signature<R(Args...)> {
  using Result = R;
  using FType = R(Args...);
  // "(0: int, 1: runtime.NDArray) -> int"
  static std::string text() {
    std::string all = "(";
    size_t i = 0;
    (void)i;
    ((all += (i ? ", " : "") + std::to_string(i) + ": " + TypeText<std::decay_t<Args>>::name(), ++i), ...);
    return all + ") -> " + TypeText<std::decay_t<R>>::name();
  }
  template <typename F>
  static void call(const char* name, const F& f, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    if (count != static_cast<int32_t>(sizeof...(Args))) wrong_count(name, text(), sizeof...(Args), count);
    TVMRetValue rv;
    call(name, f, args, &rv, std::index_sequence_for<Args...>());
    *result = rv.release().release();
  }

 private:
  template <typename F, size_t... I>
  static void call(const char* name, const F& f, const TVMFFIAny* args, TVMRetValue* rv, std::index_sequence<I...>) {
    (void)args;
    (void)name;
    // In braces arguments are converted in order.
    std::tuple<std::decay_t<Args>...> given{argument<std::decay_t<Args>>(name, args[I], I)...};
    if constexpr (std::is_void<R>::value) {
      (void)rv;
      f(std::get<I>(std::move(given))...);
    } else {
      *rv = f(std::get<I>(std::move(given))...);
    }
  }
  template <typename T>
  static T argument(const char* name, const TVMFFIAny& any, size_t i) {
    try {
      return Argument<T>::get(any);
    } catch (const Error& e) {
      wrong_argument(name, text(), i, e);
    }
  }
};

// The signature of a function or of a callable.
template <typename F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <typename R, typename... Args>
struct SignatureOf<R (*)(Args...)> : Signature<R(Args...)> {};
template <typename R, typename... Args>
struct SignatureOf<R(Args...)> : Signature<R(Args...)> {};
template <typename C, typename R, typename... Args>
struct SignatureOf<R (C::*)(Args...)> : Signature<R(Args...)> {};
template <typename C, typename R, typename... Args>
struct SignatureOf<R (C::*)(Args...) const> : Signature<R(Args...)> {};

// A packed function whose arguments are converted for the callable.
template <typename S, typename F>
PackedFunc typed(F f, std::string name) {
  ::tilewright::detail::Held made = ::tilewright::detail::make_function(
      [f = std::move(f), name = std::move(name)](const TVMFFIAny* args, int32_t count, TVMFFIAny* result) { S::call(name.c_str(), f, args, count, result); });
  return PackedFunc(ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(made.release())));
}

}  // namespace detail

// A packed function of a signature, such as TypedPackedFunc<int(NDArray, std::string)>.
template <typename R, typename... Args>
class TypedPackedFunc<R(Args...)> {
 public:
  using TSelf = TypedPackedFunc;
  TypedPackedFunc() = default;
  TypedPackedFunc(std::nullptr_t) {}
  TypedPackedFunc(PackedFunc packed) : packed_(std::move(packed)) {}
  TypedPackedFunc(const TVMRetValue& value) : packed_(static_cast<PackedFunc>(value)) {}
  TypedPackedFunc(const TVMArgValue& value) : packed_(static_cast<PackedFunc>(value)) {}
  template <typename F, typename = std::enable_if_t<std::is_invocable_r<R, F, Args...>::value && !std::is_base_of<ObjectRef, std::decay_t<F>>::value &&
                                                    !std::is_base_of<TVMPODValue_, std::decay_t<F>>::value>>
  TypedPackedFunc(F f, std::string name = "<anonymous>") {
    packed_ = detail::typed<detail::Signature<R(Args...)>>(std::move(f), std::move(name));
  }
  R operator()(Args... args) const {
    if constexpr (std::is_void<R>::value) packed_(std::forward<Args>(args)...);
    else return static_cast<R>(packed_(std::forward<Args>(args)...));
  }
  operator PackedFunc() const { return packed_; }
  const PackedFunc& packed() const { return packed_; }
  bool operator==(std::nullptr_t) const { return packed_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return packed_ != nullptr; }

 private:
  PackedFunc packed_;
};

namespace detail {
template <typename FType>
struct TypeText<TypedPackedFunc<FType>> {
  static std::string name() { return "TypedPackedFunc<" + Signature<FType>::text() + ">"; }
};

// Code of a library tells its errors by the context that its loader filled: it may be one without this runtime.
inline int32_t tell(const Error& e) {
  if (e.raised() || !__tilewright_context.set_error) ::tilewright::detail::raise(e);
  else __tilewright_context.set_error(e.kind().c_str(), e.what());
  return -1;
}
template <typename F>
int32_t told(F&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    return tell(e);
  } catch (const std::exception& e) {
    return tell(Error(std::string(e.what())));
  }
}
template <typename F>
int32_t exported(const char* name, const F& f, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) noexcept {
  return told([&] { SignatureOf<std::decay_t<F>>::call(name, f, args, count, result); });
}
template <typename F>
int32_t exported_packed(const F& f, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) noexcept {
  return told([&] { call_older(f, args, count, result); });
}

// Methods of a module as its functions, which keep the module.
template <typename T, typename B, typename R, typename... Args>
PackedFunc method(const ObjectPtr<Object>& self, T* module, R (B::*f)(Args...), const char* name) {
  return typed<Signature<R(Args...)>>([self, module, f](Args... args) -> R { return (module->*f)(std::forward<Args>(args)...); }, name);
}
template <typename T, typename B, typename R, typename... Args>
PackedFunc method(const ObjectPtr<Object>& self, T* module, R (B::*f)(Args...) const, const char* name) {
  return typed<Signature<R(Args...)>>([self, module, f](Args... args) -> R { return (module->*f)(std::forward<Args>(args)...); }, name);
}
template <typename T, typename F>
PackedFunc packed_method(const ObjectPtr<Object>& self, T* module, F f) {
  return PackedFunc([self, module, f](TVMArgs args, TVMRetValue* rv) { (module->*f)(args, rv); });
}
}  // namespace detail
}  // namespace runtime

using runtime::TypedPackedFunc;
}  // namespace tvm

// A function, or a callable without overloads, becomes the packed function `ExportName` of the library that it is compiled into.
#define TVM_DLL_EXPORT_TYPED_FUNC(ExportName, Function) \
  TW_PACKED_FUNC(ExportName) { return ::tvm::runtime::detail::exported(#ExportName, Function, args, num_args, result); }
// The same of a callable of (TVMArgs, TVMRetValue*).
#define TVM_DLL_EXPORT_PACKED_FUNC(ExportName, Function) \
  TW_PACKED_FUNC(ExportName) { return ::tvm::runtime::detail::exported_packed(Function, args, num_args, result); }

// In a class that derives from ModuleNode, one after another: its kind, its functions by name, the end.
#define TVM_MODULE_VTABLE_BEGIN(TypeKey) \
  const char* type_key() const final { return TypeKey; } \
  ::tvm::runtime::PackedFunc GetFunction([[maybe_unused]] const ::tvm::runtime::String& _name, \
                                         [[maybe_unused]] const ::tvm::runtime::ObjectPtr<::tvm::runtime::Object>& _self) override {
#define TVM_MODULE_VTABLE_ENTRY(Name, MemFunc) \
  if (_name == Name) return ::tvm::runtime::detail::method(_self, this, MemFunc, Name)
#define TVM_MODULE_VTABLE_ENTRY_PACKED(Name, MemFunc) \
  if (_name == Name) return ::tvm::runtime::detail::packed_method(_self, this, MemFunc)
#define TVM_MODULE_VTABLE_END() \
  return nullptr;               \
  }
// Other names are the method's, which takes the name.
#define TVM_MODULE_VTABLE_END_WITH_DEFAULT(MemFunc) \
  return (this->*(MemFunc))(_name);                 \
  }

#endif
