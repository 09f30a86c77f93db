// Objects: counted references to what the runtime, or a program in C++, makes. An object begins with the header of the ABI.
#ifndef TVM_RUNTIME_OBJECT_H_
#define TVM_RUNTIME_OBJECT_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "logging.h"

namespace tvm {
namespace runtime {

struct TypeIndex {
  enum : int32_t { kRoot = kTVMFFIObject, kDynamic = -1 };
};

// Base of all objects. A class of objects is made by make_object, and registers itself by TVM_DECLARE_BASE_OBJECT_INFO or
// TVM_DECLARE_FINAL_OBJECT_INFO under its `_type_key`.
class Object {
 public:
  static constexpr const char* _type_key = "runtime.Object";
  static constexpr int32_t _type_index = TypeIndex::kDynamic;
  static constexpr bool _type_final = false;

  Object() : header_{} {}
  Object(const Object&) : Object() {}
  Object& operator=(const Object&) { return *this; }

  uint32_t type_index() const { return static_cast<uint32_t>(header_.type_index); }
  std::string GetTypeKey() const { return TypeIndex2Key(type_index()); }
  size_t GetTypeKeyHash() const { return std::hash<std::string>()(GetTypeKey()); }
  template <typename T>
  bool IsInstance() const {
    if (std::is_same<T, Object>::value) return true;
    const uint32_t wanted = T::RuntimeTypeIndex();
    return type_index() == wanted || (!T::_type_final && DerivedFrom(type_index(), wanted));
  }
  bool unique() const { return use_count() == 1; }
  int use_count() const { return static_cast<int>(__atomic_load_n(&header_.combined_ref_count, __ATOMIC_RELAXED) & 0xffffffffu); }

  static std::string TypeIndex2Key(uint32_t index) {
    const TVMFFITypeInfo* info = ::tilewright::host_api().type_info(static_cast<int32_t>(index));
    ICHECK(info) << "ValueError: no type of objects has the index " << index;
    return ::tilewright::detail::text(info->type_key);
  }
  static uint32_t TypeKey2Index(const std::string& key) { return GetOrAllocRuntimeTypeIndex(key, TypeIndex::kDynamic, TypeIndex::kRoot); }
  static uint32_t RuntimeTypeIndex() { return TypeIndex::kRoot; }
  static uint32_t _GetOrAllocRuntimeTypeIndex() { return TypeIndex::kRoot; }
  static uint32_t GetOrAllocRuntimeTypeIndex(const std::string& key, int32_t static_index, uint32_t parent) {
    const TVMFFIByteArray name = ::tilewright::detail::bytes(key);
    return static_cast<uint32_t>(::tilewright::host_api().type_index(&name, static_index, 1, 0, 1, static_cast<int32_t>(parent)));
  }
  TVMFFIObject* header() const { return const_cast<TVMFFIObject*>(&header_); }

 private:
  static bool DerivedFrom(uint32_t child, uint32_t parent) {
    const TVMFFITypeInfo* info = ::tilewright::host_api().type_info(static_cast<int32_t>(child));
    for (int32_t i = 0; info && i < info->type_depth; ++i)
      if (info->type_ancestors[i]->type_index == static_cast<int32_t>(parent)) return true;
    return false;
  }

