// Making objects.
#ifndef TVM_RUNTIME_MEMORY_H_
#define TVM_RUNTIME_MEMORY_H_

#include <cstddef>
#include <new>
#include <utility>

#include "object.h"

namespace tvm {
namespace runtime {

namespace detail {
// Where a class has its Object: behind the table of virtual functions, if it has one.
template <typename T>
std::ptrdiff_t object_offset = 0;
}  // namespace detail

// A new object of a class.
template <typename T, typename... Args>
ObjectPtr<T> make_object(Args&&... args) {
  constexpr std::align_val_t alignment{alignof(T)};
  const auto type_index = static_cast<int32_t>(T::RuntimeTypeIndex());
  void* memory = ::operator new(sizeof(T), alignment);
  T* made;
  try {
    made = new (memory) T(std::forward<Args>(args)...);
  } catch (...) {
    ::operator delete(memory, alignment);
    throw;
  }
  Object* object = made;
  detail::object_offset<T> = reinterpret_cast<char*>(object) - static_cast<char*>(memory);
  *object->header() = {1 | (uint64_t{1} << 32), type_index, 0, [](void* self, int flags) {
                         void* whole = static_cast<char*>(self) - detail::object_offset<T>;
                         if (flags & kTVMFFIDeleteStrong) static_cast<T*>(whole)->T::~T();
                         if (flags & kTVMFFIDeleteWeak) ::operator delete(whole, std::align_val_t(alignof(T)));
                       }};
  return ObjectPtr<T>::TakeOver(made);
}

}  // namespace runtime
using runtime::make_object;
}  // namespace tvm

#endif
