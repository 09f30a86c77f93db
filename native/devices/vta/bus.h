// When DRAM moves which bytes: requests are served in their order, reads and writes apart; one beat of `dram_bytes` moves in a cycle.
#pragma once
#include <cstdint>
#include <deque>

#include "description.h"

namespace tw {

enum Owner : int { kOfLoad, kOfCompute, kOfStore, kOfFetch, kOwners };

class Bus {
 public:
  explicit Bus(const Description& d) : d_(d) {}
  // The length of the request that may begin at an address: up to the next multiple of `dram_burst`.
  int64_t longest(uint64_t address) const { return d_.dram_burst - static_cast<int64_t>(address % static_cast<uint64_t>(d_.dram_burst)); }
  // The first beat of a read comes `dram_latency` cycles after its request. A write moves its beats at once; it is done as many cycles later.
  void read(Owner owner, uint64_t address, int64_t bytes, int64_t now) { reads_.push_back({owner, address, bytes, now + d_.dram_latency}); }
  void write(Owner owner, uint64_t address, int64_t bytes, int64_t now) {
    ++writing_;
    writes_.push_back({owner, address, bytes, now});
  }
  // Ends a cycle. Beats are there for their owners from the next one on.
  void tick(int64_t now);
  int64_t arrived(Owner owner) const { return arrived_[owner]; }
  void take(Owner owner, int64_t bytes) { arrived_[owner] -= bytes; }
  // Writes that are not done.
  int64_t writing() const { return writing_; }

  int64_t busy = 0;              // cycles in which a beat moved
  int64_t moved[kOwners] = {};   // bytes

 private:
  struct Request {
    Owner owner;
    uint64_t address;
    int64_t bytes, ready;
  };
  int64_t beat(Request* r) const;

  const Description& d_;
  std::deque<Request> reads_, writes_;
  std::deque<int64_t> answers_;  // when writes are done
  int64_t arrived_[kOwners] = {}, writing_ = 0;
  bool read_was_last_ = false;
};

}  // namespace tw
