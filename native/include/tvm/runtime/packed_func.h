// What C++ code generators for classic TVM count on: TVM_DLL_EXPORT_TYPED_FUNC makes a function of tensors, numbers and lists
// of constants a packed function.
#ifndef TILEWRIGHT_PACKED_FUNC_H_
#define TILEWRIGHT_PACKED_FUNC_H_

#include <type_traits>
#include <utility>
#include <vector>

#include "c_runtime_api.h"

namespace tvm {
namespace runtime {

// A tensor that generated code keeps: one reference to the runtime's object.
class NDArray {
 public:
  NDArray() = default;
  explicit NDArray(const TVMFFIAny* v) : object_(v->type_index == kTVMFFITensor ? v->v_obj : nullptr) { keep(); }
  NDArray(const NDArray& o) : object_(o.object_) { keep(); }
  NDArray(NDArray&& o) noexcept : object_(o.object_) { o.object_ = nullptr; }
  NDArray& operator=(NDArray o) noexcept { std::swap(object_, o.object_); return *this; }
  ~NDArray() { drop(); }
  const DLTensor* operator->() const { return reinterpret_cast<const DLTensor*>(object_ + 1); }
  bool defined() const { return object_ != nullptr; }

 private:
  // Strong references are counted in the low half of the word, weak ones in the high half; all strong ones hold one weak.
  void keep() { if (object_) __atomic_add_fetch(&object_->combined_ref_count, 1, __ATOMIC_RELAXED); }
  void drop() {
    if (!object_ || static_cast<uint32_t>(__atomic_sub_fetch(&object_->combined_ref_count, 1, __ATOMIC_ACQ_REL)) != 0) return;
    object_->deleter(object_, kTVMFFIDeleteStrong);
    if (__atomic_sub_fetch(&object_->combined_ref_count, uint64_t{1} << 32, __ATOMIC_ACQ_REL) >> 32 == 0) object_->deleter(object_, kTVMFFIDeleteWeak);
  }
  TVMFFIObject* object_ = nullptr;
};

template <typename T>
class Array {
 public:
  size_t size() const { return items_.size(); }
  const T& operator[](size_t i) const { return items_[i]; }
  void push_back(T item) { items_.push_back(std::move(item)); }

 private:
  std::vector<T> items_;
};

namespace detail {

template <typename T, typename = void>
struct From;
template <>
struct From<DLTensor*> {
  static DLTensor* get(const TVMFFIAny* v) { return tw_tensor(v); }
};
template <>
struct From<NDArray> {
  static NDArray get(const TVMFFIAny* v) { return NDArray(v); }
};
template <>
struct From<Array<NDArray>> {
  static Array<NDArray> get(const TVMFFIAny* v) {
    Array<NDArray> all;
    for (int64_t i = 0; i < tw_list_size(v); ++i) all.push_back(From<NDArray>::get(tw_list_item(v, i)));
    return all;
  }
};
template <typename T>
struct From<T, std::enable_if_t<std::is_integral<T>::value>> {
  static T get(const TVMFFIAny* v) { return static_cast<T>(v->v_int64); }
};
template <typename T>
struct From<T, std::enable_if_t<std::is_floating_point<T>::value>> {
  static T get(const TVMFFIAny* v) { return static_cast<T>(v->type_index == kTVMFFIFloat ? v->v_float64 : static_cast<double>(v->v_int64)); }
};

template <typename R, typename... A, size_t... I>
int32_t call(R (*f)(A...), const TVMFFIAny* args, std::index_sequence<I...>) {
  (void)args;
  if constexpr (std::is_void<R>::value) {
    f(From<std::decay_t<A>>::get(&args[I])...);
    return 0;
  } else {
    return static_cast<int32_t>(f(From<std::decay_t<A>>::get(&args[I])...));
  }
}
template <typename R, typename... A>
int32_t call(R (*f)(A...), const TVMFFIAny* args, int32_t count) {
  if (count != static_cast<int32_t>(sizeof...(A))) return tw_error("TypeError", "a function of generated code was called with a wrong number of arguments");
  return call(f, args, std::index_sequence_for<A...>());
}

}  // namespace detail
}  // namespace runtime
}  // namespace tvm

#define TVM_DLL_EXPORT_TYPED_FUNC(ExportName, Function)                         \
  TW_PACKED_FUNC(ExportName) { return ::tvm::runtime::detail::call(Function, args, num_args); }

#endif
