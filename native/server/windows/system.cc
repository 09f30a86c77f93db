#include "../system.h"

#include <winsock2.h>
#include <ws2tcpip.h>

#include <fcntl.h>
#include <io.h>
#include <ntsecapi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "../src/platform/windows/names.h"

namespace tw::server {
namespace {

volatile LONG stopped = 0;

std::string socket_error() { return error_text(static_cast<DWORD>(WSAGetLastError())); }

struct Addresses {
  addrinfo* first = nullptr;
  Addresses(const std::string& host, int port, bool to_listen) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = to_listen ? AI_PASSIVE : 0;
    if (int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first))
      fail("OSError", "the address %s cannot be used: %s", host.c_str(), error_text(static_cast<DWORD>(code)).c_str());
  }
  Addresses(const Addresses&) = delete;
  ~Addresses() { freeaddrinfo(first); }
};

void make_ready(SOCKET socket) {
  u_long unblocked = 1;
  ioctlsocket(socket, FIONBIO, &unblocked);
  SetHandleInformation(reinterpret_cast<HANDLE>(socket), HANDLE_FLAG_INHERIT, 0);
}

// A session's process, and what ends it with all that it started.
struct Running {
  HANDLE process, job;
};
std::map<Process, Running>& running() {
  static std::map<Process, Running> all;
  return all;
}

// As a command line is taken apart again.
std::wstring quoted(const std::string& word) {
  std::wstring all = L"\"";
  size_t slashes = 0;
  for (wchar_t c : wide(word)) {
    if (c == L'"') all.append(slashes + 1, L'\\');
    slashes = c == L'\\' ? slashes + 1 : 0;
    all += c;
  }
  return all.append(slashes, L'\\') + L'"';
}

std::wstring own_path() {
  wchar_t path[4096];
  return {path, GetModuleFileNameW(nullptr, path, 4096)};
}

}  // namespace

void begin_system() {
  WSADATA version;
  if (WSAStartup(MAKEWORD(2, 2), &version) != 0) fail("OSError", "this system has no sockets");
}

Socket listen_on(const std::string& host, int port, int end, int* found) {
  for (int number = port; number < std::max(end, port + 1); ++number) {
    Addresses all(host, number, true);
    const SOCKET own = socket(all.first->ai_family, SOCK_STREAM, 0);
    if (own == INVALID_SOCKET) fail("OSError", "cannot listen on %s: %s", host.c_str(), socket_error().c_str());
    const BOOL on = TRUE;
    setsockopt(own, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, reinterpret_cast<const char*>(&on), sizeof on);
    if (bind(own, all.first->ai_addr, static_cast<int>(all.first->ai_addrlen)) == 0 && listen(own, 64) == 0) {
      make_ready(own);
      sockaddr_storage at{};
      int size = sizeof at;
      char name[16] = "0";
      getsockname(own, reinterpret_cast<sockaddr*>(&at), &size);
      getnameinfo(reinterpret_cast<sockaddr*>(&at), size, nullptr, 0, name, sizeof name, NI_NUMERICSERV);
      *found = atoi(name);
      return static_cast<Socket>(own);
    }
    const int why = WSAGetLastError();
    closesocket(own);
    if (why != WSAEADDRINUSE && why != WSAEACCES) fail("OSError", "cannot listen on %s:%d: %s", host.c_str(), number, error_text(static_cast<DWORD>(why)).c_str());
  }
  fail("OSError", "cannot listen on %s: ports %d to %d are all in use", host.c_str(), port, std::max(end, port + 1) - 1);
}

Socket accept_client(Socket listener, std::string* where) {
  sockaddr_storage from{};
  int size = sizeof from;
  const SOCKET client = accept(static_cast<SOCKET>(listener), reinterpret_cast<sockaddr*>(&from), &size);
  if (client == INVALID_SOCKET) return kNoSocket;
  make_ready(client);
  char host[256] = "?", port[16] = "0";
  getnameinfo(reinterpret_cast<sockaddr*>(&from), size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  *where = std::string(host) + ":" + port;
  return static_cast<Socket>(client);
}

Socket connect_to(const std::string& host, int port) {
  Addresses all(host, port, false);
  const SOCKET own = socket(all.first->ai_family, SOCK_STREAM, 0);
  if (own == INVALID_SOCKET) fail("OSError", "%s", socket_error().c_str());
  make_ready(own);
  if (connect(own, all.first->ai_addr, static_cast<int>(all.first->ai_addrlen)) != 0 && WSAGetLastError() != WSAEWOULDBLOCK) {
    const std::string why = socket_error();
    closesocket(own);
    fail("OSError", "%s", why.c_str());
  }
  return static_cast<Socket>(own);
}

void close_socket(Socket socket) { closesocket(static_cast<SOCKET>(socket)); }

bool is_gone(Socket socket) {
  char next;
  const int n = recv(static_cast<SOCKET>(socket), &next, 1, MSG_PEEK);
  return n == 0 || (n < 0 && WSAGetLastError() != WSAEWOULDBLOCK);
}

void wait_for(std::vector<Wait>& all, int milliseconds) {
  std::vector<WSAPOLLFD> asked;
  for (auto& w : all) asked.push_back({static_cast<SOCKET>(w.socket), static_cast<SHORT>((w.to_read ? POLLRDNORM : 0) | (w.to_write ? POLLWRNORM : 0)), 0});
  // Ctrl-C does not end a wait.
  int left = milliseconds, ready = 0;
  do {
    const int piece = std::min(left, 200);
    ready = WSAPoll(asked.data(), static_cast<ULONG>(asked.size()), piece);
    left -= piece;
  } while (ready == 0 && left > 0 && !stopped);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool ended = ready > 0 && (asked[i].revents & (POLLERR | POLLHUP | POLLNVAL));
    all[i].to_read = all[i].to_read && ready > 0 && (ended || (asked[i].revents & POLLRDNORM));
    all[i].to_write = all[i].to_write && ready > 0 && (ended || (asked[i].revents & POLLWRNORM));
  }
}

