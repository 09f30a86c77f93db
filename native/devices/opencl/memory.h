// Memory of a device of OpenCL. Where host and device can share memory, an address is that of the device itself; what is freed goes back
// when all that the queues were given before is done. Elsewhere memory is buffers, which the commands that use them keep, and addresses
// are numbers that this table gives them.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include <tilewright/abi.h>

#include "api.h"

namespace tw {

struct OpenCLDevice;

struct Place {
  cl_mem buffer;  // null: shared memory, at its address
  size_t offset;
  void* address;
};

class Memory {
 public:
  explicit Memory(OpenCLDevice& device);
  // For a tensor like this one. Throws MemoryError with what was asked and what there is.
  void* allocate(const DLTensor& like, size_t bytes);
  void release(void* data);
  // The allocation that contains [address, address + bytes). Throws if the device has none; the message begins with `what`.
  Place find(void* address, size_t bytes, const char* what);
  // Sets an argument of a kernel to an address.
  cl_int set_arg(cl_kernel kernel, cl_uint index, void* address, const char* what);
  bool is_shared() const { return shared_; }
  size_t used() const { return used_; }
  size_t available() const;

 private:
  struct Block {
    size_t bytes;
    cl_mem buffer;
    std::map<size_t, cl_mem> parts;  // by offset
  };
  struct Freed {
    void* data;
    std::vector<cl_event> ends;  // of what the queues were given before
  };
  uintptr_t take(size_t bytes, Block* block);
  void give_back(bool wait);
  uintptr_t free_numbers(size_t bytes) const;
  std::map<uintptr_t, Block>::iterator block_of(uintptr_t address, size_t bytes, const char* what);
  cl_mem part_at(Block& block, size_t offset, const char* what);

  OpenCLDevice& device_;
  const bool shared_;
  std::mutex lock_;
  std::vector<Freed> freed_;
  std::map<uintptr_t, Block> blocks_;
  size_t used_ = 0;
};

}  // namespace tw
