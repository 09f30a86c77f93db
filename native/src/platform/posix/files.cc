#include "../files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../../core.h"

namespace tw {

InputFile::InputFile(const std::string& path) : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat facts;
  if (is_open() && fstat(static_cast<int>(file_), &facts) == 0 && S_ISREG(facts.st_mode)) size_ = static_cast<uint64_t>(facts.st_size);
}
InputFile::~InputFile() {
  if (is_open()) close(static_cast<int>(file_));
}
size_t InputFile::read(uint64_t at, void* to, size_t n) const {
  size_t done = 0;
  while (done < n) {
    ssize_t got = pread(static_cast<int>(file_), static_cast<char*>(to) + done, n - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("OSError", "%s cannot be read: %s", path_.c_str(), strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}
bool identify(const std::string& path, FileIdentity* file, std::string* whole) {
  struct stat s;
  if (stat(path.c_str(), &s) != 0) return false;
#if defined(__APPLE__)
  const timespec changed = s.st_mtimespec;
#else
  const timespec changed = s.st_mtim;
#endif
  *file = {static_cast<uint64_t>(s.st_dev), static_cast<uint64_t>(s.st_ino), static_cast<uint64_t>(s.st_size), static_cast<int64_t>(changed.tv_sec), static_cast<int64_t>(changed.tv_nsec)};
  std::unique_ptr<char, void (*)(void*)> found(realpath(path.c_str(), nullptr), free);
  *whole = found ? found.get() : path;
  return true;
}

bool seek(FILE* file, uint64_t at) { return fseeko(file, static_cast<off_t>(at), SEEK_SET) == 0; }

FILE* temporary_file(std::string* path) {
  const char* folder = getenv("TMPDIR");
  *path = std::string(folder && *folder ? folder : "/tmp") + "/tilewright-XXXXXX";
  const int file = mkstemp(&(*path)[0]);
  return file < 0 ? nullptr : fdopen(file, "wb");
}

void remove_loaded(const std::string& path) { unlink(path.c_str()); }

}  // namespace tw
