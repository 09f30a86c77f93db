// The C interface of classic TVM (tvm/runtime/c_runtime_api.h, c_backend_api.h).
#include <tvm/runtime/c_backend_api.h>

#include <cstdlib>

#include "../devices/device.h"
#include "../module.h"
#include "../thread_pool.h"
#include "own_names.h"

using namespace tw;

namespace {

// Texts that this thread was given last.
struct Last {
  std::string error, backtrace, text;
  TVMByteArray bytes;
  std::vector<std::string> names;
  std::vector<const char*> list;
};
Last& last() {
  thread_local Last found;
  return found;
}

// An owned value in the older form: objects are the caller's, texts the thread's.
void give(TVMFFIAny& any, TVMValue* value, int* code) {
  TVMByteArray small;
  tw_classic_view(&any, value, code, &small);
  if (*code != kTVMStr && *code != kTVMBytes) return;
  last().text = as_string(any);
  destroy(any);
  last().bytes = {last().text.data(), last().text.size()};
  if (*code == kTVMStr) value->v_str = last().text.c_str();
  else value->v_handle = &last().bytes;
}

// Arguments in the older form.
struct Values {
  std::vector<TVMValue> values;
  std::vector<int> codes;
  std::vector<TVMByteArray> bytes;
  Values(const TVMFFIAny* args, int32_t count) : values(static_cast<size_t>(count)), codes(values.size()), bytes(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) tw_classic_view(&args[i], &values[i], &codes[i], &bytes[i]);
  }
};

struct CFunction {
  TVMPackedCFunc call;
  void* resource;
  TVMPackedCFuncFinalizer drop;
};

TVMFFIAny call_global(const char* name, std::initializer_list<TVMFFIAny> args) {
  return call(get_global(name).get(), args.begin(), static_cast<int32_t>(args.size()));
}
TVMFFIAny view(void* object) {
  TVMFFIAny any = none();
  any.v_ptr = object;
  any.type_index = object ? static_cast<TVMFFIObject*>(object)->type_index : kTVMFFINone;
  return any;
}
TVMFFIAny view(const char* text) {
  TVMFFIAny any = none();
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = text ? text : "";
  return any;
}
TVMFFIByteArray key_of(const char* text) { return {text, strlen(text)}; }
TVMFFIObject* object_of(DLTensor* array) { return reinterpret_cast<TVMFFIObject*>(array) - 1; }
DLTensor* array_of(TVMFFIObject* tensor) { return reinterpret_cast<DLTensor*>(tensor + 1); }

// Bytes as a tensor of the CPU like an array.
int copy_bytes(DLTensor* array, void* data, size_t bytes, bool in) {
  return guarded([&] {
    const auto all = static_cast<size_t>(tensor_bytes(*array));
    if (bytes != all) fail("ValueError", "the array %s of %s has %zu bytes, but %zu were given", shape_text(array->ndim, array->shape).c_str(), dtype_text(array->dtype).c_str(), all, bytes);
    DLTensor flat = *array;
    flat.data = data;
    flat.device = {kDLCPU, 0};
    flat.strides = nullptr;
    flat.byte_offset = 0;
    in ? copy_tensor(flat, *array) : copy_tensor(*array, flat);
  });
}

}  // namespace

