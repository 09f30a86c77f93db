#include "order.h"

#include <algorithm>
#include <deque>

#include "../common/errors.h"

namespace tw {

const char* const kQueueNames[kQueues] = {"load to compute", "compute to load", "compute to store", "store to compute"};

int queue_of(Unit unit, FieldId flag) {
  switch (unit) {
    case kLoadUnit: return flag == kPopNext ? kComputeToLoad : flag == kPushNext ? kLoadToCompute : -1;
    case kStoreUnit: return flag == kPopPrev ? kComputeToStore : flag == kPushPrev ? kStoreToCompute : -1;
    default:
      return flag == kPopPrev ? kLoadToCompute : flag == kPopNext ? kStoreToCompute : flag == kPushPrev ? kComputeToLoad : kComputeToStore;
  }
}

namespace {

void check_flags(const Description& d, const std::vector<Instruction>& program) {
  for (size_t n = 0; n < program.size(); ++n) {
    const Instruction& i = program[n];
    for (FieldId flag : {kPopPrev, kPopNext, kPushPrev, kPushNext})
      if (i[flag] && queue_of(i.unit(), flag) < 0)
        fail("ValueError", "%s: the %s unit has no unit %s it", place_text(d, i, n).c_str(), kUnitNames[i.unit()],
             flag == kPopPrev || flag == kPushPrev ? "before" : "behind");
    if (i.opcode == kFinish && n + 1 != program.size())
      fail("ValueError", "%s is not the last of %zu instructions", place_text(d, i, n).c_str(), program.size());
  }
  if (program.empty() || program.back().opcode != kFinish) fail("ValueError", "the program does not end with finish");
}

class Queues {
 public:
  Queues(const Description& description, const std::vector<Instruction>& instructions) : d(description), program(instructions) {}
  void fetch() {
    while (fetched < program.size()) {
      auto& queue = waiting[program[fetched].unit()];
      if (static_cast<int64_t>(queue.size()) >= d.command_queue) return;
      queue.push_back(fetched++);
    }
  }
  bool give(Unit u) {
    bool gave = false;
    for (int side = 0; side < 2; ++side) {
      if (!owes[u][side]) continue;
      int64_t& count = tokens[queue_of(u, side ? kPushNext : kPushPrev)];
      if (count >= d.token_queue) continue;
      ++count, owes[u][side] = false, gave = true;
      said[queue_of(u, side ? kPushNext : kPushPrev)].push_back(done[u]);
      said[queue_of(u, side ? kPushNext : kPushPrev)].back()[u] = begun[u];
    }
    if (!owes[u][0] && !owes[u][1]) giving[u] = -1;
    return gave;
  }
  bool can_start(Unit u) const {
    if (giving[u] >= 0 || waiting[u].empty()) return false;
    const Instruction& i = program[waiting[u].front()];
    for (FieldId flag : {kPopPrev, kPopNext})
      if (i[flag] && tokens[queue_of(u, flag)] == 0) return false;
    return true;
  }
  void start(Unit u, Order* order) {
    const uint32_t n = waiting[u].front();
    const Instruction& i = program[n];
    waiting[u].pop_front();
    for (FieldId flag : {kPopPrev, kPopNext}) {
      if (!i[flag]) continue;
      const int q = queue_of(u, flag);
      --tokens[q];
      // A token knows what its giver knew, and that its giver is done.
      for (int other = 0; other < kUnits; ++other) done[u][other] = std::max(done[u][other], said[q].front()[other]);
      said[q].pop_front();
    }
    order->done[n] = done[u];
    order->numbers[n] = ++begun[u];
    order->starts.push_back(n);
    owes[u][0] = i[kPushPrev] != 0, owes[u][1] = i[kPushNext] != 0;
    giving[u] = n;
  }
  std::string state() const {
    std::string text;
    for (int u = 0; u < kUnits; ++u) {
      const Unit unit = static_cast<Unit>(u);
      std::string line = "has no instruction left";
      if (giving[u] >= 0) {
        const auto n = static_cast<size_t>(giving[u]);
        line = "has done " + place_text(d, program[n], n) + ", whose token has no room in the queue";
        for (int side = 0; side < 2; ++side)
          if (owes[u][side]) line += std::string(" ") + kQueueNames[queue_of(unit, side ? kPushNext : kPushPrev)];
      } else if (!waiting[u].empty()) {
        const uint32_t n = waiting[u].front();
        line = "waits at " + place_text(d, program[n], n) + " for a token in the queue";
        for (FieldId flag : {kPopPrev, kPopNext})
          if (program[n][flag] && tokens[queue_of(unit, flag)] == 0) line += std::string(" ") + kQueueNames[queue_of(unit, flag)];
      }
      text += format("\n  %s %s", kUnitNames[u], line.c_str());
    }
    if (fetched < program.size())
      text += format("\n  fetch waits at %s, because the queue of the %s unit is full", place_text(d, program[fetched], fetched).c_str(),
                     kUnitNames[program[fetched].unit()]);
    return text + "\n  tokens: " + held();
  }
  std::string held() const {
    std::string text;
    for (int q = 0; q < kQueues; ++q)
      text += format("%s%s %lld", q ? ", " : "", kQueueNames[q], static_cast<long long>(tokens[q]));
    return text;
  }

  const Description& d;
  const std::vector<Instruction>& program;
  std::deque<uint32_t> waiting[kUnits];
  int64_t tokens[kQueues] = {};
  int64_t giving[kUnits] = {-1, -1, -1};  // the instruction that has yet to give tokens
  bool owes[kUnits][2] = {};              // to the unit before, behind
  uint32_t fetched = 0;
  std::array<uint32_t, kUnits> done[kUnits] = {};  // by unit, how many instructions of each are done for certain
  uint32_t begun[kUnits] = {};
  std::deque<std::array<uint32_t, kUnits>> said[kQueues];  // the same, by token
};

}  // namespace

Order order_of(const Description& d, const std::vector<Instruction>& program) {
  check_flags(d, program);
  Queues q(d, program);
  Order order;
  order.starts.reserve(program.size());
  order.numbers.resize(program.size());
  order.done.resize(program.size());
  for (;;) {
    q.fetch();
    bool moved = false;
    for (int u = 0; u < kUnits; ++u)
      if (q.giving[u] >= 0) moved |= q.give(static_cast<Unit>(u)) || q.giving[u] < 0;
    int first = -1;
    for (int u = 0; u < kUnits; ++u)
      if (q.can_start(static_cast<Unit>(u)) && (first < 0 || q.waiting[u].front() < q.waiting[first].front())) first = u;
    if (first >= 0) q.start(static_cast<Unit>(first), &order);
    else if (!moved) break;
  }
  if (order.starts.size() < program.size() || q.giving[0] >= 0 || q.giving[1] >= 0 || q.giving[2] >= 0)
    fail("RuntimeError", "the program waits forever:%s", q.state().c_str());
  for (int64_t count : q.tokens)
    if (count) fail("RuntimeError", "the program leaves tokens, with which the next one would begin: %s", q.held().c_str());
  return order;
}

}  // namespace tw
