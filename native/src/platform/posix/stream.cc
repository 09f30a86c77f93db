#include "../stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tw {
namespace {

#if defined(MSG_NOSIGNAL)
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

bool is_socket(const Stream& s) { return s.in == s.out; }
int reads(const Stream& s) { return static_cast<int>(s.in); }
int writes(const Stream& s) { return static_cast<int>(s.out); }
ptrdiff_t result(ssize_t n) {
  if (n >= 0) return n;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? kWouldWait : kBroken;
}

}  // namespace

void begin_stream(const Stream& s) {
  if (!is_socket(s)) {
    for (int pipe : {reads(s), writes(s)}) fcntl(pipe, F_SETFL, fcntl(pipe, F_GETFL) | O_NONBLOCK);
    return;
  }
  // A peer that lost its power or its network sends nothing more: the system asks it every 5 s once it was silent for 10, and gives up
  // after four questions without an answer, so that nobody waits for ever.
  const int fd = reads(s), on = 1, idle = 10, between = 5, count = 4, unanswered = 30000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(__APPLE__)
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &idle, sizeof idle);
#else
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof unanswered);
#endif
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  (void)unanswered;
}

ptrdiff_t read_stream(const Stream& s, void* to, size_t bytes) {
  return result(is_socket(s) ? recv(reads(s), to, bytes, MSG_DONTWAIT) : read(reads(s), to, bytes));
}

ptrdiff_t write_stream(const Stream& s, const Piece* pieces, size_t count) {
  iovec parts[64];
  count = std::min<size_t>(count, 64);
  for (size_t i = 0; i < count; ++i) parts[i] = {const_cast<void*>(pieces[i].data), pieces[i].bytes};
  if (!is_socket(s)) return result(writev(writes(s), parts, static_cast<int>(count)));
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
  return result(sendmsg(writes(s), &message, kNoSignal | MSG_DONTWAIT));
}

int await_stream(const Stream& s, bool to_write, int milliseconds) {
  pollfd one{to_write ? writes(s) : reads(s), static_cast<short>(to_write ? POLLOUT : POLLIN), 0};
  const int ready = poll(&one, 1, milliseconds);
  return ready > 0 ? 1 : ready == 0 || errno == EINTR ? 0 : static_cast<int>(kBroken);
}

void end_stream(const Stream& s) {
  if (is_socket(s)) shutdown(reads(s), SHUT_RDWR);
}

void close_stream(const Stream& s) {
  close(reads(s));
  if (!is_socket(s)) close(writes(s));
}

std::string stream_error() { return strerror(errno); }

}  // namespace tw
