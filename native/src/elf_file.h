// ELF files read without the system's loader, which trusts what they say of themselves.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw {

// A file open for reading, whose pieces several threads may read.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  InputFile(const InputFile&) = delete;
  ~InputFile();
  bool is_open() const { return file_ >= 0; }
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // The bytes [at, at + n), fewer where the file ends.
  std::string bytes(uint64_t at, uint64_t n) const;
  size_t read(uint64_t at, void* to, size_t n) const;

 private:
  std::string path_;
  int file_;
  uint64_t size_ = 0;
};

struct Range {
  uint64_t at, size;
};

struct ElfFile {
  bool is_elf = false, relocatable = false;
  int machine = 0, width = 0;   // e_machine; 32 or 64
  std::vector<Range> loaded;    // the headers, and what the system's loader maps
  std::vector<Range> tool_made; // what tools may change that leave all that is loaded as it is: where the table of sections is
  std::vector<Range> notes;
  uint64_t needed = 0;          // bytes that the file must have
};
// Raises ValueError where the headers contradict each other; whether the file has the bytes that it needs is left to the caller.
ElfFile read_elf(const InputFile& file);

// ValueError where a file is no ELF library, is for another machine, or has nothing to load.
void check_library(const InputFile& file, const ElfFile& elf);

}  // namespace tw
