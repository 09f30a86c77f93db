// Packed functions: functions whose arguments and result are numbers, texts, arrays, functions, modules and other objects.
#ifndef TVM_RUNTIME_PACKED_FUNC_H_
#define TVM_RUNTIME_PACKED_FUNC_H_

#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "container/adt.h"
#include "container/array.h"
#include "container/map.h"
#include "ndarray.h"

namespace tvm {
namespace runtime {

class Module;
class TVMArgs;
class TVMArgValue;
class TVMRetValue;
template <typename FType>
class TypedPackedFunc;

class PackedFuncObj : public Object {
 public:
  static constexpr const char* _type_key = "runtime.PackedFunc";
  static constexpr bool _type_final = true;
  static uint32_t RuntimeTypeIndex() { return kTVMFFIFunction; }
};

// A packed function; may be null.
class PackedFunc : public ObjectRef {
 public:
  PackedFunc() = default;
  PackedFunc(std::nullptr_t) {}
  explicit PackedFunc(ObjectPtr<Object> object) : ObjectRef(std::move(object)) {}
  // Of a callable of (TVMArgs, TVMRetValue*).
  template <typename F, typename = std::enable_if_t<std::is_invocable_r<void, F, TVMArgs, TVMRetValue*>::value && !std::is_base_of<ObjectRef, F>::value>>
  PackedFunc(F body);
  using ContainerType = PackedFuncObj;

  template <typename... Args>
  TVMRetValue operator()(Args&&... args) const;
  void CallPacked(TVMArgs args, TVMRetValue* rv) const;
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return data_ != nullptr; }
};

inline const char* ArgTypeCode2Str(int code) {
  constexpr const char* names[] = {"int", "uint", "float", "handle", "NULL", "DLDataType", "DLDevice", "ArrayHandle", "Object", "ModuleHandle",
                                   "FunctionHandle", "str", "bytes", "NDArrayContainer", "ObjectRValueRefArg", "bool"};
  ICHECK(code >= 0 && code < 16) << "ValueError: unknown type_code=" << code;
  return names[code];
}

// A value, as an argument or a result; it becomes what it is assigned to. What it is not is a TypeError.
class TVMPODValue_ {
 public:
  operator double() const {
    if (any_.type_index == kTVMFFINone) return std::numeric_limits<double>::quiet_NaN();
    return number<double>();
  }
  operator float() const { return static_cast<float>(operator double()); }
  operator int64_t() const { return any_.type_index == kTVMFFINone ? 0 : number<int64_t>(); }
  operator uint64_t() const { return static_cast<uint64_t>(operator int64_t()); }
  operator int() const {
    const int64_t v = operator int64_t();
    ICHECK(v >= std::numeric_limits<int>::min() && v <= std::numeric_limits<int>::max()) << "ValueError: " << v << " is no number of " << sizeof(int) * 8 << " bits";
    return static_cast<int>(v);
  }
  operator bool() const { return number<int64_t>() != 0; }
  operator void*() const {
    switch (any_.type_index) {
      case kTVMFFINone: return nullptr;
      case kTVMFFIOpaquePtr: case kTVMFFIDLTensorPtr: return any_.v_ptr;
      case kTVMFFITensor: return any_.v_obj + 1;
      default: refuse("handle");
    }
  }
  operator DLTensor*() const {
    if (any_.type_index == kTVMFFITensor) return reinterpret_cast<DLTensor*>(any_.v_obj + 1);
    if (any_.type_index == kTVMFFINone) return nullptr;
    if (any_.type_index != kTVMFFIDLTensorPtr) refuse("DLTensor* or NDArray");
    return static_cast<DLTensor*>(any_.v_ptr);
  }
  operator Device() const {
    if (any_.type_index != kTVMFFIDevice) refuse("DLDevice");
    return any_.v_device;
  }
  operator DLDataType() const {
    TVMFFIByteArray text;
    if (any_.type_index == kTVMFFIDataType) return any_.v_dtype;
    if (any_.type_index == kTVMFFINone) return runtime::DataType::Void();
    if (!::tilewright::detail::bytes_of(any_, &text)) refuse("DLDataType");
    return String2DLDataType(::tilewright::detail::text(text));
  }
  operator runtime::DataType() const { return runtime::DataType(operator DLDataType()); }
  operator std::string() const {
    if (any_.type_index == kTVMFFIDataType) return DLDataType2String(any_.v_dtype);
    return get<std::string>();
  }
  // By name, as in args[0].operator PackedFunc(), which some compilers do not find among templates.
  operator PackedFunc() const { return get<PackedFunc>(); }
  operator NDArray() const { return get<NDArray>(); }
  operator Module() const;
  template <typename FType>
  operator TypedPackedFunc<FType>() const { return TypedPackedFunc<FType>(get<PackedFunc>()); }
  template <typename T, typename = std::enable_if_t<std::is_base_of<ObjectRef, T>::value>>
  operator T() const { return get<T>(); }
  template <typename T, typename = std::enable_if_t<std::is_enum<T>::value>, typename = void>
  operator T() const { return static_cast<T>(operator int()); }