extern "C" {

const char* TVMGetLastError() {
  auto error = take_raised();
  if (error) last().error = error->kind + ": " + error->message, last().backtrace = error->backtrace;
  set_raised(std::move(error));
  return last().error.c_str();
}
const char* TVMGetLastBacktrace() {
  TVMGetLastError();
  return last().backtrace.empty() ? nullptr : last().backtrace.c_str();
}
void TVMAPISetLastError(const char* message) {
  // A name in front of the message is the kind.
  const size_t end = strspn(message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  const bool kind = end > 5 && !strncmp(message + end, ": ", 2) && !strncmp(message + end - 5, "Error", 5);
  set_raised(kind ? std::string(message, end) : "InternalError", kind ? message + end + 2 : message);
}

int TVMModLoadFromFile(const char* file_name, const char* format, TVMModuleHandle* out) {
  return guarded([&] { *out = call_global("runtime.ModuleLoadFromFile", {view(file_name), view(format)}).v_ptr; });
}
int TVMModImport(TVMModuleHandle module, TVMModuleHandle other) {
  return guarded([&] { call_global("runtime.ModuleImport", {view(module), view(other)}); });
}
int TVMModGetFunction(TVMModuleHandle module, const char* name, int query_imports, TVMFunctionHandle* out) {
  return guarded([&] { *out = as_module(view(module))->find(name, query_imports != 0).release(); });
}
int TVMObjectRetain(TVMObjectHandle object) {
  incref(object);
  return 0;
}
int TVMObjectFree(TVMObjectHandle object) {
  if (object) decref(object);
  return 0;
}
TW_ALIAS(TVMModFree, TVMObjectFree) int TVMModFree(TVMModuleHandle);
TW_ALIAS(TVMFuncFree, TVMObjectFree) int TVMFuncFree(TVMFunctionHandle);
int TVMByteArrayFree(TVMByteArray*) { return 0; }

int TVMFuncCall(TVMFunctionHandle func, TVMValue* values, int* codes, int count, TVMValue* ret, int* ret_code) {
  return guarded([&] {
    std::vector<TVMFFIAny> args(static_cast<size_t>(count));
    for (size_t i = 0; i < args.size(); ++i) args[i] = tw_classic_any(values[i], codes[i]);
    TVMFFIAny result = call(static_cast<FunctionObject*>(func), args.data(), count);
    give(result, ret, ret_code);
  });
}
int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* code, int count) {
  return guarded([&] {
    if (count != 1) fail("ValueError", "a packed function returns one value, but %d were set", count);
    TVMFFIAny made = own(tw_classic_any(*value, *code));
    std::swap(*static_cast<TVMFFIAny*>(ret), made);
    destroy(made);
  });
}
int TVMCbArgToReturn(TVMValue* value, int* code) {
  return guarded([&] {
    TVMFFIAny made = own(tw_classic_any(*value, *code));
    give(made, value, code);
  });
}
int TVMFuncCreateFromCFunc(TVMPackedCFunc func, void* resource, TVMPackedCFuncFinalizer fin, TVMFunctionHandle* out) {
  return guarded([&] {
    auto drop = [](void* self) {
      auto* f = static_cast<CFunction*>(self);
      if (f->drop) f->drop(f->resource);
      delete f;
    };
    auto enter = [](void* handle, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
      auto* f = static_cast<CFunction*>(static_cast<FunctionObject*>(handle)->self);
      int code = 0;
      return guarded([&] {
        Values given(args, count);
        *result = none();
        if ((code = f->call(given.values.data(), given.codes.data(), count, result, f->resource))) {
          destroy(*result);
          throw Raised{};
        }
      });
    };
    *out = make_raw_function(new CFunction{func, resource, fin}, enter, drop).release();
  });
}
int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override_) {
  const TVMFFIByteArray key = key_of(name);
  return TWFunctionSetGlobal(&key, f, override_);
}
int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  return guarded([&] { *out = get_global(name).release(); });
}
int TVMFuncRemoveGlobal(const char* name) {
  return guarded([&] { call_global("ffi.FunctionRemoveGlobal", {view(name)}); });
}
int TVMFuncListGlobalNames(int* size, const char*** out) {
  return guarded([&] {
    TVMFFIAny found = call_global("ffi.FunctionListGlobalNames", {});
    auto* cell = reinterpret_cast<TVMFFISeqCell*>(found.v_obj + 1);
    last().names.clear();
    last().list.clear();
    for (int64_t i = 0; i < cell->size; ++i) last().names.push_back(as_string(static_cast<TVMFFIAny*>(cell->data)[i]));
    for (auto& name : last().names) last().list.push_back(name.c_str());
    destroy(found);
    *size = static_cast<int>(last().list.size());
    *out = last().list.data();
  });
}

