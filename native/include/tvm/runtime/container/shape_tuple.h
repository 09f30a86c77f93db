// Extents of tensors as objects.
#ifndef TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_
#define TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_

#include <initializer_list>
#include <ostream>
#include <vector>

#include "base.h"

namespace tvm {
namespace runtime {

class ShapeTupleObj : public Object {
 public:
  using index_type = int64_t;
  const index_type* data;
  uint64_t size;
  index_type Product() const {
    index_type all = 1;
    for (uint64_t i = 0; i < size; ++i) all *= data[i];
    return all;
  }
  static constexpr const char* _type_key = "runtime.ShapeTuple";
  static constexpr bool _type_final = true;
  static uint32_t RuntimeTypeIndex() { return kTVMFFIShape; }
};

namespace detail {
struct ShapeContent {
  TVMFFIObject header;
  TVMFFIShapeCell cell;
  std::vector<int64_t> values;
  explicit ShapeContent(std::vector<int64_t> v) : header(), values(std::move(v)) { cell = {values.data(), values.size()}; }
};
}  // namespace detail

class ShapeTuple : public ObjectRef {
 public:
  using index_type = ShapeTupleObj::index_type;
  ShapeTuple() : ShapeTuple(std::vector<index_type>()) {}
  ShapeTuple(std::vector<index_type> shape)
      : ObjectRef(ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(
            ::tilewright::detail::make<detail::ShapeContent>(kTVMFFIShape, std::move(shape))))) {}
  ShapeTuple(std::initializer_list<index_type> shape) : ShapeTuple(std::vector<index_type>(shape)) {}
  template <typename Iterator>
  ShapeTuple(Iterator begin, Iterator end) : ShapeTuple(std::vector<index_type>(begin, end)) {}
  TVM_DEFINE_OBJECT_REF_METHODS_WITHOUT_DEFAULT_CONSTRUCTOR(ShapeTuple, ObjectRef, ShapeTupleObj)

  const index_type* data() const { return get()->data; }
  size_t size() const { return get()->size; }
  bool empty() const { return size() == 0; }
  index_type operator[](size_t i) const { return at(i); }
  index_type at(size_t i) const {
    ICHECK(i < size()) << "IndexError: dimension " << i << " of a shape of " << size();
    return data()[i];
  }
  index_type front() const { return at(0); }
  index_type back() const { return at(size() - 1); }
  index_type Product() const { return get()->Product(); }
  const index_type* begin() const { return data(); }
  const index_type* end() const { return data() + size(); }
};
using Shape = ShapeTuple;
using IntTuple = ShapeTuple;

inline std::ostream& operator<<(std::ostream& os, const ShapeTuple& shape) {
  os << '[';
  for (size_t i = 0; i < shape.size(); ++i) os << (i ? ", " : "") << shape[i];
  return os << ']';
}

namespace detail {
template <>
struct Element<ShapeTuple> {
  static Owned put(const ShapeTuple& shape) { return shared(shape); }
  // A list of integers is one too.
  static std::optional<ShapeTuple> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFIShape) return ShapeTuple(ObjectPtr<Object>(reinterpret_cast<Object*>(any.v_obj)));
    if (any.type_index != kTVMFFIArray && any.type_index != kTVMFFIList) return std::nullopt;
    const auto* cell = ::tilewright::detail::content<TVMFFISeqCell>(any.v_obj);
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < cell->size; ++i) {
      const TVMFFIAny& item = static_cast<const TVMFFIAny*>(cell->data)[i];
      if (item.type_index != kTVMFFIInt) return std::nullopt;
      shape.push_back(item.v_int64);
    }
    return ShapeTuple(std::move(shape));
  }
  static std::string name() { return ShapeTupleObj::_type_key; }
};
}  // namespace detail
}  // namespace runtime
using runtime::IntTuple;
using runtime::ShapeTuple;
using runtime::ShapeTupleObj;
}  // namespace tvm

#endif
