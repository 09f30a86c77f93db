// Memory that kernels ask for and give back: it stays with the thread, since the system's pages cost more than what many kernels do.
#include "../pool.h"
#include "device.h"

namespace tw {
namespace {

int64_t whole_pages(size_t bytes) { return static_cast<int64_t>((bytes + 4095) & ~size_t{4095}); }

constexpr size_t kMost = size_t{256} << 20;
thread_local std::shared_ptr<Pool> cpu_workspaces;

// Of other devices: what was given back is taken again by the next who asks for as much or less.
struct DeviceWorkspaces {
  struct Block {
    Ref<TensorObject> memory;
    size_t bytes;
    bool taken;
  };
  std::vector<Block> blocks;

  void* take(DLDevice device, size_t bytes) {
    Block* best = nullptr;
    for (auto& b : blocks)
      if (!b.taken && same_device(b.memory->tensor.device, device) && b.bytes >= bytes && (!best || b.bytes < best->bytes)) best = &b;
    if (!best) {
      int64_t shape[1] = {whole_pages(bytes)};
      blocks.push_back({empty_tensor(1, shape, DLDataType{kDLUInt, 8, 1}, device), static_cast<size_t>(shape[0]), false});
      best = &blocks.back();
    }
    best->taken = true;
    return best->memory->tensor.data;
  }
  void give(DLDevice device, void* data) {
    for (auto& b : blocks)
      if (b.taken && b.memory->tensor.data == data && same_device(b.memory->tensor.device, device)) {
        b.taken = false;
        return;
      }
    fail("ValueError", "this thread has no workspace on %s at %p", device_text(device).c_str(), data);
  }
};
thread_local DeviceWorkspaces device_workspaces;

}  // namespace

Ref<TensorObject> DevicePool::tensor(int32_t ndim, const int64_t* dims, DLDataType dtype, DLDevice device, size_t bytes) {
  int64_t shape[1] = {whole_pages(std::max<size_t>(bytes, 1))};
  void* stream = current_stream(device);
  std::unique_ptr<Block> block;
  {
    std::lock_guard<Mutex> hold(lock_);
    for (auto& b : free_)
      if (b->stream == stream && b->memory->tensor.shape[0] == shape[0] && same_device(b->memory->tensor.device, device)) {
        block = std::move(b);
        b = std::move(free_.back());
        free_.pop_back();
        break;
      }
  }
  if (!block) {
    block = std::make_unique<Block>(Block{nullptr, {}, stream});
    try {
      block->memory = empty_tensor(1, shape, DLDataType{kDLUInt, 8, 1}, device);
    } catch (...) {  // perhaps there is enough without what waits here
      trim();
      take_raised();
      block->memory = empty_tensor(1, shape, DLDataType{kDLUInt, 8, 1}, device);
    }
  }
  block->pool = shared_from_this();
  auto t = Ref<TensorObject>::steal(make<TensorObject>());
  t->tensor = DLTensor{block->memory->tensor.data, device, 0, dtype, nullptr, nullptr, 0};
  t->set_dims(ndim, dims, nullptr);
  t->release = Block::give;
  t->owner = block.release();
  return t;
}
void DevicePool::Block::give(void* owner) {
  std::unique_ptr<Block> block(static_cast<Block*>(owner));
  auto pool = std::move(block->pool);
  std::lock_guard<Mutex> hold(pool->lock_);
  pool->free_.push_back(std::move(block));
}
void DevicePool::trim() {
  std::vector<std::unique_ptr<Block>> all;
  std::lock_guard<Mutex> hold(lock_);
  all.swap(free_);
}

void* alloc_workspace(int64_t bytes, int32_t device_type, int32_t device_id) {
  void* found = nullptr;
  guarded([&] {
    const DLDevice device{device_type, device_id};
    if (!on_cpu(device)) {
      found = device_workspaces.take(device, static_cast<size_t>(bytes));
      return;
    }
    if (!cpu_workspaces) cpu_workspaces = std::make_shared<Pool>(kMost);
    found = cpu_workspaces->take(static_cast<size_t>(bytes));
  });
  return found;
}
int32_t free_workspace(void* data, int32_t device_type, int32_t device_id) {
  return guarded([&] {
    const DLDevice device{device_type, device_id};
    if (on_cpu(device)) Pool::give(data);
    else device_workspaces.give(device, data);
  });
}

namespace {

// What lies between the kernels of one function, on the device that __tvm_set_device has set: (type of the device, bytes) -> address;
// (type, address).
const int workspaces_registered = [] {
  register_global("__tvm_take_workspace", [](Args args) {
    const DLDevice device = current_device(static_cast<int32_t>(as_int(args[0], "a device's type")));
    TVMFFIAny taken = none();
    taken.type_index = kTVMFFIOpaquePtr;
    taken.v_ptr = device_workspaces.take(device, static_cast<size_t>(as_int(args[1], "a number of bytes")));
    return taken;
  });
  register_global("__tvm_give_workspace", [](Args args) {
    device_workspaces.give(current_device(static_cast<int32_t>(as_int(args[0], "a device's type"))), args[1].v_ptr);
    return none();
  });
  return 0;
}();

}  // namespace

}  // namespace tw