int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int code, int bits, int lanes, int device_type, int device_id, TVMArrayHandle* out) {
  return guarded([&] {
    const DLDataType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)};
    *out = &empty_tensor(ndim, shape, dtype, {device_type, device_id}).release()->tensor;
  });
}
int TVMArrayFree(TVMArrayHandle array) { return array ? TVMObjectFree(object_of(array)) : 0; }
int TVMArrayCopyFromBytes(TVMArrayHandle array, void* data, size_t bytes) { return copy_bytes(array, data, bytes, true); }
int TVMArrayCopyToBytes(TVMArrayHandle array, void* data, size_t bytes) { return copy_bytes(array, data, bytes, false); }
int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream) {
  return stream ? TVMDeviceCopyDataFromTo(from, to, stream) : TWTensorCopy(from, to);
}
int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out) {
  TVMFFIObjectHandle made = nullptr;
  const int code = TWTensorFromDLPack(from, 0, 0, &made);
  if (!code) *out = array_of(static_cast<TVMFFIObject*>(made));
  return code;
}
int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out) { return TWTensorToDLPack(object_of(from), out); }
void TVMDLManagedTensorCallDeleter(DLManagedTensor* tensor) {
  if (tensor->deleter) tensor->deleter(tensor);
}

int TVMObjectGetTypeIndex(TVMObjectHandle object, unsigned* out) {
  *out = static_cast<unsigned>(static_cast<TVMFFIObject*>(object)->type_index);
  return 0;
}
int TVMObjectTypeKey2Index(const char* key, unsigned* out) {
  const TVMFFIByteArray text = key_of(key);
  return TWTypeKeyToIndex(&text, reinterpret_cast<int32_t*>(out));
}
int TVMObjectTypeIndex2Key(unsigned index, char** out) {
  return guarded([&] {
    const TVMFFITypeInfo* info = TWTypeInfo(static_cast<int32_t>(index));
    if (!info) fail("ValueError", "no type of objects has the index %u", index);
    *out = strdup(std::string(info->type_key.data, info->type_key.size).c_str());
  });
}
int TVMObjectDerivedFrom(uint32_t child, uint32_t parent, int* is_derived) {
  *is_derived = child == parent;
  if (const TVMFFITypeInfo* info = TWTypeInfo(static_cast<int32_t>(child)))
    for (int32_t i = 0; i < info->type_depth; ++i) *is_derived |= info->type_ancestors[i]->type_index == static_cast<int32_t>(parent);
  return 0;
}

int TVMBackendGetFuncFromEnv(void* module, const char* name, TVMFunctionHandle* out) {
  if (module) return TWModLookupFromImports(module, name, out);
  return guarded([&] {
    auto found = get_global(name);
    if (!found) fail("ValueError", "no global function is registered as `%s`", name);
    *out = found.get();  // the registry keeps it
  });
}
int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* cdata, int count) {
  struct Task {
    FTVMParallelLambda lambda;
    void* data;
  } task{lambda, cdata};
  return parallel_launch(
      [](int32_t id, int32_t tasks, void* data) {
        auto* t = static_cast<Task*>(data);
        TVMParallelGroupEnv env{nullptr, tasks};
        return static_cast<int32_t>(t->lambda(id, &env, t->data));
      },
      &task, count);
}
int TVMBackendParallelBarrier(int, TVMParallelGroupEnv* env) {
  if (env->num_task <= 1) return 0;
  set_raised("RuntimeError", "TVMBackendParallelBarrier: the tasks of a launch do not wait for each other; use one TVMBackendParallelLaunch for each part");
  return -1;
}
int TVMBackendRunOnce(void** handle, int (*f)(void*), void* cdata, int) {
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE)) return 0;
  __atomic_store_n(handle, reinterpret_cast<void*>(1), __ATOMIC_RELEASE);
  return f(cdata);
}
}
