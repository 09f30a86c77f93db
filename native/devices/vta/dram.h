// The memory beside the accelerator: allocations at addresses of 32 bits, with gaps between them, so that what goes past an end is found.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tw {

class Dram {
 public:
  // The address of new memory of this size. Throws MemoryError where no gap is large enough.
  uint64_t allocate(uint64_t size);
  void release(uint64_t address);
  // What the accelerator sees. who(): the text of an error begins with it ("instruction 3 (...) reads").
  template <typename Who>
  uint8_t* device(uint64_t address, uint64_t size, Who who) {
    uint8_t* found = look(address, size, false);
    return found ? found : missing(address, size, who());
  }
  // What the CPU sees: through its caches, if they are not coherent.
  template <typename Who>
  uint8_t* cpu(uint64_t address, uint64_t size, Who who) {
    uint8_t* found = look(address, size, true);
    return found ? found : missing(address, size, who());
  }
  // Moves what the CPU wrote to where the accelerator sees it, and the other way.
  void flush(uint64_t address, uint64_t size);
  void invalidate(uint64_t address, uint64_t size);
  void set_coherent(bool coherent);
  uint64_t used() const { return used_; }

 private:
  struct Block {
    std::vector<uint8_t> bytes, cache;  // cache: only where the CPU's caches are not coherent
  };
  uint8_t* look(uint64_t address, uint64_t size, bool by_cpu);
  [[noreturn]] uint8_t* missing(uint64_t address, uint64_t size, const std::string& who) const;

  std::map<uint64_t, Block> blocks_;
  uint64_t used_ = 0;
  bool coherent_ = true;
  uint8_t nothing_ = 0;  // where an empty allocation is
};

constexpr uint64_t kDramBytes = uint64_t{1} << 32;

}  // namespace tw
