// Tuples and values of data types, as programs of the virtual machine take and return them.
#ifndef TVM_RUNTIME_CONTAINER_ADT_H_
#define TVM_RUNTIME_CONTAINER_ADT_H_

#include <initializer_list>
#include <vector>

#include "array.h"

namespace tvm {
namespace runtime {

class ADTObj : public Object {
 public:
  int32_t tag;
  uint32_t size;
  static constexpr const char* _type_key = "tilewright.ADT";
  static constexpr bool _type_final = true;
  static uint32_t RuntimeTypeIndex() {
    static const auto index = static_cast<uint32_t>(::tilewright::detail::call_global("runtime.ADTTypeIndex").any().v_int64);
    return index;
  }
};

class ADT : public ObjectRef {
 public:
  // tag: the place of the constructor in the definition of the type, from 0.
  ADT(int32_t tag, const std::vector<ObjectRef>& fields) : ADT(tag, fields.begin(), fields.end()) {}
  ADT(int32_t tag, std::initializer_list<ObjectRef> fields) : ADT(tag, fields.begin(), fields.end()) {}
  template <typename Iterator>
  ADT(int32_t tag, Iterator begin, Iterator end) {
    std::vector<detail::Owned> held{detail::Owned(::tilewright::detail::of_int(tag))};
    for (; begin != end; ++begin) held.push_back(detail::Element<ObjectRef>::put(*begin));
    const auto make = ::tilewright::detail::find_global("runtime.ADT");
    // An owned value lies in memory as its view does.
    detail::Owned made = ::tilewright::detail::call(make.get(), &held[0].any(), static_cast<int32_t>(held.size()));
    data_ = ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(made.release().v_obj));
  }
  TVM_DEFINE_OBJECT_REF_METHODS(ADT, ObjectRef, ADTObj)

  template <typename... Fields>
  static ADT Tuple(const Fields&... fields) { return ADT(0, {static_cast<ObjectRef>(fields)...}); }
  static ADT Tuple(const std::vector<ObjectRef>& fields) { return ADT(0, fields); }
  int32_t tag() const { return get()->tag; }
  size_t size() const { return get()->size; }
  ObjectRef operator[](size_t i) const {
    const TVMFFIAny self = ::tilewright::detail::of_object(data_ != nullptr ? data_->header() : nullptr);
    const detail::Owned field = ::tilewright::detail::call_global("runtime.GetADTFields", self, ::tilewright::detail::of_int(static_cast<int64_t>(i)));
    return detail::element_of<ObjectRef>(field.any(), "field " + std::to_string(i));
  }
};

}  // namespace runtime
using runtime::ADT;
}  // namespace tvm

#include "../packed_func.h"

#endif
