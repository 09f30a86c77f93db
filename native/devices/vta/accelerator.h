// The devices of this process: each is a simulated board, with memory, and an accelerator once it has a configuration.
#pragma once
#include <memory>
#include <mutex>

#include "cycles.h"
#include "machine.h"

namespace tw {

class Accelerator {
 public:
  explicit Accelerator(int id) : id_(id) {}
  // Makes the accelerator what the description says; its memories on the chip begin empty.
  void configure(const std::string& description);
  // The accelerator; throws RuntimeError where there is none yet.
  Machine& machine();
  bool configured() const { return machine_ != nullptr; }
  // Runs the program of `count` instructions at an address. Throws what is wrong with it.
  void run(uint64_t address, uint64_t count);
  // The cycles of a program of a timed accelerator without what it does to data; -1 where it takes more than `most`. Throws what is wrong with
  // its tokens.
  int64_t cycles_of(uint64_t address, uint64_t count, int64_t most);
  std::string text() const;  // "ext_dev(0)"
  // The accelerator's clock if it is timed, else that of this machine.
  double seconds() const;

  std::mutex lock;
  Dram dram;
  Trace trace;
  Times times;  // since the counters were cleared
  bool skips = false;  // programs are checked, and not run

 private:
  int id_;
  std::unique_ptr<Machine> machine_;
  int64_t cycles_ = 0;  // since there is the device
};

// Throws ValueError where there is none of this number. Number 0 is always there.
std::shared_ptr<Accelerator> accelerator(int id);
bool has_accelerator(int id);
int add_accelerator();
void remove_accelerator(int id);

}  // namespace tw
