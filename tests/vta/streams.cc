// Random instruction streams in the functional and in the cycle-level simulator, many in a process: streams DESCRIPTIONS FIRST COUNT.
//
// DESCRIPTIONS: a file of accelerators as text, with an empty line behind each; stream n runs on number n modulo their count. Tokens of a
// stream are those that its accesses need, as the compiler gives them, so units work at the same time; every eighth stream has tokens
// anywhere, every sixteenth a damaged instruction. Memory, and the counters of what was done, must be equal afterwards, or both must refuse
// the stream. Prints "ended refused instructions cycles together", where together are cycles in which two units or more worked, at least.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../native/devices/common/errors.h"
#include "../../native/devices/vta/cycles.h"

namespace {

using namespace tw;

// A simulator with its DRAM; two of one stream begin with the same contents at the same addresses.
struct Board {
  explicit Board(const Description& d) : machine(d, &dram) {}
  Dram dram;
  Machine machine;
  Times times;
};

class Stream {
 public:
  Stream(const Description& d, uint64_t seed) : d_(d), random_(seed), seed_(seed) {
    for (int m = 0; m < kMemories; ++m) count_[m] = d.depth[m] + between(1, 9);
    for (int m : {kInp, kWgt, kOut}) written_[m].assign(size(m), -1), read_[m].assign(size(m), -1);
    functional_ = std::make_unique<Board>(d);
    timed_ = std::make_unique<Board>(d);
    fill();
    begin();
    for (int64_t n = between(4, 40); n > 0; --n) step();
    end();
    if (seed % 8 == 7) scatter();
    if (seed % 16 == 5) damage();
  }
  // Whether both simulators do the same.
  bool same();
  void print(FILE* to) const {
    for (size_t n = 0; n < program_.size(); ++n) fprintf(to, "%s\n", instruction_text(d_, program_[n]).c_str());
    fprintf(to, "functional: %s\ncycle by cycle: %s\n", ends_[0].c_str(), ends_[1].c_str());
  }
  bool ended() const { return ends_[0].empty(); }
  int64_t cycles() const { return timed_->times.cycles; }
  int64_t together() const {
    int64_t working = 0;
    for (const auto& spent : timed_->times.spent) working += spent[kBusy] + spent[kOnDram] + spent[kOnPort] + spent[kOnHazard];
    return std::max<int64_t>(working - timed_->times.cycles, 0);
  }
  size_t length() const { return program_.size(); }

 private:
  size_t size(int m) const { return static_cast<size_t>(d_.depth[m]); }
  int64_t between(int64_t low, int64_t high) { return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1)); }
  bool once_in(int64_t n) { return between(1, n) == 1; }
  void fill();
  void begin();
  void step();
  void end();
  void scatter();
  void damage();
  Instruction load(Memory m, bool whole);
  Instruction store(bool whole);
  Instruction steps(Opcode kind);
  void add(Instruction i);
  // Adds a token from the last of some instructions of another unit, unless one that was given later says as much.
  void wait(Instruction* i, Unit unit, int32_t after);
  void run(Board* board, bool by_cycles, std::string* end);
  template <typename F>
  void each_access(const Instruction& i, F body);

  const Description& d_;
  std::mt19937_64 random_;
  const uint64_t seed_;
  int64_t count_[kMemories];  // elements in DRAM
  uint64_t place_[kMemories];
  std::vector<int32_t> uops_, held_;  // micro-ops in DRAM, on the chip
  std::vector<Instruction> program_;
  std::vector<int32_t> written_[kMemories], read_[kMemories];  // by element, the last instruction that did
  int32_t stored_ = -1, loaded_[kUnits] = {-1, -1, -1};        // of the array that stores write and some loads read, the last ones
  int32_t told_[kUnits][kUnits] = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
  std::unique_ptr<Board> functional_, timed_;
  std::string ends_[2];
};

void Stream::fill() {
  const int64_t high[] = {d_.depth[kAcc], std::min(d_.depth[kInp], d_.depth[kAcc]), d_.depth[kWgt]};
  for (int m = 0; m < kMemories; ++m) {
    std::vector<uint8_t> data(static_cast<size_t>(count_[m] * d_.element_bytes[m]));
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random_());
    if (m == kUop) {
      std::fill(data.begin(), data.end(), uint8_t{0});
      for (int64_t n = 0; n < count_[kUop]; ++n)
        for (size_t f = 0; f < 3; ++f) {
          uops_.push_back(n == 0 ? 0 : static_cast<int32_t>(between(0, std::max<int64_t>(high[f] / 2, 1) - 1)));
          put_bits(&data[static_cast<size_t>(n * d_.element_bytes[kUop])], d_.uop.places[f].offset, d_.uop.places[f].bits, static_cast<uint64_t>(uops_.back()));
        }
    }
    for (Board* board : {functional_.get(), timed_.get()}) {
      place_[m] = board->dram.allocate(data.size());
      memcpy(board->dram.device(place_[m], data.size(), [] { return "a stream fills"; }), data.data(), data.size());
    }
  }
  held_.assign(size(kUop) * 3, 0);
}

