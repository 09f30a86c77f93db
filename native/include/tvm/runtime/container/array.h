// Lists, copied when one of several holders changes them. Elements are references to objects; numbers and texts are allowed too.
#ifndef TVM_RUNTIME_CONTAINER_ARRAY_H_
#define TVM_RUNTIME_CONTAINER_ARRAY_H_

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <vector>

#include "optional.h"

namespace tvm {
namespace runtime {

namespace detail {
// Elements in order; what it points to is made when it is asked for.
template <typename T>
class ArrayIterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = const T*;
  using reference = T;
  ArrayIterator() = default;
  ArrayIterator(const TVMFFIAny* items, size_t at) : items_(items), at_(at) {}
  T operator*() const { return element_of<T>(items_[at_], "Array[" + std::to_string(at_) + "]"); }
  T operator[](difference_type n) const { return *(*this + n); }
  ArrayIterator& operator++() { return ++at_, *this; }
  ArrayIterator operator++(int) { return ArrayIterator(items_, at_++); }
  ArrayIterator& operator--() { return --at_, *this; }
  ArrayIterator operator--(int) { return ArrayIterator(items_, at_--); }
  ArrayIterator& operator+=(difference_type n) { return at_ += static_cast<size_t>(n), *this; }
  ArrayIterator& operator-=(difference_type n) { return at_ -= static_cast<size_t>(n), *this; }
  ArrayIterator operator+(difference_type n) const { return ArrayIterator(items_, at_ + static_cast<size_t>(n)); }
  ArrayIterator operator-(difference_type n) const { return ArrayIterator(items_, at_ - static_cast<size_t>(n)); }
  difference_type operator-(const ArrayIterator& o) const { return static_cast<difference_type>(at_) - static_cast<difference_type>(o.at_); }
  bool operator==(const ArrayIterator& o) const { return at_ == o.at_; }
  bool operator!=(const ArrayIterator& o) const { return at_ != o.at_; }
  bool operator<(const ArrayIterator& o) const { return at_ < o.at_; }

 private:
  const TVMFFIAny* items_ = nullptr;
  size_t at_ = 0;
};
}  // namespace detail

// A list of the ABI: its content is a TVMFFISeqCell.
class ArrayNode : public Object {
 public:
  TVMFFISeqCell cell;
  size_t size() const { return static_cast<size_t>(cell.size); }
  const TVMFFIAny* items() const { return static_cast<const TVMFFIAny*>(cell.data); }
  detail::ArrayIterator<ObjectRef> begin() const { return {items(), 0}; }
  detail::ArrayIterator<ObjectRef> end() const { return {items(), size()}; }
  ObjectRef at(int64_t i) const { return *(begin() + place(i)); }
  ObjectRef operator[](int64_t i) const { return at(i); }
  int64_t place(int64_t i) const {
    ICHECK(i >= 0 && static_cast<size_t>(i) < size()) << "IndexError: indexing " << i << " on an array of size " << size();
    return i;
  }
  static constexpr const char* _type_key = "Array";
  static constexpr bool _type_final = true;
  static uint32_t RuntimeTypeIndex() { return kTVMFFIArray; }
};

namespace detail {
struct ArrayContent {
  TVMFFIObject header;
  TVMFFISeqCell cell{nullptr, 0, 0, nullptr};
  std::vector<Owned> values;
  explicit ArrayContent(std::vector<Owned> v) : header(), values(std::move(v)) { changed(); }
  void changed() {
    static_assert(sizeof(Owned) == sizeof(TVMFFIAny), "elements lie as the ABI has them");
    cell.data = values.data();
    cell.size = static_cast<int64_t>(values.size());
    cell.capacity = static_cast<int64_t>(values.capacity());
  }
};
inline ObjectPtr<Object> make_array(std::vector<Owned> values) {
  return ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(::tilewright::detail::make<ArrayContent>(kTVMFFIArray, std::move(values))));
}
}  // namespace detail

template <typename T>
class Array : public ObjectRef {
 public:
  using value_type = T;
  using ContainerType = ArrayNode;

  Array() : ObjectRef(detail::make_array({})) {}
  explicit Array(ObjectPtr<Object> object) : ObjectRef(std::move(object)) {}
  Array(std::initializer_list<T> items) : Array(items.begin(), items.end()) {}
  Array(const std::vector<T>& items) : Array(items.begin(), items.end()) {}
  explicit Array(size_t count, const T& value) : Array(std::vector<T>(count, value)) {}
  template <typename Iterator>
  Array(Iterator begin, Iterator end) {
    std::vector<detail::Owned> values;
    for (; begin != end; ++begin) values.push_back(detail::Element<T>::put(*begin));
    data_ = detail::make_array(std::move(values));
  }
  // Of a list whose elements are of a class that derives from this one's: the same list.
  template <typename U, typename = std::enable_if_t<std::is_base_of<T, U>::value && std::is_base_of<ObjectRef, T>::value && !std::is_same<T, U>::value>>
  Array(const Array<U>& other) : ObjectRef(other) {}