  template <typename T>
  T AsObjectRef() const { return get<T>(); }
  template <typename T>
  bool IsObjectRef() const { return any_.type_index != kTVMFFINone && detail::Element<T>::get(any_).has_value(); }
  template <typename T>
  T* ptr() const { return static_cast<T*>(operator void*()); }

  int type_code() const { return older().second; }
  const TVMValue value() const { return older().first; }
  const TVMFFIAny& any() const { return any_; }

 protected:
  TVMPODValue_() : any_(::tilewright::detail::none()) {}
  explicit TVMPODValue_(const TVMFFIAny& any) : any_(any) {}
  template <typename T>
  T get() const {
    std::optional<T> found = detail::Element<T>::get(any_);
    if (!found) refuse(detail::Element<T>::name());
    return *std::move(found);
  }
  template <typename T>
  T number() const {
    std::optional<T> found = detail::Element<T>::get(any_);
    if (!found) refuse(std::is_floating_point<T>::value ? "float" : "int");
    return *found;
  }
  [[noreturn]] void refuse(const std::string& wanted) const { throw Error("TypeError", "expected " + wanted + " but got " + detail::kind_of(any_)); }
  std::pair<TVMValue, int> older() const {
    std::pair<TVMValue, int> found;
    tw_classic_view(&any_, &found.first, &found.second, &bytes_);
    return found;
  }
  TVMFFIAny any_;
  mutable TVMByteArray bytes_{nullptr, 0};
};

// An argument; a view.
class TVMArgValue : public TVMPODValue_ {
 public:
  TVMArgValue() = default;
  TVMArgValue(TVMValue value, int type_code) : TVMPODValue_(tw_classic_any(value, type_code)) {}
  explicit TVMArgValue(const TVMFFIAny& any) : TVMPODValue_(any) {}
};

inline bool String::CanConvertFrom(const TVMArgValue& value) { return detail::Element<String>::get(value.any()).has_value(); }

// Arguments; views.
class TVMArgs {
 public:
  const TVMValue* values;
  const int* type_codes;
  int num_args;
  TVMArgs(const TVMValue* values, const int* type_codes, int num_args) : values(values), type_codes(type_codes), num_args(num_args) {}
  int size() const { return num_args; }
  TVMArgValue operator[](int i) const {
    ICHECK(i >= 0 && i < num_args) << "TypeError: not enough argument passed, " << num_args << " passed but request arg[" << i << "].";
    return TVMArgValue(values[i], type_codes[i]);
  }
  template <typename T>
  T At(int i) const { return static_cast<T>((*this)[i]); }
};

// A result; it holds what it refers to.
class TVMRetValue : public TVMPODValue_ {
 public:
  TVMRetValue() = default;
  explicit TVMRetValue(detail::Owned value) : TVMPODValue_(value.release()) {}
  TVMRetValue(const TVMRetValue& o) : TVMRetValue(detail::Owned::copy_of(o.any_)) {}
  TVMRetValue(TVMRetValue&& o) noexcept : TVMPODValue_(std::exchange(o.any_, ::tilewright::detail::none())) {}
  ~TVMRetValue() { detail::Owned gone(any_); }
  TVMRetValue& operator=(const TVMRetValue& o) { return set(detail::Owned::copy_of(o.any_)); }
  TVMRetValue& operator=(TVMRetValue&& o) noexcept {
    std::swap(any_, o.any_);
    return *this;
  }
  TVMRetValue& operator=(const TVMArgValue& o) { return set(detail::Owned::copy_of(o.any())); }
  TVMRetValue& operator=(std::nullptr_t) { return set(detail::Owned()); }
  TVMRetValue& operator=(void* v) { return set(detail::Owned(v ? ::tilewright::detail::of_pointer(v, kTVMFFIOpaquePtr) : ::tilewright::detail::none())); }
  TVMRetValue& operator=(double v) { return put(v); }
  TVMRetValue& operator=(int64_t v) { return put(v); }
  TVMRetValue& operator=(int v) { return put(v); }
  TVMRetValue& operator=(bool v) { return put(v); }
  TVMRetValue& operator=(Device v) { return set(detail::Owned(::tilewright::detail::of_device(v))); }
  TVMRetValue& operator=(DLDataType v) {
    TVMFFIAny any = ::tilewright::detail::none();
    any.type_index = kTVMFFIDataType;
    any.v_dtype = v;
    return set(detail::Owned(any));
  }
  TVMRetValue& operator=(const runtime::DataType& v) { return operator=(static_cast<DLDataType>(v)); }
  TVMRetValue& operator=(std::string v) { return set(detail::Owned(::tilewright::detail::of_text(std::move(v), kTVMFFIStr))); }
  TVMRetValue& operator=(const char* v) { return operator=(std::string(v)); }
  TVMRetValue& operator=(TVMByteArray v) { return set(detail::Owned(::tilewright::detail::of_text(::tilewright::detail::text(v), kTVMFFIBytes))); }
  template <typename FType>
  TVMRetValue& operator=(const TypedPackedFunc<FType>& v) { return put(v.packed()); }
  template <typename T, typename = std::enable_if_t<std::is_base_of<ObjectRef, T>::value>>
  TVMRetValue& operator=(const T& v) { return put(v); }
  template <typename T, typename = std::enable_if_t<(std::is_integral<T>::value || std::is_enum<T>::value) && !std::is_same<T, bool>::value>, typename = void>
  TVMRetValue& operator=(T v) { return put(static_cast<int64_t>(v)); }

