#include "bus.h"

#include <algorithm>

namespace tw {

// Takes a beat off a request: what of it lies in one aligned word.
int64_t Bus::beat(Request* r) const {
  const int64_t bytes = std::min(r->bytes, d_.dram_bytes - static_cast<int64_t>(r->address % static_cast<uint64_t>(d_.dram_bytes)));
  r->address += static_cast<uint64_t>(bytes);
  r->bytes -= bytes;
  return bytes;
}

void Bus::tick(int64_t now) {
  while (!answers_.empty() && answers_.front() <= now) answers_.pop_front(), --writing_;
  const bool can_read = !reads_.empty() && reads_.front().ready <= now, can_write = !writes_.empty();
  if (!can_read && !can_write) return;
  ++busy;
  read_was_last_ = can_read && !(can_write && read_was_last_);  // in turns, where both can
  std::deque<Request>& queue = read_was_last_ ? reads_ : writes_;
  Request& r = queue.front();
  const int64_t bytes = beat(&r);
  moved[r.owner] += bytes;
  if (read_was_last_) arrived_[r.owner] += bytes;
  if (r.bytes > 0) return;
  if (!read_was_last_) answers_.push_back(now + d_.dram_latency);
  queue.pop_front();
}

}  // namespace tw
