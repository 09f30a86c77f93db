// What an accelerator is, and where the fields of its instructions lie: a text that the compiler writes (vta/simulator/description.py).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tw {

enum Memory : int { kUop, kWgt, kInp, kAcc, kOut, kMemories };
enum Unit : int { kLoadUnit, kComputeUnit, kStoreUnit, kUnits };
enum Opcode : int { kLoad, kStore, kGemm, kFinish, kAlu, kOpcodes };
enum Alu : int { kMin, kMax, kAdd, kShr, kMul, kClip, kAluOps };
// clang-format off
enum FieldId : int {
  kOpcode, kPopPrev, kPopNext, kPushPrev, kPushNext, kMemory, kSramBase, kDramBase, kYSize, kXSize, kXStride, kYPadTop, kYPadBottom, kXPadLeft,
  kXPadRight, kPadMin, kUopBegin, kUopEnd, kIterOut, kIterIn, kDstFactorOut, kDstFactorIn, kSrcFactorOut, kSrcFactorIn, kWgtFactorOut,
  kWgtFactorIn, kReset, kAluOp, kUseImm, kImm, kDst, kSrc, kWgtIndex, kFields
};
// clang-format on
extern const char* const kMemoryNames[kMemories];
extern const char* const kUnitNames[kUnits];

struct Place {
  FieldId field;
  int offset, bits;
  bool is_signed, is_address;
};

struct Format {
  std::string name;
  std::vector<Place> places;
};

struct Description {
  // Throws ValueError for a text that describes no accelerator of this version.
  explicit Description(const std::string& text);

  std::string text;
  uint64_t fingerprint = 0;  // of the text
  int64_t batch, block_in, block_out;
  int64_t width[kMemories], element_bytes[kMemories], depth[kMemories], alignment[kMemories];
  int64_t instruction_bytes;
  bool coherent, timed;
  int64_t frequency, command_queue, token_queue;  // MHz; instructions; tokens
  int64_t dram_latency, dram_bytes, dram_burst, dram_requests, sram_ports, gemm_latency, alu_latency;
  Format formats[kOpcodes];
  Format uop;
  std::vector<std::string> alu_names;

  int64_t lanes(Memory m) const { return element_bytes[m] * 8 / width[m]; }
};

struct Instruction {
  Opcode opcode = kFinish;
  int64_t v[kFields] = {};
  int64_t operator[](FieldId f) const { return v[f]; }
  Unit unit() const;
};

// The instruction in `bytes`; throws ValueError where there is none. index: its number in the program, for the message.
Instruction decode(const Description& d, const uint8_t* bytes, size_t index);
// "load.inp sram_base=5 x_size=2 push_next"
std::string instruction_text(const Description& d, const Instruction& i);
// "instruction 3 (gemm uop_end=1)"
std::string place_text(const Description& d, const Instruction& i, size_t index);
// Bits of a little-endian word.
uint64_t bits_at(const uint8_t* bytes, int offset, int bits);
void put_bits(uint8_t* bytes, int offset, int bits, uint64_t value);

}  // namespace tw
