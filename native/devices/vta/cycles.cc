#include "cycles.h"

#include <algorithm>

#include "../common/errors.h"

namespace tw {
namespace {

constexpr int64_t kLongestPipeline = 64, kWindow = 256;  // cycles over which bandwidth is averaged in traces

// What a unit waits for, in a trace.
std::string wait_text(Unit u, Activity a) {
  static const char* const names[kActivities] = {"", "", "", "", "room for its token", "DRAM", "a port", "an accumulator"};
  if (a == kWaitsPrev || a == kWaitsNext) return std::string("token ") + kQueueNames[queue_of(u, a == kWaitsPrev ? kPopPrev : kPopNext)];
  return names[a];
}

}  // namespace

CycleSimulator::CycleSimulator(Machine* machine, const std::vector<Instruction>& program, uint64_t address, int64_t begin, Trace* trace)
    : m_(*machine), d_(machine->d), program_(program), trace_(*trace), bus_(d_), fetching_(d_, &bus_, kOfFetch), loading_(d_, &bus_, kOfLoad),
      filling_(d_, &bus_, kOfCompute), storing_(d_, &bus_), ready_(static_cast<size_t>(d_.depth[kAcc])), out_writes_(kLongestPipeline + 1, -1),
      begin_(begin) {
  std::fill(port_, port_ + kMemories, -1);
  const auto count = static_cast<int64_t>(program.size());
  Matrix code;
  code.address = address, code.element_bytes = d_.instruction_bytes, code.rows = 1, code.columns = code.stride = count;
  fetching_.start(code);
}

bool CycleSimulator::run(Times* times, int64_t most) {
  int64_t moved_before = 0;
  while (ended_ < program_.size() && now_ < most) {
    // The compute unit is first at the ports. What is given in a cycle is there in the next one.
    for (Unit u : {kComputeUnit, kLoadUnit, kStoreUnit}) note(u, tick(u));
    tick_fetch();
    bus_.tick(now_);
    for (int q = 0; q < kQueues; ++q) tokens_[q] += given_[q], given_[q] = 0;
    for (const auto& entry : dispatched_) units_[entry.first].queue.push_back(entry.second);
    dispatched_.clear();
    if (++now_ % kWindow == 0 && trace_.on) {
      int64_t moved = 0;
      for (int64_t bytes : bus_.moved) moved += bytes;
      trace_.bandwidth(begin_ + now_ - kWindow, static_cast<double>(moved - moved_before) / kWindow);
      moved_before = moved;
    }
  }
  for (int u = 0; u < kUnits; ++u)
    for (int a = 0; a < kActivities; ++a) times->spent[u][a] += times_.spent[u][a];
  for (int o = 0; o < kOwners; ++o) times->moved[o] += bus_.moved[o];
  times->bus_busy += bus_.busy;
  times->cycles += now_;
  return ended_ == program_.size();
}

void CycleSimulator::note(Unit u, Activity a) {
  ++times_.spent[u][a];
  UnitState& s = units_[u];
  if (!trace_.on) return;
  if (s.waits_since >= 0 && s.waits_for != a) {
    trace_.wait(u, wait_text(u, s.waits_for), begin_ + s.waits_since, begin_ + now_);
    s.waits_since = -1;
  }
  if (a > kIdle && s.waits_since < 0) s.waits_since = now_, s.waits_for = a;
}

Activity CycleSimulator::tick(Unit u) {
  switch (units_[u].state) {
    case kNone: return start(u);
    case kWorking: return work(u);
    default: return give(u);
  }
}

Matrix CycleSimulator::matrix_of(const Instruction& i) const {
  Matrix m;
  m.address = static_cast<uint64_t>(i[kDramBase]), m.element_bytes = d_.element_bytes[i[kMemory]];
  m.rows = i[kYSize], m.columns = i[kXSize], m.stride = i[kXStride];
  if (i.opcode == kLoad) m.top = i[kYPadTop], m.bottom = i[kYPadBottom], m.left = i[kXPadLeft], m.right = i[kXPadRight];
  return m;
}

Activity CycleSimulator::start(Unit u) {
  UnitState& s = units_[u];
  if (s.queue.empty()) return kIdle;
  const Instruction& i = program_[s.queue.front()];
  if (i[kPopPrev] && tokens_[queue_of(u, kPopPrev)] == 0) return kWaitsPrev;
  if (i[kPopNext] && tokens_[queue_of(u, kPopNext)] == 0) return kWaitsNext;
  for (FieldId flag : {kPopPrev, kPopNext})
    if (i[flag]) --tokens_[queue_of(u, flag)];
  s.index = s.queue.front();
  s.queue.pop_front();
  s.since = now_;
  m_.execute(i, s.index);
  s.state = kWorking;
  if (i.opcode == kLoad) {
    (u == kLoadUnit ? loading_ : filling_).start(matrix_of(i));
  } else if (i.opcode == kStore) {
    storing_.start(matrix_of(i));
  } else if (i.opcode == kFinish) {
    s.state = kGiving;
  } else {
    loops_ = Loops();
    loops_.uop = i[kUopBegin];
    loops_.left = i[kIterOut] > 0 && i[kIterIn] > 0 && i[kUopBegin] < i[kUopEnd];
    loops_.next = loops_.drained = now_ + 1;
  }
  return kBusy;
}

Activity CycleSimulator::work(Unit u) {
  UnitState& s = units_[u];
  const Instruction& i = program_[s.index];
  if (i.opcode == kLoad) return work_reading(u, u == kLoadUnit ? &loading_ : &filling_);
  if (i.opcode != kStore) return work_steps();
  if (storing_.done()) {
    s.state = kGiving;
    return give(u);
  }
  const bool taken = d_.sram_ports == 1 && out_writes_[static_cast<size_t>(now_ % (kLongestPipeline + 1))] == now_;
  switch (storing_.step(now_, !taken)) {
    case Progress::kMoved: return kBusy;
    case Progress::kNoPort: return kOnPort;
    default: return kOnDram;
  }
}

Activity CycleSimulator::work_reading(Unit u, Reading* reading) {
  if (reading->done()) {
    units_[u].state = kGiving;
    return give(u);
  }
  reading->request(now_);
  const int memory = static_cast<int>(program_[units_[u].index][kMemory]);
  switch (reading->write(u == kComputeUnit || !port_taken(memory))) {
    case Progress::kMoved: return kBusy;
    case Progress::kNoPort: return kOnPort;
    default: return kOnDram;
  }
}

Activity CycleSimulator::work_steps() {
  UnitState& s = units_[kComputeUnit];
  const Instruction& i = program_[s.index];
  Loops& l = loops_;
  if (!l.left) {
    if (now_ < l.drained) return kBusy;  // the pipeline runs empty
    s.state = kGiving;
    return give(kComputeUnit);
  }
  if (now_ < l.next) return kBusy;  // its second operand is read
  const int32_t* u = m_.uop(l.uop);
  const bool is_gemm = i.opcode == kGemm, two = !is_gemm && !i[kUseImm];
  const auto dst = static_cast<size_t>(u[0] + l.out * i[kDstFactorOut] + l.in * i[kDstFactorIn]);
  if (ready_[dst] > now_) return kOnHazard;
  if (two && ready_[static_cast<size_t>(u[1] + l.out * i[kSrcFactorOut] + l.in * i[kSrcFactorIn])] > now_) return kOnHazard;
  if (is_gemm && !i[kReset]) port_[kInp] = port_[kWgt] = now_;
  const int64_t written = now_ + two + (is_gemm ? d_.gemm_latency : d_.alu_latency);
  ready_[dst] = l.drained = written;
  out_writes_[static_cast<size_t>(written % (kLongestPipeline + 1))] = written;
  l.next = now_ + 1 + two;
  if (++l.uop == i[kUopEnd]) {
    l.uop = i[kUopBegin];
    if (++l.in == i[kIterIn]) l.in = 0, l.left = ++l.out < i[kIterOut];
  }
  return kBusy;
}

Activity CycleSimulator::give(Unit u) {
  UnitState& s = units_[u];
  const Instruction& i = program_[s.index];
  const FieldId flags[] = {kPushPrev, kPushNext};
  if (!s.owes[0] && !s.owes[1]) s.owes[0] = i[kPushPrev] != 0, s.owes[1] = i[kPushNext] != 0;
  for (int side = 0; side < 2; ++side) {
    if (!s.owes[side]) continue;
    const int q = queue_of(u, flags[side]);
    if (tokens_[q] + given_[q] >= d_.token_queue) continue;
    ++given_[q];
    s.owes[side] = false;
  }
  if (s.owes[0] || s.owes[1]) return kFull;
  s.state = kNone;
  ++ended_;
  if (trace_.on) {
    const std::string text = instruction_text(d_, i);
    trace_.instruction(u, text.substr(0, text.find(' ')), format("%u: ", s.index) + text, begin_ + s.since, begin_ + now_ + 1);
  }
  return kBusy;
}

void CycleSimulator::tick_fetch() {
  if (fetching_.done()) return;
  const Unit u = program_[fetched_].unit();
  fetching_.request(now_);
  fetching_.write(static_cast<int64_t>(units_[u].queue.size()) < d_.command_queue);
  if (fetching_.ended()) dispatched_.emplace_back(u, fetched_++);
}

}  // namespace tw
