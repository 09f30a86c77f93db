// ELF files read without the system's loader, which trusts what they say of themselves.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "platform/files.h"

namespace tw {

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