Instruction Stream::load(Memory m, bool whole) {
  Instruction i;
  i.opcode = kLoad;
  i.v[kMemory] = m;
  const bool of_results = m == kInp && !whole && once_in(6) && d_.element_bytes[kInp] == d_.element_bytes[kOut];
  const int from = of_results ? kOut : m;
  i.v[kDramBase] = static_cast<int64_t>(place_[from]);
  int64_t y = between(0, 3), x = between(0, 4), stride = x + between(0, 2), pads[4] = {};
  if (m != kUop)
    for (int64_t& pad : pads) pad = std::max<int64_t>(between(-2, 2), 0);
  const int64_t need = (y + pads[0] + pads[1]) * (x + pads[2] + pads[3]), room = count_[from] - std::max<int64_t>(y * stride, 1);
  if (whole || need > d_.depth[m] || room < 0) {
    i.v[kYSize] = 1, i.v[kXSize] = i.v[kXStride] = d_.depth[m];
    return i;
  }
  i.v[kSramBase] = between(0, std::min(d_.depth[m] - need, d_.depth[m] - 1));
  i.v[kDramBase] += between(0, room) * d_.element_bytes[m] / d_.alignment[m] * d_.alignment[m];
  i.v[kYSize] = y, i.v[kXSize] = x, i.v[kXStride] = stride;
  i.v[kYPadTop] = pads[0], i.v[kYPadBottom] = pads[1], i.v[kXPadLeft] = pads[2], i.v[kXPadRight] = pads[3];
  i.v[kPadMin] = (pads[0] || pads[1] || pads[2] || pads[3]) && once_in(2);
  return i;
}
Instruction Stream::store(bool whole) {
  Instruction i;
  i.opcode = kStore;
  i.v[kMemory] = kOut;
  i.v[kDramBase] = static_cast<int64_t>(place_[kOut]);
  int64_t y = between(0, 3), x = between(0, 4);
  if (y * x > d_.depth[kOut]) y = x = 1;
  const int64_t stride = x + between(0, 1);
  if (whole) {
    i.v[kYSize] = 1, i.v[kXSize] = i.v[kXStride] = d_.depth[kOut];
    return i;
  }
  i.v[kSramBase] = between(0, std::min(d_.depth[kOut] - y * x, d_.depth[kOut] - 1));
  i.v[kDramBase] += between(0, std::max<int64_t>(count_[kOut] - y * stride, 0)) * d_.element_bytes[kOut];
  i.v[kYSize] = y, i.v[kXSize] = x, i.v[kXStride] = stride;
  return i;
}
Instruction Stream::steps(Opcode kind) {
  Instruction i;
  i.opcode = kind;
  i.v[kUopBegin] = between(0, d_.depth[kUop] - 1);
  i.v[kUopEnd] = std::min(i.v[kUopBegin] + between(0, 3), d_.depth[kUop]);
  i.v[kIterOut] = between(1, 3), i.v[kIterIn] = between(1, 3);
  auto factor = [&](Memory m) { return between(0, d_.depth[m] > 8 ? std::max<int64_t>(d_.depth[m] / 10, 1) : 0); };
  const Memory source = kind == kGemm ? kInp : kAcc;
  i.v[kDstFactorOut] = factor(kAcc), i.v[kDstFactorIn] = factor(kAcc), i.v[kSrcFactorOut] = factor(source), i.v[kSrcFactorIn] = factor(source);
  if (kind == kGemm) {
    i.v[kWgtFactorOut] = factor(kWgt), i.v[kWgtFactorIn] = factor(kWgt), i.v[kReset] = once_in(5);
  } else {
    i.v[kAluOp] = between(0, kAluOps - 1), i.v[kUseImm] = once_in(2), i.v[kImm] = once_in(2) ? between(-40, 40) : between(-32768, 32767);
  }
  return i;
}

