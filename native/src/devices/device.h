// Devices behind one table of functions, TWDeviceAPI: memory, copies, streams. The CPU has such a table too, but what is on it alone
// goes straight to memory.
#pragma once
#include <memory>

#include "../core.h"
#include "../platform/locks.h"

namespace tw {

inline bool on_cpu(DLDevice d) { return d.device_type == kDLCPU; }
inline bool same_device(DLDevice a, DLDevice b) { return a.device_type == b.device_type && a.device_id == b.device_id; }
std::string device_text(DLDevice d);  // cuda(1)
std::string device_type_text(int32_t type);

// Throws where this process cannot use the device: its type has no runtime, or there is no device of that number.
void need_device(DLDevice d);

// The table of a type of devices; throws where this process has none for it.
const TWDeviceAPI& device_api(int32_t type);
// The same, but null where there is none.
const TWDeviceAPI* find_device_api(int32_t type);
// Throws what a function of the table left as its error; `what` completes "cannot ... cuda(0)".
void check_device(int32_t code, const char* what, DLDevice device);

// Gives a tensor whose shape, type and device are set its memory. scope: "" or null, or a name that the device knows.
void allocate_tensor(TensorObject& t, const char* scope);
// Sets the bytes of a compact tensor to 0.
void clear_tensor(const DLTensor& t);
// Copies between compact tensors of one size, in the order of this thread's streams: it may go on after this has returned.
void start_copy(const DLTensor& from, const DLTensor& to, void* stream);
// Copies the elements of a tensor into a compact one of as many bytes. Where one of them is on the CPU, it has ended then.
void copy_tensor(const DLTensor& from, const DLTensor& to);
// The same into memory of the CPU.
void fetch_tensor(const DLTensor& from, void* to);
// Copies inside of the CPU's memory, by several threads where it is long.
void copy_memory(void* to, const void* from, size_t bytes);

// The bytes at an address, on a device, as a tensor.
DLTensor flat_tensor(void* data, DLDevice device, int64_t* bytes);

// The device of a type that this thread's kernels run on where their arguments are mere addresses; number 0 until it is set.
DLDevice current_device(int32_t type);
void set_current_device(DLDevice device);
// What this thread gives a device goes there; null is the device's own order.
void* current_stream(DLDevice device);
void* set_current_stream(DLDevice device, void* stream);  // answers the one before
void synchronize(DLDevice device, void* stream);

// Memory of devices other than the CPU that is asked for again and again: what was given back is taken by the next who asks for as much,
// in the same stream, where its last use lies before the next one.
class DevicePool : public std::enable_shared_from_this<DevicePool> {
 public:
  Ref<TensorObject> tensor(int32_t ndim, const int64_t* shape, DLDataType dtype, DLDevice device, size_t bytes);
  // Gives what is not in use back to the devices.
  void trim();

 private:
  struct Block {
    std::shared_ptr<DevicePool> pool;
    Ref<TensorObject> memory;
    void* stream;
    static void give(void* owner);
  };
  Mutex lock_;
  std::vector<std::unique_ptr<Block>> free_;
};

// Memory for the time of a call, kept with the thread for the next one. Null, with an error left, where there is none.
void* alloc_workspace(int64_t bytes, int32_t device_type, int32_t device_id);
int32_t free_workspace(void* data, int32_t device_type, int32_t device_id);

extern const TWDeviceAPI kCPUDevice;
void* allocate_cpu(size_t bytes);  // aligned to 64 bytes; null where there is no memory

}  // namespace tw
