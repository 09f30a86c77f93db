// A driver of CUDA that has no GPU: its devices are memory of the CPU behind addresses that the CPU cannot use, and what a stream is given
// is done when somebody waits for it. It checks what it is given, writes down what it was asked, and fails where a test wants that.
#pragma once
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {

using Result = int;
using Address = uintptr_t;
using Work = std::function<Result()>;
enum : Result {
  kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidPtx = 218, kInvalidHandle = 400, kNotFound = 500, kNotReady = 600,
  kIllegalAddress = 700, kCaptureUnsupported = 900, kCaptureInvalidated = 901
};

constexpr Address kShift = Address{1} << 62;  // no address of the CPU
constexpr int kMostDevices = 2, kSharedOfAll = 48 << 10;
size_t room();  // bytes of a device

struct Event {
  bool timed = false, recorded = false;
  double at = 0;
  struct Stream* where = nullptr;  // whose queue holds it
};
struct Context {
  int device;
  explicit Context(int d) : device(d) {}
  Result fault = kSuccess;  // what all calls fail with
  double clock = 0;         // seconds; a block of a kernel takes one
  size_t used = 0;
};
struct Stream {
  Context* context;
  std::deque<Work> queue;
  std::vector<Work>* captured = nullptr;
  bool spoilt = false;  // a capture that was asked to wait
  explicit Stream(Context* c) : context(c) {}
};
struct Graph { std::vector<Work> work; };
struct Pool { int device; size_t kept; };
struct Module {
  std::string text;
  void* library = nullptr;
  std::vector<std::unique_ptr<struct Function>> functions;
};
struct Function {
  std::string name;
  Module* module;
  void* native = nullptr;  // of a library of kernels, else one of those here
  int dynamic = kSharedOfAll;
};

struct State {
  std::recursive_mutex lock;
  std::vector<std::string> calls;
  std::map<std::string, Result> refused;            // what the next call of a function answers
  std::map<std::string, int> settings = {{"devices", 2}, {"pools", 1}, {"peers", 1}, {"major", 8}, {"minor", 0}, {"cooperative", 1}, {"shared", 96 << 10}, {"room", 64}};
  Context contexts[kMostDevices] = {Context(0), Context(1)};
  Stream defaults[kMostDevices] = {Stream(&contexts[0]), Stream(&contexts[1])};
  std::map<Address, std::pair<size_t, int>> blocks; // bytes and device, by address
  std::set<void*> host;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Module*> modules;
};
State& state();

// The contexts of this thread, which may use the driver while it ends: nothing here is destroyed.
struct Contexts {
  Context* stack[16];
  int depth;
  bool empty() const { return depth == 0; }
  Context* back() const { return stack[depth - 1]; }
  void push_back(Context* c) { stack[depth++] = c; }
  void pop_back() { --depth; }
};
extern thread_local Contexts current;

// Writes a call down; what it must answer at once, if that is not success.
Result enter(const char* name, bool needs_context = true);
inline std::lock_guard<std::recursive_mutex> hold() { return std::lock_guard<std::recursive_mutex>(state().lock); }

// Whether [address, address + bytes) is memory of a device.
bool is_inside(Address address, size_t bytes, int device);
char* real(Address address);
Stream& stream_of(Stream* given);
// Gives a stream work, or the graph that it is captured into.
Result give(Stream* stream, Work work);
// Does what a stream was given, up to an event if one is named.
Result drain(Stream& stream, const Event* until = nullptr);
Result drain_all(Context* context);

}  // namespace fake

#define FAKE extern "C" __attribute__((visibility("default")))
