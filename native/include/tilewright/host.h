// Compiled libraries in C++ programs: modules, functions, tensors and values, over the C ABI of the runtime library.
//
//   using namespace tilewright;
//   Module library = Module::load("model.so");
//   Module executor = library["default"](cpu()).module();
//   executor["set_input"]("x", Tensor({1, 3}, std::vector<float>{1, 2, 3}));
//   executor["run"]();
//   Tensor y = executor["get_output"](0).tensor();
//
// Needs C++17 and libtilewright_runtime alone. What fails throws Error.
#ifndef TILEWRIGHT_HOST_H_
#define TILEWRIGHT_HOST_H_

#include <vector>

#include "base.h"

namespace tilewright {

namespace detail {
template <typename T>
struct Type;
template <> struct Type<float> { static constexpr DLDataType code{kDLFloat, 32, 1}; };
template <> struct Type<double> { static constexpr DLDataType code{kDLFloat, 64, 1}; };
template <> struct Type<int8_t> { static constexpr DLDataType code{kDLInt, 8, 1}; };
template <> struct Type<int16_t> { static constexpr DLDataType code{kDLInt, 16, 1}; };
template <> struct Type<int32_t> { static constexpr DLDataType code{kDLInt, 32, 1}; };
template <> struct Type<int64_t> { static constexpr DLDataType code{kDLInt, 64, 1}; };
template <> struct Type<uint8_t> { static constexpr DLDataType code{kDLUInt, 8, 1}; };
template <> struct Type<bool> { static constexpr DLDataType code{kDLBool, 8, 1}; };
}  // namespace detail

inline DLDevice cpu(int32_t id = 0) { return DLDevice{kDLCPU, id}; }

class Tensor;
class Module;
class Function;

// An argument or a result: a number, a text, a device, a tensor, a module, a function, a tuple or a value of a data type. It holds a
// reference to what it stands for.
class Value : public detail::Owned {
 public:
  Value() = default;
  Value(bool v) : Owned(detail::of_int(v, kTVMFFIBool)) {}
  Value(int v) : Owned(detail::of_int(v)) {}
  Value(int64_t v) : Owned(detail::of_int(v)) {}
  Value(double v) : Owned(detail::of_float(v)) {}
  Value(DLDevice v) : Owned(detail::of_device(v)) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(std::string v) : Owned(detail::of_text(std::move(v), kTVMFFIStr)) {}
  // Bytes with zeros among them, such as a file of parameters.
  static Value bytes(std::string data) { return owned(detail::of_text(std::move(data), kTVMFFIBytes)); }
  // Takes over a reference.
  static Value owned(TVMFFIAny any) {
    Value v;
    static_cast<Owned&>(v) = Owned(any);
    return v;
  }

  bool is_none() const { return any().type_index == kTVMFFINone; }
  bool is_tensor() const { return any().type_index == kTVMFFITensor; }
  bool is_object() const { return detail::is_object(any()); }
  int64_t integer() const { return expect(any().type_index == kTVMFFIInt || any().type_index == kTVMFFIBool, "an integer"), any().v_int64; }
  double number() const { return any().type_index == kTVMFFIFloat ? any().v_float64 : static_cast<double>(integer()); }
  std::string string() const {
    TVMFFIByteArray found{nullptr, 0};
    expect(detail::bytes_of(any(), &found), "a text");
    return detail::text(found);
  }
  Tensor tensor() const;
  Module module() const;
  Function function() const;

  // Of a tuple (its tag is 0) or a value of a data type: which constructor made it, counted from 0 in the order of the definition, how
  // many fields it has, and a field.
  int64_t tag() const;
  int64_t size() const;
  Value operator[](int64_t field) const;

