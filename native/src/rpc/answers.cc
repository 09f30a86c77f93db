// The side that answers: each message of a session is carried out here, on objects and memory that the session has.
#include <algorithm>

#include "../module.h"
#include "endpoint.h"

namespace tw::rpc {
namespace {

constexpr size_t kPiece = 4 << 20;  // bytes of a copy to or from a device other than the CPU, at a time

DLDevice device_arg(const TVMFFIAny& v) {
  if (v.type_index != kTVMFFIDevice) fail("RPCError", "a message lacks its device");
  if (v.v_device.device_type >= kMask) fail("ValueError", "a device of another session (type %d) cannot be used here", v.v_device.device_type);
  return v.v_device;
}
void* pointer_arg(const TVMFFIAny& v) {
  if (v.type_index == kTVMFFINone) return nullptr;
  if (v.type_index != kTVMFFIOpaquePtr) fail("RPCError", "a message lacks an address");
  return v.v_ptr;
}
const DLTensor& tensor_arg(const TVMFFIAny& v) {
  const DLTensor* t = as_tensor(v);
  if (!t) fail("RPCError", "a message lacks its tensor");
  return *t;
}
// A device that the client asks for: the message says which there are.
void check_device_there(DLDevice device) {
  if (find_device_api(device.device_type)) return need_device(device);
  std::string known;
  for (int32_t type = 1; type < kMask; ++type)
    if (find_device_api(type)) known += (known.empty() ? "" : ", ") + device_text({type, 0});
  fail("ValueError", "the server has no device %s; it has %s", device_text(device).c_str(), known.c_str());
}
TVMFFIAny pointer(const void* p) {
  TVMFFIAny a = none();
  a.type_index = kTVMFFIOpaquePtr;
  a.v_uint64 = reinterpret_cast<uintptr_t>(p);
  return a;
}

}  // namespace

void Endpoint::serve() {
  try {
    while (!channel_.at_end()) {
      const Code code = next();
      if (code == kShutdown) break;
      answer(code);
      if (beyond_) Channel::connect(channel_, beyond_->channel_);
    }
  } catch (const Lost&) {  // a client that is gone needs no answer
  }
  ended_ = true;
}

// Carries a message out, and answers it: what goes wrong is an answer too.
void Endpoint::answer(Code code) {
  const int failed = guarded([&] {
    if (code == kCopyToRemote) return answer_copy_to();
    check_size();
    if (code == kCallFunc) return answer_call();
    if (code == kCopyFromRemote) return answer_copy_from();
    TVMFFIAny found = none();
    if (code == kInitServer) {
      const std::string version = take_string(take<uint64_t>());
      if (version != kVersion) fail("RPCError", "%s speaks version %s of the protocol, and this side version %s", peer().c_str(), version.c_str(), kVersion);
      Values values;
      take_values(values);
      skip_rest();
      if (!values.values.empty()) {
        const auto connect = get_global(as_string(values.values[0]));
        if (!connect) fail("RPCError", "this side has no function `%s` to open a session with", as_string(values.values[0]).c_str());
        TVMFFIAny session = tw::call(connect.get(), values.values.data() + 1, values.args().count - 1);
        struct Drop { TVMFFIAny& v; ~Drop() { destroy(v); } } drop{session};
        beyond_ = session_in(session);
      }
    } else {
      Values values;
      allocating_ = code == kDevAllocDataWithScope;
      take_values(values);
      skip_rest();
      found = answer_system(code, values.args());
    }
    skip_rest();
    struct Drop { TVMFFIAny& v; ~Drop() { destroy(v); } } drop{found};
    send_values(kReturn, &found, 1);
  });
  if (failed == 0) return;
  if (ended_) {
    const auto error = take_raised();
    throw Lost{{"RPCError", error ? error->message : std::string()}};
  }
  skip_rest();
  send_error();
}

void Endpoint::answer_call() {
  const auto handle = take<uint64_t>();
  Values values;
  take_values(values);
  skip_rest();
  TVMFFIAny function = own(held(handle, kTVMFFIFunction));
  auto keep = Ref<FunctionObject>::steal(function.v_obj);  // the call may free its handle
  struct Turn {
    std::thread::id &at, before;
    explicit Turn(std::thread::id& a) : at(a), before(a) { at = std::this_thread::get_id(); }
    ~Turn() { at = before; }
  } turn{answering_};
  TVMFFIAny found = tw::call(keep.get(), values.values.data(), static_cast<int32_t>(values.values.size()));
  struct Drop { TVMFFIAny& v; ~Drop() { destroy(v); } } drop{found};
  if (server_) begin();  // what was freed meanwhile
  if (found.type_index == kTVMFFIDLTensorPtr) fail("ValueError", "the function returned a borrowed tensor, whose memory the session cannot keep");
  send_result(found);
}

void Endpoint::answer_copy_to() {
  Values values;
  DLTensor t = *take_tensor(values);
  const auto bytes = static_cast<int64_t>(take<uint64_t>());
  if (bytes < 0 || static_cast<uint64_t>(bytes) != rest_) fail("RPCError", "%s announced %lld bytes and sent %llu", peer().c_str(), static_cast<long long>(bytes), static_cast<unsigned long long>(rest_));
  check_memory(t, bytes);
  char* to = static_cast<char*>(t.data) + t.byte_offset;
  if (on_cpu(t.device)) {
    take(to, static_cast<size_t>(bytes));
  } else {
    std::string piece(std::min<size_t>(kPiece, static_cast<size_t>(bytes)), '\0');
    while (rest_ > 0) {
      auto n = static_cast<int64_t>(std::min<uint64_t>(rest_, piece.size()));
      take(&piece[0], static_cast<size_t>(n));
      copy_tensor(flat_tensor(&piece[0], {kDLCPU, 0}, &n), flat_tensor(to, t.device, &n));
      to += n;
    }
  }
  Writer w;
  w.put<int32_t>(kReturn);
  w.put<int32_t>(1);
  w.put<int32_t>(kTVMFFINone);
  send(w);
}

void Endpoint::answer_copy_from() {
  Values values;
  DLTensor t = *take_tensor(values);
  const auto bytes = static_cast<int64_t>(take<uint64_t>());
  skip_rest();
  if (bytes < 0) fail("RPCError", "%s asked for %lld bytes", peer().c_str(), static_cast<long long>(bytes));
  check_memory(t, bytes);
  char* from = static_cast<char*>(t.data) + t.byte_offset;
  Writer w;
  w.put<int32_t>(kCopyAck);
  if (on_cpu(t.device)) return send(w, from, static_cast<size_t>(bytes));
  // The message is begun when the first piece is here: a device that fails later ends the session.
  std::string piece(std::min<size_t>(kPiece, static_cast<size_t>(bytes)), '\0');
  const uint64_t size = sizeof(int32_t) + static_cast<uint64_t>(bytes);
  for (int64_t done = 0; done == 0 || done < bytes;) {
    auto n = std::min<int64_t>(bytes - done, static_cast<int64_t>(piece.size()));
    try {
      if (n > 0) copy_tensor(flat_tensor(from + done, t.device, &n), flat_tensor(&piece[0], {kDLCPU, 0}, &n));
    } catch (...) {
      ended_ = ended_ || done > 0;
      throw;
    }
    std::vector<Piece> pieces;
    if (done == 0) {
      pieces.push_back({&size, sizeof size});
      pieces.push_back({w.out().data(), w.out().size()});
    }
    pieces.push_back({&piece[0], static_cast<size_t>(n)});
    channel_.write(std::move(pieces));
    done += n;
    if (bytes == 0) return;
  }
}

TVMFFIAny Endpoint::answer_system(Code code, Args args) {
  switch (code) {
    case kGetGlobalFunc: {
      auto found = get_global(as_string(args[0]));
      if (!found) return pointer(nullptr);
      TVMFFIAny function = from_ref(std::move(found));
      const uint64_t handle = hold(function);
      destroy(function);
      return pointer(reinterpret_cast<void*>(static_cast<uintptr_t>(handle)));
    }
    case kFreeHandle: drop(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer_arg(args[0])))); return none();
    case kDevSetDevice: set_current_device(device_arg(args[0])); return none();
    case kDevGetAttr: {
      const DLDevice device = device_arg(args[0]);
      const auto kind = static_cast<int32_t>(as_int(args[1], "the kind of attribute"));
      const TWDeviceAPI* api = find_device_api(device.device_type);
      if (!api) return kind == kTWDeviceExist ? from_int(0) : none();
      TVMFFIAny found = none();
      check_device(api->attribute(api->self, device, kind, &found), "ask about", device);
      return found;
    }
    case kDevAllocData: {  // (device, bytes, alignment, dtype)
      int64_t bytes = as_int(args[1], "a number of bytes");
      DLTensor like = flat_tensor(nullptr, device_arg(args[0]), &bytes);
      return pointer(allocate(like, ""));
    }
    case kDevAllocDataWithScope: {
      const std::string scope = args.count > 1 && args[1].type_index != kTVMFFINone ? as_string(args[1]) : "";
      DLTensor like = tensor_arg(args[0]);
      return pointer(allocate(like, scope.c_str()));
    }
    case kDevFreeData: {
      const DLDevice device = device_arg(args[0]);
      void* data = pointer_arg(args[1]);
      auto range = memory_.equal_range(reinterpret_cast<uintptr_t>(data));
      for (auto it = range.first; it != range.second; ++it)
        if (it->second.allocated && same_device(it->second.device, device)) {
          memory_.erase(it);
          const TWDeviceAPI& api = device_api(device.device_type);
          check_device(api.release(api.self, device, data), "free memory of", device);
          return none();
        }
      fail("RPCError", "%s freed memory that it has not allocated", peer().c_str());
    }
    case kDevStreamSync: need_device(device_arg(args[0])); synchronize(args[0].v_device, pointer_arg(args[1])); return none();
    case kCopyAmongRemote: {
      const DLTensor &from = tensor_arg(args[0]), &to = tensor_arg(args[1]);
      check_memory(from, tensor_bytes(from));
      check_memory(to, tensor_bytes(to));
      copy_tensor(from, to);
      return none();
    }
    case kDevCreateStream: {
      const DLDevice device = device_arg(args[0]);
      const TWDeviceAPI& api = device_api(device.device_type);
      void* stream = nullptr;
      if (api.create_stream) check_device(api.create_stream(api.self, device, &stream), "make a stream on", device);
      return pointer(stream);
    }
    case kDevFreeStream: {
      const DLDevice device = device_arg(args[0]);
      const TWDeviceAPI& api = device_api(device.device_type);
      if (api.release_stream && pointer_arg(args[1])) check_device(api.release_stream(api.self, device, pointer_arg(args[1])), "free a stream of", device);
      return none();
    }
    case kDevSetStream: set_current_stream(device_arg(args[0]), pointer_arg(args[1])); return none();
    default: fail("RPCError", "%s sent a message of a kind that this side does not know (%d)", peer().c_str(), static_cast<int>(code));
  }
}

void* Endpoint::allocate(DLTensor& like, const char* scope) {
  if (like.device.device_type >= kMask) fail("ValueError", "a device of another session cannot be used here");
  check_device_there(like.device);
  const int64_t bytes = checked_bytes(like);
  const TWDeviceAPI& api = device_api(like.device.device_type);
  void* data = nullptr;
  check_device(api.allocate(api.self, &like, static_cast<size_t>(bytes ? bytes : 1), 64, scope, &data), "allocate on", like.device);
  memory_.insert({reinterpret_cast<uintptr_t>(data), Memory{bytes ? bytes : 1, like.device, true}});
  return data;
}

// What a client that ended without freeing it has left.
void Endpoint::free_memory() {
  for (auto& held : memory_) {
    if (!held.second.allocated) continue;
    const TWDeviceAPI* api = find_device_api(held.second.device.device_type);
    if (api && api->release(api->self, held.second.device, reinterpret_cast<void*>(held.first))) take_raised();
  }
  memory_.clear();
}

}  // namespace tw::rpc
