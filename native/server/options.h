// The options of the program.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::server {

struct Options {
  std::string host = "127.0.0.1", tracker_host, key, custom_addr, work_dir, secret;
  std::vector<std::string> libraries;  // to load before the first session
  int port = 9090, port_end = 9199, tracker_port = 0;
  int timeout = 0;  // seconds that a session may last; 0: no limit
  bool silent = false;
  // What clients may use up.
  uint64_t message = uint64_t{1} << 30, disk = uint64_t{16} << 30;
  int connections = 64, sessions = 1, silence = 60, idle = 0;
};

// Throws ValueError for options that are wrong.
Options read_options(const std::vector<std::string>& words);
extern const char* const kUsage;

}  // namespace tw::server
