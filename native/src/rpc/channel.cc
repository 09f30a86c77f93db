#include "channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace tw::rpc {
namespace {

constexpr std::chrono::microseconds kAwake{50};

// A peer that lost its power or its network sends nothing more: the system asks it every 5 s once it was silent for 10, and gives up after
// four questions without an answer, so that nobody waits for ever.
void watch(int fd) {
  const int on = 1, idle = 10, between = 5, count = 4, unanswered = 30000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(__linux__)
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof unanswered);
#else
  (void)idle, (void)between, (void)count, (void)unanswered;
#endif
}

[[noreturn]] void lose(const std::string& peer) { throw Lost{{"RPCError", format("the connection to %s is lost: %s", peer.c_str(), strerror(errno))}}; }
[[noreturn]] void closed(const std::string& peer) { throw Lost{{"RPCError", format("%s has closed the connection", peer.c_str())}}; }

}  // namespace

Channel::Channel(int fd, std::string peer) : fd_(fd), peer_(std::move(peer)) { watch(fd); }
Channel::~Channel() { close(fd_); }

size_t Channel::receive(void* to, size_t bytes) {
  // An answer over loopback comes sooner than a thread that sleeps wakes up.
  const auto until = std::chrono::steady_clock::now() + kAwake;
  do {
    const ssize_t n = recv(fd_, to, bytes, MSG_DONTWAIT);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lose(peer_);
  } while (std::chrono::steady_clock::now() < until);
  for (;;) {
    const ssize_t n = recv(fd_, to, bytes, 0);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) lose(peer_);
    if (check_signals() != 0) throw Raised{};
  }
}

void Channel::read(void* to, size_t bytes) {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    size_t n = std::min(bytes, end_ - begin_);
    if (n > 0) {
      memcpy(at, buffer_ + begin_, n);
      begin_ += n;
    } else if (bytes >= sizeof buffer_) {
      n = receive(at, bytes);
      if (n == 0) closed(peer_);
    } else {
      begin_ = 0;
      end_ = receive(buffer_, sizeof buffer_);
      if (end_ == 0) closed(peer_);
    }
    at += n;
    bytes -= n;
  }
}

bool Channel::at_end() {
  if (begin_ < end_) return false;
  begin_ = 0;
  end_ = receive(buffer_, sizeof buffer_);
  return end_ == 0;
}

void Channel::write(std::vector<iovec> pieces) {
  size_t first = 0;
  while (first < pieces.size()) {
    msghdr message{};
    message.msg_iov = pieces.data() + first;
    message.msg_iovlen = std::min<size_t>(pieces.size() - first, 64);
    ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno != EINTR) lose(peer_);
      if (check_signals() != 0) throw Raised{};
      continue;
    }
    for (; first < pieces.size() && static_cast<size_t>(n) >= pieces[first].iov_len; ++first) n -= static_cast<ssize_t>(pieces[first].iov_len);
    if (first < pieces.size()) {
      pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + n;
      pieces[first].iov_len -= static_cast<size_t>(n);
    }
  }
}

}  // namespace tw::rpc
