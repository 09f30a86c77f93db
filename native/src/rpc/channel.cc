#include "channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

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
    await(POLLIN);
    const ssize_t n = recv(fd_, to, bytes, MSG_DONTWAIT);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lose(peer_);
  }
}

// Waits until the socket can be read or written.
void Channel::await(short what) {
  using std::chrono::milliseconds;
  const bool writes = what == POLLOUT;
  const auto start = std::chrono::steady_clock::now();
  const int silence = within || writes ? patience.within : patience.between;
  const auto end = silence < 0 ? patience.end : std::min(patience.end, start + milliseconds(silence));
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left < 0) break;
    pollfd socket{fd_, what, 0};
    const int ready = poll(&socket, 1, static_cast<int>(std::min<long long>(left + 1, 1 << 30)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) lose(peer_);
    if (check_signals() != 0) throw Raised{};
  }
  throw Lost{{"RPCError", end == patience.end ? format("the time of the session is over, and %s does not answer", peer_.c_str())
                                              : format("%s %s for %d s%s", peer_.c_str(), writes ? "takes nothing" : "has sent nothing", silence / 1000, within || writes ? ", in the middle of a message" : "")}};
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
    within = true;
  }
}

void Channel::forward(Channel& from, Channel& to) {
  char data[1 << 16];
  try {
    for (;;) {
      const size_t held = from.end_ - from.begin_;
      const size_t n = held ? held : from.receive(data, sizeof data);
      if (n == 0) break;
      to.write({{held ? from.buffer_ + from.begin_ : data, n}});
      from.begin_ = from.end_;
    }
  } catch (...) {  // one of them is gone
  }
  shutdown(to.fd_, SHUT_RDWR);
}

void Channel::connect(Channel& one, Channel& other) {
  std::thread back([&] { forward(other, one); });
  forward(one, other);
  back.join();
}

bool Channel::at_end() {
  within = false;
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
    ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lose(peer_);
      await(POLLOUT);
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
