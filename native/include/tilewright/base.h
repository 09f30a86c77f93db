// What the headers of this folder and of tvm/runtime build on: the runtime of the process, errors, and owned values.
#ifndef TILEWRIGHT_BASE_H_
#define TILEWRIGHT_BASE_H_

#include <atomic>
#include <cctype>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "abi.h"

// TILEWRIGHT_GIVEN_RUNTIME: the runtime passes its table to the library (use_host_api), which does not look for it.
#if !defined(TILEWRIGHT_GIVEN_RUNTIME) && !defined(_WIN32) && __has_include(<dlfcn.h>)
#include <dlfcn.h>
#define TILEWRIGHT_FINDS_RUNTIME 1
#endif

#ifdef TILEWRIGHT_FINDS_RUNTIME
// A plug-in that is not linked to the runtime finds the one that the process has loaded.
extern "C" __attribute__((weak)) const TWHostAPI* TWGetHostAPI(void);
#endif

namespace tilewright {

namespace detail {
// Strong references are counted in the low half of the word, weak ones in the high half; all strong ones hold one weak.
inline void keep(TVMFFIObject* object) noexcept {
  if (object) __atomic_add_fetch(&object->combined_ref_count, 1, __ATOMIC_RELAXED);
}
inline void drop(TVMFFIObject* object) noexcept {
  constexpr uint64_t kWeak = uint64_t{1} << 32;
  if (!object) return;
  const uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, 1, __ATOMIC_ACQ_REL);
  if (static_cast<uint32_t>(before) != 1 || !object->deleter) return;
  if (before == (kWeak | 1)) return object->deleter(object, kTVMFFIDeleteBoth);
  object->deleter(object, kTVMFFIDeleteStrong);
  if (__atomic_fetch_sub(&object->combined_ref_count, kWeak, __ATOMIC_ACQ_REL) >> 32 == 1) object->deleter(object, kTVMFFIDeleteWeak);
}
template <typename T>
T* content(const TVMFFIObject* object) { return reinterpret_cast<T*>(const_cast<TVMFFIObject*>(object) + 1); }
inline std::string text(const TVMFFIByteArray& bytes) { return std::string(bytes.data, bytes.size); }
inline TVMFFIByteArray bytes(const std::string& text) { return {text.data(), text.size()}; }

// One reference to an object.
class Held {
 public:
  Held() = default;
  explicit Held(TVMFFIObject* taken_over) : object_(taken_over) {}
  Held(const Held& o) : object_(o.object_) { keep(object_); }
  Held(Held&& o) noexcept : object_(std::exchange(o.object_, nullptr)) {}
  Held& operator=(Held o) noexcept {
    std::swap(object_, o.object_);
    return *this;
  }
  ~Held() { drop(object_); }
  TVMFFIObject* get() const { return object_; }
  TVMFFIObject* release() { return std::exchange(object_, nullptr); }

 private:
  TVMFFIObject* object_ = nullptr;
};
}  // namespace detail

// What a function raised; `kind` is the name of its type, such as "ValueError". An error that came from a function keeps what it was
// there, so that an exception of Python that passes through C++ arrives as itself.
class Error : public std::runtime_error {
 public:
  Error(std::string kind, const std::string& message, std::string backtrace = "")
      : std::runtime_error(message), kind_(std::move(kind)), backtrace_(std::move(backtrace)) {}
  // "ValueError: the message", or a message of an InternalError.
  explicit Error(const std::string& text) : Error(kind_in(text), text.substr(start_in(text))) {}
  explicit Error(detail::Held raised)
      : Error(detail::text(cell(raised)->kind), detail::text(cell(raised)->message), detail::text(cell(raised)->backtrace)) {
    raised_ = std::move(raised);
  }
  const std::string& kind() const { return kind_; }
  const std::string& backtrace() const { return backtrace_; }
  TVMFFIObject* raised() const { return raised_.get(); }

