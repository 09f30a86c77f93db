// Objects, strings, errors, functions and the global registry, behind the C names of the packed ABI.
#include "core.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "platform/locks.h"

namespace tw {

std::string vformat(const char* pattern, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int size = vsnprintf(nullptr, 0, pattern, copy);
  va_end(copy);
  std::string text(static_cast<size_t>(size), '\0');
  vsnprintf(&text[0], text.size() + 1, pattern, list);
  return text;
}
std::string format(const char* pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = vformat(pattern, list);
  va_end(list);
  return text;
}
void fail(const char* kind, const char* pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = vformat(pattern, list);
  va_end(list);
  throw Error{kind, text};
}

void incref(void* object) {
  __atomic_fetch_add(&static_cast<TVMFFIObject*>(object)->combined_ref_count, 1, __ATOMIC_RELAXED);
}
void decref(void* object) {
  constexpr uint64_t kWeak = uint64_t{1} << 32;
  auto* o = static_cast<TVMFFIObject*>(object);
  uint64_t before = __atomic_fetch_sub(&o->combined_ref_count, 1, __ATOMIC_RELEASE);
  if ((before & 0xffffffffu) != 1) return;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (before == (kWeak | 1)) {
    if (o->deleter) o->deleter(o, kTVMFFIDeleteBoth);
    return;
  }
  if (o->deleter) o->deleter(o, kTVMFFIDeleteStrong);
  uint64_t weak = __atomic_fetch_sub(&o->combined_ref_count, kWeak, __ATOMIC_ACQ_REL);
  if ((weak >> 32) == 1 && o->deleter) o->deleter(o, kTVMFFIDeleteWeak);
}

// ---- errors

ErrorObject::ErrorObject(std::string k, std::string m, std::string b)
    : ObjectBase(kTVMFFIError), kind(std::move(k)), message(std::move(m)), backtrace(std::move(b)) {
  cell.kind = {kind.data(), kind.size()};
  cell.message = {message.data(), message.size()};
  cell.backtrace = {backtrace.data(), backtrace.size()};
  cell.cause_chain = cell.extra_context = nullptr;
  cell.update_backtrace = [](TVMFFIObjectHandle self, const TVMFFIByteArray* text, int32_t mode) {
    auto* e = static_cast<ErrorObject*>(self);
    if (mode == 0) e->backtrace.clear();
    e->backtrace.append(text->data, text->size);
    e->cell.backtrace = {e->backtrace.data(), e->backtrace.size()};
  };
}
ErrorObject::~ErrorObject() {
  if (cell.cause_chain) decref(cell.cause_chain);
  if (cell.extra_context) decref(cell.extra_context);
}

namespace {
// Plain thread-locals: they must work in threads that the runtime did not start and at exit.
thread_local ErrorObject* raised = nullptr;
struct Foreign {
  void (*take)(TVMFFIObjectHandle*);
  void (*put)(TVMFFIObjectHandle);
};
Mutex foreign_lock;
std::vector<Foreign>& foreign() {
  static auto* list = new std::vector<Foreign>;
  return *list;
}
}  // namespace

void set_raised(Ref<ErrorObject> error) {
  ErrorObject* old = raised;
  raised = error.release();
  if (old) decref(old);
}
void set_raised(const std::string& kind, const std::string& message) {
  set_raised(Ref<ErrorObject>::steal(make<ErrorObject>(kind, message, "")));
}
void add_foreign_errors(void (*take)(TVMFFIObjectHandle*), void (*put)(TVMFFIObjectHandle)) {
  std::lock_guard<Mutex> hold(foreign_lock);
  for (const Foreign& f : foreign())
    if (f.take == take) return;
  foreign().push_back({take, put});
}
Ref<ErrorObject> take_raised() {
  auto result = Ref<ErrorObject>::steal(raised);
  raised = nullptr;
  std::lock_guard<Mutex> hold(foreign_lock);
  for (const Foreign& f : foreign()) {
    TVMFFIObjectHandle other = nullptr;
    f.take(&other);
    if (!other) continue;
    auto held = Ref<ErrorObject>::steal(other);
    if (!result) result = held;
  }
  return result;
}
void mirror_raised_to_foreign() {
  if (!raised) return;
  std::lock_guard<Mutex> hold(foreign_lock);
  for (const Foreign& f : foreign())
    if (f.put) f.put(raised);
}

// ---- values

TVMFFIAny none() {
  TVMFFIAny a;
  a.type_index = kTVMFFINone;
  a.zero_padding = 0;
  a.v_int64 = 0;
  return a;
}
TVMFFIAny from_int(int64_t v) {
  TVMFFIAny a = none();
  a.type_index = kTVMFFIInt;
  a.v_int64 = v;
  return a;
}
TVMFFIAny from_object(TVMFFIObject* owned) {
  TVMFFIAny a = none();
  if (!owned) return a;
  a.type_index = owned->type_index;
  a.v_obj = owned;
  return a;
}
TVMFFIAny from_string(const std::string& v, bool bytes) {
  if (v.size() < 8) {
    TVMFFIAny a = none();
    a.type_index = bytes ? kTVMFFISmallBytes : kTVMFFISmallStr;
    a.small_str_len = static_cast<uint32_t>(v.size());
    memcpy(a.v_bytes, v.data(), v.size());
    return a;
  }
  return from_object(&make<BytesObject>(bytes ? kTVMFFIBytes : kTVMFFIStr, v)->header);
}
bool is_string(const TVMFFIAny& v) {
  switch (v.type_index) {
    case kTVMFFIRawStr: case kTVMFFIByteArrayPtr: case kTVMFFISmallStr: case kTVMFFISmallBytes: case kTVMFFIStr:
    case kTVMFFIBytes: return true;
    default: return false;
  }
}
std::string as_string(const TVMFFIAny& v) {
  switch (v.type_index) {
    case kTVMFFIRawStr: return v.v_c_str;
    case kTVMFFISmallStr: case kTVMFFISmallBytes: return std::string(v.v_bytes, v.small_str_len);
    case kTVMFFIByteArrayPtr: {
      auto* b = static_cast<TVMFFIByteArray*>(v.v_ptr);
      return std::string(b->data, b->size);
    }
    case kTVMFFIStr: case kTVMFFIBytes: {
      auto* b = reinterpret_cast<TVMFFIByteArray*>(v.v_obj + 1);
      return std::string(b->data, b->size);
    }
    default: fail("TypeError", "expected a string, got a value of type index %d", v.type_index);
  }
}
const DLTensor* as_tensor(const TVMFFIAny& v) {
  if (v.type_index == kTVMFFIDLTensorPtr) return static_cast<DLTensor*>(v.v_ptr);
  if (v.type_index == kTVMFFITensor) return reinterpret_cast<DLTensor*>(v.v_obj + 1);
  return nullptr;
}
int64_t as_int(const TVMFFIAny& v, const char* what) {
  if (v.type_index == kTVMFFIInt || v.type_index == kTVMFFIBool) return v.v_int64;
  fail("TypeError", "%s must be an integer, got a value of type index %d", what, v.type_index);
}
TVMFFIAny own(const TVMFFIAny& v) {
  switch (v.type_index) {
    case kTVMFFIRawStr: return from_string(v.v_c_str);
    case kTVMFFIByteArrayPtr: return from_string(as_string(v), true);
    case kTVMFFIObjectRValueRef: {
      auto** slot = static_cast<TVMFFIObject**>(v.v_ptr);
      TVMFFIObject* object = *slot;
      *slot = nullptr;
      return from_object(object);
    }
    default:
      if (v.type_index >= kTVMFFIStaticObjectBegin && v.v_obj) incref(v.v_obj);
      return v;
  }
}
void destroy(TVMFFIAny& v) {
  if (v.type_index >= kTVMFFIStaticObjectBegin && v.v_obj) decref(v.v_obj);
  v = none();
}

ArrayObject::ArrayObject(std::vector<TVMFFIAny> v) : ObjectBase(kTVMFFIArray), items(std::move(v)) {
  cell = {items.data(), static_cast<int64_t>(items.size()), static_cast<int64_t>(items.size()), nullptr};
}
ArrayObject::~ArrayObject() {
  for (TVMFFIAny& item : items) destroy(item);
}

// ---- functions

Ref<FunctionObject> make_raw_function(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void*)) {
  auto f = Ref<FunctionObject>::steal(make<FunctionObject>());
  f->cell = {safe_call, nullptr};
  f->self = self;
  f->deleter = deleter;
  return f;
}
// The ABI hands a function its own object as `handle`; the state hangs behind it.
static int call_raw(void* handle, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);