  size_t size() const { return data_ != nullptr ? node()->size() : 0; }
  size_t capacity() const { return data_ != nullptr ? static_cast<size_t>(node()->cell.capacity) : 0; }
  bool empty() const { return size() == 0; }
  T operator[](int64_t i) const {
    ICHECK(i >= 0 && static_cast<size_t>(i) < size()) << "IndexError: indexing " << i << " on an array of size " << size();
    return *(begin() + i);
  }
  T front() const { return (*this)[0]; }
  T back() const { return (*this)[static_cast<int64_t>(size()) - 1]; }
  const ArrayNode* GetArrayNode() const { return node(); }

  void push_back(const T& v) { change([&](auto& all) { all.push_back(detail::Element<T>::put(v)); }); }
  void pop_back() {
    ICHECK(!empty()) << "IndexError: cannot pop_back because array is empty";
    change([](auto& all) { all.pop_back(); });
  }
  void Set(int64_t i, const T& v) {
    ICHECK(i >= 0 && static_cast<size_t>(i) < size()) << "IndexError: indexing " << i << " on an array of size " << size();
    change([&](auto& all) { all[static_cast<size_t>(i)] = detail::Element<T>::put(v); });
  }
  void resize(int64_t n) {
    ICHECK_GE(n, 0) << "ValueError: cannot resize an Array to negative size";
    change([&](auto& all) { all.resize(static_cast<size_t>(n)); });
  }
  void reserve(int64_t n) { change([&](auto& all) { all.reserve(static_cast<size_t>(n)); }); }
  void clear() { change([](auto& all) { all.clear(); }); }
  using iterator = detail::ArrayIterator<T>;
  void insert(iterator at, const T& v) { insert(at, &v, &v + 1); }
  template <typename Iterator>
  void insert(iterator at, Iterator first, Iterator last) {
    const Array added(first, last);  // they may be elements of this list
    const std::ptrdiff_t place = at - begin();
    change([&](auto& all) {
      for (size_t i = 0; i < added.size(); ++i)
        all.insert(all.begin() + place + static_cast<std::ptrdiff_t>(i), detail::Owned::copy_of(added.node()->items()[i]));
    });
  }
  void erase(iterator at) {
    ICHECK(!empty()) << "IndexError: cannot erase because array is empty";
    erase(at, at + 1);
  }
  void erase(iterator first, iterator last) {
    const std::ptrdiff_t from = first - begin(), to = last - begin();
    ICHECK(0 <= from && from <= to && to <= static_cast<std::ptrdiff_t>(size()))
        << "IndexError: cannot erase elements from " << from << " to " << to << " of an array of size " << size();
    change([&](auto& all) { all.erase(all.begin() + from, all.begin() + to); });
  }
  template <typename Iterator>
  void Assign(Iterator first, Iterator last) { *this = Array(first, last); }
  // Each element becomes what the function makes of it.
  template <typename F>
  void MutateByApply(F fmutate) { *this = Map(fmutate); }

  using const_iterator = iterator;
  using reverse_iterator = std::reverse_iterator<iterator>;
  iterator begin() const { return iterator(data_ != nullptr ? node()->items() : nullptr, 0); }
  iterator end() const { return begin() + static_cast<std::ptrdiff_t>(size()); }
  reverse_iterator rbegin() const { return reverse_iterator(end()); }
  reverse_iterator rend() const { return reverse_iterator(begin()); }

  template <typename F, typename U = std::invoke_result_t<F, T>>
  Array<U> Map(F fmap) const {
    Array<U> made;
    for (const T& item : *this) made.push_back(fmap(item));
    return made;
  }

 private:
  const ArrayNode* node() const { return static_cast<const ArrayNode*>(data_.get()); }
  template <typename F>
  void change(F&& body) {
    std::vector<detail::Owned> all;
    if (data_ != nullptr) {
      auto* content = reinterpret_cast<detail::ArrayContent*>(data_->header());
      if (unique() && content->header.deleter == &::tilewright::detail::destroy<detail::ArrayContent>) {  // made here, and no one else's
        body(content->values);
        return content->changed();
      }
      for (size_t i = 0; i < size(); ++i) all.push_back(detail::Owned::copy_of(node()->items()[i]));
    }
    body(all);
    data_ = detail::make_array(std::move(all));
  }
};

template <typename T>
Array<T> Concat(Array<T> first, const Array<T>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

namespace detail {
template <typename T>
struct Element<Array<T>> {
  static Owned put(const Array<T>& array) { return shared(array); }
  static std::optional<Array<T>> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFINone) return Array<T>(ObjectPtr<Object>(nullptr));
    if (any.type_index != kTVMFFIArray && any.type_index != kTVMFFIList) return std::nullopt;
    auto* node = reinterpret_cast<ArrayNode*>(any.v_obj);
    for (size_t i = 0; i < node->size(); ++i)
      if (!Element<T>::get(node->items()[i])) return std::nullopt;
    return Array<T>(ObjectPtr<Object>(node));
  }
  static std::string name() { return "Array<" + Element<T>::name() + ">"; }
};
}  // namespace detail
}  // namespace runtime
using runtime::Array;
using runtime::ArrayNode;
using runtime::Concat;
}  // namespace tvm

#include "../packed_func.h"

#endif
