#include "../folders.h"

#include <algorithm>
#include <filesystem>

#include "../src/core.h"

namespace fs = std::filesystem;

namespace tw::server {
namespace {

fs::path of(const std::string& path) { return fs::u8path(path); }
[[noreturn]] void refuse(const std::string& path, const std::error_code& why) { fail("OSError", "the folder %s cannot be used: %s", path.c_str(), why.message().c_str()); }

}  // namespace

std::string joined(const std::string& folder, const std::string& path) { return (of(folder) / of(path)).u8string(); }
std::string real_path(const std::string& path) {
  std::error_code why;
  const fs::path found = fs::weakly_canonical(fs::absolute(of(path)), why);
  if (why) fail("ValueError", "the path %s is none: %s", path.c_str(), why.message().c_str());
  return found.u8string();
}
std::string parent_of(const std::string& path) { return of(path).parent_path().u8string(); }
std::string name_of(const std::string& path) { return of(path).filename().u8string(); }
Kind kind_of(const std::string& path) {
  std::error_code why;
  const auto found = fs::status(of(path), why);
  return !fs::exists(found) ? kAbsent : fs::is_directory(found) ? kFolder : kFile;
}
uint64_t file_bytes(const std::string& path) {
  std::error_code why;
  const auto bytes = fs::file_size(of(path), why);
  return why ? 0 : bytes;
}
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code why;
  for (auto& entry : fs::directory_iterator(of(folder), why)) names.push_back(entry.path().filename().u8string());
  std::sort(names.begin(), names.end());
  return names;
}
uint64_t bytes_below(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code why;
  for (auto& entry : fs::recursive_directory_iterator(of(folder), why))
    if (entry.is_regular_file(why)) bytes += entry.file_size(why);
  return bytes;
}
uint64_t free_bytes(const std::string& folder) {
  std::error_code why;
  return fs::space(of(folder), why).available;
}
void make_folders(const std::string& path) {
  std::error_code why;
  fs::create_directories(of(path), why);
  if (why) refuse(path, why);
}
bool make_new_folder(const std::string& path) {
  std::error_code why;
  const bool made = fs::create_directory(of(path), why);
  if (why) refuse(path, why);
  return made;
}
void remove_all(const std::string& path) {
  std::error_code why;
  fs::remove_all(of(path), why);
}
std::string temporary_place() {
  std::error_code why;
  return fs::temp_directory_path(why).u8string();
}
void work_in(const std::string& folder) {
  std::error_code why;
  fs::current_path(of(folder), why);
  if (why) refuse(folder, why);
}

}  // namespace tw::server
