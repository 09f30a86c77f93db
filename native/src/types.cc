// The table of object types, as far as libraries written against tvm-ffi's headers need one to start up and to throw.
#include <deque>
#include <unordered_map>

#include "core.h"
#include "platform/locks.h"
#include "platform/memory.h"

namespace {

using TypeInfo = TVMFFITypeInfo;
struct Type {
  TypeInfo info{};
  std::string key;
  std::vector<const TypeInfo*> ancestors;
};
struct TypeAttrColumn {
  const TVMFFIAny* data;
  int32_t size, begin_index;
};
struct Column {
  std::vector<TVMFFIAny> values;
  TypeAttrColumn view{};
};

struct Types {
  tw::RecursiveMutex lock;
  std::deque<Type> storage;
  std::unordered_map<int32_t, Type*> by_index;
  std::unordered_map<std::string, Type*> by_key;
  std::unordered_map<std::string, Column> columns;
  int32_t next = kTVMFFIDynObjectBegin;

  Type* add(int32_t index, const std::string& key, Type* parent) {
    storage.emplace_back();
    Type* t = &storage.back();
    t->key = key;
    if (parent) {
      t->ancestors = parent->ancestors;
      t->ancestors.push_back(&parent->info);
    }
    t->info.type_index = index;
    t->info.type_depth = static_cast<int32_t>(t->ancestors.size());
    t->info.type_key = {t->key.data(), t->key.size()};
    t->info.type_ancestors = t->ancestors.data();
    t->info.type_key_hash = std::hash<std::string>()(key);
    by_index[index] = t;
    by_key[key] = t;
    return t;
  }
  Types() {
    static const struct { int32_t index; const char* key; } kPlain[] = {
        {kTVMFFINone, "None"}, {kTVMFFIInt, "int"}, {kTVMFFIBool, "bool"}, {kTVMFFIFloat, "float"},
        {kTVMFFIOpaquePtr, "void*"}, {kTVMFFIDataType, "DataType"}, {kTVMFFIDevice, "Device"},
        {kTVMFFIDLTensorPtr, "DLTensor*"}, {kTVMFFIRawStr, "const char*"}, {kTVMFFIByteArrayPtr, "TVMFFIByteArray*"},
        {kTVMFFIObjectRValueRef, "ObjectRValueRef"}, {kTVMFFISmallStr, "ffi.SmallStr"}, {kTVMFFISmallBytes, "ffi.SmallBytes"}};
    static const struct { int32_t index; const char* key; } kObjects[] = {
        {kTVMFFIStr, "ffi.String"}, {kTVMFFIBytes, "ffi.Bytes"}, {kTVMFFIError, "ffi.Error"}, {kTVMFFIFunction, "ffi.Function"},
        {kTVMFFIShape, "ffi.Shape"}, {kTVMFFITensor, "ffi.Tensor"}, {kTVMFFIArray, "ffi.Array"}, {kTVMFFIMap, "ffi.Map"},
        {kTVMFFIModule, "ffi.Module"}, {kTVMFFIOpaquePyObject, "ffi.OpaquePyObject"}, {kTVMFFIList, "ffi.List"},
        {kTVMFFIDict, "ffi.Dict"}, {kTVMFFIBigInt, "ffi.BigInt"}};
    for (auto& t : kPlain) add(t.index, t.key, nullptr);
    Type* root = add(kTVMFFIObject, "ffi.Object", nullptr);
    for (auto& t : kObjects) add(t.index, t.key, root);
  }
};
Types& types() {
  static auto* t = new Types;
  return *t;
}

std::string text(const TVMFFIByteArray* b) { return std::string(b->data, b->size); }

struct AllocHeader {
  void (*delete_space)(void*);
};
struct CustomAllocator {
  void* (*allocate)(size_t size, size_t alignment, int32_t type_index, void* context);
  void* context;
};
// The header must end where the object begins; the room before it is a multiple of the alignment.
void* allocate(size_t size, size_t alignment, int32_t, void*) {
  size_t room = alignment < 16 ? 16 : alignment;
  void* memory = tw::aligned_memory(room, room + size);
  if (!memory) return nullptr;
  char* body = static_cast<char*>(memory) + room;
  auto* header = reinterpret_cast<AllocHeader*>(body) - 1;
  if (room == 16) header->delete_space = [](void* p) { tw::free_aligned(static_cast<char*>(p) - 16); };
  else if (room == 32) header->delete_space = [](void* p) { tw::free_aligned(static_cast<char*>(p) - 32); };
  else header->delete_space = [](void* p) { tw::free_aligned(static_cast<char*>(p) - 64); };
  return room <= 64 ? body : nullptr;
}
CustomAllocator default_allocator{allocate, nullptr};
CustomAllocator* custom_allocator = &default_allocator;

}  // namespace

using namespace tw;