void random_bytes(void* to, size_t bytes) {
  if (!RtlGenRandom(to, static_cast<ULONG>(bytes))) fail("OSError", "the system has no random numbers");
}

// Windows cannot fork: this program is run again, and what it needs to open the socket comes on its standard input.
Process start_session(const Session& session, const std::vector<Socket>&) {
  const auto number = [](auto value) { return std::to_string(static_cast<unsigned long long>(value)); };
  const std::vector<std::string> words{"session", session.peer, session.folder, number(session.most_message), number(session.most_disk),
                                       number(session.silence), number(session.idle), number(session.silent)};
  std::wstring line = L"\"" + own_path() + L"\"";
  for (auto& word : words) line += L" " + quoted(word);
  SECURITY_ATTRIBUTES inherited{sizeof inherited, nullptr, TRUE};
  HANDLE reads = nullptr, writes = nullptr;
  if (!CreatePipe(&reads, &writes, &inherited, 0)) fail("OSError", "a session has no pipe: %s", error_text(GetLastError()).c_str());
  SetHandleInformation(writes, HANDLE_FLAG_INHERIT, 0);
  STARTUPINFOW start{};
  start.cb = sizeof start;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdInput = reads;
  start.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
  start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
  PROCESS_INFORMATION made{};
  const bool started = CreateProcessW(nullptr, &line[0], nullptr, nullptr, TRUE, CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP, nullptr, nullptr, &start, &made);
  const DWORD why = GetLastError();
  CloseHandle(reads);
  WSAPROTOCOL_INFOW socket{};
  DWORD put = 0;
  if (started && WSADuplicateSocketW(static_cast<SOCKET>(session.stream.in), made.dwProcessId, &socket) == 0) WriteFile(writes, &socket, sizeof socket, &put, nullptr);
  CloseHandle(writes);
  if (!started) fail("OSError", "a session has no process: %s", error_text(why).c_str());
  HANDLE job = CreateJobObjectW(nullptr, nullptr);
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
  AssignProcessToJobObject(job, made.hProcess);
  ResumeThread(made.hThread);
  CloseHandle(made.hThread);
  const auto process = static_cast<Process>(made.dwProcessId);
  running()[process] = {made.hProcess, job};
  return process;
}

Socket given_socket() {
  WSAPROTOCOL_INFOW socket{};
  DWORD got = 0;
  const bool whole = ReadFile(GetStdHandle(STD_INPUT_HANDLE), &socket, sizeof socket, &got, nullptr) && got == sizeof socket;
  const SOCKET own = whole ? WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &socket, 0, 0) : INVALID_SOCKET;
  if (own == INVALID_SOCKET) fail("OSError", "a session has no socket: %s", socket_error().c_str());
  return static_cast<Socket>(own);
}

bool has_ended(Process process) {
  auto found = running().find(process);
  if (found == running().end()) return true;
  if (WaitForSingleObject(found->second.process, 0) == WAIT_TIMEOUT) return false;
  CloseHandle(found->second.process);
  CloseHandle(found->second.job);  // ends what it has started
  running().erase(found);
  return true;
}

void kill_process(Process process) {
  auto found = running().find(process);
  if (found == running().end()) return;
  TerminateJobObject(found->second.job, 1);
  WaitForSingleObject(found->second.process, 3000);
  has_ended(process);
}

bool is_process(int64_t number) {
  HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, static_cast<DWORD>(number));
  if (!process) return GetLastError() == ERROR_ACCESS_DENIED;
  DWORD code = 0;
  const bool runs = GetExitCodeProcess(process, &code) && code == STILL_ACTIVE;
  CloseHandle(process);
  return runs;
}

// Objects are not linked on Windows: there is no compiler of the system.
int run_program(const std::vector<std::string>&, std::string*) { return -1; }
std::string find_program(const std::string&) { return {}; }

void catch_stops() {
  SetConsoleCtrlHandler([](DWORD) -> BOOL { return InterlockedExchange(&stopped, 1), TRUE; }, TRUE);
}
bool stop_asked() { return stopped; }

Stream take_standard_streams() {
  _setmode(0, _O_BINARY);
  _setmode(1, _O_BINARY);
  const auto own = [](DWORD which) {
    HANDLE copy = nullptr;
    DuplicateHandle(GetCurrentProcess(), GetStdHandle(which), GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS);
    return reinterpret_cast<intptr_t>(copy);
  };
  const Stream streams{own(STD_INPUT_HANDLE), own(STD_OUTPUT_HANDLE)};
  _dup2(2, 1);
  return streams;
}

}  // namespace tw::server
