// Objects, values and errors of the runtime as C++ sees them; everything else in native/src builds on this.
#pragma once
#include <tilewright/abi.h>

#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

// Makes the function that is declared after it a second name of a function of the same file; one that the library exports, or its own.
#if defined(__APPLE__)
#define TW_ALIAS(name, target) asm(".globl _" #name "\n.set _" #name ", _" #target);
#define TW_OWN_ALIAS(name, target) TW_ALIAS(name, target)
#else
#define TW_ALIAS(name, target) TW_EXPORT TW_OWN_ALIAS(name, target)
#define TW_OWN_ALIAS(name, target) __attribute__((alias(#target)))
#endif

namespace tw {

// The C++ form of an error on its way to a C boundary.
struct Error {
  std::string kind, message;
};
[[noreturn]] void fail(const char* kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

void incref(void* object);
void decref(void* object);

// Owning pointer to an object of the ABI.
template <typename T = TVMFFIObject>
class Ref {
 public:
  Ref() = default;
  static Ref steal(void* p) { Ref r; r.p_ = static_cast<T*>(p); return r; }
  static Ref share(void* p) { if (p) incref(p); return steal(p); }
  Ref(const Ref& o) : p_(o.p_) { if (p_) incref(p_); }
  Ref(Ref&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Ref& operator=(Ref o) noexcept { std::swap(p_, o.p_); return *this; }
  ~Ref() { if (p_) decref(p_); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* release() { T* p = p_; p_ = nullptr; return p; }

 private:
  T* p_ = nullptr;
};

// Every object of ours starts with the ABI header; `delete_` destroys the members.
template <typename T>
struct ObjectBase {
  TVMFFIObject header;
  explicit ObjectBase(int32_t type_index) {
    header.combined_ref_count = 1 | (uint64_t{1} << 32);
    header.type_index = type_index;
    header.padding = 0;
    header.deleter = [](void* self, int flags) {
      T* object = static_cast<T*>(self);
      if (flags & kTVMFFIDeleteStrong) object->~T();
      if (flags & kTVMFFIDeleteWeak) ::operator delete(self, std::align_val_t(16));
    };
  }
};
template <typename T, typename... Args>
T* make(Args&&... args) {
  void* memory = ::operator new(sizeof(T), std::align_val_t(16));
  return new (memory) T(std::forward<Args>(args)...);
}

struct ErrorObject : ObjectBase<ErrorObject> {
  TVMFFIErrorCell cell;
  std::string kind, message, backtrace;
  ErrorObject(std::string kind, std::string message, std::string backtrace);
  ~ErrorObject();
};

struct FunctionObject : ObjectBase<FunctionObject> {
  TVMFFIFunctionCell cell;
  void* self = nullptr;
  void (*deleter)(void*) = nullptr;
  FunctionObject() : ObjectBase(kTVMFFIFunction) {}
  ~FunctionObject() { if (deleter) deleter(self); }
};

struct ShapeObject : ObjectBase<ShapeObject> {
  TVMFFIShapeCell cell;
  std::vector<int64_t> values;
  explicit ShapeObject(std::vector<int64_t> v) : ObjectBase(kTVMFFIShape), values(std::move(v)) {
    cell = {values.data(), values.size()};
  }
};

struct BytesObject : ObjectBase<BytesObject> {
  TVMFFIByteArray cell;
  std::string value;
  BytesObject(int32_t type_index, std::string v) : ObjectBase(type_index), value(std::move(v)) {
    cell = {value.data(), value.size()};
  }
};

struct ArrayObject : ObjectBase<ArrayObject> {
  TVMFFISeqCell cell;
  std::vector<TVMFFIAny> items;  // owned values
  explicit ArrayObject(std::vector<TVMFFIAny> v);
  ~ArrayObject();
};

// A tensor owns its memory, or holds what owns it; shape and strides live beside it.
struct TensorObject : ObjectBase<TensorObject> {
  DLTensor tensor;
  int64_t dims[12];                    // shape and strides up to rank 6
  int64_t* heap_dims = nullptr;
  void (*release)(void*) = nullptr;    // called with `owner` at the end
  void* owner = nullptr;
  uint64_t flags = 0;
  TensorObject() : ObjectBase(kTVMFFITensor) {}
  ~TensorObject();
  void set_dims(int32_t ndim, const int64_t* shape, const int64_t* strides);
};
// On the device, whose memory of a scope it may be in.
Ref<TensorObject> empty_tensor(int32_t ndim, const int64_t* shape, DLDataType dtype, DLDevice device, const char* scope = nullptr);
Ref<TensorObject> tensor_view(DLTensor like, Ref<> keep_alive);
int64_t tensor_bytes(const DLTensor& t);
bool is_compact(const DLTensor& t);
// Copies the elements of a tensor on the CPU in row-major order.
void gather(const DLTensor& t, void* to);
std::string shape_text(int32_t ndim, const int64_t* shape);
std::string dtype_text(DLDataType dtype);
DLDataType parse_dtype(const std::string& text);

// Borrowed views of values.
std::string as_string(const TVMFFIAny& value);
bool is_string(const TVMFFIAny& value);
const DLTensor* as_tensor(const TVMFFIAny& value);  // null when it is none
int64_t as_int(const TVMFFIAny& value, const char* what);

// Owned results.
TVMFFIAny none();
TVMFFIAny from_int(int64_t v);
TVMFFIAny from_string(const std::string& v, bool bytes = false);
TVMFFIAny from_object(TVMFFIObject* owned);
template <typename T> TVMFFIAny from_ref(Ref<T> r) { return from_object(reinterpret_cast<TVMFFIObject*>(r.release())); }
TVMFFIAny own(const TVMFFIAny& view);
void destroy(TVMFFIAny& owned);

// Functions.
struct Args {
  const TVMFFIAny* values;
  int32_t count;
  const TVMFFIAny& operator[](int i) const {
    if (i >= count) fail("TypeError", "expected at least %d arguments, got %d", i + 1, count);
    return values[i];
  }
};
using NativeFunction = std::function<TVMFFIAny(Args)>;
Ref<FunctionObject> make_function(NativeFunction body);
Ref<FunctionObject> make_raw_function(void* self, TVMFFISafeCallType call, void (*deleter)(void*));
void register_global(const char* name, NativeFunction body);
Ref<FunctionObject> get_global(const std::string& name);
// Calls; throws Raised if the callee left an error.
struct Raised {};
TVMFFIAny call(FunctionObject* f, const TVMFFIAny* args, int32_t count);

// The error of this thread.
void set_raised(Ref<ErrorObject> error);
Ref<ErrorObject> take_raised();
void set_raised(const std::string& kind, const std::string& message);
// A second runtime in the process keeps errors of its own: libraries linked to it leave them there.
void add_foreign_errors(void (*take)(TVMFFIObjectHandle*), void (*put)(TVMFFIObjectHandle));
void mirror_raised_to_foreign();

// Runs `body`, turning C++ errors into the error of this thread.
template <typename F>
int guarded(F&& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    set_raised(e.kind, e.message);
  } catch (const Raised&) {
  } catch (const std::bad_alloc&) {
    set_raised("MemoryError", "out of memory");
  } catch (const std::exception& e) {
    set_raised("InternalError", e.what());
  }
  return -1;
}

// What an address space holds.
constexpr int64_t kMostBytes = sizeof(void*) == 8 ? int64_t{1} << 47 : INT32_MAX;
// Multiplies by an extent; false where the product is more than an address space holds.
inline bool multiply_bytes(int64_t& bytes, int64_t extent) {
  return !__builtin_mul_overflow(bytes, extent, &bytes) && bytes <= kMostBytes;
}

int check_signals();  // nonzero when the surrounding program wants to stop; the error is set

}  // namespace tw
