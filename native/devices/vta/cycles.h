// The cycle-level simulator: fetch, the three units with their pipelines, queues and tokens, and DRAM, one cycle after the other.
#pragma once
#include <deque>
#include <limits>
#include <vector>

#include "machine.h"
#include "order.h"
#include "trace.h"
#include "transfer.h"

namespace tw {

// What a unit did in a cycle.
enum Activity : int { kBusy, kIdle, kWaitsPrev, kWaitsNext, kFull, kOnDram, kOnPort, kOnHazard, kActivities };

struct Times {
  int64_t cycles = 0, bus_busy = 0;
  int64_t spent[kUnits][kActivities] = {};
  int64_t moved[kOwners] = {};
};

class CycleSimulator {
 public:
  CycleSimulator(Machine* machine, const std::vector<Instruction>& program, uint64_t address, int64_t begin, Trace* trace);
  // Runs the program, and adds to the times. It must not wait forever (`order_of`). Returns whether it ended within `most` cycles.
  bool run(Times* times, int64_t most = std::numeric_limits<int64_t>::max());

 private:
  enum State { kNone, kWorking, kGiving };
  struct UnitState {
    std::deque<uint32_t> queue;
    State state = kNone;
    uint32_t index = 0;
    bool owes[2] = {};
    int64_t since = 0, waits_since = -1;
    Activity waits_for = kBusy;
  };
  struct Loops {  // where a gemm or an alu is
    int64_t out = 0, in = 0, uop = 0, next = 0, drained = 0;
    bool left = false;
  };

  Activity tick(Unit u);
  Activity start(Unit u);
  Activity work(Unit u);
  Activity work_reading(Unit u, Reading* reading);
  Activity work_steps();
  Activity give(Unit u);
  void tick_fetch();
  void note(Unit u, Activity a);
  Matrix matrix_of(const Instruction& i) const;
  bool port_taken(int memory) const { return d_.sram_ports == 1 && port_[memory] == now_; }

  Machine& m_;
  const Description& d_;
  const std::vector<Instruction>& program_;
  Trace& trace_;
  Bus bus_;
  Reading fetching_, loading_, filling_;
  Writing storing_;
  UnitState units_[kUnits];
  int64_t tokens_[kQueues] = {}, given_[kQueues] = {};
  std::vector<std::pair<Unit, uint32_t>> dispatched_;  // to be in their queues from the next cycle on
  uint32_t fetched_ = 0, ended_ = 0;
  Loops loops_;
  std::vector<int64_t> ready_;  // by accumulator, when it is written
  std::vector<int64_t> out_writes_;
  int64_t port_[kMemories];  // the last cycle in which the compute unit used the port
  int64_t now_ = 0;
  const int64_t begin_;
  Times times_;
};

}  // namespace tw
