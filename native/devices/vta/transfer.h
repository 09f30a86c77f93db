// A copy between DRAM and a memory on the chip, cycle by cycle.
#pragma once
#include "bus.h"

namespace tw {

// Rows of elements, with padding around them.
struct Matrix {
  uint64_t address = 0;
  int64_t element_bytes = 1, rows = 0, columns = 0, stride = 0;  // in elements
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

enum class Progress { kMoved, kNoData, kNoPort };

// The addresses of the rows, cut into requests.
class Requests {
 public:
  void start(const Matrix& m) { m_ = m, row_ = m.columns > 0 ? 0 : m.rows, offset_ = 0; }
  bool left() const { return row_ < m_.rows; }
  uint64_t address() const { return m_.address + static_cast<uint64_t>(row_ * m_.stride * m_.element_bytes + offset_); }
  int64_t bytes(const Bus& bus) const;
  void next(int64_t bytes);

 private:
  Matrix m_;
  int64_t row_ = 0, offset_ = 0;
};

// From DRAM: requests run ahead of the data, as far as the buffer holds them; a cycle writes at most one element, of padding too.
class Reading {
 public:
  Reading(const Description& d, Bus* bus, Owner owner) : d_(d), bus_(*bus), owner_(owner) {}
  void start(const Matrix& m);
  bool done() const { return written_ == total_; }
  // Sends the next request, if there is room for its data.
  void request(int64_t now);
  // Writes what this cycle can; may_end: whether an element can be written now.
  Progress write(bool may_end);
  int64_t written() const { return written_; }
  // Whether the last call of `write` ended an element.
  bool ended() const { return ended_; }

 private:
  bool is_padding() const;

  const Description& d_;
  Bus& bus_;
  const Owner owner_;
  Matrix m_;
  Requests requests_;
  int64_t total_ = 0, written_ = 0, column_ = 0, row_ = 0;
  int64_t partial_ = 0;    // bytes of the element that has begun
  int64_t requested_ = 0;  // bytes that are requested and not yet written
  bool ended_ = false;
};

// To DRAM: a cycle reads at most one element, and requests follow when their data are there.
class Writing {
 public:
  Writing(const Description& d, Bus* bus) : d_(d), bus_(*bus) {}
  void start(const Matrix& m);
  bool done() const { return read_ == total_ && !requests_.left() && bus_.writing() == 0; }
  Progress step(int64_t now, bool may_read);

 private:
  const Description& d_;
  Bus& bus_;
  Matrix m_;
  Requests requests_;
  int64_t total_ = 0, read_ = 0, held_ = 0;
};

}  // namespace tw
