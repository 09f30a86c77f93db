#include "../system.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tw::server {
namespace {

volatile sig_atomic_t stopped = 0;

struct Addresses {
  addrinfo* first = nullptr;
  Addresses(const std::string& host, int port, bool to_listen) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = to_listen ? AI_PASSIVE : 0;
    if (int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first))
      fail("OSError", "the address %s cannot be used: %s", host.c_str(), gai_strerror(code));
  }
  Addresses(const Addresses&) = delete;
  ~Addresses() { freeaddrinfo(first); }
};

int port_of(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  char port[16] = "0";
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  getnameinfo(reinterpret_cast<sockaddr*>(&at), size, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  return atoi(port);
}

void make_ready(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

void begin_system() { signal(SIGPIPE, SIG_IGN); }

Socket listen_on(const std::string& host, int port, int end, int* found) {
  for (int number = port; number < std::max(end, port + 1); ++number) {
    Addresses all(host, number, true);
    const int fd = socket(all.first->ai_family, SOCK_STREAM, 0), on = 1;
    if (fd < 0) fail("OSError", "cannot listen on %s: %s", host.c_str(), strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, all.first->ai_addr, all.first->ai_addrlen) == 0 && listen(fd, 64) == 0) {
      make_ready(fd);
      *found = port_of(fd);
      return fd;
    }
    const int why = errno;
    close(fd);
    if (why != EADDRINUSE) fail("OSError", "cannot listen on %s:%d: %s", host.c_str(), number, strerror(why));
  }
  fail("OSError", "cannot listen on %s: ports %d to %d are all in use", host.c_str(), port, std::max(end, port + 1) - 1);
}

Socket accept_client(Socket listener, std::string* where) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  const int fd = accept(static_cast<int>(listener), reinterpret_cast<sockaddr*>(&from), &size);
  if (fd < 0) return kNoSocket;
  make_ready(fd);
  char host[256] = "?", port[16] = "0";
  getnameinfo(reinterpret_cast<sockaddr*>(&from), size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  *where = std::string(host) + ":" + port;
  return fd;
}

Socket connect_to(const std::string& host, int port) {
  Addresses all(host, port, false);
  const int fd = socket(all.first->ai_family, SOCK_STREAM, 0);
  if (fd < 0) fail("OSError", "%s", strerror(errno));
  make_ready(fd);
  if (connect(fd, all.first->ai_addr, all.first->ai_addrlen) != 0 && errno != EINPROGRESS) {
    const int why = errno;
    close(fd);
    fail("OSError", "%s", strerror(why));
  }
  return fd;
}

void close_socket(Socket socket) { close(static_cast<int>(socket)); }

bool is_gone(Socket socket) {
#if defined(POLLRDHUP)
  pollfd one{static_cast<int>(socket), POLLRDHUP, 0};
  return poll(&one, 1, 0) > 0;
#else
  char next;
  return recv(static_cast<int>(socket), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
#endif
}

void wait_for(std::vector<Wait>& all, int milliseconds) {
  std::vector<pollfd> asked;
  for (auto& w : all) asked.push_back({static_cast<int>(w.socket), static_cast<short>((w.to_read ? POLLIN : 0) | (w.to_write ? POLLOUT : 0)), 0});
  const bool some = poll(asked.data(), static_cast<nfds_t>(asked.size()), milliseconds) > 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool ended = some && (asked[i].revents & (POLLERR | POLLHUP | POLLNVAL));
    all[i].to_read = all[i].to_read && some && (ended || (asked[i].revents & POLLIN));
    all[i].to_write = all[i].to_write && some && (ended || (asked[i].revents & POLLOUT));
  }
}

void random_bytes(void* to, size_t bytes) {
  std::unique_ptr<FILE, int (*)(FILE*)> source(fopen("/dev/urandom", "rb"), fclose);
  if (!source || fread(to, 1, bytes, source.get()) != bytes) fail("OSError", "/dev/urandom cannot be read: %s", strerror(errno));
}

Process start_session(const Session& session, const std::vector<Socket>& others) {
  const pid_t parent = getpid();
  fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) fail("OSError", "a session has no process: %s", strerror(errno));
  if (child > 0) return child;
  setsid();
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(1);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  for (Socket other : others) close_socket(other);
  run_session(session);
  fflush(nullptr);
  _exit(0);
}

// A session is forked here, and has its socket.
Socket given_socket() { fail("OSError", "a session is not started by hand"); }

bool has_ended(Process process) {
  const auto child = static_cast<pid_t>(process);
  if (waitpid(child, nullptr, WNOHANG) == 0) return false;
  kill(-child, SIGKILL);  // what it has started
  return true;
}

void kill_process(Process process) {
  const auto child = static_cast<pid_t>(process);
  if (has_ended(process)) return;
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
}

bool is_process(int64_t number) { return kill(static_cast<pid_t>(number), 0) == 0 || errno != ESRCH; }

int run_program(const std::vector<std::string>& command, std::string* said) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> words;
    for (auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    execv(words[0], words.data());
    _exit(127);
  }
  close(ends[1]);
  char piece[4096];
  for (ssize_t n; child > 0 && ((n = read(ends[0], piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR));)
    if (n > 0) said->append(piece, static_cast<size_t>(n));
  close(ends[0]);
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string find_program(const std::string& name) {
  const char* path = getenv("PATH");
  const std::string all = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0, end; at < all.size(); at = end + 1) {
    end = std::min(all.find(':', at), all.size());
    const std::string file = all.substr(at, end - at) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

void catch_stops() {
  // No SA_RESTART: a wait ends with the signal.
  struct sigaction noted{};
  noted.sa_handler = [](int) { stopped = 1; };
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &noted, nullptr);
}
bool stop_asked() { return stopped; }

Stream take_standard_streams() {
  const Stream own{fcntl(0, F_DUPFD_CLOEXEC, 3), fcntl(1, F_DUPFD_CLOEXEC, 3)};
  dup2(2, 1);
  dup2(open("/dev/null", O_RDONLY), 0);
  return own;
}

}  // namespace tw::server
