// Tensors: allocation, views, DLPack in both directions, and the text form of data types.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core.h"
#include "devices/device.h"
#include "platform/process.h"
#include "pool.h"

namespace tw {

TensorObject::~TensorObject() {
  if (release) release(owner);
  free(heap_dims);
}

void TensorObject::set_dims(int32_t ndim, const int64_t* shape, const int64_t* strides) {
  int64_t* at = dims;
  if (ndim > 6) {
    at = heap_dims = static_cast<int64_t*>(malloc(sizeof(int64_t) * 2 * static_cast<size_t>(ndim)));
    if (!at) throw std::bad_alloc();
  }
  tensor.ndim = ndim;
  tensor.shape = at;
  tensor.strides = at + ndim;
  int64_t step = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = strides ? strides[i] : step;
    step *= shape[i];
  }
}

int64_t tensor_bytes(const DLTensor& t) {
  int64_t count = 1;
  for (int32_t i = 0; i < t.ndim; ++i) count *= t.shape[i];
  // Elements below a byte (bool as one bit) take a whole one, as in compiled code.
  return count * ((t.dtype.bits * t.dtype.lanes + 7) / 8);
}

bool is_compact(const DLTensor& t) {
  if (!t.strides) return true;
  int64_t step = 1;
  for (int32_t i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] == 0) return true;
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
    step *= t.shape[i];
  }
  return true;
}

namespace {
struct Strided {
  const DLTensor& t;
  size_t item;
  int32_t inner;  // the first of the dimensions that lie in row-major order at the end
  size_t run;     // their bytes
  char* to;

  template <size_t kItem>
  void column(const char* from, int64_t n, int64_t step) {
    for (int64_t i = 0; i < n; ++i, from += step, to += kItem) memcpy(to, from, kItem);
  }
  void copy(int32_t d, const char* from) {
    if (d == inner) {
      memcpy(to, from, run);
      to += run;
      return;
    }
    const int64_t n = t.shape[d], step = t.strides[d] * static_cast<int64_t>(item);
    const bool last = d + 1 == inner;
    if (last && run == 1) return column<1>(from, n, step);
    if (last && run == 2) return column<2>(from, n, step);
    if (last && run == 4) return column<4>(from, n, step);
    if (last && run == 8) return column<8>(from, n, step);
    for (int64_t i = 0; i < n; ++i) copy(d + 1, from + i * step);
  }
};
}  // namespace

void gather(const DLTensor& t, void* to) {
  const char* from = static_cast<const char*>(t.data) + t.byte_offset;
  const auto bytes = static_cast<size_t>(tensor_bytes(t));
  if (bytes == 0) return;
  if (is_compact(t)) {
    memcpy(to, from, bytes);
    return;
  }
  const auto item = static_cast<size_t>((t.dtype.bits * t.dtype.lanes + 7) / 8);
  int32_t inner = t.ndim;
  int64_t run = 1;
  for (; inner > 0 && (t.shape[inner - 1] == 1 || t.strides[inner - 1] == run); --inner) run *= t.shape[inner - 1];
  Strided{t, item, inner, static_cast<size_t>(run) * item, static_cast<char*>(to)}.copy(0, from);
}

std::string shape_text(int32_t ndim, const int64_t* shape) {
  std::string text = "(";
  for (int32_t i = 0; i < ndim; ++i) text += format(i ? ", %lld" : "%lld", static_cast<long long>(shape[i]));
  return text + (ndim == 1 ? ",)" : ")");
}

Ref<TensorObject> empty_tensor(int32_t ndim, const int64_t* shape, DLDataType dtype, DLDevice device, const char* scope) {
  int64_t bytes = (dtype.bits * dtype.lanes + 7) / 8;
  bool fits = true, empty = false;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) fail("ValueError", "cannot allocate shape %s: dimension %d is negative", shape_text(ndim, shape).c_str(), i);
    fits = fits && multiply_bytes(bytes, shape[i]);
    empty |= shape[i] == 0;
  }
  if (!fits && !empty) fail("MemoryError", "cannot allocate a tensor of shape %s: it is larger than memory", shape_text(ndim, shape).c_str());
  auto t = Ref<TensorObject>::steal(make<TensorObject>());
  t->tensor = DLTensor{nullptr, device, 0, dtype, nullptr, nullptr, 0};
  t->set_dims(ndim, shape, nullptr);
  allocate_tensor(*t.get(), scope);
  return t;
}

Ref<TensorObject> tensor_view(DLTensor like, Ref<> keep_alive) {
  auto t = Ref<TensorObject>::steal(make<TensorObject>());
  t->tensor = like;
  t->set_dims(like.ndim, like.shape, like.strides);
  t->owner = keep_alive.release();
  t->release = [](void* p) { if (p) decref(p); };
  return t;
}

