// Arrays on devices.
#ifndef TVM_RUNTIME_NDARRAY_H_
#define TVM_RUNTIME_NDARRAY_H_

#include <optional>
#include <string>
#include <vector>

#include "container/optional.h"
#include "container/shape_tuple.h"
#include "container/string.h"

namespace tvm {
using Device = DLDevice;

namespace runtime {

inline size_t GetDataSize(const DLTensor& t) {
  size_t size = 1;
  for (int32_t i = 0; i < t.ndim; ++i) size *= static_cast<size_t>(t.shape[i]);
  return size * static_cast<size_t>((t.dtype.bits * t.dtype.lanes + 7) / 8);
}
inline bool IsContiguous(const DLTensor& t) {
  if (!t.strides) return true;
  int64_t step = 1;
  for (int32_t i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] == 0) return true;
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
    step *= t.shape[i];
  }
  return true;
}

// One reference to an array of the runtime. `operator->` is its DLTensor.
class NDArray : public ObjectRef {
 public:
  class Container : public Object {
   public:
    DLTensor dl_tensor;
    static constexpr const char* _type_key = "runtime.NDArray";
    static constexpr bool _type_final = true;
    static uint32_t RuntimeTypeIndex() { return kTVMFFITensor; }
  };
  using ContainerType = Container;

  NDArray() = default;
  explicit NDArray(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}
  const DLTensor* operator->() const { return &container()->dl_tensor; }
  const DLTensor* get() const { return operator->(); }
  Container* get_mutable() const { return const_cast<Container*>(container()); }
  void reset() { data_.reset(); }
  bool IsContiguous() const { return ::tvm::runtime::IsContiguous(*get()); }
  ShapeTuple Shape() const { return ShapeTuple(get()->shape, get()->shape + get()->ndim); }
  runtime::DataType DataType() const { return runtime::DataType(get()->dtype); }
  // Whether the elements begin where compiled code expects them to.
  static bool IsAligned(const DLTensor& t, size_t alignment = 64) { return (reinterpret_cast<uintptr_t>(t.data) + t.byte_offset) % alignment == 0; }

  void CopyFrom(const DLTensor* other) { CopyFromTo(other, const_cast<DLTensor*>(get())); }
  void CopyFrom(const NDArray& other) { CopyFrom(other.get()); }
  void CopyTo(DLTensor* other) const { CopyFromTo(get(), other); }
  void CopyTo(const NDArray& other) const { CopyFromTo(get(), const_cast<DLTensor*>(other.get())); }
  NDArray CopyTo(const Device& dev, Optional<String> mem_scope = NullOpt) const {
    NDArray made = Empty(Shape(), get()->dtype, dev, mem_scope);
    made.CopyFrom(*this);
    return made;
  }
  void CopyFromBytes(const void* data, size_t nbytes) {
    const DLTensor flat = bytes(data, nbytes);
    CopyFromTo(&flat, const_cast<DLTensor*>(get()));
  }
  void CopyToBytes(void* data, size_t nbytes) const {
    DLTensor flat = bytes(data, nbytes);
    CopyFromTo(get(), &flat);
  }

