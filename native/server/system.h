// What the server asks of the system: sockets, processes of sessions, signals.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../src/core.h"
#include "../src/platform/stream.h"

namespace tw::server {

using Socket = intptr_t;
constexpr Socket kNoSocket = -1;

// Before anything else here.
void begin_system();

// The first free port from `port` to `end`, without it, on a host; 0: any. Throws OSError.
Socket listen_on(const std::string& host, int port, int end, int* found);
// A client that waits, and its address; kNoSocket where there is none.
Socket accept_client(Socket listener, std::string* where);
// Begins to connect. Throws OSError.
Socket connect_to(const std::string& host, int port);
void close_socket(Socket socket);
// Whether the other side has closed the connection.
bool is_gone(Socket socket);

struct Wait {
  Socket socket;
  bool to_read, to_write;  // what for, and then whether it can be done
};
// Waits until one can be used, so many milliseconds or until a signal comes.
void wait_for(std::vector<Wait>& all, int milliseconds);

void random_bytes(void* to, size_t bytes);

// What a session's process is told.
struct Session {
  Stream stream;
  std::string peer, folder;
  uint64_t most_message, most_disk;
  int silence, idle;  // seconds
  bool silent;
};
void run_session(const Session& session);
// A process that runs a session, and ends with this one. Others: sockets that it must not keep open. Throws OSError.
using Process = intptr_t;
Process start_session(const Session& session, const std::vector<Socket>& others);
// In such a process, where it runs this program again: its socket.
Socket given_socket();
bool has_ended(Process process);
// Ends it with all that it started.
void kill_process(Process process);
// Whether there is a process of this number.
bool is_process(int64_t number);

// Runs a program with its output in `said`; its exit status, or -1 where it cannot be run.
int run_program(const std::vector<std::string>& command, std::string* said);
// The path of a program among those of PATH, "" where it is not there.
std::string find_program(const std::string& name);

// Ctrl-C and what the system sends to end a program are noted from now on, and asked for here.
void catch_stops();
bool stop_asked();

// Standard input and output for messages; what is printed goes to standard error from now on.
Stream take_standard_streams();

}  // namespace tw::server
