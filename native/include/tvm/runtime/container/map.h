// Dictionaries in the order of insertion, copied when one of several holders changes them. They are for programs in C++: Python receives
// one as an object that it can pass on.
#ifndef TVM_RUNTIME_CONTAINER_MAP_H_
#define TVM_RUNTIME_CONTAINER_MAP_H_

#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "optional.h"

namespace tvm {
namespace runtime {

namespace detail {
template <typename K, typename V>
class MapIterator;
}  // namespace detail

class MapNode : public Object {
 public:
  std::vector<std::pair<detail::Owned, detail::Owned>> items;
  std::map<std::string, size_t> places;
  size_t size() const { return items.size(); }
  // Texts and numbers are keys by their content, other objects by what they are.
  static std::string key_of(const TVMFFIAny& key) {
    TVMFFIByteArray text;
    if (::tilewright::detail::bytes_of(key, &text)) return "t" + ::tilewright::detail::text(text);
    return std::to_string(key.type_index) + " " + std::to_string(key.v_int64);
  }
  const detail::Owned* find(const TVMFFIAny& key) const {
    auto found = places.find(key_of(key));
    return found == places.end() ? nullptr : &items[found->second].second;
  }
  void set(detail::Owned key, detail::Owned value) {
    auto [place, added] = places.emplace(key_of(key.any()), items.size());
    if (added) items.emplace_back(std::move(key), std::move(value));
    else items[place->second].second = std::move(value);
  }
  void erase(const TVMFFIAny& key) {
    auto found = places.find(key_of(key));
    if (found == places.end()) return;
    const size_t at = found->second;
    places.erase(found);
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    for (auto& place : places) place.second -= place.second > at;
  }
  inline detail::MapIterator<ObjectRef, ObjectRef> begin() const;
  inline detail::MapIterator<ObjectRef, ObjectRef> end() const;
  inline size_t count(const ObjectRef& key) const;
  inline ObjectRef at(const ObjectRef& key) const;
  static constexpr const char* _type_key = "Map";
  TVM_DECLARE_FINAL_OBJECT_INFO(MapNode, Object)
};

namespace detail {
// Entries in order, made when they are asked for.
template <typename K, typename V>
class MapIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = std::pair<K, V>;
  using difference_type = std::ptrdiff_t;
  using pointer = const value_type*;
  using reference = value_type;
  MapIterator(const MapNode* node, size_t at) : node_(node), at_(at) {}
  value_type operator*() const {
    return {element_of<K>(node_->items[at_].first.any(), "a key of the Map"), element_of<V>(node_->items[at_].second.any(), "a value of the Map")};
  }
  struct Arrow {
    value_type held;
    const value_type* operator->() const { return &held; }
  };
  Arrow operator->() const { return {**this}; }
  MapIterator& operator++() { return ++at_, *this; }
  MapIterator operator++(int) { return MapIterator(node_, at_++); }
  bool operator==(const MapIterator& o) const { return at_ == o.at_; }
  bool operator!=(const MapIterator& o) const { return at_ != o.at_; }

 private:
  const MapNode* node_;
  size_t at_;
};
}  // namespace detail

inline detail::MapIterator<ObjectRef, ObjectRef> MapNode::begin() const { return {this, 0}; }
inline detail::MapIterator<ObjectRef, ObjectRef> MapNode::end() const { return {this, size()}; }
inline size_t MapNode::count(const ObjectRef& key) const { return find(detail::Element<ObjectRef>::put(key).any()) ? 1 : 0; }
inline ObjectRef MapNode::at(const ObjectRef& key) const {
  const detail::Owned* found = find(detail::Element<ObjectRef>::put(key).any());
  ICHECK(found) << "IndexError: key is not in Map";
  return detail::element_of<ObjectRef>(found->any(), "a value of the Map");
}

template <typename K, typename V>
class Map : public ObjectRef {
 public:
  using key_type = K;
  using mapped_type = V;
  using ContainerType = MapNode;

