// Texts as objects.
#ifndef TVM_RUNTIME_CONTAINER_STRING_H_
#define TVM_RUNTIME_CONTAINER_STRING_H_

#include <ostream>
#include <string>
#include <string_view>

#include "base.h"

namespace tvm {
namespace runtime {

class StringObj : public Object {
 public:
  const char* data;
  uint64_t size;
  static constexpr const char* _type_key = "runtime.String";
  static constexpr bool _type_final = true;
  static uint32_t RuntimeTypeIndex() { return kTVMFFIStr; }
};

// A text, which may have zeros in it.
class String : public ObjectRef {
 public:
  String() : String(std::string()) {}
  String(std::string text)
      : ObjectRef(ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(::tilewright::detail::of_text(std::move(text), kTVMFFIStr).v_obj))) {}
  String(const char* text) : String(std::string(text)) {}
  String(const char* text, size_t size) : String(std::string(text, size)) {}
  explicit String(ObjectPtr<Object> object) : ObjectRef(std::move(object)) {}
  const StringObj* operator->() const { return static_cast<const StringObj*>(data_.get()); }
  const StringObj* get() const { return operator->(); }
  using ContainerType = StringObj;

  const char* c_str() const { return get()->data; }
  const char* data() const { return get()->data; }
  size_t size() const { return get() ? get()->size : 0; }
  size_t length() const { return size(); }
  bool empty() const { return size() == 0; }
  char at(size_t i) const {
    ICHECK(i < size()) << "IndexError: character " << i << " of a text of " << size();
    return data()[i];
  }
  int compare(const String& o) const { return view().compare(o.view()); }
  int compare(const std::string& o) const { return view().compare(o); }
  int compare(const char* o) const { return view().compare(o); }
  operator std::string() const { return std::string(view()); }
  const char* begin() const { return data(); }
  const char* end() const { return data() + size(); }
  std::string_view view() const { return std::string_view(data(), size()); }
  static bool CanConvertFrom(const class TVMArgValue& value);

 private:
  friend String operator+(const String& a, const String& b) { return std::string(a) + std::string(b); }
  friend String operator+(const String& a, const std::string& b) { return std::string(a) + b; }
  friend String operator+(const std::string& a, const String& b) { return a + std::string(b); }
  friend String operator+(const String& a, const char* b) { return std::string(a) + b; }
  friend String operator+(const char* a, const String& b) { return a + std::string(b); }
  friend std::ostream& operator<<(std::ostream& os, const String& text) { return os << text.view(); }
};
#define TVM_STRING_COMPARES(op)                                                                     \
  inline bool operator op(const String& a, const String& b) { return a.compare(b) op 0; }           \
  inline bool operator op(const String& a, const std::string& b) { return a.compare(b) op 0; }      \
  inline bool operator op(const std::string& a, const String& b) { return 0 op b.compare(a); }      \
  inline bool operator op(const String& a, const char* b) { return a.compare(b) op 0; }             \
  inline bool operator op(const char* a, const String& b) { return 0 op b.compare(a); }
TVM_STRING_COMPARES(==)
TVM_STRING_COMPARES(!=)
TVM_STRING_COMPARES(<)
TVM_STRING_COMPARES(>)
TVM_STRING_COMPARES(<=)
TVM_STRING_COMPARES(>=)
#undef TVM_STRING_COMPARES

namespace detail {
template <>
struct Element<String> {
  static Owned put(const String& text) { return shared(text); }
  static std::optional<String> get(const TVMFFIAny& any) {
    if (any.type_index == kTVMFFIStr) return String(ObjectPtr<Object>(reinterpret_cast<Object*>(any.v_obj)));
    TVMFFIByteArray found;
    if (!::tilewright::detail::bytes_of(any, &found)) return std::nullopt;
    return String(found.data, found.size);
  }
  static std::string name() { return "str"; }
};
}  // namespace detail
}  // namespace runtime
using runtime::String;
using runtime::StringObj;
}  // namespace tvm

template <>
struct std::hash<tvm::runtime::String> {
  size_t operator()(const tvm::runtime::String& text) const { return std::hash<std::string_view>()(text.view()); }
};

#endif
