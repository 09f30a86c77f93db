// The stream of bytes between two processes: a connected socket.
#pragma once
#include <sys/uio.h>

#include <string>
#include <vector>

#include "../core.h"

namespace tw::rpc {

// The connection has ended: no message can follow.
struct Lost : Error {};

class Channel {
 public:
  // Takes the socket. peer: how messages name the other side.
  Channel(int fd, std::string peer);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  // Reads exactly so many bytes. Throws Lost.
  void read(void* to, size_t bytes);
  // Writes all pieces. Throws Lost.
  void write(std::vector<iovec> pieces);
  // Whether the other side has closed the connection between two messages; waits for a message.
  bool at_end();
  const std::string& peer() const { return peer_; }

 private:
  size_t receive(void* to, size_t bytes);
  int fd_;
  std::string peer_;
  // Small messages come in one piece, with one call of the system.
  char buffer_[1 << 14];
  size_t begin_ = 0, end_ = 0;
};

}  // namespace tw::rpc
