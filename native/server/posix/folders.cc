#include "../folders.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../src/core.h"

namespace tw::server {
namespace {

bool facts_of(const std::string& path, struct stat* facts, bool of_link = false) {
  return (of_link ? lstat(path.c_str(), facts) : stat(path.c_str(), facts)) == 0;
}
bool is_link(const std::string& path) {
  struct stat facts;
  return facts_of(path, &facts, true) && S_ISLNK(facts.st_mode);
}
[[noreturn]] void refuse(const std::string& path) { fail("OSError", "the folder %s cannot be made: %s", path.c_str(), strerror(errno)); }

}  // namespace

std::string joined(const std::string& folder, const std::string& path) { return !path.empty() && path[0] == '/' ? path : folder + "/" + path; }

std::string real_path(const std::string& path) {
  std::string there = path.empty() || path[0] != '/' ? "./" + path : path;
  std::vector<std::string> absent;
  for (;;) {
    std::unique_ptr<char, void (*)(void*)> found(realpath(there.c_str(), nullptr), free);
    if (found) {
      there = found.get();
      break;
    }
    if (is_link(there)) fail("ValueError", "%s is a link to nowhere", there.c_str());
    while (there.size() > 1 && there.back() == '/') there.pop_back();
    const size_t slash = there.rfind('/');
    if (slash == std::string::npos) break;
    absent.push_back(there.substr(slash + 1));
    there.resize(std::max<size_t>(slash, 1));
  }
  for (; !absent.empty(); absent.pop_back()) {
    if (absent.back() == "..") there = parent_of(there);
    else if (absent.back() != ".") there += (there == "/" ? "" : "/") + absent.back();
  }
  return there;
}

std::string parent_of(const std::string& path) { return path.substr(0, std::max<size_t>(path.rfind('/'), 1)); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Kind kind_of(const std::string& path) {
  struct stat facts;
  return !facts_of(path, &facts) ? kAbsent : S_ISDIR(facts.st_mode) ? kFolder : kFile;
}
uint64_t file_bytes(const std::string& path) {
  struct stat facts;
  return facts_of(path, &facts) ? static_cast<uint64_t>(facts.st_size) : 0;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> all(opendir(folder.c_str()), closedir);
  for (dirent* entry; all && (entry = readdir(all.get()));) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t bytes_below(const std::string& folder) {
  uint64_t bytes = 0;
  for (auto& name : names_in(folder)) {
    struct stat facts;
    const std::string path = folder + "/" + name;
    if (!facts_of(path, &facts, true)) continue;
    bytes += S_ISDIR(facts.st_mode) ? bytes_below(path) : S_ISREG(facts.st_mode) ? static_cast<uint64_t>(facts.st_size) : 0;
  }
  return bytes;
}

uint64_t free_bytes(const std::string& folder) {
  struct statvfs facts;
  return statvfs(folder.c_str(), &facts) == 0 ? uint64_t{facts.f_bavail} * facts.f_frsize : 0;
}

void make_folders(const std::string& path) {
  if (kind_of(path) == kFolder || path.empty()) return;
  if (path.find('/') != std::string::npos) make_folders(parent_of(path));
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) refuse(path);
}

bool make_new_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return true;
  if (errno != EEXIST) refuse(path);
  return false;
}

void remove_all(const std::string& path) {
  struct stat facts;
  if (!facts_of(path, &facts, true)) return;
  if (!S_ISDIR(facts.st_mode)) {
    unlink(path.c_str());
    return;
  }
  for (auto& name : names_in(path)) remove_all(path + "/" + name);
  rmdir(path.c_str());
}

std::string temporary_place() {
  const char* folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

void work_in(const std::string& folder) {
  if (chdir(folder.c_str()) != 0) fail("OSError", "the folder %s cannot be used: %s", folder.c_str(), strerror(errno));
}

}  // namespace tw::server
