// The bytes that go between two processes, read and written exactly.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "../core.h"
#include "../platform/stream.h"

namespace tw::rpc {

// The connection has ended: no message can follow.
struct Lost : Error {};

// How long the other side may be silent, in milliseconds; -1: for ever.
struct Patience {
  int within = -1;   // in the middle of a message
  int between = -1;  // before one
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();  // of the whole session
};

class Channel {
 public:
  // Takes the connection. peer: how messages name the other side.
  Channel(Stream stream, std::string peer);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  // Reads exactly so many bytes. Throws Lost.
  void read(void* to, size_t bytes);
  // Writes all pieces. Throws Lost.
  void write(std::vector<Piece> pieces);
  // Whether the other side has closed the connection between two messages; waits for a message.
  bool at_end();
  // Passes on what both sides send to each other, until one of them ends.
  static void connect(Channel& one, Channel& other);
  const std::string& peer() const { return peer_; }
  Patience patience;
  bool within = false;  // whether a message has begun

 private:
  size_t receive(void* to, size_t bytes);
  void await(bool writes);
  static void forward(Channel& from, Channel& to);
  const Stream stream_;
  std::string peer_;
  // Small messages come in one piece, with one call of the system.
  char buffer_[1 << 14];
  size_t begin_ = 0, end_ = 0;
};

}  // namespace tw::rpc
