// One side of a session: it asks the other one, and answers it. docs/rooms/rpc.md has the messages.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "../devices/device.h"
#include "../platform/process.h"
#include "channel.h"

namespace tw::rpc {

constexpr int32_t kMask = 128;  // a device of session n has the type (n + 1) * 128 + its type there, as in classic TVM
constexpr const char* kVersion = "0.8.0";  // of the protocol, which both sides must speak

enum Code : int32_t {
  kShutdown = 1, kInitServer = 2, kCallFunc = 3, kReturn = 4, kException = 5, kCopyFromRemote = 6, kCopyToRemote = 7, kCopyAck = 8,
  kGetGlobalFunc = 9, kFreeHandle = 10, kDevSetDevice = 11, kDevGetAttr = 12, kDevAllocData = 13, kDevFreeData = 14, kDevStreamSync = 15,
  kCopyAmongRemote = 16, kDevAllocDataWithScope = 17, kDevCreateStream = 18, kDevFreeStream = 19, kDevSetStream = 20
};

class Endpoint;

// Something that the other side holds for us: freed there with the last reference to it here.
struct RemoteHandle {
  std::shared_ptr<Endpoint> session;
  uint64_t handle;
  RemoteHandle(std::shared_ptr<Endpoint> s, uint64_t h) : session(std::move(s)), handle(h) {}
  ~RemoteHandle();
};

// The bytes of a message, as it is written.
class Writer {
 public:
  void bytes(const void* from, size_t n) { out_.append(static_cast<const char*>(from), n); }
  template <typename T> void put(T v) { bytes(&v, sizeof v); }
  void string(const std::string& s) { put<uint64_t>(s.size()); bytes(s.data(), s.size()); }
  const std::string& out() const { return out_; }

 private:
  std::string out_;
};

// The values of a message, as they are read: tensors, strings and shapes live as long as it.
class Values {
 public:
  Values() = default;
  Values(const Values&) = delete;
  ~Values() { for (auto& v : values) destroy(v); }
  std::vector<TVMFFIAny> values;
  Args args() const { return {values.data(), static_cast<int32_t>(values.size())}; }
  DLTensor* tensor(int32_t ndim);

 private:
  struct Held { DLTensor tensor; std::vector<int64_t> shape; };
  std::vector<std::unique_ptr<Held>> tensors_;
};

class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(Stream stream, std::string peer, bool server) : channel_(stream, std::move(peer)), server_(server) {}
  ~Endpoint();

  // Questions to the other side. The answer is an owned value.
  // With arguments, the other side calls the function that the first one names, and passes everything on to the session that it returns.
  void open(Args args);
  TVMFFIAny call(uint64_t function, Args args);
  TVMFFIAny ask(Code code, Args args);
  void copy_to(const DLTensor& from, const DLTensor& to);
  void copy_from(const DLTensor& from, const DLTensor& to);
  // A function of the other side by its name, or null.
  Ref<FunctionObject> function(const std::string& name);
  // Lets the other side free an object, or memory on a device, with the next question: who drops it may hold locks that the answer needs.
  void free(uint64_t handle);
  void free(DLDevice device, void* data);

  // Answers the other side until it ends the session.
  void serve();
  // Frees what the other side has allocated here.
  void free_memory();
  bool ended() const { return ended_; }
  // Bytes of a message that is kept in memory, at most, and how long the other side may be silent.
  void limit(uint64_t bytes, Patience patience) { most_ = bytes, channel_.patience = patience; }
  // Memory on devices of the session that this process has (change: 1 or -1) keeps the session.
  void keep(int change);

  const std::string& peer() const { return channel_.peer(); }
  int32_t index = -1;  // of the session, among those of this process

 private:
  struct Memory { int64_t bytes; DLDevice device; bool allocated; };  // allocated: by the other side, which frees it

  struct Freed { Code code; DLDevice device; uint64_t handle; };

  bool wait(TVMFFIAny* answer);
  // Before a question: it must be the turn of this side, on this thread. Sends what was freed.
  void begin();
  void answer(Code code);
  void answer_call();
  void answer_copy_from();
  void answer_copy_to();
  TVMFFIAny answer_system(Code code, Args args);
  void* allocate(DLTensor& like, const char* scope);
  void send(const Writer& message, const void* data = nullptr, size_t bytes = 0);
  void send_values(Code code, const TVMFFIAny* values, int32_t count, uint64_t function = 0);
  void send_result(const TVMFFIAny& value);
  void send_error();
  void put_value(Writer& w, const TVMFFIAny& value, int depth = 0);
  void put_tensor(Writer& w, const DLTensor& t, bool strip);

  void receive(void* to, size_t bytes);
  [[noreturn]] void end(const Lost& lost);
  Code next();  // what the next message is
  void check_size();
  // The rest of the message that is being read.
  void take(void* to, size_t bytes);
  template <typename T> T take() { T v; take(&v, sizeof v); return v; }
  std::string take_string(uint64_t bytes);
  void skip_rest();
  void take_values(Values& values);
  TVMFFIAny take_value(Values& values, int depth = 0);
  DLTensor* take_tensor(Values& values);
  TVMFFIAny take_result(Values& values);

  uint64_t hold(const TVMFFIAny& value);
  TVMFFIAny held(uint64_t handle, int32_t type_index);
  void check_memory(const DLTensor& t, int64_t bytes) const;
  void own_memory(uint64_t handle, const DLTensor& t);
  void drop(uint64_t handle);
  Ref<FunctionObject> remote_function(uint64_t handle);
  TVMFFIAny remote_module(uint64_t handle);
  TVMFFIAny remote_tensor(const DLTensor& t, uint64_t handle);
  DLDevice here(DLDevice d) const;   // of the other side, as this process numbers it
  DLDevice there(DLDevice d) const;  // the reverse

  Channel channel_;
  const bool server_;
  const int64_t process_ = process_number();  // a child that was forked has the socket too, and must not speak
  bool ended_ = false;
  int64_t allocations_ = 0;
  std::shared_ptr<Endpoint> self_;  // while there are any
  std::recursive_mutex lock_;
  std::mutex freed_lock_;
  std::vector<Freed> freed_;
  std::thread::id answering_;  // the thread that answers a call, and may ask meanwhile
  uint64_t rest_ = 0;  // bytes of the message that is being read
  uint64_t most_ = 1 << 30;
  std::shared_ptr<Endpoint> beyond_;  // the session that everything is passed on to
  bool allocating_ = false;  // it asks for memory: its tensor has none yet
  std::unordered_map<uint64_t, TVMFFIAny> objects_;  // what the other side holds of us
  uint64_t last_object_ = 0;
  std::multimap<uintptr_t, Memory> memory_;  // what it may read and write of us
  std::unordered_map<uint64_t, std::multimap<uintptr_t, Memory>::iterator> tensors_;  // that of the tensors among the objects
};

// The session that a module stands for; throws where it is none.
std::shared_ptr<Endpoint> session_in(const TVMFFIAny& module);
// The connection that an argument is: the number of a socket.
inline Stream socket_of(const TVMFFIAny& number) {
  const auto socket = static_cast<intptr_t>(as_int(number, "a socket"));
  return {socket, socket};
}
// The bytes of a tensor; throws where its shape is none.
int64_t checked_bytes(const DLTensor& t);

}  // namespace tw::rpc