  // What it refers to becomes the caller's; texts and bytes as objects.
  void MoveToCHost(TVMValue* value, int* type_code) {
    TVMFFIByteArray text;
    if (::tilewright::detail::bytes_of(any_, &text)) {
      const bool bytes = any_.type_index == kTVMFFISmallBytes || any_.type_index == kTVMFFIBytes;
      set(detail::Owned(::tilewright::detail::of_text(::tilewright::detail::text(text), bytes ? kTVMFFIBytes : kTVMFFIStr)));
      value->v_handle = any_.v_obj;
      *type_code = kTVMObjectHandle;
    } else {
      tw_classic_view(&any_, value, type_code, &bytes_);
    }
    any_ = ::tilewright::detail::none();
  }
  static TVMRetValue MoveFromCHost(TVMValue value, int type_code) { return TVMRetValue(detail::Owned(tw_classic_any(value, type_code))); }
  detail::Owned release() { return detail::Owned(std::exchange(any_, ::tilewright::detail::none())); }

 private:
  TVMRetValue& set(detail::Owned value) {
    detail::Owned old(std::exchange(any_, value.release()));
    return *this;
  }
  template <typename T>
  TVMRetValue& put(const T& v) { return set(detail::Element<T>::put(v)); }
};

// Puts arguments into arrays, as views: what they refer to must outlive the call.
class TVMArgsSetter {
 public:
  TVMArgsSetter(TVMValue* values, int* type_codes) : values_(values), type_codes_(type_codes) {}
  template <typename T, typename = std::enable_if_t<std::is_integral<T>::value || std::is_enum<T>::value>>
  void operator()(size_t i, T v) const {
    values_[i].v_int64 = static_cast<int64_t>(v);
    type_codes_[i] = std::is_same<T, bool>::value ? kTVMArgBool : kTVMArgInt;
  }
  void operator()(size_t i, uint64_t v) const {
    ICHECK_LE(v, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) << "ValueError: the number is too large for a packed function";
    operator()(i, static_cast<int64_t>(v));
  }
  void operator()(size_t i, double v) const {
    values_[i].v_float64 = v;
    type_codes_[i] = kTVMArgFloat;
  }
  void operator()(size_t i, std::nullptr_t) const { handle(i, nullptr, kTVMNullptr); }
  void operator()(size_t i, const TVMArgValue& v) const {
    values_[i] = v.value();
    type_codes_[i] = v.type_code();
  }
  void operator()(size_t i, const TVMRetValue& v) const {
    if (v.any().type_index == kTVMFFISmallBytes) return keep(i, detail::Owned(::tilewright::detail::of_text(static_cast<std::string>(v), kTVMFFIBytes)));
    TVMByteArray none;
    tw_classic_view(&v.any(), &values_[i], &type_codes_[i], &none);
  }
  void operator()(size_t i, void* v) const { handle(i, v, v ? kTVMOpaqueHandle : kTVMNullptr); }
  void operator()(size_t i, DLTensor* v) const { handle(i, v, v ? kTVMDLTensorHandle : kTVMNullptr); }
  void operator()(size_t i, const DLTensor* v) const { operator()(i, const_cast<DLTensor*>(v)); }
  void operator()(size_t i, Device v) const {
    values_[i].v_device = v;
    type_codes_[i] = kDLDevice;
  }
  void operator()(size_t i, DLDataType v) const {
    values_[i].v_type = v;
    type_codes_[i] = kTVMDataType;
  }
  void operator()(size_t i, const runtime::DataType& v) const { operator()(i, static_cast<DLDataType>(v)); }
  void operator()(size_t i, const char* v) const {
    values_[i].v_str = v;
    type_codes_[i] = kTVMStr;
  }
  void operator()(size_t i, const std::string& v) const { operator()(i, v.c_str()); }
  void operator()(size_t i, const TVMByteArray& v) const { handle(i, const_cast<TVMByteArray*>(&v), kTVMBytes); }
  template <typename FType>
  void operator()(size_t i, const TypedPackedFunc<FType>& v) const { operator()(i, v.packed()); }
  template <typename T, typename = std::enable_if_t<std::is_base_of<ObjectRef, T>::value>, typename = void>
  void operator()(size_t i, const T& v) const { keep(i, detail::Element<T>::put(v)); }

