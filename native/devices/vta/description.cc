#include "description.h"

#include <cstdlib>
#include <cstring>

#include "../common/errors.h"

namespace tw {

const char* const kMemoryNames[kMemories] = {"uop", "wgt", "inp", "acc", "out"};
const char* const kUnitNames[kUnits] = {"load", "compute", "store"};

namespace {

const char* const kFieldNames[kFields] = {
    "opcode", "pop_prev", "pop_next", "push_prev", "push_next", "memory", "sram_base", "dram_base", "y_size", "x_size", "x_stride",
    "y_pad_top", "y_pad_bottom", "x_pad_left", "x_pad_right", "pad_min", "uop_begin", "uop_end", "iter_out", "iter_in",
    "dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in", "wgt_factor_out", "wgt_factor_in", "reset", "op",
    "use_imm", "imm", "dst", "src", "wgt"};
const char* const kOpcodeNames[kOpcodes] = {"load", "store", "gemm", "finish", "alu"};
const char kFirstLine[] = "tilewright accelerator 1";

using Words = std::vector<std::string>;

std::vector<Words> lines_of(const std::string& text) {
  std::vector<Words> lines(1);
  std::string word;
  for (char c : text + "\n") {
    if (c != ' ' && c != '\n') {
      word += c;
      continue;
    }
    if (!word.empty()) lines.back().push_back(word);
    word.clear();
    if (c == '\n') lines.emplace_back();
  }
  return lines;
}
int find(const char* const* names, int count, const std::string& name) {
  for (int n = 0; n < count; ++n)
    if (name == names[n]) return n;
  fail("ValueError", "the description of an accelerator has `%s`, which this runtime does not know; both must be of one version", name.c_str());
}
int64_t number(const Words& words, size_t at) {
  if (at >= words.size()) fail("ValueError", "the description of an accelerator is damaged: a number is missing behind `%s`", words[0].c_str());
  return strtoll(words[at].c_str(), nullptr, 10);
}

}  // namespace

Description::Description(const std::string& given) : text(given) {
  if (text.compare(0, sizeof kFirstLine - 1, kFirstLine) != 0)
    fail("ValueError", "this is no description of an accelerator, or one of another version: it does not begin with `%s`", kFirstLine);
  fingerprint = 14695981039346656037u;  // FNV-1a
  for (unsigned char c : text) fingerprint = (fingerprint ^ c) * 1099511628211u;
  std::map<std::string, int64_t> values;
  for (const Words& words : lines_of(text.substr(sizeof kFirstLine - 1))) {
    if (words.empty()) continue;
    if (words[0] == "field") {
      if (words.size() != 7) fail("ValueError", "the description of an accelerator is damaged: a field has %zu words", words.size());
      Format& format = words[1] == "micro-op" ? uop : formats[find(kOpcodeNames, kOpcodes, words[1])];
      format.name = words[1];
      format.places.push_back({static_cast<FieldId>(find(kFieldNames, kFields, words[2])), static_cast<int>(number(words, 3)),
                               static_cast<int>(number(words, 4)), number(words, 5) != 0, number(words, 6) != 0});
    } else if (words[0] == "alu") {
      alu_names.assign(words.begin() + 1, words.end());
    } else if (words[0] == "memory") {
      const int m = find(kMemoryNames, kMemories, words.size() > 1 ? words[1] : "");
      width[m] = number(words, 2), element_bytes[m] = number(words, 3), depth[m] = number(words, 4), alignment[m] = number(words, 5);
      values["memory " + words[1]] = 1;
    } else {
      values[words[0]] = number(words, 1);
    }
  }
  auto take = [&](const std::string& name) {
    auto it = values.find(name);
    if (it == values.end()) fail("ValueError", "the description of an accelerator lacks `%s`", name.c_str());
    return it->second;
  };
  for (const char* m : kMemoryNames) take(std::string("memory ") + m);
  for (const Format& f : formats)
    if (f.places.empty()) fail("ValueError", "the description of an accelerator lacks the fields of an instruction");
  if (uop.places.empty() || alu_names.size() != kAluOps) fail("ValueError", "the description of an accelerator lacks micro-ops or operations");
  batch = take("batch"), block_in = take("block_in"), block_out = take("block_out");
  instruction_bytes = take("instruction_bytes");
  coherent = take("coherent") != 0, timed = take("timed") != 0;
  frequency = take("frequency"), command_queue = take("command_queue"), token_queue = take("token_queue");
  dram_latency = take("dram_latency"), dram_bytes = take("dram_bytes"), dram_burst = take("dram_burst"), dram_requests = take("dram_requests");
  sram_ports = take("sram_ports"), gemm_latency = take("gemm_latency"), alu_latency = take("alu_latency");
}

Unit Instruction::unit() const {
  if (opcode == kStore) return kStoreUnit;
  return opcode == kLoad && (v[kMemory] == kInp || v[kMemory] == kWgt) ? kLoadUnit : kComputeUnit;
}

uint64_t bits_at(const uint8_t* bytes, int offset, int bits) {
  uint64_t value = 0;
  for (int n = 0; n < bits;) {
    const int shift = (offset + n) & 7, taken = bits - n < 8 - shift ? bits - n : 8 - shift;
    value |= static_cast<uint64_t>((bytes[(offset + n) / 8] >> shift) & ((1 << taken) - 1)) << n;
    n += taken;
  }
  return value;
}
void put_bits(uint8_t* bytes, int offset, int bits, uint64_t value) {
  for (int n = 0; n < bits; ++n) {
    const auto mask = static_cast<uint8_t>(1 << ((offset + n) & 7));
    uint8_t& byte = bytes[(offset + n) / 8];
    byte = static_cast<uint8_t>(value >> n & 1 ? byte | mask : byte & ~mask);
  }
}

Instruction decode(const Description& d, const uint8_t* bytes, size_t index) {
  const int code = bytes[0] & 7;
  if (code >= kOpcodes) fail("ValueError", "instruction %zu: there is no opcode %d", index, code);
  Instruction i;
  i.opcode = static_cast<Opcode>(code);
  const Format& format = d.formats[code];
  for (const Place& p : format.places) {
    const uint64_t value = bits_at(bytes, p.offset, p.bits);
    i.v[p.field] = p.is_signed && value >> (p.bits - 1) ? static_cast<int64_t>(value) - (int64_t{1} << p.bits) : static_cast<int64_t>(value);
  }
  const Place& last = format.places.back();
  for (int64_t n = last.offset + last.bits; n < d.instruction_bytes * 8; ++n)
    if (bytes[n / 8] >> (n & 7) & 1)
      fail("ValueError", "instruction %zu (%s): bits from %d on must be 0; is the code for another configuration?", index, format.name.c_str(),
           last.offset + last.bits);
  return i;
}

std::string instruction_text(const Description& d, const Instruction& i) {
  const Format& kind = d.formats[i.opcode];
  std::string flags, words, head = kind.name;
  for (const Place& p : kind.places) {
    const int64_t value = i[p.field];
    const char* name = kFieldNames[p.field];
    if (p.field == kMemory) {
      if (i.opcode != kStore || value != kOut) head += "." + (value < kMemories ? std::string(kMemoryNames[value]) : std::to_string(value));
    } else if (p.field == kAluOp) {
      head += "." + (value < kAluOps ? d.alu_names[static_cast<size_t>(value)] : std::to_string(value));
    } else if (value == 0 || p.field == kOpcode) {
      continue;
    } else if (p.bits == 1 && !p.is_signed && (p.field <= kPushNext || p.field == kPadMin || p.field == kReset || p.field == kUseImm)) {
      (p.field <= kPushNext ? flags : words) += std::string(" ") + name;
    } else {
      words += p.is_address ? format(" %s=0x%llx", name, static_cast<unsigned long long>(value)) : format(" %s=%lld", name, static_cast<long long>(value));
    }
  }
  return head + words + flags;
}
std::string place_text(const Description& d, const Instruction& i, size_t index) {
  return "instruction " + std::to_string(index) + " (" + instruction_text(d, i) + ")";
}

}  // namespace tw
