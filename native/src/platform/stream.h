// A connection to another process: a socket, or a pair of pipes. Nothing here waits but await_stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tw {

struct Stream {
  intptr_t in, out;  // the same for a socket
};
struct Piece {
  const void* data;
  size_t bytes;
};
constexpr ptrdiff_t kWouldWait = -1, kBroken = -2;

// Makes ready what was opened or inherited: small messages go out at once, and a peer that is gone is noticed.
void begin_stream(const Stream& stream);
// The number of bytes, 0 at the end of what the other side sends, or one of those above.
ptrdiff_t read_stream(const Stream& stream, void* to, size_t bytes);
ptrdiff_t write_stream(const Stream& stream, const Piece* pieces, size_t count);
// Waits until something can be read or written: 1; 0 where the time is over or a signal came, kBroken.
int await_stream(const Stream& stream, bool writes, int milliseconds);
// No more is sent or received.
void end_stream(const Stream& stream);
void close_stream(const Stream& stream);
// Why the last call said kBroken.
std::string stream_error();

}  // namespace tw