  Map() : ObjectRef(make_object<MapNode>()) {}
  explicit Map(ObjectPtr<Object> object) : ObjectRef(std::move(object)) {}
  Map(std::initializer_list<std::pair<K, V>> items) : Map(items.begin(), items.end()) {}
  template <typename Iterator>
  Map(Iterator begin, Iterator end) : Map() {
    for (; begin != end; ++begin) Set(begin->first, begin->second);
  }
  template <typename Items, typename = decltype(std::declval<const Items&>().begin()->second), typename = std::enable_if_t<!std::is_base_of<ObjectRef, Items>::value>>
  Map(const Items& items) : Map(items.begin(), items.end()) {}
  // Of one whose keys and values are of classes that derive from this one's: the same dictionary.
  template <typename K2, typename V2, typename = std::enable_if_t<std::is_base_of<K, K2>::value && std::is_base_of<V, V2>::value &&
                                                                  !(std::is_same<K, K2>::value && std::is_same<V, V2>::value)>>
  Map(const Map<K2, V2>& other) : ObjectRef(other) {}

  size_t size() const { return node() ? node()->size() : 0; }
  bool empty() const { return size() == 0; }
  size_t count(const K& key) const { return find_value(key) ? 1 : 0; }
  V at(const K& key) const {
    const detail::Owned* found = find_value(key);
    ICHECK(found) << "IndexError: key is not in Map";
    return detail::element_of<V>(found->any(), "a value of the Map");
  }
  V operator[](const K& key) const { return at(key); }
  Optional<V> Get(const K& key) const { return count(key) ? Optional<V>(at(key)) : Optional<V>(); }
  void Set(const K& key, const V& value) { own()->set(detail::Element<K>::put(key), detail::Element<V>::put(value)); }
  void erase(const K& key) { own()->erase(detail::Element<K>::put(key).any()); }
  void clear() { data_ = make_object<MapNode>(); }

  using iterator = detail::MapIterator<K, V>;
  iterator begin() const { return iterator(node(), 0); }
  iterator end() const { return iterator(node(), size()); }
  iterator find(const K& key) const {
    if (!node()) return end();
    auto found = node()->places.find(MapNode::key_of(detail::Element<K>::put(key).any()));
    return found == node()->places.end() ? end() : iterator(node(), found->second);
  }

 private:
  const MapNode* node() const { return static_cast<const MapNode*>(data_.get()); }
  const detail::Owned* find_value(const K& key) const { return node() ? node()->find(detail::Element<K>::put(key).any()) : nullptr; }
  MapNode* own() {
    if (data_ == nullptr) data_ = make_object<MapNode>();
    if (!data_.unique()) data_ = make_object<MapNode>(*node());
    return static_cast<MapNode*>(data_.get());
  }
};

// The entries of both; where both have a key, the value of the second.
template <typename K, typename V>
Map<K, V> Merge(Map<K, V> first, const Map<K, V>& second) {
  for (const auto& entry : second) first.Set(entry.first, entry.second);
  return first;
}

namespace detail {
template <typename K, typename V>
struct Element<Map<K, V>> {
  static Owned put(const Map<K, V>& map) { return shared(map); }
  static std::optional<Map<K, V>> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFINone) return Map<K, V>(ObjectPtr<Object>(nullptr));
    if (!::tilewright::detail::is_object(any) || any.type_index != static_cast<int32_t>(MapNode::RuntimeTypeIndex())) return std::nullopt;
    auto* node = static_cast<MapNode*>(reinterpret_cast<Object*>(any.v_obj));
    for (const auto& item : node->items)
      if (!Element<K>::get(item.first.any()) || !Element<V>::get(item.second.any())) return std::nullopt;
    return Map<K, V>(ObjectPtr<Object>(node));
  }
  static std::string name() { return "Map<" + Element<K>::name() + ", " + Element<V>::name() + ">"; }
};
}  // namespace detail
}  // namespace runtime
using runtime::Map;
using runtime::MapNode;
using runtime::Merge;
}  // namespace tvm

#include "../packed_func.h"

#endif
