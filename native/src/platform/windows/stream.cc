#include "../stream.h"

#include <winsock2.h>
#include <ws2tcpip.h>

#include <mstcpip.h>

#include <algorithm>

#include "names.h"

namespace tw {
namespace {

DWORD failed = 0;  // of the last call that said kBroken
bool is_socket(const Stream& s) { return s.in == s.out; }
SOCKET socket_of(const Stream& s) { return static_cast<SOCKET>(s.in); }
HANDLE pipe(intptr_t end) { return reinterpret_cast<HANDLE>(end); }
ptrdiff_t broken(DWORD why) {
  failed = why;
  return kBroken;
}
ptrdiff_t result(int n) {
  if (n >= 0) return n;
  const int why = WSAGetLastError();
  return why == WSAEWOULDBLOCK || why == WSAEINTR ? kWouldWait : broken(static_cast<DWORD>(why));
}
// Bytes that wait in a pipe; -1 at its end.
int64_t waiting(const Stream& s) {
  DWORD bytes = 0;
  return PeekNamedPipe(pipe(s.in), nullptr, 0, nullptr, &bytes, nullptr) ? int64_t{bytes} : -1;
}

}  // namespace

void begin_stream(const Stream& s) {
  WSADATA version;
  static const int ready = WSAStartup(MAKEWORD(2, 2), &version);
  (void)ready;
  if (!is_socket(s)) return;
  const BOOL on = TRUE;
  u_long unblocked = 1;
  ioctlsocket(socket_of(s), FIONBIO, &unblocked);
  setsockopt(socket_of(s), IPPROTO_TCP, TCP_NODELAY, reinterpret_cast<const char*>(&on), sizeof on);
  tcp_keepalive watch{1, 10000, 5000};
  DWORD bytes = 0;
  WSAIoctl(socket_of(s), SIO_KEEPALIVE_VALS, &watch, sizeof watch, nullptr, 0, &bytes, nullptr, nullptr);
}

ptrdiff_t read_stream(const Stream& s, void* to, size_t bytes) {
  const int most = static_cast<int>(std::min<size_t>(bytes, 1 << 30));
  if (is_socket(s)) return result(recv(socket_of(s), static_cast<char*>(to), most, 0));
  const int64_t here = waiting(s);
  if (here <= 0) return here < 0 ? 0 : kWouldWait;
  DWORD got = 0;
  if (ReadFile(pipe(s.in), to, static_cast<DWORD>(std::min<int64_t>(most, here)), &got, nullptr)) return static_cast<ptrdiff_t>(got);
  return broken(GetLastError());
}

ptrdiff_t write_stream(const Stream& s, const Piece* pieces, size_t count) {
  if (!is_socket(s)) {  // a pipe takes all, and waits until it has
    DWORD put = 0;
    const auto most = static_cast<DWORD>(std::min<size_t>(pieces[0].bytes, 1 << 16));
    return WriteFile(pipe(s.out), pieces[0].data, most, &put, nullptr) ? static_cast<ptrdiff_t>(put) : broken(GetLastError());
  }
  WSABUF parts[64];
  count = std::min<size_t>(count, 64);
  for (size_t i = 0; i < count; ++i) parts[i] = {static_cast<ULONG>(std::min<size_t>(pieces[i].bytes, 1 << 30)), static_cast<char*>(const_cast<void*>(pieces[i].data))};
  for (size_t i = 0; i < count; ++i)
    if (parts[i].len < pieces[i].bytes) count = i + 1;
  DWORD put = 0;
  return result(WSASend(socket_of(s), parts, static_cast<DWORD>(count), &put, 0, nullptr, nullptr) == 0 ? static_cast<int>(put) : -1);
}

int await_stream(const Stream& s, bool to_write, int milliseconds) {
  if (is_socket(s)) {
    WSAPOLLFD one{socket_of(s), static_cast<SHORT>(to_write ? POLLOUT : POLLIN), 0};
    const int ready = WSAPoll(&one, 1, milliseconds);
    return ready > 0 ? 1 : ready == 0 ? 0 : static_cast<int>(broken(static_cast<DWORD>(WSAGetLastError())));
  }
  if (to_write) return 1;
  const ULONGLONG end = GetTickCount64() + static_cast<ULONGLONG>(std::max(0, milliseconds));
  while (waiting(s) == 0) {
    if (GetTickCount64() >= end) return 0;
    Sleep(1);
  }
  return 1;
}

void end_stream(const Stream& s) {
  if (is_socket(s)) shutdown(socket_of(s), SD_BOTH);
}
void close_stream(const Stream& s) {
  if (is_socket(s)) {
    closesocket(socket_of(s));
    return;
  }
  CloseHandle(pipe(s.in));
  CloseHandle(pipe(s.out));
}
std::string stream_error() { return error_text(failed); }

}  // namespace tw
