// Messages of a session, in both directions: how values become bytes and bytes values.
#include "endpoint.h"

#include <algorithm>

#include "../module.h"
#include "objects.h"

namespace tw::rpc {
namespace {

// A value that belongs to the sender where the classic protocol knows only what belongs to the receiver (arguments): our addition.
constexpr int32_t kMine = 1 << 16;
constexpr int kDeepest = 32;  // arrays in arrays

TVMFFIAny scalar(int32_t type_index, uint64_t bits) {
  TVMFFIAny a = none();
  a.type_index = type_index;
  a.v_uint64 = bits;
  return a;
}
bool is_scalar(int32_t type_index) { return type_index >= kTVMFFIInt && type_index <= kTVMFFIDataType; }
bool is_bytes(const TVMFFIAny& v) { return v.type_index == kTVMFFISmallBytes || v.type_index == kTVMFFIBytes || v.type_index == kTVMFFIByteArrayPtr; }
uintptr_t address(const DLTensor& t) { return reinterpret_cast<uintptr_t>(t.data) + t.byte_offset; }

const char* type_text(int32_t type_index) {
  switch (type_index) {
    case kTVMFFIMap: case kTVMFFIDict: return "a dictionary";
    case kTVMFFIError: return "an error";
    case kTVMFFIOpaquePyObject: return "an object of Python";
    default: return "an object of this type";
  }
}

}  // namespace

int64_t checked_bytes(const DLTensor& t) {
  int64_t bytes = (t.dtype.bits * t.dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < t.ndim; ++i)
    if (t.shape[i] < 0 || !multiply_bytes(bytes, t.shape[i])) fail("ValueError", "a tensor of shape %s is larger than memory", shape_text(t.ndim, t.shape).c_str());
  return bytes;
}

DLTensor* Values::tensor(int32_t ndim) {
  tensors_.push_back(std::make_unique<Held>());
  Held& held = *tensors_.back();
  held.shape.resize(static_cast<size_t>(ndim));
  held.tensor = DLTensor{nullptr, {kDLCPU, 0}, ndim, {}, held.shape.data(), nullptr, 0};
  return &held.tensor;
}

Endpoint::~Endpoint() {
  if (!ended_ && !server_ && process_ == process_number()) {
    Writer w;
    w.put<int32_t>(kShutdown);
    try {
      send(w);
    } catch (...) {  // it is gone already
    }
  }
  for (auto& held : objects_) destroy(held.second);
}

void Endpoint::keep(int change) {
  // Not the lock of questions: who drops memory may hold Python's lock, which a callback in the middle of a question waits for.
  std::shared_ptr<Endpoint> last;  // freed after the lock
  std::lock_guard<std::mutex> hold(freed_lock_);
  allocations_ += change;
  if (allocations_ == 0) last = std::move(self_);
  else if (!self_) self_ = shared_from_this();
}

DLDevice Endpoint::here(DLDevice d) const { return {(index + 1) * kMask + d.device_type, d.device_id}; }
DLDevice Endpoint::there(DLDevice d) const {
  if (d.device_type / kMask != index + 1)
    fail("ValueError", "%s is no device of %s; its devices are those of the session, such as remote.cpu(0)", device_text(d).c_str(), peer().c_str());
  return {d.device_type % kMask, d.device_id};
}

// ---- what a message holds, as it is written

// A client is told why that may be, and what to do.
void Endpoint::end(const Lost& lost) {
  ended_ = true;
  if (server_) throw lost;
  throw Lost{{"RPCError", lost.message + "; the process of the session ended there (a crash, its session_timeout, a limit of the server), or the network failed: open another session"}};
}

void Endpoint::send(const Writer& message, const void* data, size_t bytes) {
  if (ended_) throw Lost{{"RPCError", format("the session with %s has ended; open another one", peer().c_str())}};
  if (process_ != process_number()) fail("RPCError", "the session with %s belongs to the process that opened it, and this one was forked from it", peer().c_str());
  uint64_t size = message.out().size() + bytes;
  std::vector<Piece> pieces{{&size, sizeof size}, {message.out().data(), message.out().size()}};
  if (bytes) pieces.push_back({data, bytes});
  try {
    channel_.write(std::move(pieces));
  } catch (const Lost& lost) {
    end(lost);
  }
}

void Endpoint::put_tensor(Writer& w, const DLTensor& t, bool strip) {
  w.put<uint64_t>(reinterpret_cast<uintptr_t>(t.data));
  w.put(strip ? there(t.device) : t.device);
  w.put(t.ndim);
  w.put(t.dtype);
  w.bytes(t.shape, sizeof(int64_t) * static_cast<size_t>(t.ndim));
  w.put<uint64_t>(t.byte_offset);
}

void Endpoint::put_value(Writer& w, const TVMFFIAny& v, int depth) {
  const int32_t type = v.type_index;
  if (depth > kDeepest) fail("ValueError", "lists in lists cannot be sent to %s when they are more than %d deep", peer().c_str(), kDeepest);
  if (type == kTVMFFINone) return w.put<int32_t>(type);
  if (is_scalar(type)) {
    w.put(type);
    return w.put<uint64_t>(type == kTVMFFIDataType ? v.v_uint64 & 0xffffffff : v.v_uint64);
  }
  if (type == kTVMFFIDevice) {
    w.put(type);
    return w.put(server_ ? v.v_device : there(v.v_device));
  }
  if (is_bytes(v)) {
    w.put<int32_t>(kTVMFFIBytes);
    w.put<int32_t>(kTVMFFIBytes);
    return w.string(as_string(v));
  }
  if (is_string(v)) {
    w.put<int32_t>(kTVMFFIRawStr);
    return w.string(as_string(v));
  }
  if (const DLTensor* t = as_tensor(v)) {
    if (server_) {  // an argument of a function of the client's
      if (type != kTVMFFITensor) fail("ValueError", "a borrowed tensor cannot be sent to %s: the session cannot keep its memory", peer().c_str());
      w.put<int32_t>(kMine | kTVMFFITensor);
      put_tensor(w, *t, false);
      return w.put(hold(v));
    }
    if (t->device.device_type < kMask)
      fail("ValueError", "a tensor on %s, on this machine, was given to a function of %s; copy it there first: tvm.nd.array(x, remote.cpu(0))",
           device_text(t->device).c_str(), peer().c_str());
    if (!is_compact(*t)) fail("ValueError", "a tensor of shape %s that is not contiguous was given to a function of %s", shape_text(t->ndim, t->shape).c_str(), peer().c_str());
    w.put<int32_t>(kTVMFFIDLTensorPtr);
    return put_tensor(w, *t, true);
  }
  if (type == kTVMFFIFunction || type == kTVMFFIModule) {
    const RemoteHandle* theirs = remote_handle(v);
    if (theirs && theirs->session.get() != this) fail("ValueError", "what belongs to %s was given to %s", theirs->session->peer().c_str(), peer().c_str());
    w.put<int32_t>(theirs ? type : kMine | type);
    return w.put<uint64_t>(theirs ? theirs->handle : hold(v));
  }
  if (type == kTVMFFIShape) {
    auto* shape = reinterpret_cast<TVMFFIShapeCell*>(v.v_obj + 1);
    w.put(type);
    w.put<uint64_t>(shape->size);
    return w.bytes(shape->data, shape->size * sizeof(int64_t));
  }
  if (type == kTVMFFIArray || type == kTVMFFIList) {
    auto* list = reinterpret_cast<TVMFFISeqCell*>(v.v_obj + 1);
    w.put<int32_t>(kTVMFFIArray);
    w.put<uint64_t>(static_cast<uint64_t>(list->size));
    for (int64_t i = 0; i < list->size; ++i) put_value(w, static_cast<TVMFFIAny*>(list->data)[i], depth + 1);
    return;
  }
  fail("TypeError", "%s (type index %d) cannot be sent to %s; numbers, strings, bytes, data types, devices, functions, modules, lists of them, and tensors on its devices can",
       type_text(type), type, peer().c_str());
}

void Endpoint::send_values(Code code, const TVMFFIAny* values, int32_t count, uint64_t function) {
  Writer w;
  w.put<int32_t>(code);
  if (code == kCallFunc) w.put<uint64_t>(function);
  w.put<int32_t>(count);
  for (int32_t i = 0; i < count; ++i) put_value(w, values[i]);
  send(w);
}

// The answer to a call: the type of the value, then the value.
void Endpoint::send_result(const TVMFFIAny& v) {
  Writer w;
  w.put<int32_t>(kReturn);
  const DLTensor* t = v.type_index == kTVMFFITensor ? as_tensor(v) : nullptr;
  const bool theirs = remote_handle(v) || (t && t->device.device_type >= kMask);
  w.put<int32_t>(t && !theirs ? 3 : 2);
  w.put<int32_t>(kTVMFFIInt);
  w.put<uint64_t>(static_cast<uint64_t>(v.type_index));
  if (t && !theirs) {
    w.put<int32_t>(kTVMFFIDLTensorPtr);
    put_tensor(w, *t, false);
    w.put<int32_t>(kTVMFFIOpaquePtr);
    w.put(hold(v));
  } else if (!theirs && (v.type_index == kTVMFFIFunction || v.type_index == kTVMFFIModule)) {
    w.put<int32_t>(kTVMFFIOpaquePtr);
    w.put(hold(v));
  } else if (is_bytes(v)) {
    w.put<int32_t>(kTVMFFIByteArrayPtr);
    w.string(as_string(v));
  } else {
    put_value(w, v);
  }
  send(w);
}

void Endpoint::send_error() {
  Ref<ErrorObject> error = take_raised();
  const std::string text = !error ? "a function failed and left no reason" : error->kind.empty() ? error->message : error->kind + ": " + error->message;
  Writer w;
  w.put<int32_t>(kException);
  w.put<int32_t>(1);
  w.put<int32_t>(kTVMFFIRawStr);
  w.string(text);
  send(w);
}

// ---- and as it is read

void Endpoint::take(void* to, size_t bytes) {
  if (bytes > rest_) fail("RPCError", "%s sent a message that ends too early", peer().c_str());
  rest_ -= bytes;
  receive(to, bytes);
}

void Endpoint::receive(void* to, size_t bytes) {
  try {
    channel_.read(to, bytes);
  } catch (const Lost& lost) {
    end(lost);
  }
}

void Endpoint::skip_rest() {
  char dropped[4096];
  while (rest_ > 0) take(dropped, std::min<uint64_t>(rest_, sizeof dropped));
}

std::string Endpoint::take_string(uint64_t bytes) {
  if (bytes > rest_) fail("RPCError", "%s sent a message that ends too early", peer().c_str());
  std::string s;
  // Piece by piece: memory is taken for what has come, not for what a length says.
  for (uint64_t n; bytes > 0; bytes -= n) {
    n = std::min<uint64_t>(bytes, 1 << 20);
    s.resize(s.size() + n);
    take(&s[s.size() - n], n);
  }
  return s;
}

DLTensor* Endpoint::take_tensor(Values& values) {
  const auto data = take<uint64_t>();
  const auto device = take<DLDevice>();
  const auto ndim = take<int32_t>();
  if (ndim < 0 || static_cast<uint64_t>(ndim) > rest_ / sizeof(int64_t)) fail("RPCError", "%s sent a tensor of %d dimensions, which its message does not hold", peer().c_str(), ndim);
  const auto dtype = take<DLDataType>();
  DLTensor* t = values.tensor(ndim);
  t->data = reinterpret_cast<void*>(static_cast<uintptr_t>(data));
  t->device = device;
  t->dtype = dtype;
  take(t->shape, sizeof(int64_t) * static_cast<size_t>(ndim));
  t->byte_offset = take<uint64_t>();
  return t;
}

TVMFFIAny Endpoint::take_value(Values& values, int depth) {
  const auto type = take<int32_t>();
  if (depth > kDeepest) fail("RPCError", "%s sent lists in lists, more than %d deep", peer().c_str(), kDeepest);
  if (type == kTVMFFINone) return none();
  if (is_scalar(type)) return scalar(type, take<uint64_t>());
  switch (type) {
    case kTVMFFIDevice: {
      const auto device = take<DLDevice>();
      TVMFFIAny v = none();
      v.type_index = type;
      v.v_device = server_ ? device : here(device);
      return v;
    }
    case kTVMFFIRawStr: return from_string(take_string(take<uint64_t>()));
    case kTVMFFIByteArrayPtr: return from_string(take_string(take<uint64_t>()), true);
    case kTVMFFIStr: case kTVMFFIBytes: case kTVMFFISmallStr: case kTVMFFISmallBytes: {
      const auto form = take<int32_t>();
      if (form != kTVMFFIStr && form != kTVMFFIBytes) fail("RPCError", "%s sent a string in an unknown form (%d)", peer().c_str(), form);
      return from_string(take_string(take<uint64_t>()), form == kTVMFFIBytes);
    }
    case kTVMFFIDLTensorPtr: {
      DLTensor* t = take_tensor(values);
      if (server_ && !allocating_) check_memory(*t, checked_bytes(*t));
      TVMFFIAny v = none();
      v.type_index = type;
      v.v_ptr = t;
      return v;
    }
    case kTVMFFIFunction: case kTVMFFIModule: return own(held(take<uint64_t>(), type));
    case kMine | kTVMFFIFunction: return from_ref(remote_function(take<uint64_t>()));
    case kMine | kTVMFFIModule: return remote_module(take<uint64_t>());
    case kMine | kTVMFFITensor: {
      DLTensor* t = take_tensor(values);
      return remote_tensor(*t, take<uint64_t>());
    }
    case kTVMFFIShape: {
      const auto size = take<uint64_t>();
      if (size > rest_ / sizeof(int64_t)) fail("RPCError", "%s sent a message that ends too early", peer().c_str());
      std::vector<int64_t> dims(size);
      take(dims.data(), size * sizeof(int64_t));
      return from_object(&make<ShapeObject>(std::move(dims))->header);
    }
    case kTVMFFIArray: {
      const auto size = take<uint64_t>();
      auto items = Ref<ArrayObject>::steal(make<ArrayObject>(std::vector<TVMFFIAny>()));
      if (size > rest_ / sizeof(int32_t)) fail("RPCError", "%s sent a message that ends too early", peer().c_str());
      for (uint64_t i = 0; i < size; ++i) items->items.push_back(take_value(values, depth + 1));
      items->cell = {items->items.data(), static_cast<int64_t>(size), static_cast<int64_t>(size), nullptr};
      return from_ref(std::move(items));
    }
    default: fail("RPCError", "%s sent a value of a type that this side does not know (%d)", peer().c_str(), type);
  }
}

void Endpoint::take_values(Values& values) {
  const auto count = take<int32_t>();
  if (count < 0 || static_cast<uint64_t>(count) > rest_ / sizeof(int32_t)) fail("RPCError", "%s sent a message that ends too early", peer().c_str());
  for (int32_t i = 0; i < count; ++i) values.values.push_back(take_value(values));
}

// The answer to a call has the type of the value before it; those to questions of the system have the value alone.
TVMFFIAny Endpoint::take_result(Values& values) {
  take_values(values);
  auto& v = values.values;
  if (v.size() == 1) return own(v[0]);
  if (v.size() < 2 || v[0].type_index != kTVMFFIInt) fail("RPCError", "%s answered with %zu values", peer().c_str(), v.size());
  const int64_t type = v[0].v_int64;
  const DLTensor* t = as_tensor(v[1]);
  if (type == kTVMFFITensor && v.size() == 3 && t && v[2].type_index == kTVMFFIOpaquePtr) return remote_tensor(*t, v[2].v_uint64);
  if (v[1].type_index == kTVMFFIOpaquePtr && type == kTVMFFIFunction) return from_ref(remote_function(v[1].v_uint64));
  if (v[1].type_index == kTVMFFIOpaquePtr && type == kTVMFFIModule) return remote_module(v[1].v_uint64);
  if (v[1].type_index == kTVMFFIOpaquePtr && type != kTVMFFIOpaquePtr)
    fail("RPCError", "a function of %s returned an object (type index %lld), which cannot be sent", peer().c_str(), static_cast<long long>(type));
  if (v[1].type_index == kTVMFFIDLTensorPtr)
    fail("RPCError", "a function of %s returned a borrowed tensor, whose memory this side cannot keep", peer().c_str());
  return own(v[1]);
}

// ---- objects and memory that the other side refers to

uint64_t Endpoint::hold(const TVMFFIAny& value) {
  const uint64_t handle = ++last_object_;
  objects_[handle] = own(value);
  if (const DLTensor* t = as_tensor(value)) own_memory(handle, *t);
  return handle;
}

TVMFFIAny Endpoint::held(uint64_t handle, int32_t type_index) {
  auto it = objects_.find(handle);
  if (it == objects_.end() || it->second.type_index != type_index)
    fail("RPCError", "%s asked for %s that it does not have", peer().c_str(), type_index == kTVMFFIFunction ? "a function" : "a module");
  return it->second;
}

void Endpoint::own_memory(uint64_t handle, const DLTensor& t) {
  const int64_t bytes = tensor_bytes(t);
  if (bytes > 0) tensors_[handle] = memory_.insert({address(t), Memory{bytes, t.device, false}});
}

void Endpoint::check_memory(const DLTensor& t, int64_t bytes) const {
  const uintptr_t at = address(t);
  if (t.byte_offset > static_cast<uint64_t>(kMostBytes)) fail("RPCError", "%s sent an address beyond memory", peer().c_str());
  if (bytes == 0) return;
  for (auto it = memory_.upper_bound(at); it != memory_.begin();) {
    --it;
    if (same_device(it->second.device, t.device) && at - it->first <= static_cast<uint64_t>(it->second.bytes) &&
        static_cast<uint64_t>(bytes) <= static_cast<uint64_t>(it->second.bytes) - (at - it->first))
      return;
  }
  fail("RPCError", "%s asked for %lld bytes on %s at an address that the session has not allocated", peer().c_str(), static_cast<long long>(bytes), device_text(t.device).c_str());
}

void Endpoint::drop(uint64_t handle) {
  auto it = objects_.find(handle);
  if (it == objects_.end()) fail("RPCError", "%s freed an object that it does not have", peer().c_str());
  if (auto memory = tensors_.find(handle); memory != tensors_.end()) {
    memory_.erase(memory->second);
    tensors_.erase(memory);
  }
  TVMFFIAny object = it->second;
  objects_.erase(it);
  destroy(object);
}

Ref<FunctionObject> Endpoint::remote_function(uint64_t handle) { return make_remote_function(shared_from_this(), handle); }
TVMFFIAny Endpoint::remote_module(uint64_t handle) { return from_ref(make_remote_module(shared_from_this(), handle)); }
TVMFFIAny Endpoint::remote_tensor(const DLTensor& t, uint64_t handle) {
  auto owner = std::make_unique<RemoteHandle>(shared_from_this(), handle);
  auto found = Ref<TensorObject>::steal(make<TensorObject>());
  found->tensor = DLTensor{t.data, here(t.device), 0, t.dtype, nullptr, nullptr, t.byte_offset};
  found->set_dims(t.ndim, t.shape, nullptr);
  found->owner = owner.release();
  found->release = [](void* p) { delete static_cast<RemoteHandle*>(p); };
  return from_ref(std::move(found));
}

// ---- questions

// Reads messages until that which answers; questions of the other side are answered on the way. True where data follow.
bool Endpoint::wait(TVMFFIAny* answer_) {
  for (;;) {
    const Code code = next();
    if (code == kCopyAck) return true;
    if (code == kReturn || code == kException) {
      Values values;
      try {
        check_size();
        if (code == kReturn) *answer_ = take_result(values);
        else take_values(values);
        skip_rest();
      } catch (...) {  // the message is not understood, but those after it may be
        if (!ended_) skip_rest();
        throw;
      }
      if (code == kReturn) return false;
      const std::string text = values.values.empty() ? "no reason was sent" : as_string(values.values[0]);
      fail("RPCError", "Error caught from RPC call:\n%s", text.c_str());
    }
    if (code == kShutdown) {
      ended_ = true;
      throw Lost{{"RPCError", format("%s has ended the session", peer().c_str())}};
    }
    answer(code);
  }
}

void Endpoint::check_size() {
  if (rest_ > most_)
    fail("RPCError", "%s sent a message of %llu bytes, and this side takes %llu at most (--max-message)", peer().c_str(), static_cast<unsigned long long>(rest_), static_cast<unsigned long long>(most_));
}

Code Endpoint::next() {
  channel_.within = false;
  receive(&rest_, sizeof rest_);
  if (rest_ < sizeof(int32_t)) {
    ended_ = true;
    throw Lost{{"RPCError", format("%s sent a message of %d bytes, which is none", peer().c_str(), static_cast<int>(rest_))}};
  }
  return static_cast<Code>(take<int32_t>());
}

void Endpoint::begin() {
  if (server_ && answering_ != std::this_thread::get_id())
    fail("RPCError", "a function of %s was called while it waits for nothing: it can answer only during a call of its own", peer().c_str());
  std::vector<Freed> freed;
  {
    std::lock_guard<std::mutex> hold(freed_lock_);
    freed.swap(freed_);
  }
  // Questions go out together, then their answers are read; not more than the buffers of a connection hold.
  for (size_t first = 0; first < freed.size(); first += 256) {
    const size_t last = std::min(freed.size(), first + 256);
    for (size_t i = first; i < last; ++i) {
      Writer w;
      w.put<int32_t>(freed[i].code);
      w.put<int32_t>(freed[i].code == kFreeHandle ? 1 : 2);
      if (freed[i].code != kFreeHandle) {
        w.put<int32_t>(kTVMFFIDevice);
        w.put(there(freed[i].device));
      }
      w.put<int32_t>(kTVMFFIOpaquePtr);
      w.put(freed[i].handle);
      send(w);
    }
    for (size_t i = first; i < last; ++i) {
      TVMFFIAny found = none();
      const auto error = guarded([&] { wait(&found); }) ? take_raised() : Ref<ErrorObject>();
      if (ended_) throw Lost{{"RPCError", error->message}};  // other errors are nobody's: who freed it is gone
      destroy(found);
    }
  }
}

void Endpoint::free(uint64_t handle) {
  std::lock_guard<std::mutex> hold(freed_lock_);
  if (!ended_) freed_.push_back({kFreeHandle, {}, handle});
}
void Endpoint::free(DLDevice device, void* data) {
  std::lock_guard<std::mutex> hold(freed_lock_);
  if (!ended_) freed_.push_back({kDevFreeData, device, reinterpret_cast<uintptr_t>(data)});
}

TVMFFIAny Endpoint::call(uint64_t function, Args args) {
  std::lock_guard<std::recursive_mutex> hold(lock_);
  begin();
  send_values(kCallFunc, args.values, args.count, function);
  TVMFFIAny found = none();
  if (wait(&found)) fail("RPCError", "%s answered a call with data", peer().c_str());
  return found;
}

TVMFFIAny Endpoint::ask(Code code, Args args) {
  std::lock_guard<std::recursive_mutex> hold(lock_);
  begin();
  send_values(code, args.values, args.count);
  TVMFFIAny found = none();
  if (wait(&found)) fail("RPCError", "%s answered a question with data", peer().c_str());
  return found;
}

void Endpoint::open(Args args) {
  std::lock_guard<std::recursive_mutex> hold(lock_);
  Writer w;
  w.put<int32_t>(kInitServer);
  w.string(kVersion);
  w.put(args.count);
  for (int32_t i = 0; i < args.count; ++i) put_value(w, args.values[i]);
  send(w);
  TVMFFIAny found = none();
  wait(&found);
  destroy(found);
}

Ref<FunctionObject> Endpoint::function(const std::string& name) {
  TVMFFIAny text = from_string(name);
  TVMFFIAny found = ask(kGetGlobalFunc, {&text, 1});
  destroy(text);
  if (found.type_index != kTVMFFIOpaquePtr || found.v_uint64 == 0) return {};
  return remote_function(found.v_uint64);
}

void Endpoint::copy_to(const DLTensor& from, const DLTensor& to) {
  std::lock_guard<std::recursive_mutex> hold(lock_);
  begin();
  const int64_t bytes = tensor_bytes(to);
  Writer w;
  w.put<int32_t>(kCopyToRemote);
  put_tensor(w, to, true);
  w.put<uint64_t>(static_cast<uint64_t>(bytes));
  send(w, static_cast<const char*>(from.data) + from.byte_offset, static_cast<size_t>(bytes));
  TVMFFIAny found = none();
  wait(&found);
  destroy(found);
}

void Endpoint::copy_from(const DLTensor& from, const DLTensor& to) {
  std::lock_guard<std::recursive_mutex> hold(lock_);
  begin();
  const auto bytes = static_cast<uint64_t>(tensor_bytes(from));
  Writer w;
  w.put<int32_t>(kCopyFromRemote);
  put_tensor(w, from, true);
  w.put(bytes);
  send(w);
  TVMFFIAny found = none();
  if (!wait(&found)) {
    destroy(found);
    fail("RPCError", "%s answered a copy without data", peer().c_str());
  }
  if (rest_ != bytes) {
    const auto sent = static_cast<unsigned long long>(rest_);
    skip_rest();
    fail("RPCError", "%s answered a copy of %llu bytes with %llu", peer().c_str(), static_cast<unsigned long long>(bytes), sent);
  }
  take(static_cast<char*>(to.data) + to.byte_offset, bytes);
}

}  // namespace tw::rpc
