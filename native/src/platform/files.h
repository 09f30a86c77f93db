// Files: pieces of them, what tells them apart, copies of them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace tw {

// A file open for reading, whose pieces several threads may read.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  InputFile(const InputFile&) = delete;
  ~InputFile();
  bool is_open() const { return file_ != -1; }
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // The bytes [at, at + n), fewer where the file ends.
  std::string bytes(uint64_t at, uint64_t n) const;
  size_t read(uint64_t at, void* to, size_t n) const;

 private:
  std::string path_;
  intptr_t file_;
  uint64_t size_ = 0;
};

// What tells a file from one that was written over it.
struct FileIdentity {
  uint64_t device, number, size;
  int64_t seconds, nanoseconds;
  bool operator==(const FileIdentity& o) const {
    return device == o.device && number == o.number && size == o.size && seconds == o.seconds && nanoseconds == o.nanoseconds;
  }
};
// False where there is no such file. whole: its path from the root.
bool identify(const std::string& path, FileIdentity* file, std::string* whole);
// Moves a file of the C library to a place in it; whether it could.
bool seek(FILE* file, uint64_t at);
// A new file for temporary use, with a name that begins with tilewright, open for writing; null where there can be none.
FILE* temporary_file(std::string* path);
// Removes a file; where the system keeps a library that is loaded, at the next start of the machine.
void remove_loaded(const std::string& path);

}  // namespace tw
