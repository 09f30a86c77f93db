// How values lie in the calling convention, as elements of containers and as arguments.
#ifndef TVM_RUNTIME_CONTAINER_BASE_H_
#define TVM_RUNTIME_CONTAINER_BASE_H_

#include <optional>
#include <string>
#include <type_traits>

#include "../data_type.h"
#include "../memory.h"

namespace tvm {
namespace runtime {
namespace detail {

using ::tilewright::detail::Owned;

// A lock for a few instructions; <mutex> takes longer to compile than all of this.
class Lock {
 public:
  void take() { while (flag_.test_and_set(std::memory_order_acquire)) {} }
  void give() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};
class Hold {
 public:
  explicit Hold(Lock& lock) : lock_(lock) { lock_.take(); }
  Hold(const Hold&) = delete;
  ~Hold() { lock_.give(); }

 private:
  Lock& lock_;
};

// What a value is, for messages.
inline std::string kind_of(const TVMFFIAny& any) {
  switch (any.type_index) {
    case kTVMFFINone: return "NULL";
    case kTVMFFIInt: return "int";
    case kTVMFFIBool: return "bool";
    case kTVMFFIFloat: return "float";
    case kTVMFFIOpaquePtr: return "handle";
    case kTVMFFIDataType: return "DLDataType";
    case kTVMFFIDevice: return "DLDevice";
    case kTVMFFIDLTensorPtr: return "ArrayHandle";
    case kTVMFFIRawStr: case kTVMFFISmallStr: case kTVMFFIStr: return "str";
    case kTVMFFIByteArrayPtr: case kTVMFFISmallBytes: case kTVMFFIBytes: return "bytes";
    case kTVMFFIObjectRValueRef: return "ObjectRValueRefArg";
    case kTVMFFIFunction: return "FunctionHandle";
    case kTVMFFITensor: return "NDArrayContainer";
    case kTVMFFIModule: return "ModuleHandle";
    case kTVMFFIArray: case kTVMFFIList: return "Array";
    case kTVMFFIShape: return "runtime.ShapeTuple";
    case kTVMFFIOpaquePyObject: return "an object of Python";
    default: return ::tilewright::detail::is_object(any) ? Object::TypeIndex2Key(static_cast<uint32_t>(any.type_index)) : "a value of type index " + std::to_string(any.type_index);
  }
}

// The same object in the calling convention.
inline Owned shared(const ObjectRef& ref) {
  const ObjectPtr<Object> object = GetDataPtr<Object>(ref);
  if (object == nullptr) return Owned();
  ::tilewright::detail::keep(object->header());
  return Owned(::tilewright::detail::of_object(object->header()));
}

// `put`: a T as an owned value. `get`: the T of a view, or nothing where it is of another type. `name`: the type, for messages.
// Here of references to objects that are the same objects in the calling convention; other classes have an Element of their own.
template <typename R, typename = void>
struct Element {
  static_assert(std::is_base_of<ObjectRef, R>::value, "values are references to objects, numbers and texts");
  static Owned put(const R& ref) { return shared(ref); }
  static std::optional<R> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFINone) {
      if constexpr (R::_type_is_nullable) return R(ObjectPtr<Object>(nullptr));
      return std::nullopt;
    }
    if (!::tilewright::detail::is_object(any)) return std::nullopt;
    auto* object = reinterpret_cast<Object*>(any.v_obj);
    if (!object->IsInstance<typename R::ContainerType>()) return std::nullopt;
    return R(ObjectPtr<Object>(object));
  }
  static std::string name() { return R::ContainerType::_type_key; }
};
// References that say nothing of their class (module.h).
template <>
struct Element<ObjectRef> {
  static inline Owned put(const ObjectRef& ref);
  static inline std::optional<ObjectRef> get(const TVMFFIAny& any);
  static std::string name() { return Object::_type_key; }
};
template <typename T>
struct Element<T, std::enable_if_t<std::is_integral<T>::value>> {
  static Owned put(T v) { return Owned(::tilewright::detail::of_int(static_cast<int64_t>(v), std::is_same<T, bool>::value ? kTVMFFIBool : kTVMFFIInt)); }
  static std::optional<T> get(const TVMFFIAny& any) {
    if (any.type_index != kTVMFFIInt && any.type_index != kTVMFFIBool) return std::nullopt;
    return static_cast<T>(any.v_int64);
  }
  static std::string name() {
    if (std::is_same<T, bool>::value) return "bool";
    return std::is_same<T, int>::value ? "int" : (std::is_signed<T>::value ? "int" : "uint") + std::to_string(sizeof(T) * 8) + "_t";
  }
};
template <typename T>
struct Element<T, std::enable_if_t<std::is_floating_point<T>::value>> {
  static Owned put(T v) { return Owned(::tilewright::detail::of_float(static_cast<double>(v))); }
  static std::optional<T> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFIFloat) return static_cast<T>(any.v_float64);
    if (any.type_index == kTVMFFIInt) return static_cast<T>(any.v_int64);
    return std::nullopt;
  }
  static std::string name() { return sizeof(T) == 4 ? "float" : "double"; }
};
template <>
struct Element<std::string> {
  static Owned put(const std::string& v) { return Owned(::tilewright::detail::of_text(v, kTVMFFIStr)); }
  static std::optional<std::string> get(const TVMFFIAny& any) {
    TVMFFIByteArray found;
    if (!::tilewright::detail::bytes_of(any, &found)) return std::nullopt;
    return ::tilewright::detail::text(found);
  }
  static std::string name() { return "str"; }
};

template <typename T>
T element_of(const TVMFFIAny& any, const std::string& where) {
  std::optional<T> found = Element<T>::get(any);
  ICHECK(found) << "TypeError: " << where << " is expected to be " << Element<T>::name() << ", but is " << kind_of(any);
  return *std::move(found);
}

}  // namespace detail
}  // namespace runtime
}  // namespace tvm

#endif