struct RawState {
  void* self;
  TVMFFISafeCallType call;
  void (*deleter)(void*);
};
static int call_raw(void* handle, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  auto* state = static_cast<RawState*>(static_cast<FunctionObject*>(handle)->self);
  return state->call(state->self, args, count, result);
}

static int call_native(void* handle, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  return guarded([&] {
    auto* body = static_cast<NativeFunction*>(static_cast<FunctionObject*>(handle)->self);
    *result = (*body)(Args{args, count});
  });
}
Ref<FunctionObject> make_function(NativeFunction body) {
  return make_raw_function(new NativeFunction(std::move(body)), call_native,
                           [](void* self) { delete static_cast<NativeFunction*>(self); });
}

TVMFFIAny call(FunctionObject* f, const TVMFFIAny* args, int32_t count) {
  TVMFFIAny result = none();
  if (int code = f->cell.safe_call(f, args, count, &result)) {
    Ref<ErrorObject> error = take_raised();
    if (!error) fail("RuntimeError", "a function failed with code %d and left no reason", code);
    set_raised(std::move(error));
    throw Raised{};
  }
  return result;
}

namespace {
struct Registry {
  Mutex lock;
  std::map<std::string, Ref<FunctionObject>> functions;
};
Registry& registry() {
  static auto* r = new Registry;  // outlives every static destructor that may still call
  return *r;
}
int (*py_check_signals)() = nullptr;
}  // namespace

