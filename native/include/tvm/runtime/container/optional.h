// A reference, or nothing.
#ifndef TVM_RUNTIME_CONTAINER_OPTIONAL_H_
#define TVM_RUNTIME_CONTAINER_OPTIONAL_H_

#include "base.h"

namespace tvm {
namespace runtime {

struct NullOptType {};
constexpr NullOptType NullOpt{};

template <typename T>
class Optional : public ObjectRef {
 public:
  using ContainerType = typename T::ContainerType;
  static_assert(std::is_base_of<ObjectRef, T>::value, "Optional is only defined for ObjectRef.");
  Optional() = default;
  Optional(NullOptType) {}
  Optional(std::nullptr_t) {}
  explicit Optional(ObjectPtr<Object> object) : ObjectRef(std::move(object)) {}
  Optional(T value) : ObjectRef(std::move(value)) {}
  T value() const {
    ICHECK(data_ != nullptr) << "ValueError: an Optional without a value";
    return T(data_);
  }
  T value_or(T other) const { return data_ != nullptr ? T(data_) : other; }
  const ContainerType* get() const { return static_cast<const ContainerType*>(data_.get()); }
  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return data_ != nullptr; }
  bool operator==(const Optional& o) const { return (data_ == nullptr) == (o.data_ == nullptr) && (data_ == nullptr || value() == o.value()); }
  bool operator!=(const Optional& o) const { return !(*this == o); }
  bool operator==(const T& o) const { return data_ != nullptr && value() == o; }
  bool operator!=(const T& o) const { return !(*this == o); }
};

template <typename R, typename, typename>
Optional<R> ObjectRef::as() const {
  if (!as<typename R::ContainerType>()) return NullOpt;
  return R(data_);
}

namespace detail {
template <typename T>
struct Element<Optional<T>> {
  static Owned put(const Optional<T>& v) { return v.defined() ? Element<T>::put(v.value()) : Owned(); }
  static std::optional<Optional<T>> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFINone) return Optional<T>();
    std::optional<T> found = Element<T>::get(any);
    if (!found) return std::nullopt;
    return Optional<T>(*found);
  }
  static std::string name() { return "Optional<" + Element<T>::name() + ">"; }
};
}  // namespace detail
}  // namespace runtime
using runtime::NullOpt;
using runtime::Optional;
}  // namespace tvm

#endif
