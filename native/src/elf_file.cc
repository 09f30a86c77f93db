#include "elf_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core.h"
#include "elf_format.h"
#include "platform/machine.h"

namespace tw {

std::string InputFile::bytes(uint64_t at, uint64_t n) const {
  std::string found(at < size_ ? static_cast<size_t>(std::min(n, size_ - at)) : 0, '\0');
  found.resize(read(at, &found[0], found.size()));
  return found;
}

namespace {

[[noreturn]] void damaged(const InputFile& file, const char* what) {
  fail("ValueError", "%s is damaged: %s; copy or compile it again", file.path().c_str(), what);
}

template <typename Word, typename Segment>
void read_tables(const InputFile& file, const std::string& head, ElfFile* elf) {
  using Header = elf::Header<Word>;
  Header h;
  if (head.size() < sizeof h) return;
  memcpy(&h, head.data(), sizeof h);
  elf->relocatable = h.type == elf::kRelocatable;
  elf->machine = h.machine;
  elf->loaded.push_back({0, sizeof h});
  elf->tool_made = {{offsetof(Header, shoff), sizeof h.shoff}, {offsetof(Header, shentsize), sizeof(Header) - offsetof(Header, shentsize)}};
  auto need = [&](uint64_t at, uint64_t size) {
    uint64_t end = at + size < at ? ~uint64_t{0} : at + size;
    elf->needed = std::max(elf->needed, end);
    return end <= file.size();
  };
  if (h.phnum && h.phentsize != sizeof(Segment)) damaged(file, "its table of segments has entries of a wrong size");
  elf->loaded.push_back({h.phoff, uint64_t{h.phnum} * sizeof(Segment)});
  const bool segments = need(h.phoff, uint64_t{h.phnum} * sizeof(Segment));
  const bool sections = need(h.shoff, uint64_t{h.shnum} * h.shentsize);
  for (uint32_t i = 0; segments && i < h.phnum; ++i) {
    Segment p;
    file.read(h.phoff + i * sizeof p, &p, sizeof p);
    need(p.offset, p.filesz);
    if (p.type == elf::kLoad) elf->loaded.push_back({p.offset, p.filesz});
    if (p.type == elf::kNote) elf->notes.push_back({p.offset, p.filesz});
  }
  if (!elf->relocatable || !sections) return;
  if (h.shnum && h.shentsize != sizeof(elf::Section<Word>)) damaged(file, "its table of sections has entries of a wrong size");
  for (uint32_t i = 0; i < h.shnum; ++i) {
    elf::Section<Word> s;
    file.read(h.shoff + i * sizeof s, &s, sizeof s);
    if (s.type != elf::kNoBits) need(s.offset, s.size);
    if (s.type == elf::kNotes && s.size) elf->notes.push_back({s.offset, s.size});
    if ((i == h.shstrndx) != (s.type == elf::kStrings) && i == h.shstrndx) damaged(file, "its table of sections cannot be read");
  }
}

struct Machine {
  const char* name;
  int code, width;
};
const Machine kMachines[] = {{"x86_64", elf::kX86_64, 64}, {"aarch64", elf::kAArch64, 64}, {"riscv64", elf::kRiscv, 64}, {"armv7", elf::kArm, 32},
                             {"riscv32", elf::kRiscv, 32}, {"i686", elf::kI386, 32}};
#if defined(__x86_64__)
const Machine* own() { return &kMachines[0]; }
#elif defined(__aarch64__)
const Machine* own() { return &kMachines[1]; }
#elif defined(__riscv) && __riscv_xlen == 64
const Machine* own() { return &kMachines[2]; }
#elif defined(__arm__)
const Machine* own() { return &kMachines[3]; }
#elif defined(__i386__)
const Machine* own() { return &kMachines[5]; }
#else
const Machine* own() { return nullptr; }
#endif

}  // namespace

ElfFile read_elf(const InputFile& file) {
  ElfFile elf;
  const std::string head = file.bytes(0, sizeof(elf::Header<uint64_t>));
  elf.is_elf = head.size() >= sizeof(elf::Header<uint32_t>) && memcmp(head.data(), elf::kMagic, 4) == 0 && head[elf::kDataAt] == elf::kLittleEndian &&
               (head[elf::kClassAt] == elf::kClass64 || head[elf::kClassAt] == elf::kClass32);
  if (!elf.is_elf) return elf;
  elf.width = head[elf::kClassAt] == elf::kClass64 ? 64 : 32;
  if (elf.width == 64) read_tables<uint64_t, elf::Segment64>(file, head, &elf);
  else read_tables<uint32_t, elf::Segment32>(file, head, &elf);
  return elf;
}

namespace {

// The system that a file's first bytes tell of, and its machine as far as kMachines has it.
struct Origin {
  const char *system = nullptr, *machine = nullptr;
};
Origin origin_of(const InputFile& file, const ElfFile& elf) {
  auto number = [&](uint64_t at, size_t bytes) {
    uint32_t v = 0;
    file.read(at, &v, bytes);
    return v;
  };
  const char* machine = nullptr;
  if (elf.is_elf) {
    for (auto& m : kMachines)
      if (m.code == elf.machine && m.width == elf.width) machine = m.name;
    return {"Linux", machine};
  }
  const std::string head = file.bytes(0, 4);
  if (head == "\xcf\xfa\xed\xfe" || head == "\xce\xfa\xed\xfe" || head == "\xca\xfe\xba\xbe") {
    const uint32_t cpu = number(4, 4);
    return {"macOS", cpu == 0x01000007 ? "x86_64" : cpu == 0x0100000c ? "aarch64" : nullptr};
  }
  if (head.compare(0, 2, "MZ") == 0) {
    const uint32_t cpu = number(number(0x3c, 4) + 4, 2);
    return {"Windows", cpu == 0x8664 ? "x86_64" : cpu == 0xaa64 ? "aarch64" : cpu == 0x14c ? "i686" : nullptr};
  }
  return {};
}

}  // namespace

void check_library(const InputFile& file, const ElfFile& elf) {
  const char* path = file.path().c_str();
  const Origin origin = origin_of(file, elf);
  const bool on_linux = strcmp(kSystemName, "Linux") == 0;
  if (!origin.system)
    fail("ValueError", "%s is not a library: its %llu bytes do not begin with %s header", path, static_cast<unsigned long long>(file.size()), on_linux ? "an ELF" : "a library's");
  if (strcmp(origin.system, kSystemName) != 0)
    fail("ValueError", "%s was made for %s, but this machine is %s; compile it again for this machine", path, origin.system, kSystemName);
  const Machine* here = own();
  if (here && (elf.is_elf || origin.machine) && (!origin.machine || strcmp(origin.machine, here->name) != 0))
    fail("ValueError", "%s was made for %s, but this machine is %s; compile it again for this machine", path,
         origin.machine ? origin.machine : format("machine %d", elf.machine).c_str(), here->name);
  const size_t headers = 2;
  if (elf.is_elf && elf.needed <= file.size() && elf.loaded.size() == headers) damaged(file, "it has no segment that could be loaded");
}

}  // namespace tw