 private:
  static TVMFFIErrorCell* cell(const detail::Held& error) { return detail::content<TVMFFIErrorCell>(error.get()); }
  // Where the message begins behind a kind: a name that ends as those of exceptions do.
  static size_t start_in(const std::string& text) {
    size_t end = 0;
    while (end < text.size() && (isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    if (text.compare(end, 2, ": ") != 0) return 0;
    for (const char* last : {"Error", "Exception", "Interrupt", "Iteration", "Warning"})
      if (end >= strlen(last) && text.compare(end - strlen(last), strlen(last), last) == 0) return end + 2;
    return 0;
  }
  static std::string kind_in(const std::string& text) {
    const size_t start = start_in(text);
    return start ? text.substr(0, start - 2) : "InternalError";
  }
  std::string kind_, backtrace_;
  detail::Held raised_;
};

namespace detail {
inline const TWHostAPI* find_host_api() noexcept {
#ifdef TILEWRIGHT_FINDS_RUNTIME
  const char* const name = "TWGetHostAPI";
  auto get = &TWGetHostAPI;
  if (!get) get = reinterpret_cast<decltype(get)>(dlsym(RTLD_DEFAULT, name));
  if (!get) {
#ifdef __APPLE__
    const char* const library = "libtilewright_runtime.dylib";
#else
    const char* const library = "libtilewright_runtime.so";
#endif
    // Python loads it for itself alone; its name finds it then.
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) handle = dlopen(library, RTLD_LAZY);
    if (handle) get = reinterpret_cast<decltype(get)>(dlsym(handle, name));
  }
  return get ? get() : nullptr;
#elif defined(TILEWRIGHT_GIVEN_RUNTIME)
  return nullptr;
#else
  return TWGetHostAPI();
#endif
}
inline std::atomic<const TWHostAPI*>& known_host_api() {
  static std::atomic<const TWHostAPI*> known{nullptr};
  return known;
}
}  // namespace detail

// Makes this the runtime of the library, which would look for it otherwise.
inline void use_host_api(const TWHostAPI* api) { detail::known_host_api().store(api, std::memory_order_release); }

// The runtime of the process. Throws where there is none.
inline const TWHostAPI& host_api() {
  const TWHostAPI* api = detail::known_host_api().load(std::memory_order_acquire);
  if (api) return *api;
  api = detail::find_host_api();
  if (!api)
    throw Error("RuntimeError", "there is no Tilewright runtime in this process: link the program or library with libtilewright_runtime"
                " (`tilewright runtime config --libs` prints the options), or load the runtime before it (in Python: import tilewright)");
  if (api->version < TW_HOST_API_VERSION)
    throw Error("RuntimeError", "the Tilewright runtime of this process is older than the headers that this was compiled with");
  use_host_api(api);
  return *api;
}

namespace detail {

inline void check(int code) {
  if (code == 0) return;
  TVMFFIObjectHandle error = nullptr;
  host_api().take_error(&error);
  if (!error) throw Error("RuntimeError", "a function failed and did not say why");
  throw Error(Held(static_cast<TVMFFIObject*>(error)));
}

// Leaves an error for the caller of a packed function.
inline void raise(const Error& error) {
  if (error.raised()) return host_api().raise(error.raised());
  const std::string message = error.what();
  const TVMFFIByteArray parts[] = {bytes(error.kind()), bytes(message), bytes(error.backtrace())};
  TVMFFIObjectHandle made = nullptr;
  if (host_api().create_error(&parts[0], &parts[1], &parts[2], nullptr, nullptr, &made)) return;
  host_api().raise(made);
  drop(static_cast<TVMFFIObject*>(made));
}

// Runs `body`; what it throws becomes the error of the thread.
template <typename F>
int guarded(F&& body) noexcept {
  try {
    try {
      body();
      return 0;
    } catch (const Error& e) {
      raise(e);
    } catch (const std::bad_alloc&) {
      raise(Error("MemoryError", "out of memory"));
    } catch (const std::exception& e) {
      raise(Error(e.what()));
    } catch (...) {
      raise(Error("InternalError", "a function in C++ threw what is no std::exception"));
    }
  } catch (...) {  // out of memory while the error was made
  }
  return -1;
}

inline TVMFFIAny none() {
  TVMFFIAny any;
  any.type_index = kTVMFFINone;
  any.zero_padding = 0;
  any.v_int64 = 0;
  return any;
}
inline TVMFFIAny of_int(int64_t v, int32_t type = kTVMFFIInt) {
  TVMFFIAny any = none();
  any.type_index = type;
  any.v_int64 = v;
  return any;
}
inline TVMFFIAny of_float(double v) {
  TVMFFIAny any = none();
  any.type_index = kTVMFFIFloat;
  any.v_float64 = v;
  return any;
}
inline TVMFFIAny of_pointer(const void* v, int32_t type) {
  TVMFFIAny any = none();
  any.type_index = type;
  any.v_ptr = const_cast<void*>(v);
  return any;
}
inline TVMFFIAny of_device(DLDevice v) {
  TVMFFIAny any = none();
  any.type_index = kTVMFFIDevice;
  any.v_device = v;
  return any;
}
inline TVMFFIAny of_object(TVMFFIObject* object) { return object ? of_pointer(object, object->type_index) : none(); }
inline bool is_object(const TVMFFIAny& any) { return any.type_index >= kTVMFFIStaticObjectBegin; }

// The end of an object of a class whose first member is the header.
template <typename T>
void destroy(void* self, int flags) {
  if (flags & kTVMFFIDeleteStrong) static_cast<T*>(self)->T::~T();
  if (flags & kTVMFFIDeleteWeak) ::operator delete(self);
}
template <typename T, typename... Args>
TVMFFIObject* make(int32_t type_index, Args&&... args) {
  T* object = new (::operator new(sizeof(T))) T(std::forward<Args>(args)...);
  object->header = {1 | (uint64_t{1} << 32), type_index, 0, destroy<T>};
  return &object->header;
}
struct Text {
  TVMFFIObject header;
  TVMFFIByteArray cell;
  std::string value;
  explicit Text(std::string text) : header(), value(std::move(text)) { cell = bytes(value); }
};
// An owned value: a text (kTVMFFIStr), or the content of a file (kTVMFFIBytes).
inline TVMFFIAny of_text(std::string text, int32_t type_index) {
  return of_object(make<Text>(type_index, std::move(text)));
}

// A value that holds a reference to what it stands for.
class Owned {
 public:
  Owned() : any_(none()) {}
  explicit Owned(const TVMFFIAny& taken_over) : any_(taken_over) {}
  static Owned copy_of(const TVMFFIAny& view) {
    Owned made;
    check(host_api().own(&view, &made.any_));
    return made;
  }
  Owned(const Owned& o) : any_(o.any_) { if (is_object(any_)) keep(any_.v_obj); }
  Owned(Owned&& o) noexcept : any_(std::exchange(o.any_, none())) {}
  Owned& operator=(Owned o) noexcept {
    std::swap(any_, o.any_);
    return *this;
  }
  ~Owned() { if (is_object(any_)) drop(any_.v_obj); }
  const TVMFFIAny& any() const { return any_; }
  TVMFFIAny release() { return std::exchange(any_, none()); }

