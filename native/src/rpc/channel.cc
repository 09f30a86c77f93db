#include "channel.h"

#include <algorithm>
#include <thread>

namespace tw::rpc {
namespace {

constexpr std::chrono::microseconds kAwake{50};

[[noreturn]] void lose(const std::string& peer) { throw Lost{{"RPCError", format("the connection to %s is lost: %s", peer.c_str(), stream_error().c_str())}}; }
[[noreturn]] void closed(const std::string& peer) { throw Lost{{"RPCError", format("%s has closed the connection", peer.c_str())}}; }

}  // namespace

Channel::Channel(Stream stream, std::string peer) : stream_(stream), peer_(std::move(peer)) { begin_stream(stream); }
Channel::~Channel() { close_stream(stream_); }

size_t Channel::receive(void* to, size_t bytes) {
  // An answer over loopback comes sooner than a thread that sleeps wakes up.
  const auto until = std::chrono::steady_clock::now() + kAwake;
  do {
    const ptrdiff_t n = read_stream(stream_, to, bytes);
    if (n >= 0) return static_cast<size_t>(n);
    if (n == kBroken) lose(peer_);
  } while (std::chrono::steady_clock::now() < until);
  for (;;) {
    await(false);
    const ptrdiff_t n = read_stream(stream_, to, bytes);
    if (n >= 0) return static_cast<size_t>(n);
    if (n == kBroken) lose(peer_);
  }
}

// Waits until something can be read or written.
void Channel::await(bool writes) {
  using std::chrono::milliseconds;
  const auto start = std::chrono::steady_clock::now();
  const int silence = within || writes ? patience.within : patience.between;
  const auto end = silence < 0 ? patience.end : std::min(patience.end, start + milliseconds(silence));
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left < 0) break;
    const int ready = await_stream(stream_, writes, static_cast<int>(std::min<long long>(left + 1, 1 << 30)));
    if (ready > 0) return;
    if (ready == kBroken) lose(peer_);
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
  end_stream(to.stream_);
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

void Channel::write(std::vector<Piece> pieces) {
  size_t first = 0;
  while (first < pieces.size()) {
    ptrdiff_t n = write_stream(stream_, pieces.data() + first, pieces.size() - first);
    if (n < 0) {
      if (n == kBroken) lose(peer_);
      await(true);
      continue;
    }
    for (; first < pieces.size() && static_cast<size_t>(n) >= pieces[first].bytes; ++first) n -= static_cast<ptrdiff_t>(pieces[first].bytes);
    if (first < pieces.size()) {
      pieces[first].data = static_cast<const char*>(pieces[first].data) + n;
      pieces[first].bytes -= static_cast<size_t>(n);
    }
  }
}

}  // namespace tw::rpc
