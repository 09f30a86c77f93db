// The state of an accelerator, and what its instructions do to it, bit for bit. Every access is checked.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "description.h"
#include "dram.h"
#include "order.h"

namespace tw {

// What has been done since the counters were cleared.
struct Counters {
  int64_t bytes[kMemories] = {};  // moved between DRAM and a memory
  int64_t gemm_steps = 0, alu_steps = 0, instructions = 0, programs = 0;
};

class Machine {
 public:
  Machine(const Description& description, Dram* memory);
  // Accesses are checked against the tokens of this program from now on.
  void begin(const std::vector<Instruction>* program, const Order* order);
  // Does what an instruction says. Throws IndexError or ValueError, which names the instruction, for what it must not do.
  void execute(const Instruction& i, size_t index);
  // The program of `count` instructions at an address, decoded.
  std::vector<Instruction> program(uint64_t address, uint64_t count);

  const Description d;
  Counters counters;
  // Instructions only load micro-ops, on which times depend; of all others only the places on the chip are checked.
  bool without_data = false;

  // The micro-op at an index of the memory of micro-ops: dst, src, wgt.
  const int32_t* uop(int64_t n) const { return &uops_[static_cast<size_t>(n) * 3]; }

 private:
  struct Step {
    int64_t out, in, uop;  // trips, micro-op
  };
  void load(const Instruction& i, size_t index);
  void store(const Instruction& i, size_t index);
  void gemm(const Instruction& i, size_t index);
  void alu(const Instruction& i, size_t index);
  template <typename F>
  void each_step(const Instruction& i, size_t index, F body);
  // Throws where a step of a gemm or an alu has a micro-op that is missing, or an element that is not there.
  void check_steps(const Instruction& i, size_t index);
  void check_inside(Memory m, int64_t element, bool read, const Instruction& i, size_t index, const Step* step) const;
  // Throws unless the element is there; and, where it is read, has been written.
  void check(Memory m, int64_t element, bool read, const Instruction& i, size_t index, const Step* step) const;
  // Throws unless a token orders this access behind those of the other unit: a memory has one unit that writes it and one that reads it.
  void check_order(Memory m, int64_t element, bool read, const Instruction& i, size_t index, const Step* step);
  std::string access_text(Memory m, int64_t element, bool read, const Step* step) const;
  void fill(Memory m, int64_t from, int64_t count, bool smallest);
  void copy_in(Memory m, int64_t to, int64_t count, const uint8_t* bytes);
  [[noreturn]] void refuse(const char* kind, const Instruction& i, size_t index, const std::string& why) const;
  [[noreturn]] void refuse_operation(const Instruction& i, size_t index) const;
  void check_uops(const uint8_t* data, const Instruction& i, size_t index) const;
  void check_alignment(Memory m, const Instruction& i, size_t index) const;

  Dram& dram_;
  std::vector<int32_t> uops_, acc_, out_;
  std::vector<int16_t> inp_, wgt_;
  std::vector<uint8_t> written_[kMemories];
  const std::vector<Instruction>* program_ = nullptr;
  const Order* order_ = nullptr;
  std::vector<int32_t> last_[kMemories][2];  // by element, the instruction of the program that wrote, read it last, or -1
};

}  // namespace tw
