// Devices behind one table of functions, TWDeviceAPI: memory, copies, streams. The CPU has such a table too, but what is on it alone
// goes straight to memory.
#pragma once
#include "../core.h"

namespace tw {

inline bool on_cpu(DLDevice d) { return d.device_type == kDLCPU; }
inline bool same_device(DLDevice a, DLDevice b) { return a.device_type == b.device_type && a.device_id == b.device_id; }
std::string device_text(DLDevice d);  // cuda(1)
std::string device_type_text(int32_t type);

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

// What this thread gives a device goes there; null is the device's own order.
void* current_stream(DLDevice device);
void* set_current_stream(DLDevice device, void* stream);  // answers the one before
void synchronize(DLDevice device, void* stream);

// Memory for the time of a call, kept with the thread for the next one. Null, with an error left, where there is none.
void* alloc_workspace(int64_t bytes, int32_t device_type, int32_t device_id);
int32_t free_workspace(void* data, int32_t device_type, int32_t device_id);

extern const TWDeviceAPI kCPUDevice;
void* allocate_cpu(size_t bytes);  // aligned to 64 bytes; null where there is no memory

}  // namespace tw