static bool set_global(const std::string& name, Ref<FunctionObject> f, bool override_) {
  std::lock_guard<Mutex> hold(registry().lock);
  auto& slot = registry().functions[name];
  if (slot && !override_) return false;
  std::swap(slot, f);  // the old one, which may run Python when it dies, dies after the lock is free
  return true;
}
void register_global(const char* name, NativeFunction body) { set_global(name, make_function(std::move(body)), true); }
Ref<FunctionObject> get_global(const std::string& name) {
  std::lock_guard<Mutex> hold(registry().lock);
  auto it = registry().functions.find(name);
  return it == registry().functions.end() ? Ref<FunctionObject>() : it->second;
}

int check_signals() { return py_check_signals ? py_check_signals() : 0; }

static void register_core() {
  register_global("ffi.FunctionListGlobalNames", [](Args) {
    std::vector<TVMFFIAny> names;
    std::lock_guard<Mutex> hold(registry().lock);
    for (auto& entry : registry().functions) names.push_back(from_string(entry.first));
    return from_object(&make<ArrayObject>(std::move(names))->header);
  });
  register_global("ffi.FunctionRemoveGlobal", [](Args args) {
    Ref<FunctionObject> removed;
    {
      std::lock_guard<Mutex> hold(registry().lock);
      auto it = registry().functions.find(as_string(args[0]));
      if (it != registry().functions.end()) {
        removed = it->second;
        registry().functions.erase(it);
      }
    }
    TVMFFIAny found = from_int(removed ? 1 : 0);
    found.type_index = kTVMFFIBool;
    return found;
  });
}
static const int core_registered = (register_core(), 0);

