// A connection that the server's loop reads and writes when it can: each step says how many bytes it needs next.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "system.h"

namespace tw::server {

using Clock = std::chrono::steady_clock;
constexpr Clock::time_point kNever = Clock::time_point::max();

class Link {
 public:
  using Then = std::function<void(const std::string&)>;
  // Takes the socket. peer: how messages name the other side.
  Link(Socket socket, std::string peer) : socket_(socket), peer_(std::move(peer)) { begin_stream({socket, socket}); }
  Link(const Link&) = delete;
  ~Link() { if (socket_ != kNoSocket) close_socket(socket_); }

  void send(const std::string& bytes) { out_ += bytes; }
  // Calls `then` with exactly so many bytes, in place of who was to be called before; no byte after them is read.
  void expect(size_t bytes, Then then) { need_ = bytes, in_.clear(), then_ = std::move(then); }
  // The same for a string with its length (4 bytes) before it.
  void expect_text(size_t most, Then then);
  void expect_nothing() { then_ = nullptr; }
  // Reads and writes what can be without waiting. Throws Error where the connection has ended, or a step refuses what came.
  void step();
  bool reads() const { return static_cast<bool>(then_); }
  bool writes() const { return !out_.empty(); }
  Socket socket() const { return socket_; }
  Socket release() { return std::exchange(socket_, kNoSocket); }
  const std::string& peer() const { return peer_; }
  Clock::time_point deadline = kNever;  // of what goes on now

 private:
  Socket socket_;
  std::string peer_, in_, out_;
  size_t need_ = 0;
  Then then_;
};

// Numbers as they are on the wire.
std::string number(int32_t value);
int32_t number(const std::string& bytes);
std::string text(const std::string& value);

// The handshake of docs/rooms/rpc.md, of the side that listens: `then` gets the key of who connects.
void admit(Link& link, const std::string& secret, Link::Then then);
// Of the side that connects to a tracker.
void enter_tracker(Link& link, const std::string& secret, std::function<void()> then);

constexpr int32_t kMagic = 0xff271, kMismatch = kMagic + 2, kWaits = kMagic + 4;

}  // namespace tw::server