  // The same memory with another shape or data type, which must not need more of it; `relative_byte_offset` bytes further on.
  NDArray CreateView(ShapeTuple shape, DLDataType dtype, uint64_t relative_byte_offset = 0) const {
    ICHECK(IsContiguous()) << "ValueError: can only create a view of a contiguous array";
    DLTensor like = *get();
    like.shape = const_cast<int64_t*>(shape.data());
    like.ndim = static_cast<int32_t>(shape.size());
    like.strides = nullptr;
    like.dtype = dtype;
    like.byte_offset += relative_byte_offset;
    ICHECK_LE(GetDataSize(like) + relative_byte_offset, GetDataSize(*get()))
        << "ValueError: a view of shape " << shape << " and type " << DLDataType2String(dtype) << " needs more memory than the array of shape " << Shape()
        << " and type " << DataType() << " has";
    return view(like, data_);
  }
  static NDArray Empty(ShapeTuple shape, DLDataType dtype, Device dev, Optional<String> mem_scope = NullOpt) {
    TVMFFIObjectHandle made = nullptr;
    const std::string scope = mem_scope.defined() ? std::string(mem_scope.value()) : "";
    ::tilewright::detail::check(::tilewright::host_api().create_tensor(static_cast<int32_t>(shape.size()), shape.data(), &dtype, &dev, scope.c_str(), &made));
    return take(made);
  }
  // Over memory that the caller keeps.
  static NDArray FromExternalDLTensor(const DLTensor& tensor) {
    ICHECK(::tvm::runtime::IsContiguous(tensor)) << "ValueError: external DLTensor must be contiguous";
    ICHECK(IsAligned(tensor)) << "ValueError: data in DLTensor is not aligned as required by NDArray";
    return view(tensor, ObjectPtr<Object>());
  }
  static NDArray NewFromDLTensor(DLTensor* tensor, const Device& dev) {
    NDArray made = Empty(ShapeTuple(tensor->shape, tensor->shape + tensor->ndim), tensor->dtype, dev);
    made.CopyFrom(tensor);
    return made;
  }
  // Takes over the tensor.
  static NDArray FromDLPack(DLManagedTensor* tensor) {
    TVMFFIObjectHandle made = nullptr;
    ::tilewright::detail::check(::tilewright::host_api().from_dlpack(tensor, 0, 1, &made));
    return take(made);
  }
  DLManagedTensor* ToDLPack() const {
    DLManagedTensor* made = nullptr;
    ::tilewright::detail::check(::tilewright::host_api().to_dlpack(data_->header(), &made));
    return made;
  }
  // Without a stream, waits for the copy where one of the two is on the CPU. A program that gives one is linked with the runtime library.
  static void CopyFromTo(const DLTensor* from, DLTensor* to) {
    need_same_size(from, to);
    ::tilewright::detail::check(::tilewright::host_api().copy_tensor(from, to));
  }
  static void CopyFromTo(const DLTensor* from, DLTensor* to, TVMStreamHandle stream) {
    if (!stream) return CopyFromTo(from, to);
    need_same_size(from, to);
    ::tilewright::detail::check(TVMDeviceCopyDataFromTo(const_cast<DLTensor*>(from), to, stream));
  }
  // Whether a tensor on the device can be used as it lies (FromExternalDLTensor).
  static bool AbilityOfZeroCopyForDLTensor(DLTensor* tensor, const Device& dev) {
    return tensor->device.device_type == dev.device_type && tensor->device.device_id == dev.device_id && ::tvm::runtime::IsContiguous(*tensor) && IsAligned(*tensor);
  }

 private:
  static void need_same_size(const DLTensor* from, const DLTensor* to) {
    ICHECK_EQ(GetDataSize(*from), GetDataSize(*to)) << "ValueError: TVMArrayCopyFromTo: The size in bytes must exactly match";
  }
  const Container* container() const { return static_cast<const Container*>(data_.get()); }
  static NDArray take(TVMFFIObjectHandle made) { return NDArray(ObjectPtr<Object>::TakeOver(static_cast<Object*>(made))); }
  static NDArray view(const DLTensor& like, ObjectPtr<Object> owner) {
    TVMFFIObjectHandle made = nullptr;
    auto release = [](void* held) { ::tilewright::detail::drop(static_cast<TVMFFIObject*>(held)); };
    if (owner != nullptr) ::tilewright::detail::keep(owner->header());
    TVMFFIObject* held = owner != nullptr ? owner->header() : nullptr;
    if (int code = ::tilewright::host_api().view_tensor(&like, held, release, &made)) {
      ::tilewright::detail::drop(held);
      ::tilewright::detail::check(code);
    }
    return take(made);
  }
  DLTensor bytes(const void* data, size_t nbytes) const {
    ICHECK_EQ(nbytes, GetDataSize(*get())) << "ValueError: the number of bytes must be that of the array";
    DLTensor flat = *get();
    flat.data = const_cast<void*>(data);
    flat.device = Device{kDLCPU, 0};
    flat.strides = nullptr;
    flat.byte_offset = 0;
    return flat;
  }
};

}  // namespace runtime
using runtime::NDArray;
}  // namespace tvm

#endif
