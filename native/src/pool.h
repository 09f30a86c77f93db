// Memory that is asked for again and again: tensors of the virtual machine, workspaces of kernels, copies of results.
#pragma once
#include <memory>

#include "core.h"
#include "platform/locks.h"
#include "platform/memory.h"

namespace tw {

// Blocks of a few sizes per power of two; freed ones are kept for the next tensor of that size, as the next run asks for the same.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  // most: bytes to keep of what was given back.
  explicit Pool(size_t most = ~size_t{0}) : most_(most) {}
  ~Pool() { trim(); }
  static constexpr size_t kHeader = 64;
  struct Block {
    std::shared_ptr<Pool> pool;
    Block* next;
    size_t size_class, bytes;
  };
  void* take(size_t bytes) {
    size_t rounded, index = size_class(bytes, &rounded);
    Block* block = nullptr;
    {
      std::lock_guard<Mutex> hold(lock_);
      if (index < free_.size() && (block = free_[index])) {
        free_[index] = block->next;
        kept_ -= rounded;
      }
      used_ += rounded;
      peak_ = used_ > peak_ ? used_ : peak_;
    }
    if (!block) {
      void* memory = aligned_memory(64, kHeader + rounded);
      if (!memory) {
        trim();
        memory = aligned_memory(64, kHeader + rounded);
      }
      if (!memory) {
        std::lock_guard<Mutex> hold(lock_);
        used_ -= rounded;
        fail("MemoryError", "cannot allocate %zu bytes", bytes);
      }
      block = new (memory) Block{{}, nullptr, index, rounded};
    }
    block->pool = shared_from_this();
    return reinterpret_cast<char*>(block) + kHeader;
  }
  static void give(void* data) {
    auto* block = reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
    std::shared_ptr<Pool> pool = std::move(block->pool);
    std::lock_guard<Mutex> hold(pool->lock_);
    pool->used_ -= block->bytes;
    if (block->bytes > pool->most_) {
      block->~Block();
      free_aligned(block);
      return;
    }
    // What is given back now is asked for sooner than what others have left behind.
    if (pool->kept_ + block->bytes > pool->most_) pool->drop();
    if (pool->free_.size() <= block->size_class) pool->free_.resize(block->size_class + 1);
    block->next = pool->free_[block->size_class];
    pool->free_[block->size_class] = block;
    pool->kept_ += block->bytes;
  }
  // The most bytes that were in use at once since this was last asked.
  size_t peak() {
    std::lock_guard<Mutex> hold(lock_);
    size_t found = peak_;
    peak_ = used_;
    return found;
  }
  // While the process forks nobody may be in the midst of a change.
  void lock() { lock_.lock(); }
  void unlock() { lock_.unlock(); }
  // Gives what is not in use back to the system.
  void trim() {
    std::lock_guard<Mutex> hold(lock_);
    drop();
  }

 private:
  // The same, for who holds the lock.
  void drop() {
    for (Block*& head : free_)
      while (Block* block = head) {
        head = block->next;
        block->~Block();
        free_aligned(block);
      }
    kept_ = 0;
  }
  static size_t size_class(size_t bytes, size_t* rounded) {
    if (bytes <= 64) { *rounded = 64; return 0; }
    unsigned top = 63 - static_cast<unsigned>(__builtin_clzll(bytes - 1));  // 2^top < bytes <= 2^(top + 1)
    size_t step = (size_t{1} << top) / 4;
    size_t parts = (bytes - (size_t{1} << top) + step - 1) / step;  // 1..4
    *rounded = (((size_t{1} << top) + parts * step) + 63) & ~size_t{63};
    return (top - 6) * 4 + parts;
  }
  static_assert(sizeof(Block) <= kHeader, "the header stands in one cache line before the data");
  Mutex lock_;
  std::vector<Block*> free_;
  const size_t most_;
  size_t kept_ = 0, used_ = 0, peak_ = 0;
};

}  // namespace tw