// Calls body(memory, element, reads) for what an instruction accesses of the memories that two units share.
template <typename F>
void Stream::each_access(const Instruction& i, F body) {
  if (i.opcode == kLoad || i.opcode == kStore) {
    const int m = static_cast<int>(i[kMemory]);
    const int64_t count = (i[kYPadTop] + i[kYSize] + i[kYPadBottom]) * (i[kXPadLeft] + i[kXSize] + i[kXPadRight]);
    if (m == kInp || m == kWgt || m == kOut)
      for (int64_t n = 0; n < count; ++n) body(m, i[kSramBase] + n, i.opcode == kStore);
    return;
  }
  for (int64_t out = 0; out < i[kIterOut]; ++out)
    for (int64_t in = 0; in < i[kIterIn]; ++in)
      for (int64_t n = i[kUopBegin]; n < i[kUopEnd]; ++n) {
        const int32_t* u = &held_[static_cast<size_t>(3 * n)];
        body(kOut, u[0] + out * i[kDstFactorOut] + in * i[kDstFactorIn], false);
        if (i.opcode != kGemm || i[kReset]) continue;
        body(kInp, u[1] + out * i[kSrcFactorOut] + in * i[kSrcFactorIn], true);
        body(kWgt, u[2] + out * i[kWgtFactorOut] + in * i[kWgtFactorIn], true);
      }
}

void Stream::wait(Instruction* i, Unit unit, int32_t after) {
  if (after < 0) return;
  const Unit other = program_[static_cast<size_t>(after)].unit();
  if (other == unit || after <= told_[other][unit]) return;
  told_[other][unit] = after;
  program_[static_cast<size_t>(after)].v[other < unit ? kPushNext : kPushPrev] = 1;
  i->v[other < unit ? kPopPrev : kPopNext] = 1;
}

void Stream::add(Instruction i) {
  const Unit unit = i.unit();
  const bool of_results = i.opcode == kLoad && static_cast<uint64_t>(i[kDramBase]) >= place_[kOut];
  int32_t needed[kUnits] = {-1, -1, -1};
  auto need = [&](int32_t n) {
    if (n < 0) return;
    int32_t& last = needed[program_[static_cast<size_t>(n)].unit()];
    last = std::max(last, n);
  };
  each_access(i, [&](int m, int64_t element, bool reads) {
    if (element >= d_.depth[m]) return;
    need(written_[m][static_cast<size_t>(element)]);
    if (!reads) need(read_[m][static_cast<size_t>(element)]);
  });
  if (of_results) need(stored_);
  if (i.opcode == kStore)
    for (int32_t n : loaded_) need(n);
  const Unit far = unit == kLoadUnit ? kStoreUnit : kLoadUnit;
  if (unit != kComputeUnit && needed[far] > told_[far][unit]) {
    // There is no queue between them: the compute unit passes the token on.
    Instruction between_them;
    between_them.opcode = kGemm;
    told_[far][unit] = needed[far];
    wait(&between_them, kComputeUnit, needed[far]);
    program_.push_back(between_them);
    needed[kComputeUnit] = static_cast<int32_t>(program_.size()) - 1;
  }
  for (int u = 0; u < kUnits; ++u)
    if (std::abs(u - unit) == 1) wait(&i, unit, needed[u]);
  const auto index = static_cast<int32_t>(program_.size());
  program_.push_back(i);
  if (i.opcode == kLoad && i[kMemory] == kUop)
    for (int64_t y = 0, to = i[kSramBase]; y < i[kYSize]; ++y)
      for (int64_t x = 0; x < i[kXSize]; ++x, ++to) {
        const int64_t from = (i[kDramBase] - static_cast<int64_t>(place_[kUop])) / d_.element_bytes[kUop] + y * i[kXStride] + x;
        std::copy_n(&uops_[static_cast<size_t>(3 * from)], 3, &held_[static_cast<size_t>(3 * to)]);
      }
  each_access(i, [&](int m, int64_t element, bool reads) {
    if (element < d_.depth[m]) (reads ? read_ : written_)[m][static_cast<size_t>(element)] = index;
  });
  if (of_results) loaded_[unit] = index;
  if (i.opcode == kStore) stored_ = index;
}

void Stream::begin() {
  for (Memory m : {kUop, kWgt, kInp, kAcc}) add(load(m, true));
  // Writes all of out: micro-op 0 is of the first elements.
  Instruction i;
  i.opcode = kAlu;
  i.v[kAluOp] = kMax, i.v[kUseImm] = 1, i.v[kImm] = -32768, i.v[kUopEnd] = 1, i.v[kIterOut] = 1, i.v[kIterIn] = d_.depth[kAcc];
  i.v[kDstFactorIn] = d_.depth[kAcc] > 1;
  add(i);
}
void Stream::step() {
  switch (between(0, 9)) {
    case 0: return add(load(kUop, false));
    case 1: return add(load(kAcc, false));
    case 2: return add(load(kInp, false));
    case 3: return add(load(kWgt, false));
    case 4: return add(store(false));
    case 5: return add(steps(kAlu));
    case 6: return add(steps(kAlu));
    default: return add(steps(kGemm));
  }
}
void Stream::end() {
  add(store(true));
  Instruction last;
  wait(&last, kComputeUnit, static_cast<int32_t>(program_.size()) - 1);
  program_.push_back(last);
}

