#include "elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "core.h"

namespace tw {

InputFile::InputFile(const std::string& path) : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat facts;
  if (file_ >= 0 && fstat(file_, &facts) == 0 && S_ISREG(facts.st_mode)) size_ = static_cast<uint64_t>(facts.st_size);
}
InputFile::~InputFile() {
  if (file_ >= 0) close(file_);
}
size_t InputFile::read(uint64_t at, void* to, size_t n) const {
  size_t done = 0;
  while (done < n) {
    ssize_t got = pread(file_, static_cast<char*>(to) + done, n - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("OSError", "%s cannot be read: %s", path_.c_str(), strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}
std::string InputFile::bytes(uint64_t at, uint64_t n) const {
  std::string found(at < size_ ? static_cast<size_t>(std::min(n, size_ - at)) : 0, '\0');
  found.resize(read(at, &found[0], found.size()));
  return found;
}

namespace {

[[noreturn]] void damaged(const InputFile& file, const char* what) {
  fail("ValueError", "%s is damaged: %s; copy or compile it again", file.path().c_str(), what);
}

template <typename Ehdr, typename Phdr, typename Shdr>
void read_tables(const InputFile& file, const std::string& head, ElfFile* elf) {
  Ehdr h;
  if (head.size() < sizeof h) return;
  memcpy(&h, head.data(), sizeof h);
  elf->relocatable = h.e_type == ET_REL;
  elf->machine = h.e_machine;
  elf->loaded.push_back({0, sizeof h});
  elf->tool_made = {{offsetof(Ehdr, e_shoff), sizeof h.e_shoff}, {offsetof(Ehdr, e_shentsize), sizeof(Ehdr) - offsetof(Ehdr, e_shentsize)}};
  auto need = [&](uint64_t at, uint64_t size) {
    uint64_t end = at + size < at ? ~uint64_t{0} : at + size;
    elf->needed = std::max(elf->needed, end);
    return end <= file.size();
  };
  if (h.e_phnum && h.e_phentsize != sizeof(Phdr)) damaged(file, "its table of segments has entries of a wrong size");
  elf->loaded.push_back({h.e_phoff, uint64_t{h.e_phnum} * sizeof(Phdr)});
  const bool segments = need(h.e_phoff, uint64_t{h.e_phnum} * sizeof(Phdr));
  const bool sections = need(h.e_shoff, uint64_t{h.e_shnum} * h.e_shentsize);
  for (uint32_t i = 0; segments && i < h.e_phnum; ++i) {
    Phdr p;
    file.read(h.e_phoff + i * sizeof p, &p, sizeof p);
    need(p.p_offset, p.p_filesz);
    if (p.p_type == PT_LOAD) elf->loaded.push_back({p.p_offset, p.p_filesz});
    if (p.p_type == PT_NOTE) elf->notes.push_back({p.p_offset, p.p_filesz});
  }
  if (!elf->relocatable || !sections) return;
  if (h.e_shnum && h.e_shentsize != sizeof(Shdr)) damaged(file, "its table of sections has entries of a wrong size");
  for (uint32_t i = 0; i < h.e_shnum; ++i) {
    Shdr s;
    file.read(h.e_shoff + i * sizeof s, &s, sizeof s);
    if (s.sh_type != SHT_NOBITS) need(s.sh_offset, s.sh_size);
    if (s.sh_type == SHT_NOTE && s.sh_size) elf->notes.push_back({s.sh_offset, s.sh_size});
    if ((i == h.e_shstrndx) != (s.sh_type == SHT_STRTAB) && i == h.e_shstrndx) damaged(file, "its table of sections cannot be read");
  }
}

struct Machine {
  const char* name;
  int code, width;
};
const Machine kMachines[] = {{"x86_64", EM_X86_64, 64}, {"aarch64", EM_AARCH64, 64}, {"riscv64", EM_RISCV, 64}, {"armv7", EM_ARM, 32},
                             {"riscv32", EM_RISCV, 32}, {"i686", EM_386, 32}};
#if defined(__x86_64__)
const Machine* own() { return &kMachines[0]; }
#elif defined(__aarch64__)
const Machine* own() { return &kMachines[1]; }
#elif defined(__riscv) && __riscv_xlen == 64
const Machine* own() { return &kMachines[2]; }
#elif defined(__arm__)
const Machine* own() { return &kMachines[3]; }
#else
const Machine* own() { return nullptr; }
#endif

}  // namespace

ElfFile read_elf(const InputFile& file) {
  ElfFile elf;
  const std::string head = file.bytes(0, sizeof(Elf64_Ehdr));
  elf.is_elf = head.size() >= sizeof(Elf32_Ehdr) && memcmp(head.data(), ELFMAG, SELFMAG) == 0 && head[EI_DATA] == ELFDATA2LSB &&
               (head[EI_CLASS] == ELFCLASS64 || head[EI_CLASS] == ELFCLASS32);
  if (!elf.is_elf) return elf;
  elf.width = head[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  if (elf.width == 64) read_tables<Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr>(file, head, &elf);
  else read_tables<Elf32_Ehdr, Elf32_Phdr, Elf32_Shdr>(file, head, &elf);
  return elf;
}

void check_library(const InputFile& file, const ElfFile& elf) {
#if defined(__linux__)
  const char* path = file.path().c_str();
  const std::string head = file.bytes(0, 4);
  if (head == "\xcf\xfa\xed\xfe" || head == "\xce\xfa\xed\xfe" || head == "\xca\xfe\xba\xbe" || head.compare(0, 2, "MZ") == 0)
    fail("ValueError", "%s was made for %s, but this machine is Linux; compile it again for this machine", path, head[0] == 'M' ? "Windows" : "macOS");
  if (!elf.is_elf) fail("ValueError", "%s is not a library: its %llu bytes do not begin with an ELF header", path, static_cast<unsigned long long>(file.size()));
  const Machine* here = own();
  if (here && (elf.machine != here->code || elf.width != here->width)) {
    std::string made_for = format("machine %d", elf.machine);
    for (auto& m : kMachines)
      if (m.code == elf.machine && m.width == elf.width) made_for = m.name;
    fail("ValueError", "%s was made for %s, but this machine is %s; compile it again for this machine", path, made_for.c_str(), here->name);
  }
  const size_t headers = 2;
  if (elf.needed <= file.size() && elf.loaded.size() == headers) damaged(file, "it has no segment that could be loaded");
#endif
}

}  // namespace tw