extern "C" {
TW_EXPORT CustomAllocator* TVMFFIGetCustomAllocator() { return custom_allocator; }
TW_EXPORT int TVMFFISetCustomAllocator(CustomAllocator* a) {
  custom_allocator = a ? a : &default_allocator;
  return 0;
}
TW_EXPORT int TVMFFITypeKeyToIndex(const TVMFFIByteArray* key, int32_t* out) {
  return guarded([&] {
    std::lock_guard<RecursiveMutex> hold(types().lock);
    auto it = types().by_key.find(text(key));
    if (it == types().by_key.end()) fail("TypeError", "no object type has the key `%s`", text(key).c_str());
    *out = it->second->info.type_index;
  });
}
TW_EXPORT int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* key, int32_t static_index, int32_t, int32_t, int32_t, int32_t parent) {
  Types& all = types();
  std::lock_guard<RecursiveMutex> hold(all.lock);
  auto it = all.by_key.find(text(key));
  if (it != all.by_key.end()) return it->second->info.type_index;
  auto base = all.by_index.find(parent);
  int32_t index = static_index >= 0 ? static_index : all.next++;
  return all.add(index, text(key), base == all.by_index.end() ? nullptr : base->second)->info.type_index;
}
TW_EXPORT const TypeInfo* TVMFFIGetTypeInfo(int32_t index) {
  std::lock_guard<RecursiveMutex> hold(types().lock);
  auto it = types().by_index.find(index);
  return it == types().by_index.end() ? nullptr : &it->second->info;
}
// Reflection is not kept: nothing here reads fields by name.
TW_EXPORT int TVMFFITypeRegisterField(int32_t, const void*) { return 0; }
TW_EXPORT int TVMFFITypeRegisterMethod(int32_t, const void*) { return 0; }
TW_EXPORT int TVMFFITypeRegisterMetadata(int32_t, const void*) { return 0; }
TW_EXPORT int TVMFFITypeRegisterAttr(int32_t index, const TVMFFIByteArray* name, const TVMFFIAny* value) {
  return guarded([&] {
    std::lock_guard<RecursiveMutex> hold(types().lock);
    Column& c = types().columns[text(name)];
    if (index < 0) return;
    if (static_cast<size_t>(index) >= c.values.size()) c.values.resize(static_cast<size_t>(index) + 1, none());
    destroy(c.values[static_cast<size_t>(index)]);
    c.values[static_cast<size_t>(index)] = own(*value);
    c.view = {c.values.data(), static_cast<int32_t>(c.values.size()), 0};
  });
}
TW_EXPORT const TypeAttrColumn* TVMFFIGetTypeAttrColumn(const TVMFFIByteArray* name) {
  std::lock_guard<RecursiveMutex> hold(types().lock);
  return &types().columns[text(name)].view;
}
struct MethodInfo {
  TVMFFIByteArray name, doc, metadata;
  int64_t flags;
  TVMFFIAny method;
};
int TWFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle f, int override_);
TW_EXPORT int TVMFFIFunctionSetGlobalFromMethodInfo(const MethodInfo* info, int override_) {
  return TWFunctionSetGlobal(&info->name, info->method.v_obj, override_);
}
// Where an error was thrown: the caller's own position is enough for the merged traceback.
TW_EXPORT const TVMFFIByteArray* TVMFFIBacktrace(const char* file, int line, const char* function, int) {
  thread_local std::string entry;
  thread_local TVMFFIByteArray view;
  entry = file && function ? format("  File \"%s\", line %d, in %s\n", file, line, function) : std::string();
  view = {entry.data(), entry.size()};
  return &view;
}
// Integers past 64 bits: {header, number of words, words in two's complement, lowest first}.
struct BigInt {
  TVMFFIObject header;
  size_t words;
};
TW_EXPORT int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* in, TVMFFIAny* out) {
  return guarded([&] {
    if (in->size % 8 || in->size == 0) fail("ValueError", "a big integer needs whole 64-bit words, got %zu bytes", in->size);
    if (in->size == 8) {
      int64_t v;
      memcpy(&v, in->data, 8);
      *out = from_int(v);
      return;
    }
    auto* b = static_cast<BigInt*>(malloc(sizeof(BigInt) + in->size));
    if (!b) throw std::bad_alloc();
    b->header = {1 | (uint64_t{1} << 32), kTVMFFIBigInt, 0, [](void* self, int flags) { if (flags & kTVMFFIDeleteWeak) free(self); }};
    b->words = in->size / 8;
    memcpy(b + 1, in->data, in->size);
    *out = from_object(&b->header);
  });
}
TW_EXPORT TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFIInt) return {value->v_bytes, 8};
  auto* b = reinterpret_cast<const BigInt*>(value->v_obj);
  return {reinterpret_cast<const char*>(b + 1), b->words * 8};
}
TW_OWN_ALIAS(TWTypeIndex, TVMFFITypeGetOrAllocIndex)
int32_t TWTypeIndex(const TVMFFIByteArray*, int32_t, int32_t, int32_t, int32_t, int32_t);
TW_ALIAS(TWTypeKeyToIndex, TVMFFITypeKeyToIndex) int TWTypeKeyToIndex(const TVMFFIByteArray*, int32_t*);
TW_OWN_ALIAS(TWTypeInfo, TVMFFIGetTypeInfo) const TypeInfo* TWTypeInfo(int32_t);
}
