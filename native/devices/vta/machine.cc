#include "machine.h"

#include <algorithm>
#include <cstring>

#include "../common/errors.h"

namespace tw {
namespace {

// The number in the low bits of another, with the sign that it has there.
inline int32_t wrap(int64_t value, int64_t width) {
  const auto shift = static_cast<unsigned>(64 - width);
  return static_cast<int32_t>(static_cast<int64_t>(static_cast<uint64_t>(value) << shift) >> shift);
}

template <typename T>
void unpack(const uint8_t* bytes, int64_t count, int64_t width, T* to) {
  for (int64_t n = 0; n < count; ++n) {
    switch (width) {
      case 8: to[n] = static_cast<int8_t>(bytes[n]); break;
      case 16: to[n] = static_cast<T>(static_cast<int16_t>(bytes[2 * n] | bytes[2 * n + 1] << 8)); break;
      case 32: {
        int32_t value;
        memcpy(&value, bytes + 4 * n, 4);
        to[n] = static_cast<T>(value);
        break;
      }
      default: to[n] = static_cast<T>(wrap(bytes[n * width / 8] >> (n * width % 8), width));
    }
  }
}

void pack(const int32_t* from, int64_t count, int64_t width, uint8_t* bytes) {
  if (width < 8) memset(bytes, 0, static_cast<size_t>(count * width / 8));
  for (int64_t n = 0; n < count; ++n) {
    const auto value = static_cast<uint32_t>(from[n]);
    if (width >= 8) memcpy(bytes + n * width / 8, &value, static_cast<size_t>(width / 8));
    else bytes[n * width / 8] = static_cast<uint8_t>(bytes[n * width / 8] | (value & ((1u << width) - 1)) << (n * width % 8));
  }
}

int64_t alu_result(int64_t op, int64_t x, int64_t y, int64_t width) {
  switch (op) {
    case kMin: return x < y ? x : y;
    case kMax: return x > y ? x : y;
    case kAdd: return x + y;
    case kMul: return x * y;
    case kClip: {
      const int64_t low = x > ~y ? x : ~y;
      return low < y ? low : y;
    }
    default:
      if (y >= 0) return x >> (y < width ? y : width - 1);
      return -y < width ? static_cast<int64_t>(static_cast<uint64_t>(x) << -y) : 0;
  }
}

}  // namespace

Machine::Machine(const Description& description, Dram* memory) : d(description), dram_(*memory) {
  auto numbers = [&](Memory m) { return static_cast<size_t>(d.depth[m] * d.lanes(m)); };
  uops_.resize(static_cast<size_t>(d.depth[kUop]) * 3);
  inp_.resize(numbers(kInp));
  wgt_.resize(numbers(kWgt));
  acc_.resize(numbers(kAcc));
  out_.resize(numbers(kOut));
  for (int m = 0; m < kMemories; ++m) written_[m].resize(static_cast<size_t>(d.depth[m]));
  for (Memory m : {kInp, kWgt, kOut})
    for (auto& last : last_[m]) last.resize(static_cast<size_t>(d.depth[m]), -1);
}

void Machine::refuse(const char* kind, const Instruction& i, size_t index, const std::string& why) const {
  fail(kind, "%s %s", place_text(d, i, index).c_str(), why.c_str());
}
void Machine::refuse_operation(const Instruction& i, size_t index) const {
  refuse("ValueError", i, index, "has an operation that does not exist");
}
void Machine::check(Memory m, int64_t element, bool read, const Instruction& i, size_t index, const Step* step) const {
  check_inside(m, element, read, i, index, step);
  if (read && !written_[m][static_cast<size_t>(element)])
    refuse("IndexError", i, index, access_text(m, element, read, step) + ", which nothing has written");
}
void Machine::check_inside(Memory m, int64_t element, bool read, const Instruction& i, size_t index, const Step* step) const {
  if (element < d.depth[m]) return;
  refuse("IndexError", i, index,
         access_text(m, element, read, step) + format(", but %s has %lld elements", kMemoryNames[m], static_cast<long long>(d.depth[m])));
}
std::string Machine::access_text(Memory m, int64_t element, bool read, const Step* step) const {
  const std::string what = format("%s %s[%lld]", read ? "reads" : "writes", kMemoryNames[m], static_cast<long long>(element));
  if (!step) return what;
  return what + format(" in trip (%lld, %lld), micro-op %lld", static_cast<long long>(step->out), static_cast<long long>(step->in),
                       static_cast<long long>(step->uop));
}
void Machine::begin(const std::vector<Instruction>* program, const Order* order) {
  program_ = program, order_ = order;
  for (Memory m : {kInp, kWgt, kOut})
    for (auto& last : last_[m]) std::fill(last.begin(), last.end(), -1);
}
void Machine::check_order(Memory m, int64_t element, bool read, const Instruction& i, size_t index, const Step* step) {
  const auto at = static_cast<size_t>(element);
  const int32_t other = last_[m][!read][at];
  last_[m][read][at] = static_cast<int32_t>(index);
  if (other < 0) return;
  const auto n = static_cast<size_t>(other);
  const Instruction& before = (*program_)[n];
  if (order_->numbers[n] <= order_->done[index][before.unit()]) return;
  refuse("RuntimeError", i, index,
         access_text(m, element, read, step) + ", but no token orders it and " + place_text(d, before, n) + ", which " +
             (read ? "writes" : "reads") + " it");
}
void Machine::check_alignment(Memory m, const Instruction& i, size_t index) const {
  if (i[kDramBase] % d.alignment[m])
    refuse("ValueError", i, index,
           format("has an address of %s that is no multiple of %lld", kMemoryNames[m], static_cast<long long>(d.alignment[m])));
}

std::vector<Instruction> Machine::program(uint64_t address, uint64_t count) {
  const auto size = static_cast<uint64_t>(d.instruction_bytes);
  const uint8_t* code = dram_.device(address, count * size, [] { return "the fetch of instructions reads"; });
  std::vector<Instruction> found;
  found.reserve(count);
  for (uint64_t n = 0; n < count; ++n) found.push_back(decode(d, code + n * size, n));
  return found;
}

void Machine::execute(const Instruction& i, size_t index) {
  ++counters.instructions;
  switch (i.opcode) {
    case kLoad: return load(i, index);
    case kStore: return store(i, index);
    case kGemm: return without_data ? check_steps(i, index) : gemm(i, index);
    case kAlu: return without_data ? check_steps(i, index) : alu(i, index);
    default: return;
  }
}

void Machine::fill(Memory m, int64_t from, int64_t count, bool smallest) {
  const int32_t value = smallest ? static_cast<int32_t>(-(int64_t{1} << (d.width[m] - 1))) : 0;
  const auto begin = from * d.lanes(m), end = (from + count) * d.lanes(m);
  if (m == kAcc) std::fill(acc_.begin() + begin, acc_.begin() + end, value);
  else std::fill((m == kInp ? inp_ : wgt_).begin() + begin, (m == kInp ? inp_ : wgt_).begin() + end, static_cast<int16_t>(value));
}
void Machine::copy_in(Memory m, int64_t to, int64_t count, const uint8_t* bytes) {
  if (m == kUop) {
    for (int64_t n = 0; n < count; ++n)
      for (size_t f = 0; f < 3; ++f)
        uops_[static_cast<size_t>(to + n) * 3 + f] =
            static_cast<int32_t>(bits_at(bytes + n * d.element_bytes[kUop], d.uop.places[f].offset, d.uop.places[f].bits));
    return;
  }
  const int64_t lanes = d.lanes(m), first = to * lanes;
  if (m == kAcc) unpack(bytes, count * lanes, d.width[m], acc_.data() + first);
  else unpack(bytes, count * lanes, d.width[m], (m == kInp ? inp_ : wgt_).data() + first);
}

void Machine::check_uops(const uint8_t* data, const Instruction& i, size_t index) const {
  const int end = d.uop.places.back().offset + d.uop.places.back().bits, bits = static_cast<int>(d.element_bytes[kUop] * 8);
  for (int64_t n = 0; n < i[kXSize]; ++n)
    if (bits_at(data + n * d.element_bytes[kUop], end, bits - end))
      refuse("ValueError", i, index, format("reads a micro-op whose bits from %d on are not 0", end));
}

void Machine::load(const Instruction& i, size_t index) {
  if (i[kMemory] >= kOut) refuse("ValueError", i, index, "loads a memory that cannot be loaded");
  const auto m = static_cast<Memory>(i[kMemory]);
  const int64_t top = i[kYPadTop], bottom = i[kYPadBottom], left = i[kXPadLeft], right = i[kXPadRight];
  if (m == kUop && (top || bottom || left || right)) refuse("ValueError", i, index, "pads micro-ops, which have no padding");
  const int64_t row = left + i[kXSize] + right, total = (top + i[kYSize] + bottom) * row;
  if (total == 0) return;
  check(m, i[kSramBase] + total - 1, false, i, index, nullptr);
  if (without_data && m != kUop) return;
  check_alignment(m, i, index);
  int64_t at = i[kSramBase];
  const bool smallest = i[kPadMin] != 0;
  const auto bytes = static_cast<uint64_t>(i[kXSize] * d.element_bytes[m]);
  auto pad = [&](int64_t count) {
    if (count) fill(m, at, count, smallest);
    at += count;
  };
  pad(top * row);
  for (int64_t y = 0; y < i[kYSize]; ++y) {
    pad(left);
    if (bytes) {
      const auto address = static_cast<uint64_t>(i[kDramBase] + y * i[kXStride] * d.element_bytes[m]);
      const uint8_t* data = dram_.device(address, bytes, [&] { return place_text(d, i, index) + " reads"; });
      if (m == kUop) check_uops(data, i, index);
      copy_in(m, at, i[kXSize], data);
      at += i[kXSize];
      counters.bytes[m] += static_cast<int64_t>(bytes);
    }
    pad(right);
  }
  pad(bottom * row);
  memset(written_[m].data() + i[kSramBase], 1, static_cast<size_t>(total));
  if (m == kInp || m == kWgt)
    for (int64_t n = 0; n < total; ++n) check_order(m, i[kSramBase] + n, false, i, index, nullptr);
}

void Machine::store(const Instruction& i, size_t index) {
  if (i[kMemory] != kOut) refuse("ValueError", i, index, "stores a memory that cannot be stored");
  const int64_t lanes = d.lanes(kOut), total = i[kYSize] * i[kXSize];
  if (total == 0) return;
  if (without_data) {
    const int64_t end = i[kSramBase] + total;
    if (end > d.depth[kOut]) check_inside(kOut, std::max(i[kSramBase], d.depth[kOut]), true, i, index, nullptr);
    return;
  }
  check_alignment(kOut, i, index);
  const auto bytes = static_cast<uint64_t>(i[kXSize] * d.element_bytes[kOut]);
  for (int64_t y = 0; y < i[kYSize]; ++y) {
    const int64_t from = i[kSramBase] + y * i[kXSize];
    for (int64_t x = 0; x < i[kXSize]; ++x) {
      check(kOut, from + x, true, i, index, nullptr);
      check_order(kOut, from + x, true, i, index, nullptr);
    }
    const auto address = static_cast<uint64_t>(i[kDramBase] + y * i[kXStride] * d.element_bytes[kOut]);
    uint8_t* to = dram_.device(address, bytes, [&] { return place_text(d, i, index) + " writes"; });
    pack(out_.data() + from * lanes, i[kXSize] * lanes, d.width[kOut], to);
    counters.bytes[kOut] += static_cast<int64_t>(bytes);
  }
}

template <typename F>
void Machine::each_step(const Instruction& i, size_t index, F body) {
  Step s;
  for (s.out = 0; s.out < i[kIterOut]; ++s.out)
    for (s.in = 0; s.in < i[kIterIn]; ++s.in)
      for (s.uop = i[kUopBegin]; s.uop < i[kUopEnd]; ++s.uop) {
        check(kUop, s.uop, true, i, index, &s);
        const int32_t* u = uop(s.uop);
        body(s, u[0] + s.out * i[kDstFactorOut] + s.in * i[kDstFactorIn], u[1] + s.out * i[kSrcFactorOut] + s.in * i[kSrcFactorIn],
             u[2] + s.out * i[kWgtFactorOut] + s.in * i[kWgtFactorIn]);
      }
}

void Machine::check_steps(const Instruction& i, size_t index) {
  const bool product = i.opcode == kGemm, reads = product ? !i[kReset] : !i[kUseImm];
  if (!product && i[kAluOp] >= kAluOps) refuse_operation(i, index);
  const int64_t out = i[kIterOut] - 1, in = i[kIterIn] - 1;
  if (out < 0 || in < 0) return;
  const Memory source = product ? kInp : kAcc;
  // Factors are not negative, so the last trip has the largest index of each micro-op.
  auto inside = [&](Memory m, int64_t first, FieldId outer, FieldId inner) { return first + out * i[outer] + in * i[inner] < d.depth[m]; };
  auto fits = [&](int64_t n) {
    if (n >= d.depth[kUop] || !written_[kUop][static_cast<size_t>(n)]) return false;
    const int32_t* u = uop(n);
    return inside(kAcc, u[0], kDstFactorOut, kDstFactorIn) && (!reads || inside(source, u[1], kSrcFactorOut, kSrcFactorIn)) &&
           (!reads || !product || inside(kWgt, u[2], kWgtFactorOut, kWgtFactorIn));
  };
  for (int64_t n = i[kUopBegin]; n < i[kUopEnd]; ++n) {
    if (fits(n)) continue;
    return each_step(i, index, [&](const Step& s, int64_t dst, int64_t src, int64_t wgt) {
      check_inside(kAcc, dst, !product || !i[kReset], i, index, &s);
      if (reads) check_inside(source, src, true, i, index, &s);
      if (reads && product) check_inside(kWgt, wgt, true, i, index, &s);
    });
  }
}

void Machine::gemm(const Instruction& i, size_t index) {
  const auto lanes = static_cast<size_t>(d.lanes(kAcc)), rows = static_cast<size_t>(d.batch);
  const auto inputs = static_cast<size_t>(d.block_in), outputs = static_cast<size_t>(d.block_out);
  const bool narrow = d.width[kAcc] < 32;
  each_step(i, index, [&](const Step& s, int64_t dst, int64_t src, int64_t wgt) {
    ++counters.gemm_steps;
    check(kAcc, dst, !i[kReset], i, index, &s);
    int32_t* const acc = &acc_[static_cast<size_t>(dst) * lanes];
    int32_t* const out = &out_[static_cast<size_t>(dst) * lanes];
    if (i[kReset]) {
      std::fill(acc, acc + lanes, 0);
    } else {
      check(kInp, src, true, i, index, &s);
      check(kWgt, wgt, true, i, index, &s);
      check_order(kInp, src, true, i, index, &s);
      check_order(kWgt, wgt, true, i, index, &s);
      const int16_t* x = &inp_[static_cast<size_t>(src) * rows * inputs];
      for (size_t b = 0; b < rows; ++b, x += inputs) {
        const int16_t* w = &wgt_[static_cast<size_t>(wgt) * outputs * inputs];
        for (size_t o = 0; o < outputs; ++o, w += inputs) {
          uint32_t sum = static_cast<uint32_t>(acc[b * outputs + o]);
          for (size_t k = 0; k < inputs; ++k) sum += static_cast<uint32_t>(x[k] * w[k]);
          acc[b * outputs + o] = static_cast<int32_t>(sum);
        }
      }
      if (narrow)
        for (size_t n = 0; n < lanes; ++n) acc[n] = wrap(acc[n], d.width[kAcc]);
    }
    check_order(kOut, dst, false, i, index, &s);
    for (size_t n = 0; n < lanes; ++n) out[n] = wrap(acc[n], d.width[kOut]);
    written_[kAcc][static_cast<size_t>(dst)] = written_[kOut][static_cast<size_t>(dst)] = 1;
  });
}

void Machine::alu(const Instruction& i, size_t index) {
  const int64_t op = i[kAluOp], width = d.width[kAcc];
  if (op >= kAluOps) refuse_operation(i, index);
  const auto lanes = static_cast<size_t>(d.lanes(kAcc));
  each_step(i, index, [&](const Step& s, int64_t dst, int64_t src, int64_t) {
    ++counters.alu_steps;
    check(kAcc, dst, true, i, index, &s);
    if (!i[kUseImm]) check(kAcc, src, true, i, index, &s);
    check_order(kOut, dst, false, i, index, &s);
    int32_t* const acc = &acc_[static_cast<size_t>(dst) * lanes];
    const int32_t* const other = i[kUseImm] ? nullptr : &acc_[static_cast<size_t>(src) * lanes];
    int32_t* const out = &out_[static_cast<size_t>(dst) * lanes];
    for (size_t n = 0; n < lanes; ++n) {
      acc[n] = wrap(alu_result(op, acc[n], other ? other[n] : i[kImm], width), width);
      out[n] = wrap(acc[n], d.width[kOut]);
    }
    written_[kOut][static_cast<size_t>(dst)] = 1;
  });
}

}  // namespace tw
