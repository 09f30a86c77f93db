// Folders and paths. The C++ library's own (std::filesystem) cannot read all folders on systems of 32 bits.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::server {

// Absolute, with links resolved; its last parts may be absent. Throws ValueError for a link to nowhere.
std::string real_path(const std::string& path);
// `path` seen from `folder`; an absolute one stays as it is.
std::string joined(const std::string& folder, const std::string& path);
std::string parent_of(const std::string& path);
std::string name_of(const std::string& path);
enum Kind { kAbsent, kFile, kFolder };
Kind kind_of(const std::string& path);
uint64_t file_bytes(const std::string& path);
// In alphabetical order.
std::vector<std::string> names_in(const std::string& folder);
// Bytes of all files in a folder and the folders in it.
uint64_t bytes_below(const std::string& folder);
uint64_t free_bytes(const std::string& folder);
// With the folders that it is in. Throws OSError.
void make_folders(const std::string& path);
// For this user alone; false where there is one of that name. Throws OSError.
bool make_new_folder(const std::string& path);
// With all that is in it.
void remove_all(const std::string& path);
// Where the system has temporary files.
std::string temporary_place();
void work_in(const std::string& folder);

}  // namespace tw::server