  // As the ABI passes it; valid as long as this.
  const TVMFFIAny& raw() const { return any(); }
  void expect(bool holds, const char* what) const {
    if (!holds) throw Error("TypeError", std::string(what) + " was expected, but the value has the type index " + std::to_string(any().type_index));
  }
};

class Function : public Value {
 public:
  explicit Function(Value v) : Value(std::move(v)) { expect(raw().type_index == kTVMFFIFunction, "a function"); }
  // A function of the runtime, or one that the program registered, by its name.
  static Function global(const std::string& name) {
    detail::Held found = detail::find_global(name);
    if (!found.get()) throw Error("ValueError", "there is no global function `" + name + "`" + did_you_mean(Value(), name));
    return Function(owned(detail::of_object(found.release())));
  }
  // "; did you mean ...?" with near names of a module's functions, or of global ones (no module); empty where no name is near.
  static std::string did_you_mean(const Value& module, const std::string& name) {
    detail::Held ask = detail::find_global("runtime.NearFunctions");
    return ask.get() ? Function(owned(detail::of_object(ask.release())))(module, name).string() : std::string();
  }
  Value call(const std::vector<Value>& args) const {
    std::vector<TVMFFIAny> given;
    for (const Value& a : args) given.push_back(a.raw());
    return owned(detail::call(raw().v_obj, given.data(), static_cast<int32_t>(given.size())).release());
  }
  template <typename... A>
  Value operator()(A&&... args) const { return call(std::vector<Value>{Value(std::forward<A>(args))...}); }
};

// Elements in row-major order, in memory of the runtime.
class Tensor : public Value {
 public:
  explicit Tensor(Value v) : Value(std::move(v)) { expect(is_tensor(), "a tensor"); }
  Tensor(const std::vector<int64_t>& shape, DLDataType dtype, DLDevice device = cpu()) {
    TVMFFIObjectHandle made = nullptr;
    detail::check(host_api().create_tensor(static_cast<int32_t>(shape.size()), shape.data(), &dtype, &device, "", &made));
    Value::operator=(owned(detail::of_pointer(made, kTVMFFITensor)));
  }
  template <typename T>
  Tensor(const std::vector<int64_t>& shape, const std::vector<T>& elements) : Tensor(shape, detail::Type<T>::code) {
    expect(static_cast<int64_t>(elements.size()) == count(), "one element for each place of the shape");
    for (int64_t i = 0; i < count(); ++i) data<T>()[i] = elements[static_cast<size_t>(i)];
  }
  const DLTensor* operator->() const { return detail::content<DLTensor>(raw().v_obj); }
  std::vector<int64_t> shape() const { return std::vector<int64_t>((*this)->shape, (*this)->shape + (*this)->ndim); }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : shape()) n *= d;
    return n;
  }
  template <typename T>
  T* data() const {
    constexpr DLDataType want = detail::Type<T>::code;
    DLDataType have = (*this)->dtype;
    expect(want.code == have.code && want.bits == have.bits && have.lanes == 1, "a tensor of the asked type of elements");
    return reinterpret_cast<T*>(static_cast<char*>((*this)->data) + (*this)->byte_offset);
  }
};

class Module : public Value {
 public:
  explicit Module(Value v) : Value(std::move(v)) { expect(raw().type_index == kTVMFFIModule, "a module"); }
  static Module load(const std::string& path) { return Module(Function::global("runtime.ModuleLoadFromFile")(path)); }
  Function operator[](const std::string& name) const {
    Value found = Function::global("runtime.ModuleGetFunction")(*this, name, false);
    if (found.is_none()) throw Error("AttributeError", "the module has no function `" + name + "`" + Function::did_you_mean(*this, name));
    return Function(found);
  }
};

inline Tensor Value::tensor() const { return Tensor(*this); }
inline Module Value::module() const { return Module(*this); }
inline Function Value::function() const { return Function(*this); }
inline int64_t Value::tag() const { return Function::global("runtime.GetADTTag")(*this).integer(); }
inline int64_t Value::size() const { return Function::global("runtime.GetADTSize")(*this).integer(); }
inline Value Value::operator[](int64_t field) const { return Function::global("runtime.GetADTFields")(*this, field); }

// A value of a data type: the place of its constructor in the definition, from 0, and its fields. A tuple has the tag 0.
inline Value adt(int32_t tag, const std::vector<Value>& fields) {
  std::vector<Value> args{Value(tag)};
  args.insert(args.end(), fields.begin(), fields.end());
  return Function::global("runtime.ADT").call(args);
}

}  // namespace tilewright

#endif
