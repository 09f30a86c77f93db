#include "memory.h"

#include <algorithm>

#include "device.h"

namespace tw {

void Memory::prepare() {
  if (prepared_) return;
  prepared_ = true;
  if (!cuda().create_pool || !cuda().allocate_in_pool || !cuda().release_in_order || !device_.attribute(kMemoryPools)) return;
  CUmemoryPoolProps props{};
  props.allocation_type = 1;
  props.location = {1, device_.device};
  check(cuda().create_stream(&order_, kStreamNonBlocking), "make a stream on", device_);
  check(cuda().create_pool(&pool_, &props), "make a pool of memory on", device_);
  uint64_t keep = UINT64_MAX;
  cuda().set_pool_attribute(pool_, kPoolReleaseThreshold, &keep);
  for (int i = 0; i < cuda().count; ++i) {
    CUdevice peer = 0;
    int can = 0;
    if (i == device_.number || cuda().device_get(&peer, i) || cuda().can_access_peer(&can, peer, device_.device) || !can) continue;
    const CUmemoryAccess access{{1, peer}, 3};
    cuda().set_pool_access(pool_, &access, 1);
  }
}

CUresult Memory::take(CUdeviceptr* data, size_t bytes) {
  if (!pool_) return cuda().allocate(data, bytes);
  const CUresult code = cuda().allocate_in_pool(data, bytes, pool_, order_);
  return code ? code : cuda().synchronize_stream(order_);  // all before it in this stream is done: there is nothing to wait for
}

void Memory::give_back(bool wait) {
  size_t kept = 0;
  for (Freed& f : freed_) {
    if (!f.when.passed(wait)) {
      std::swap(freed_[kept++], f);
      continue;
    }
    if (pool_) cuda().release_in_order(f.data, order_);
    else cuda().release(f.data);
  }
  freed_.resize(kept);
}

void* Memory::allocate(const DLTensor& like, size_t bytes) {
  const Current current(device_);
  std::lock_guard<std::mutex> hold(lock_);
  prepare();
  give_back(false);
  CUdeviceptr data = 0;
  CUresult code = take(&data, bytes);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    give_back(true);
    if (pool_) cuda().synchronize_stream(order_);
    if (pool_ && cuda().trim_pool) cuda().trim_pool(pool_, 0);
    code = take(&data, bytes);
  }
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t available = 0, total = 0;
    cuda().memory_info(&available, &total);
    fail("MemoryError", "%s has no memory for %s, which needs %s: %s of %s are free. Free arrays there, or use a smaller batch", device_.text().c_str(),
         tensor_text(like).c_str(), bytes_text(bytes).c_str(), bytes_text(available).c_str(), bytes_text(total).c_str());
  }
  check(code, "allocate memory on", device_);
  return reinterpret_cast<void*>(data);
}

void Memory::release(void* data) {
  const Current current(device_);
  Freed freed{reinterpret_cast<CUdeviceptr>(data), streams.now()};
  std::lock_guard<std::mutex> hold(lock_);
  freed_.push_back(std::move(freed));
  give_back(false);
}

size_t Memory::available() const {
  const Current current(device_);
  size_t available = 0, total = 0;
  check(cuda().memory_info(&available, &total), "ask for the memory of", device_);
  return available;
}

}  // namespace tw