 private:
  void handle(size_t i, void* v, int code) const {
    values_[i].v_handle = v;
    type_codes_[i] = code;
  }
  // A text goes as an object, so that it may have zeros in it.
  void keep(size_t i, detail::Owned value) const {
    TVMByteArray none;
    tw_classic_view(&value.any(), &values_[i], &type_codes_[i], &none);
    if (value.any().type_index == kTVMFFIStr) handle(i, value.any().v_obj, kTVMObjectHandle);
    kept_.push_back(std::move(value));
  }
  TVMValue* values_;
  int* type_codes_;
  mutable std::vector<detail::Owned> kept_;
};

namespace detail {

template <typename F, typename... Args>
void for_each(const F& f, Args&&... args) {
  size_t i = 0;
  (void)i;
  (f(i++, std::forward<Args>(args)), ...);
}

// Arguments of the ABI in the older form, while they are used; most calls have few.
class OlderArgs {
 public:
  OlderArgs(const TVMFFIAny* args, int32_t count) : count_(count) {
    const auto n = static_cast<size_t>(count);
    if (n > kFew) {
      many_values_.resize(n), many_codes_.resize(n), many_bytes_.resize(n);
      values_ = many_values_.data(), codes_ = many_codes_.data(), bytes_ = many_bytes_.data();
    }
    for (size_t i = 0; i < n; ++i) tw_classic_view(&args[i], &values_[i], &codes_[i], &bytes_[i]);
  }
  OlderArgs(const OlderArgs&) = delete;
  TVMArgs args() const { return TVMArgs(values_, codes_, count_); }

 private:
  static constexpr size_t kFew = 8;
  int32_t count_;
  TVMValue few_values_[kFew];
  int few_codes_[kFew];
  TVMByteArray few_bytes_[kFew];
  std::vector<TVMValue> many_values_;
  std::vector<int> many_codes_;
  std::vector<TVMByteArray> many_bytes_;
  TVMValue* values_ = few_values_;
  int* codes_ = few_codes_;
  TVMByteArray* bytes_ = few_bytes_;
};
// Calls what takes arguments in the older form.
template <typename F>
void call_older(F& body, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  const OlderArgs older(args, count);
  TVMRetValue rv;
  body(older.args(), &rv);
  *result = rv.release().release();
}

}  // namespace detail

template <typename F, typename>
PackedFunc::PackedFunc(F body) {
  auto held = ::tilewright::detail::make_function([body = std::move(body)](const TVMFFIAny* args, int32_t count, TVMFFIAny* result) mutable {
    detail::call_older(body, args, count, result);
  });
  data_ = ObjectPtr<Object>::TakeOver(reinterpret_cast<Object*>(held.release()));
}

inline void PackedFunc::CallPacked(TVMArgs args, TVMRetValue* rv) const {
  ICHECK(data_ != nullptr) << "ValueError: a null PackedFunc was called: there is no function of the name that was asked for";
  constexpr int kFew = 8;
  TVMFFIAny few[kFew];
  std::vector<TVMFFIAny> many(static_cast<size_t>(args.num_args > kFew ? args.num_args : 0));
  TVMFFIAny* given = args.num_args > kFew ? many.data() : few;
  for (int i = 0; i < args.num_args; ++i) given[i] = tw_classic_any(args.values[i], args.type_codes[i]);
  *rv = TVMRetValue(::tilewright::detail::call(data_->header(), given, args.num_args));
}

template <typename... Args>
TVMRetValue PackedFunc::operator()(Args&&... args) const {
  constexpr size_t kCount = sizeof...(Args);
  TVMValue values[kCount + 1] = {};
  int codes[kCount + 1] = {};
  const TVMArgsSetter setter(values, codes);
  detail::for_each(setter, std::forward<Args>(args)...);
  TVMRetValue rv;
  CallPacked(TVMArgs(values, codes, static_cast<int>(kCount)), &rv);
  return rv;
}

}  // namespace runtime

using runtime::PackedFunc;
using runtime::TVMArgs;
using runtime::TVMArgValue;
using runtime::TVMRetValue;
}  // namespace tvm

#include "module.h"
#include "typed_packed_func.h"

#endif