static const struct { const char* name; uint8_t code, bits; } kFloat8[] = {
    {"float8_e3m4", 7, 8}, {"float8_e4m3", 8, 8}, {"float8_e4m3b11fnuz", 9, 8}, {"float8_e4m3fn", 10, 8},
    {"float8_e4m3fnuz", 11, 8}, {"float8_e5m2", 12, 8}, {"float8_e5m2fnuz", 13, 8}, {"float8_e8m0fnu", 14, 8},
    {"float6_e2m3fn", 15, 6}, {"float6_e3m2fn", 16, 6}, {"float4_e2m1fn", 17, 4}};

std::string dtype_text(DLDataType d) {
  std::string lanes = d.lanes > 1 ? format("x%d", d.lanes) : "";
  for (auto& f : kFloat8)
    if (f.code == d.code) return f.name + lanes;
  if ((d.code == kDLUInt && d.bits == 1) || d.code == kDLBool) return "bool" + lanes;
  if (d.code == kDLOpaque) return d.bits == 0 ? "void" : "handle" + lanes;
  const char* base = d.code == kDLInt ? "int" : d.code == kDLUInt ? "uint" : d.code == kDLFloat ? "float" :
                     d.code == kDLBfloat ? "bfloat" : d.code == kDLComplex ? "complex" : "custom";
  return format("%s%d", base, d.bits) + lanes;
}

DLDataType parse_dtype(const std::string& text) {
  auto parse = [&](size_t at, DLDataType d, bool width) {
    char* end = const_cast<char*>(text.c_str()) + at;
    if (width && *end >= '0' && *end <= '9') d.bits = static_cast<uint8_t>(strtol(end, &end, 10));
    if (*end == 'x') d.lanes = static_cast<uint16_t>(strtol(end + 1, &end, 10));
    if (*end) fail("ValueError", "unknown data type `%s`; examples: float32, int8x16, bfloat16, bool", text.c_str());
    return d;
  };
  for (auto& f : kFloat8) {
    size_t n = strlen(f.name);
    if (text.compare(0, n, f.name) == 0 && (text.size() == n || text[n] == 'x')) return parse(n, {f.code, f.bits, 1}, false);
  }
  static const struct { const char* name; DLDataType d; bool width; } kBases[] = {
      {"int", {kDLInt, 32, 1}, true}, {"uint", {kDLUInt, 32, 1}, true}, {"float", {kDLFloat, 32, 1}, true},
      {"bfloat", {kDLBfloat, 16, 1}, true}, {"complex", {kDLComplex, 64, 1}, true}, {"bool", {kDLUInt, 1, 1}, false},
      {"handle", {kDLOpaque, 64, 1}, false}, {"void", {kDLOpaque, 0, 0}, false}};
  for (auto& b : kBases)
    if (text.compare(0, strlen(b.name), b.name) == 0) return parse(strlen(b.name), b.d, b.width);
  fail("ValueError", "unknown data type `%s`; examples: float32, int8x16, bfloat16, bool", text.c_str());
}

static void check_import(const DLTensor& t, int32_t alignment, int32_t contiguous) {
  auto address = reinterpret_cast<uintptr_t>(t.data) + t.byte_offset;
  if (alignment > 0 && address % static_cast<uintptr_t>(alignment))
    fail("ValueError", "tensor data must be aligned to %d bytes, but starts at %p; copy it first", alignment, reinterpret_cast<void*>(address));
  if (contiguous && !is_compact(t))
    fail("ValueError", "tensor of shape %s is not contiguous; copy it first (numpy.ascontiguousarray)", shape_text(t.ndim, t.shape).c_str());
}

template <typename Managed>
static Ref<TensorObject> from_managed(Managed* from, uint64_t flags, int32_t alignment, int32_t contiguous) {
  check_import(from->dl_tensor, alignment, contiguous);
  auto t = Ref<TensorObject>::steal(make<TensorObject>());
  t->tensor = from->dl_tensor;
  t->set_dims(t->tensor.ndim, t->tensor.shape, t->tensor.strides);
  t->flags = flags;
  t->owner = from;
  t->release = [](void* p) {
    auto* m = static_cast<Managed*>(p);
    if (m->deleter) m->deleter(m);
  };
  return t;
}

template <typename Managed>
static Managed* to_managed(TVMFFIObjectHandle from) {
  auto* source = static_cast<TVMFFIObject*>(from);
  auto* m = new Managed();
  incref(source);
  m->dl_tensor = *reinterpret_cast<DLTensor*>(source + 1);
  m->manager_ctx = source;
  m->deleter = [](Managed* self) {
    decref(self->manager_ctx);
    delete self;
  };
  return m;
}

static DLPackManagedTensorAllocator allocator = nullptr;

// What results are copied into, run after run: memory that is fresh from the system costs more to touch than to fill.
constexpr size_t kCopies = 512u << 20;
static Pool& copies() {
  static Pool* pool = [] {
    static auto* kept = new std::shared_ptr<Pool>(std::make_shared<Pool>(kCopies));
    at_fork([] { copies().lock(); }, [] { copies().unlock(); }, [] { copies().unlock(); });
    return kept->get();
  }();
  return *pool;
}

