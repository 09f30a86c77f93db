// Memory of a device of CUDA. What is allocated may be used at once in any stream. What is freed goes back when all that the streams were
// given before is done; nothing waits for that, unless memory is short.
#pragma once
#include <tilewright/abi.h>

#include <mutex>
#include <vector>

#include "api.h"
#include "streams.h"

namespace tw {

struct CudaDevice;

class Memory {
 public:
  Streams streams;

  explicit Memory(CudaDevice& device) : streams(device), device_(device) {}
  // For a tensor like this one. Throws MemoryError with what was asked and what there is.
  void* allocate(const DLTensor& like, size_t bytes);
  void release(void* data);
  size_t available() const;

 private:
  struct Freed {
    CUdeviceptr data;
    Moment when;
  };
  void prepare();
  CUresult take(CUdeviceptr* data, size_t bytes);
  void give_back(bool wait);

  CudaDevice& device_;
  std::mutex lock_;
  bool prepared_ = false;
  CUmemoryPool pool_ = nullptr;  // null where the driver has none
  CUstream order_ = nullptr;     // in which the pool works
  std::vector<Freed> freed_;
};

}  // namespace tw
