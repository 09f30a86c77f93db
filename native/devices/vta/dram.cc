#include "dram.h"

#include <cstring>

#include "../common/errors.h"

namespace tw {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t pages(uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

}  // namespace

uint64_t Dram::allocate(uint64_t size) {
  const uint64_t need = pages(size ? size : 1) + kPage;  // and a page that is nobody's
  uint64_t start = kPage;
  for (const auto& entry : blocks_) {
    if (entry.first >= start + need) break;
    start = entry.first + pages(entry.second.bytes.size() ? entry.second.bytes.size() : 1) + kPage;
  }
  if (start + need > kDramBytes)
    fail("MemoryError", "the accelerator's memory has no room for %s: %s of %s are allocated", bytes_text(size).c_str(), bytes_text(used_).c_str(),
         bytes_text(kDramBytes).c_str());
  Block& block = blocks_[start];
  block.bytes.resize(size);
  if (!coherent_) block.cache.resize(size);
  used_ += size;
  return start;
}
void Dram::release(uint64_t address) {
  auto it = blocks_.find(address);
  if (it == blocks_.end()) fail("ValueError", "no memory of the accelerator begins at 0x%llx", static_cast<unsigned long long>(address));
  used_ -= it->second.bytes.size();
  blocks_.erase(it);
}
uint8_t* Dram::look(uint64_t address, uint64_t size, bool by_cpu) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  Block& block = it->second;
  if (address + size > it->first + block.bytes.size()) return nullptr;
  std::vector<uint8_t>& seen = by_cpu && !coherent_ ? block.cache : block.bytes;
  return seen.empty() ? &nothing_ : seen.data() + (address - it->first);
}
uint8_t* Dram::missing(uint64_t address, uint64_t size, const std::string& who) const {
  std::string near = "nothing is allocated below it";
  auto it = blocks_.upper_bound(address);
  if (it != blocks_.begin()) {
    --it;
    near = format("the allocation below it is 0x%llx to 0x%llx", static_cast<unsigned long long>(it->first),
                  static_cast<unsigned long long>(it->first + it->second.bytes.size()));
  }
  fail("IndexError", "%s DRAM at 0x%llx, %llu bytes, which are not allocated: %s", who.c_str(), static_cast<unsigned long long>(address),
       static_cast<unsigned long long>(size), near.c_str());
}
void Dram::flush(uint64_t address, uint64_t size) {
  if (coherent_) return;
  auto who = [] { return "a flush of the cache of"; };
  uint8_t* seen = device(address, size, who);
  memcpy(seen, cpu(address, size, who), size);
}
void Dram::invalidate(uint64_t address, uint64_t size) {
  if (coherent_) return;
  auto who = [] { return "an invalidation of the cache of"; };
  uint8_t* seen = cpu(address, size, who);
  memcpy(seen, device(address, size, who), size);
}
void Dram::set_coherent(bool coherent) {
  for (auto& entry : blocks_) {
    if (coherent) entry.second.cache.clear();
    else if (coherent_) entry.second.cache = entry.second.bytes;
  }
  coherent_ = coherent;
}

}  // namespace tw