static void register_tensor() {
  register_global("runtime.RecycledBytes", [](Args args) {
    int64_t bytes = as_int(args[0], "the number of bytes");
    if (bytes < 0) fail("ValueError", "the number of bytes is negative: %lld", static_cast<long long>(bytes));
    auto t = Ref<TensorObject>::steal(make<TensorObject>());
    t->tensor = DLTensor{nullptr, {kDLCPU, 0}, 0, {kDLUInt, 8, 1}, nullptr, nullptr, 0};
    t->set_dims(1, &bytes, nullptr);
    t->tensor.data = t->owner = copies().take(static_cast<size_t>(bytes));
    t->release = Pool::give;
    return from_ref(std::move(t));
  });
  register_global("runtime.TensorEmpty", [](Args args) {
    if (args[0].type_index != kTVMFFIArray) fail("TypeError", "shape must be a list of integers");
    auto* cell = reinterpret_cast<TVMFFISeqCell*>(args[0].v_obj + 1);
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < cell->size; ++i) shape.push_back(as_int(static_cast<TVMFFIAny*>(cell->data)[i], "a dimension"));
    if (args[1].type_index != kTVMFFIDataType || args[2].type_index != kTVMFFIDevice) fail("TypeError", "expected (shape, dtype, device)");
    return from_ref(empty_tensor(static_cast<int32_t>(shape.size()), shape.data(), args[1].v_dtype, args[2].v_device));
  });
}
static const int tensor_registered = (register_tensor(), 0);

}  // namespace tw

using namespace tw;

extern "C" {
TW_EXPORT int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t alignment, int32_t contiguous, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = from_managed(from, 0, alignment, contiguous).release(); });
}
TW_EXPORT int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from, int32_t alignment, int32_t contiguous,
                                              TVMFFIObjectHandle* out) {
  return guarded([&] {
    if (from->version.major != 1) fail("BufferError", "DLPack version %u is not supported; this runtime speaks version 1", from->version.major);
    *out = from_managed(from, from->flags, alignment, contiguous).release();
  });
}
TW_EXPORT int TVMFFITensorToDLPack(TVMFFIObjectHandle from, DLManagedTensor** out) {
  return guarded([&] { *out = to_managed<DLManagedTensor>(from); });
}
TW_EXPORT int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle from, DLManagedTensorVersioned** out) {
  return guarded([&] {
    *out = to_managed<DLManagedTensorVersioned>(from);
    (*out)->version = {1, 1};
    (*out)->flags = static_cast<TensorObject*>(from)->flags & 1;
  });
}
TW_EXPORT int TVMFFITensorCreateUnsafeView(TVMFFIObjectHandle source, const DLTensor* prototype, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = tensor_view(*prototype, Ref<>::share(source)).release(); });
}
TW_EXPORT int TVMFFIEnvSetDLPackManagedTensorAllocator(DLPackManagedTensorAllocator a, int, DLPackManagedTensorAllocator* old) {
  if (old) *old = allocator;
  allocator = a;
  return 0;
}
TW_EXPORT DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator() { return allocator; }
TW_EXPORT int TVMFFIEnvTensorAlloc(DLTensor* like, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = empty_tensor(like->ndim, like->shape, like->dtype, like->device).release(); });
}

// A tensor over memory that `owner` keeps alive; `release(owner)` runs at its end.
TW_EXPORT int TWTensorFromMemory(const DLTensor* like, void* owner, void (*release)(void*), TVMFFIObjectHandle* out) {
  return guarded([&] {
    auto t = Ref<TensorObject>::steal(make<TensorObject>());
    t->tensor = *like;
    t->set_dims(like->ndim, like->shape, like->strides);
    t->owner = owner;
    t->release = release;
    *out = t.release();
  });
}
TW_EXPORT void TWCopyMemory(void* to, const void* from, size_t bytes) { copy_memory(to, from, bytes); }
TW_EXPORT int TWTensorEmpty(int32_t ndim, const int64_t* shape, const DLDataType* dtype, const DLDevice* device, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = empty_tensor(ndim, shape, *dtype, *device).release(); });
}
TW_EXPORT int TWTensorEmptyInScope(int32_t ndim, const int64_t* shape, const DLDataType* dtype, const DLDevice* device, const char* scope, TVMFFIObjectHandle* out) {
  return guarded([&] { *out = empty_tensor(ndim, shape, *dtype, *device, scope).release(); });
}
TW_ALIAS(TWTensorFromDLPack, TVMFFITensorFromDLPack)
int TWTensorFromDLPack(DLManagedTensor*, int32_t, int32_t, TVMFFIObjectHandle*);
TW_ALIAS(TWTensorFromDLPackVersioned, TVMFFITensorFromDLPackVersioned)
int TWTensorFromDLPackVersioned(DLManagedTensorVersioned*, int32_t, int32_t, TVMFFIObjectHandle*);
TW_ALIAS(TWTensorToDLPack, TVMFFITensorToDLPack)
int TWTensorToDLPack(TVMFFIObjectHandle, DLManagedTensor**);
TW_ALIAS(TWTensorToDLPackVersioned, TVMFFITensorToDLPackVersioned)
int TWTensorToDLPackVersioned(TVMFFIObjectHandle, DLManagedTensorVersioned**);
}
