// Making objects.
#ifndef TVM_RUNTIME_MEMORY_H_
#define TVM_RUNTIME_MEMORY_H_

#include <new>
#include <utility>

#include "object.h"

namespace tvm {
namespace runtime {

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
  // The header lies where the class has its Object: behind the table of virtual functions, if it has one.
  *static_cast<Object*>(made)->header() = {1 | (uint64_t{1} << 32), type_index, 0, [](void* self, int flags) {
                                             T* object = static_cast<T*>(reinterpret_cast<Object*>(self));
                                             if (flags & kTVMFFIDeleteStrong) object->~T();
                                             if (flags & kTVMFFIDeleteWeak) ::operator delete(static_cast<void*>(object), std::align_val_t(alignof(T)));
                                           }};
  return ObjectPtr<T>::TakeOver(made);
}

}  // namespace runtime
using runtime::make_object;
}  // namespace tvm

#endif