static std::string text(const TVMFFIByteArray* b) { return b && b->data ? std::string(b->data, b->size) : std::string(); }

}  // namespace tw

using namespace tw;

extern "C" {

TW_EXPORT void TVMFFIGetVersion(uint32_t* out) { out[0] = 0; out[1] = 1; out[2] = 16; }
TW_EXPORT int TVMFFIObjectIncRef(TVMFFIObjectHandle o) { incref(o); return 0; }
TW_EXPORT int TVMFFIObjectDecRef(TVMFFIObjectHandle o) { decref(o); return 0; }

struct OpaqueObject : ObjectBase<OpaqueObject> {
  TVMFFIOpaqueObjectCell cell;
  void (*drop)(void*);
  OpaqueObject(int32_t type, void* handle, void (*d)(void*)) : ObjectBase(type), cell{handle}, drop(d) {}
  ~OpaqueObject() { if (drop) drop(cell.handle); }
};
TW_EXPORT int TVMFFIObjectCreateOpaque(void* handle, int32_t type_index, void (*drop)(void*), TVMFFIObjectHandle* out) {
  return guarded([&] { *out = make<OpaqueObject>(type_index, handle, drop); });
}

TW_EXPORT int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void*), TVMFFIObjectHandle* out) {
  return guarded([&] {
    auto* state = new RawState{self, safe_call, deleter};
    *out = make_raw_function(state, call_raw, [](void* p) {
             auto* s = static_cast<RawState*>(p);
             if (s->deleter) s->deleter(s->self);
             delete s;
           }).release();
  });
}
TW_EXPORT int TVMFFIFunctionCall(TVMFFIObjectHandle f, TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  return static_cast<FunctionObject*>(f)->cell.safe_call(f, args, count, result);
}
TW_EXPORT int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = get_global(text(name)).release(); });
}
TW_EXPORT int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle f, int override_) {
  return guarded([&] {
    if (!set_global(text(name), Ref<FunctionObject>::share(f), override_ != 0))
      fail("ValueError", "global function `%s` is already registered; pass override=True to replace it", text(name).c_str());
  });
}
TW_EXPORT int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* view, TVMFFIAny* out) {
  return guarded([&] { *out = own(*view); });
}

TW_EXPORT void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* result) { *result = take_raised().release(); }
TW_EXPORT void TVMFFIErrorSetRaised(TVMFFIObjectHandle error) { set_raised(Ref<ErrorObject>::share(error)); }
TW_EXPORT void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) { set_raised(kind, message); }
TW_EXPORT void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  std::string message;
  for (int32_t i = 0; i < count; ++i)
    if (parts[i]) message += parts[i];
  set_raised(kind, message);
}
TW_EXPORT int TVMFFIErrorCreateWithCauseAndExtraContext(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                                                        const TVMFFIByteArray* backtrace, TVMFFIObjectHandle cause,
                                                        TVMFFIObjectHandle extra, TVMFFIObjectHandle* out) {
  return guarded([&] {
    auto* e = make<ErrorObject>(text(kind), text(message), text(backtrace));
    if (cause) incref(cause);
    if (extra) incref(extra);
    e->cell.cause_chain = cause;
    e->cell.extra_context = extra;
    *out = e;
  });
}
// Inside the library the TW names are used: a TVMFFI name may resolve to another runtime of the process.
TW_ALIAS(TWErrorCreate, TVMFFIErrorCreateWithCauseAndExtraContext)
int TWErrorCreate(const TVMFFIByteArray*, const TVMFFIByteArray*, const TVMFFIByteArray*, TVMFFIObjectHandle,
                  TVMFFIObjectHandle, TVMFFIObjectHandle*);
TW_EXPORT int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                                const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out) {
  return TWErrorCreate(kind, message, backtrace, nullptr, nullptr, out);
}