// Takes tokens away and puts others anywhere, as many as are taken.
void Stream::scatter() {
  for (Instruction& i : program_)
    for (FieldId f : {kPopPrev, kPopNext, kPushPrev, kPushNext}) i.v[f] = 0;
  for (int q = 0; q < kQueues; ++q) {
    const FieldId push = q == kLoadToCompute || q == kComputeToStore ? kPushNext : kPushPrev;
    const FieldId pop = push == kPushNext ? kPopPrev : kPopNext;
    const Unit giver = q == kLoadToCompute ? kLoadUnit : q == kStoreToCompute ? kStoreUnit : kComputeUnit;
    const Unit taker = q == kComputeToLoad ? kLoadUnit : q == kComputeToStore ? kStoreUnit : kComputeUnit;
    for (int64_t n = between(0, 6); n > 0; --n) {
      const auto a = static_cast<size_t>(between(0, static_cast<int64_t>(program_.size()) - 1));
      const auto b = static_cast<size_t>(between(static_cast<int64_t>(a), static_cast<int64_t>(program_.size()) - 1));
      if (program_[a].unit() != giver || program_[b].unit() != taker || program_[a][push] || program_[b][pop]) continue;
      program_[a].v[push] = program_[b].v[pop] = 1;
    }
  }
}
void Stream::damage() {
  Instruction& i = program_[static_cast<size_t>(between(0, static_cast<int64_t>(program_.size()) - 2))];
  const auto& places = d_.formats[i.opcode].places;
  const Place& p = places[static_cast<size_t>(between(5, static_cast<int64_t>(places.size()) - 1))];
  const bool loops = p.field == kIterOut || p.field == kIterIn;
  i.v[p.field] = between(0, loops ? 9 : static_cast<int64_t>((uint64_t{1} << (p.bits - p.is_signed)) - 1));
}

void Stream::run(Board* board, bool by_cycles, std::string* end) {
  try {
    const Order order = order_of(d_, program_);
    board->machine.begin(&program_, &order);
    if (by_cycles) {
      Trace none;
      CycleSimulator(&board->machine, program_, place_[kUop], 0, &none).run(&board->times);
    } else {
      for (uint32_t n : order.starts) board->machine.execute(program_[n], n);
    }
  } catch (const Error& error) {
    *end = error.kind() + ": " + error.what();
  }
}
bool Stream::same() {
  run(functional_.get(), false, &ends_[0]);
  run(timed_.get(), true, &ends_[1]);
  if (ends_[0].empty() != ends_[1].empty()) return false;
  if (!ends_[0].empty()) return true;
  for (int m = 0; m < kMemories; ++m) {
    const auto bytes = static_cast<uint64_t>(count_[m] * d_.element_bytes[m]);
    auto who = [] { return "a comparison reads"; };
    if (memcmp(functional_->dram.device(place_[m], bytes, who), timed_->dram.device(place_[m], bytes, who), bytes) != 0) return false;
    if (functional_->machine.counters.bytes[m] != timed_->machine.counters.bytes[m]) return false;
  }
  const Counters &a = functional_->machine.counters, &b = timed_->machine.counters;
  return a.gemm_steps == b.gemm_steps && a.alu_steps == b.alu_steps && a.instructions == b.instructions;
}

std::vector<Description> read_descriptions(const char* path) {
  std::ifstream file(path);
  std::vector<Description> found;
  std::string line, text;
  while (std::getline(file, line)) {
    if (!line.empty()) {
      text += line + "\n";
      continue;
    }
    found.emplace_back(text);
    text.clear();
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::vector<Description> descriptions = read_descriptions(argv[1]);
  const uint64_t first = strtoull(argv[2], nullptr, 10), count = strtoull(argv[3], nullptr, 10);
  if (descriptions.empty()) return 2;
  uint64_t ended = 0, refused = 0, instructions = 0, cycles = 0, together = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Stream stream(descriptions[seed % descriptions.size()], seed);
    if (!stream.same()) {
      printf("stream %llu differs:\n", static_cast<unsigned long long>(seed));
      stream.print(stdout);
      return 1;
    }
    ++(stream.ended() ? ended : refused);
    if (!stream.ended()) continue;
    instructions += stream.length();
    cycles += static_cast<uint64_t>(stream.cycles());
    together += static_cast<uint64_t>(stream.together());
  }
  for (uint64_t n : {ended, refused, instructions, cycles, together}) printf("%llu ", static_cast<unsigned long long>(n));
  printf("\n");
  return 0;
}