  TVMFFIObject header_;
};

// A reference to an object of a class; may be null.
template <typename T>
class ObjectPtr {
 public:
  ObjectPtr() = default;
  ObjectPtr(std::nullptr_t) {}
  explicit ObjectPtr(Object* object) : data_(object) { if (data_) ::tilewright::detail::keep(data_->header()); }
  static ObjectPtr TakeOver(Object* object) {
    ObjectPtr made;
    made.data_ = object;
    return made;
  }
  ObjectPtr(const ObjectPtr& o) : ObjectPtr(o.data_) {}
  ObjectPtr(ObjectPtr&& o) noexcept : data_(std::exchange(o.data_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_base_of<T, U>::value>>
  ObjectPtr(const ObjectPtr<U>& o) : ObjectPtr(o.data_) {}
  template <typename U, typename = std::enable_if_t<std::is_base_of<T, U>::value>>
  ObjectPtr(ObjectPtr<U>&& o) noexcept : data_(std::exchange(o.data_, nullptr)) {}
  ObjectPtr& operator=(ObjectPtr o) noexcept {
    std::swap(data_, o.data_);
    return *this;
  }
  ~ObjectPtr() { reset(); }
  T* get() const { return static_cast<T*>(data_); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  void swap(ObjectPtr& o) { std::swap(data_, o.data_); }
  void reset() { if (data_) ::tilewright::detail::drop(std::exchange(data_, nullptr)->header()); }
  int use_count() const { return data_ ? data_->use_count() : 0; }
  bool unique() const { return data_ && data_->unique(); }
  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(const ObjectPtr& o) const { return data_ == o.data_; }
  bool operator!=(const ObjectPtr& o) const { return data_ != o.data_; }
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return data_ != nullptr; }

 private:
  template <typename>
  friend class ObjectPtr;
  friend class ObjectRef;
  Object* data_ = nullptr;
};

template <typename T>
class Optional;

// Base of the classes by which programs hold objects.
class ObjectRef {
 public:
  using ContainerType = Object;
  static constexpr bool _type_is_nullable = true;

  ObjectRef() = default;
  explicit ObjectRef(ObjectPtr<Object> data) : data_(std::move(data)) {}
  bool same_as(const ObjectRef& o) const { return data_ == o.data_; }
  bool operator==(const ObjectRef& o) const { return data_ == o.data_; }
  bool operator!=(const ObjectRef& o) const { return data_ != o.data_; }
  bool operator<(const ObjectRef& o) const { return data_.get() < o.data_.get(); }
  bool defined() const { return data_ != nullptr; }
  const Object* get() const { return data_.get(); }
  const Object* operator->() const { return get(); }
  bool unique() const { return data_.unique(); }
  int use_count() const { return data_.use_count(); }
  // As an object of a class; null where it is none.
  template <typename T, typename = std::enable_if_t<std::is_base_of<Object, T>::value>>
  const T* as() const { return data_ != nullptr && data_->IsInstance<T>() ? static_cast<const T*>(data_.get()) : nullptr; }
  template <typename R, typename = std::enable_if_t<std::is_base_of<ObjectRef, R>::value>, typename = void>
  Optional<R> as() const;

 protected:
  template <typename B, typename T>
  friend ObjectPtr<B> GetDataPtr(const T& ref);
  Object* get_mutable() const { return data_.get(); }
  ObjectPtr<Object> data_;
};

template <typename B, typename T>
ObjectPtr<B> GetDataPtr(const T& ref) { return ObjectPtr<B>(ref.data_.get()); }
template <typename R, typename T>
R GetRef(const T* object) {
  static_assert(std::is_base_of<typename R::ContainerType, T>::value, "Can only cast to the ref of same container type");
  return R(ObjectPtr<Object>(const_cast<Object*>(static_cast<const Object*>(object))));
}
template <typename B, typename T>
ObjectPtr<B> GetObjectPtr(T* object) { return ObjectPtr<B>(static_cast<Object*>(object)); }

// The same object under a class of references that it is of; throws where it is not.
template <typename R, typename B>
R Downcast(B ref) {
  if (!ref.defined()) {
    ICHECK(R::_type_is_nullable) << "TypeError: Downcast from nullptr to not nullable reference of " << R::ContainerType::_type_key;
    return R(ObjectPtr<Object>(nullptr));
  }
  ICHECK(ref->template IsInstance<typename R::ContainerType>())
      << "TypeError: Downcast from " << ref->GetTypeKey() << " to " << R::ContainerType::_type_key << " failed.";
  return R(GetDataPtr<Object>(static_cast<const ObjectRef&>(ref)));
}

struct ObjectPtrHash {
  size_t operator()(const ObjectRef& a) const { return std::hash<const Object*>()(a.get()); }
  template <typename T>
  size_t operator()(const ObjectPtr<T>& a) const { return std::hash<const Object*>()(a.get()); }
};
struct ObjectPtrEqual {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const { return a.same_as(b); }
  template <typename T>
  bool operator()(const ObjectPtr<T>& a, const ObjectPtr<T>& b) const { return a == b; }
};

namespace detail {
// What a library does while it is loaded: an exception there would end the process, so it is told on the standard error output.
template <typename F>
bool at_load(F&& body) noexcept {
  try {
    body();
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tilewright: while a library was loaded: %s\n", e.what());
  }
  return false;
}
template <typename T>
bool register_type() noexcept {
  return at_load([] { T::_GetOrAllocRuntimeTypeIndex(); });
}
}  // namespace detail

}  // namespace runtime

using runtime::Downcast;
using runtime::GetObjectPtr;
using runtime::GetRef;
using runtime::Object;
using runtime::ObjectPtr;
using runtime::ObjectPtrEqual;
using runtime::ObjectPtrHash;
using runtime::ObjectRef;
}  // namespace tvm

#define TVM_STR_CONCAT_(x, y) x##y
#define TVM_STR_CONCAT(x, y) TVM_STR_CONCAT_(x, y)

// In the class of an object: others derive from it.
#define TVM_DECLARE_BASE_OBJECT_INFO(TypeName, ParentType)                                                             \
  static_assert(!ParentType::_type_final, "ParentObj marked as final");                                                \
  static uint32_t RuntimeTypeIndex() { return TypeName::_GetOrAllocRuntimeTypeIndex(); }                               \
  static uint32_t _GetOrAllocRuntimeTypeIndex() {                                                                      \
    static const uint32_t index = ::tvm::runtime::Object::GetOrAllocRuntimeTypeIndex(                                  \
        TypeName::_type_key, TypeName::_type_index, ParentType::_GetOrAllocRuntimeTypeIndex());                        \
    return index;                                                                                                      \
  }
// None derives from it.
#define TVM_DECLARE_FINAL_OBJECT_INFO(TypeName, ParentType)                                                            \
  static constexpr bool _type_final = true;                                                                            \
  TVM_DECLARE_BASE_OBJECT_INFO(TypeName, ParentType)
#define TVM_REGISTER_OBJECT_TYPE(TypeName)                                                                             \
  [[maybe_unused]] static const bool TVM_STR_CONCAT(tvm_object_type_, __COUNTER__) = ::tvm::runtime::detail::register_type<TypeName>()

#define TVM_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName)                                                              \
  TypeName(const TypeName& other) = default;                                                                           \
  TypeName(TypeName&& other) = default;                                                                                \
  TypeName& operator=(const TypeName& other) = default;                                                                \
  TypeName& operator=(TypeName&& other) = default;
#define TVM_DEFINE_OBJECT_REF_ACCESS_(ParentType, ObjectName, Const)                                                   \
  Const ObjectName* operator->() const { return static_cast<Const ObjectName*>(data_.get()); }                         \
  Const ObjectName* get() const { return operator->(); }                                                               \
  using ContainerType = ObjectName;
#define TVM_DEFINE_OBJECT_REF_METHODS_WITHOUT_DEFAULT_CONSTRUCTOR(TypeName, ParentType, ObjectName)                    \
  explicit TypeName(::tvm::runtime::ObjectPtr<::tvm::runtime::Object> n) : ParentType(n) {}                            \
  TVM_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName)                                                                    \
  TVM_DEFINE_OBJECT_REF_ACCESS_(ParentType, ObjectName, const)
#define TVM_DEFINE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName)                                                \
  TypeName() = default;                                                                                                \
  TVM_DEFINE_OBJECT_REF_METHODS_WITHOUT_DEFAULT_CONSTRUCTOR(TypeName, ParentType, ObjectName)
#define TVM_DEFINE_NOTNULLABLE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName)                                    \
  TVM_DEFINE_OBJECT_REF_METHODS_WITHOUT_DEFAULT_CONSTRUCTOR(TypeName, ParentType, ObjectName)                          \
  static constexpr bool _type_is_nullable = false;
#define TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName)                                        \
  TypeName() = default;                                                                                                \
  explicit TypeName(::tvm::runtime::ObjectPtr<::tvm::runtime::Object> n) : ParentType(n) {}                            \
  TVM_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName)                                                                    \
  TVM_DEFINE_OBJECT_REF_ACCESS_(ParentType, ObjectName, )
#define TVM_DEFINE_MUTABLE_NOTNULLABLE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName)                            \
  explicit TypeName(::tvm::runtime::ObjectPtr<::tvm::runtime::Object> n) : ParentType(n) {}                            \
  TVM_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName)                                                                    \
  TVM_DEFINE_OBJECT_REF_ACCESS_(ParentType, ObjectName, )                                                              \
  static constexpr bool _type_is_nullable = false;
#define TVM_DEFINE_OBJECT_REF_COW_METHOD(ObjectName)                                                                   \
  ObjectName* CopyOnWrite() {                                                                                          \
    ICHECK(data_ != nullptr);                                                                                          \
    if (!data_.unique()) data_ = ::tvm::runtime::make_object<ObjectName>(*(operator->()));                             \
    return static_cast<ObjectName*>(data_.get());                                                                      \
  }

#endif