TW_EXPORT int TVMFFIStringFromByteArray(const TVMFFIByteArray* in, TVMFFIAny* out) {
  return guarded([&] { *out = from_string(text(in)); });
}
TW_EXPORT int TVMFFIBytesFromByteArray(const TVMFFIByteArray* in, TVMFFIAny* out) {
  return guarded([&] { *out = from_string(text(in), true); });
}
TW_EXPORT int TVMFFIDataTypeFromString(const TVMFFIByteArray* in, DLDataType* out) {
  return guarded([&] { *out = parse_dtype(text(in)); });
}
TW_EXPORT int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out) {
  return guarded([&] { *out = from_string(dtype_text(*dtype)); });
}

TW_EXPORT int TVMFFIEnvCheckSignals() { return check_signals(); }
TW_EXPORT int TVMFFIEnvRegisterCAPI(const char* name, void* symbol) {
  if (!strcmp(name, "PyErr_CheckSignals")) py_check_signals = reinterpret_cast<int (*)()>(symbol);
  return 0;
}

TW_EXPORT int TVMFFIHandleInitOnce(void** address, int (*init)(void** result)) {
  static RecursiveMutex lock;
  if (__atomic_load_n(address, __ATOMIC_ACQUIRE)) return 0;
  std::lock_guard<RecursiveMutex> hold(lock);
  if (*address) return 0;
  void* result = nullptr;
  if (int code = init(&result)) return code;
  __atomic_store_n(address, result, __ATOMIC_RELEASE);
  return 0;
}
TW_EXPORT int TVMFFIHandleDeinitOnce(void** address, int (*deinit)(void* handle)) {
  void* old = __atomic_exchange_n(address, nullptr, __ATOMIC_ACQ_REL);
  return old ? deinit(old) : 0;
}

// Names of our own for the Python module: the process may hold another runtime that exports the TVMFFI names globally.
TW_EXPORT void TWRaise(TVMFFIObjectHandle error) {
  set_raised(Ref<ErrorObject>::share(error));
  mirror_raised_to_foreign();
}
TW_ALIAS(TWErrorTake, TVMFFIErrorMoveFromRaised) void TWErrorTake(TVMFFIObjectHandle*);
TW_ALIAS(TWIncRef, TVMFFIObjectIncRef) int TWIncRef(TVMFFIObjectHandle);
TW_ALIAS(TWDecRef, TVMFFIObjectDecRef) int TWDecRef(TVMFFIObjectHandle);
TW_ALIAS(TWFunctionCreate, TVMFFIFunctionCreate)
int TWFunctionCreate(void*, TVMFFISafeCallType, void (*)(void*), TVMFFIObjectHandle*);
TW_ALIAS(TWFunctionGetGlobal, TVMFFIFunctionGetGlobal)
int TWFunctionGetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle*);
TW_ALIAS(TWFunctionSetGlobal, TVMFFIFunctionSetGlobal)
int TWFunctionSetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle, int);
TW_ALIAS(TWOpaqueCreate, TVMFFIObjectCreateOpaque)
int TWOpaqueCreate(void*, int32_t, void (*)(void*), TVMFFIObjectHandle*);
TW_ALIAS(TWStringCreate, TVMFFIStringFromByteArray) int TWStringCreate(const TVMFFIByteArray*, TVMFFIAny*);
TW_ALIAS(TWBytesCreate, TVMFFIBytesFromByteArray) int TWBytesCreate(const TVMFFIByteArray*, TVMFFIAny*);
TW_ALIAS(TWAnyOwn, TVMFFIAnyViewToOwnedAny) int TWAnyOwn(const TVMFFIAny*, TVMFFIAny*);
TW_ALIAS(TWRegisterCAPI, TVMFFIEnvRegisterCAPI) int TWRegisterCAPI(const char*, void*);

// Takes over `items` (owned values) in all cases.
TW_EXPORT int TWArrayCreate(const TVMFFIAny* items, int64_t count, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = make<ArrayObject>(std::vector<TVMFFIAny>(items, items + count)); });
}
}