 private:
  TVMFFIAny any_;
};

// The bytes of a text or of a file's content; false where the value is neither.
inline bool bytes_of(const TVMFFIAny& any, TVMFFIByteArray* out) {
  switch (any.type_index) {
    case kTVMFFISmallStr: case kTVMFFISmallBytes: *out = {any.v_bytes, any.small_str_len}; return true;
    case kTVMFFIRawStr: *out = {any.v_c_str, strlen(any.v_c_str)}; return true;
    case kTVMFFIByteArrayPtr: *out = *static_cast<const TVMFFIByteArray*>(any.v_ptr); return true;
    case kTVMFFIStr: case kTVMFFIBytes: *out = *content<TVMFFIByteArray>(any.v_obj); return true;
    default: return false;
  }
}

inline Owned call(TVMFFIObject* function, const TVMFFIAny* args, int32_t count) {
  TVMFFIAny result = none();
  check(content<TVMFFIFunctionCell>(function)->safe_call(function, args, count, &result));
  return Owned(result);
}
// A function of the runtime, or one that was registered; null where there is none.
inline Held find_global(const std::string& name) {
  const TVMFFIByteArray key = bytes(name);
  TVMFFIObjectHandle found = nullptr;
  check(host_api().get_global(&key, &found));
  return Held(static_cast<TVMFFIObject*>(found));
}
template <typename... Views>
Owned call_global(const char* name, const Views&... args) {
  const Held function = find_global(name);
  if (!function.get()) throw Error("RuntimeError", std::string("this runtime has no function `") + name + "`");
  const TVMFFIAny views[] = {args..., none()};
  return call(function.get(), views, static_cast<int32_t>(sizeof...(Views)));
}
// A packed function whose state is a callable of (const TVMFFIAny* args, int32_t count, TVMFFIAny* result), which may throw.
template <typename F>
Held make_function(F body) {
  TVMFFIObjectHandle made = nullptr;
  auto* state = new F(std::move(body));
  const int code = host_api().create_function(
      state,
      [](void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
        return guarded([&] { (*static_cast<F*>(self))(args, count, result); });
      },
      [](void* self) { delete static_cast<F*>(self); }, &made);
  if (code) delete state;
  check(code);
  return Held(static_cast<TVMFFIObject*>(made));
}

}  // namespace detail
}  // namespace tilewright

#endif
