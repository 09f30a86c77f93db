// ELF as its specification lays it out: what is read of it here.
#pragma once
#include <cstdint>

namespace tw::elf {

constexpr char kMagic[] = "\177ELF";
constexpr int kClassAt = 4, kDataAt = 5;  // in the identification, which is of 16 bytes
constexpr char kClass32 = 1, kClass64 = 2, kLittleEndian = 1;
constexpr uint16_t kRelocatable = 1, kShared = 3;
constexpr uint16_t kI386 = 3, kArm = 40, kX86_64 = 62, kAArch64 = 183, kRiscv = 243;
constexpr uint32_t kLoad = 1, kDynamic = 2, kNote = 4;                  // segments
constexpr uint32_t kStrings = 3, kNotes = 7, kNoBits = 8;  // sections

template <typename Word>
struct Header {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  Word entry, phoff, shoff;
  uint32_t flags;
  uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct Segment32 { uint32_t type, offset, vaddr, paddr, filesz, memsz, flags, align; };
struct Segment64 { uint32_t type, flags; uint64_t offset, vaddr, paddr, filesz, memsz, align; };
template <typename Word>
struct Section {
  uint32_t name, type;
  Word flags, addr, offset, size;
  uint32_t link, info;
  Word addralign, entsize;
};

}  // namespace tw::elf
