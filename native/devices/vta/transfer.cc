#include "transfer.h"

#include <algorithm>

namespace tw {

int64_t Requests::bytes(const Bus& bus) const { return std::min(m_.columns * m_.element_bytes - offset_, bus.longest(address())); }
void Requests::next(int64_t bytes) {
  offset_ += bytes;
  if (offset_ == m_.columns * m_.element_bytes) offset_ = 0, ++row_;
}

void Reading::start(const Matrix& m) {
  m_ = m;
  requests_.start(m);
  total_ = (m.top + m.rows + m.bottom) * (m.left + m.columns + m.right);
  written_ = column_ = row_ = partial_ = requested_ = 0;
}
void Reading::request(int64_t now) {
  if (!requests_.left()) return;
  const int64_t bytes = requests_.bytes(bus_);
  if (requested_ + bytes > d_.dram_requests * d_.dram_burst) return;
  bus_.read(owner_, requests_.address(), bytes, now);
  requested_ += bytes;
  requests_.next(bytes);
}
bool Reading::is_padding() const {
  return row_ < m_.top || row_ >= m_.top + m_.rows || column_ < m_.left || column_ >= m_.left + m_.columns;
}
Progress Reading::write(bool may_end) {
  ended_ = false;
  if (!is_padding()) {
    const int64_t left = m_.element_bytes - partial_, bytes = std::min({left, d_.dram_bytes, bus_.arrived(owner_)});
    if (bytes == 0) return Progress::kNoData;
    if (bytes == left && !may_end) return Progress::kNoPort;
    bus_.take(owner_, bytes);
    requested_ -= bytes;
    partial_ += bytes;
    if (bytes < left) return Progress::kMoved;
    partial_ = 0;
  } else if (!may_end) {
    return Progress::kNoPort;
  }
  ended_ = true;
  ++written_;
  if (++column_ == m_.left + m_.columns + m_.right) column_ = 0, ++row_;
  return Progress::kMoved;
}

void Writing::start(const Matrix& m) {
  m_ = m;
  requests_.start(m);
  total_ = m.rows * m.columns;
  read_ = held_ = 0;
}
Progress Writing::step(int64_t now, bool may_read) {
  Progress progress = Progress::kNoData;
  if (requests_.left()) {
    const int64_t bytes = requests_.bytes(bus_);
    if (held_ >= bytes && bus_.writing() < d_.dram_requests) {
      bus_.write(kOfStore, requests_.address(), bytes, now);
      held_ -= bytes;
      requests_.next(bytes);
      progress = Progress::kMoved;
    }
  }
  if (read_ < total_ && held_ < d_.dram_burst + m_.element_bytes) {
    if (!may_read) return Progress::kNoPort;
    ++read_;
    held_ += m_.element_bytes;
    progress = Progress::kMoved;
  }
  return progress;
}

}  // namespace tw
