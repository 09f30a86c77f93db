// The folder of a session, which no path leads out of, and the functions by which a client reaches it.
#pragma once
#include <cstdint>
#include <string>

namespace tw::server {

// A new folder for a session, in `work_dir` or where the system has temporary files. Throws OSError.
std::string make_folder(const std::string& work_dir);
void remove_folder(const std::string& folder);
// Those of servers that were killed.
void remove_left_folders(const std::string& work_dir);

// Registers the functions on the files of this folder. most: bytes that they may take in all.
void offer_files(const std::string& folder, uint64_t most);

}  // namespace tw::server
