// Sessions as a client has them: functions, modules and devices of another process or machine.
#include "objects.h"

namespace tw::rpc {
namespace {

struct Table {
  std::mutex lock;
  std::vector<std::weak_ptr<Endpoint>> sessions;  // by index
};
Table& table() {
  static auto* t = new Table;  // outlives every static destructor that may still free something remote
  return *t;
}
int32_t add_session(const std::shared_ptr<Endpoint>& session) {
  std::lock_guard<std::mutex> hold(table().lock);
  auto& all = table().sessions;
  size_t i = 0;
  while (i < all.size() && !all[i].expired()) ++i;
  if (i == all.size()) all.emplace_back();
  all[i] = session;
  return static_cast<int32_t>(i);
}

std::shared_ptr<Endpoint> session_of(DLDevice device) {
  const int32_t index = device.device_type / kMask - 1;
  std::lock_guard<std::mutex> hold(table().lock);
  auto& all = table().sessions;
  auto found = index >= 0 && index < static_cast<int32_t>(all.size()) ? all[static_cast<size_t>(index)].lock() : nullptr;
  if (!found) throw Lost{{"RPCError", format("the session of the device rpc(%d) has ended", device.device_id)}};
  return found;
}

int32_t call_remote(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  return guarded([&] {
    auto* remote = static_cast<RemoteHandle*>(static_cast<FunctionObject*>(self)->self);
    // The function may be freed while it runs, with its session.
    const auto session = remote->session;
    *result = session->call(remote->handle, {args, count});
  });
}

class RemoteModule : public ModuleImpl {
 public:
  RemoteModule(std::shared_ptr<Endpoint> session, uint64_t handle) : remote(std::move(session), handle) {}
  static constexpr char kClass = 0;
  const char* kind() const override { return "rpc"; }
  const void* class_of() const override { return &kClass; }
  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    const auto session = remote.session;
    auto find = session->function("tvm.rpc.server.ModuleGetFunction");
    if (!find) fail("RPCError", "%s has no modules", session->peer().c_str());
    TVMFFIAny text = from_string(name), module = none(), query = none();
    module.type_index = kTVMFFIModule;
    module.v_obj = &self->header;
    query.type_index = kTVMFFIBool;
    query.v_int64 = 0;
    const TVMFFIAny args[] = {module, text, query};
    struct Drop { TVMFFIAny& v; ~Drop() { destroy(v); } } drop{text};
    TVMFFIAny found = call(find.get(), args, 3);
    if (found.type_index != kTVMFFIFunction) {
      destroy(found);
      return {};
    }
    return Ref<FunctionObject>::steal(found.v_obj);
  }
  RemoteHandle remote;
};

// The session itself: its functions are the global ones of the other side.
class SessionModule : public ModuleImpl {
 public:
  explicit SessionModule(std::shared_ptr<Endpoint> s) : session(std::move(s)) {}
  static constexpr char kClass = 0;
  const char* kind() const override { return "rpc"; }
  const void* class_of() const override { return &kClass; }
  Ref<FunctionObject> get_function(const std::string& name, ModuleObject*) override { return session->function(name); }
  std::shared_ptr<Endpoint> session;
};

TVMFFIAny device_value(DLDevice d) {
  TVMFFIAny a = none();
  a.type_index = kTVMFFIDevice;
  a.v_device = d;
  return a;
}
TVMFFIAny pointer(const void* p) {
  TVMFFIAny a = none();
  a.type_index = kTVMFFIOpaquePtr;
  a.v_uint64 = reinterpret_cast<uintptr_t>(p);
  return a;
}

// What a device of a session can do: it is asked there.
template <size_t N>
TVMFFIAny asked(DLDevice device, Code code, const TVMFFIAny (&args)[N]) {
  return session_of(device)->ask(code, {args, static_cast<int32_t>(N)});
}
template <size_t N>
int32_t done(DLDevice device, Code code, const TVMFFIAny (&args)[N]) {
  return guarded([&] {
    TVMFFIAny found = asked(device, code, args);
    destroy(found);
  });
}
template <size_t N>
int32_t ask_for(DLDevice device, Code code, void** result, const TVMFFIAny (&args)[N]) {
  return guarded([&] {
    TVMFFIAny found = asked(device, code, args);
    if (found.type_index != kTVMFFIOpaquePtr) {
      destroy(found);
      fail("RPCError", "%s answered without an address", session_of(device)->peer().c_str());
    }
    *result = reinterpret_cast<void*>(static_cast<uintptr_t>(found.v_uint64));
  });
}
TVMFFIAny tensor_value(const DLTensor& t) {
  TVMFFIAny a = none();
  a.type_index = kTVMFFIDLTensorPtr;
  a.v_ptr = const_cast<DLTensor*>(&t);
  return a;
}

TWDeviceAPI make_table() {
  TWDeviceAPI t{};
  t.version = TW_DEVICE_API_VERSION;
  t.attribute = [](void*, DLDevice device, int32_t kind, TVMFFIAny* result) {
    return guarded([&] { *result = asked(device, kDevGetAttr, {device_value(device), from_int(kind)}); });
  };
  t.allocate = [](void*, const DLTensor* like, size_t, size_t, const char* scope, void** result) {
    return guarded([&] {
      TVMFFIAny name = scope && *scope ? from_string(scope) : none();
      struct Drop { TVMFFIAny& v; ~Drop() { destroy(v); } } drop{name};
      if (ask_for(like->device, kDevAllocDataWithScope, result, {tensor_value(*like), name})) throw Raised{};
      session_of(like->device)->keep(1);
    });
  };
  t.release = [](void*, DLDevice device, void* data) {
    return guarded([&] {
      auto session = session_of(device);
      session->free(device, data);
      session->keep(-1);
    });
  };
  t.copy = [](void*, const DLTensor* from, const DLTensor* to, void* stream) {
    return guarded([&] {
      if (on_cpu(from->device)) return session_of(to->device)->copy_to(*from, *to);
      if (on_cpu(to->device)) return session_of(from->device)->copy_from(*from, *to);
      auto session = session_of(from->device);
      if (session != session_of(to->device)) {  // between two machines, through this one
        int64_t bytes = tensor_bytes(*from);
        std::string data(static_cast<size_t>(bytes), '\0');
        const DLTensor here = flat_tensor(&data[0], {kDLCPU, 0}, &bytes);
        session->copy_from(*from, here);
        return session_of(to->device)->copy_to(here, *to);
      }
      const TVMFFIAny args[] = {tensor_value(*from), tensor_value(*to), pointer(stream)};
      TVMFFIAny found = session->ask(kCopyAmongRemote, {args, 3});
      destroy(found);
    });
  };
  t.synchronize = [](void*, DLDevice device, void* stream) { return done(device, kDevStreamSync, {device_value(device), pointer(stream)}); };
  t.create_stream = [](void*, DLDevice device, void** result) { return ask_for(device, kDevCreateStream, result, {device_value(device)}); };
  t.release_stream = [](void*, DLDevice device, void* stream) { return done(device, kDevFreeStream, {device_value(device), pointer(stream)}); };
  t.set_stream = [](void*, DLDevice device, void* stream) { return done(device, kDevSetStream, {device_value(device), pointer(stream)}); };
  // The protocol has no message for the order of two streams: to wait for the first gives it.
  t.order_streams = [](void*, DLDevice device, void* first, void*) { return done(device, kDevStreamSync, {device_value(device), pointer(first)}); };
  return t;
}

const int registered = [] {
  register_global("device_api.rpc", [](Args) {
    static const TWDeviceAPI devices = make_table();
    return pointer(&devices);
  });
  // (socket, name of the other side, seconds that the session may last or 0, arguments for the server): the session, as a module.
  register_global("rpc.OpenSession", [](Args args) {
    auto session = std::make_shared<Endpoint>(socket_of(args[0]), as_string(args[1]), false);
    Patience patience;
    patience.within = 60000;
    if (args.count > 2 && as_int(args[2], "seconds") > 0) patience.end = std::chrono::steady_clock::now() + std::chrono::seconds(as_int(args[2], "seconds"));
    session->limit(1 << 30, patience);
    session->open(args.count > 3 ? Args{args.values + 3, args.count - 3} : Args{});
    session->index = add_session(session);
    return from_ref(make_module(std::make_unique<SessionModule>(std::move(session))));
  });
  // (module of a session, name): the global function of that name on the module's side; none where there is none.
  register_global("rpc.SessionFunction", [](Args args) {
    auto* module = implementation<RemoteModule>(as_module(args[0]));
    if (!module) fail("TypeError", "expected a module of a session");
    auto found = module->remote.session->function(as_string(args[1]));
    return found ? from_ref(std::move(found)) : none();
  });
  // The number of a session among those of this process; its devices have types from (number + 1) * 128 on.
  register_global("rpc.SessTableIndex", [](Args args) { return from_int(session_in(args[0])->index); });
  return 0;
}();

}  // namespace

std::shared_ptr<Endpoint> session_in(const TVMFFIAny& module) {
  auto* session = implementation<SessionModule>(as_module(module));
  if (!session) fail("TypeError", "expected a session");
  return session->session;
}

RemoteHandle::~RemoteHandle() { session->free(handle); }

Ref<FunctionObject> make_remote_function(std::shared_ptr<Endpoint> session, uint64_t handle) {
  return make_raw_function(new RemoteHandle(std::move(session), handle), call_remote, [](void* self) { delete static_cast<RemoteHandle*>(self); });
}
Ref<ModuleObject> make_remote_module(std::shared_ptr<Endpoint> session, uint64_t handle) {
  return make_module(std::make_unique<RemoteModule>(std::move(session), handle));
}

const RemoteHandle* remote_handle(const TVMFFIAny& v) {
  if (v.type_index == kTVMFFIFunction) {
    auto* f = reinterpret_cast<FunctionObject*>(v.v_obj);
    return f->cell.safe_call == call_remote ? static_cast<RemoteHandle*>(f->self) : nullptr;
  }
  if (v.type_index != kTVMFFIModule) return nullptr;
  auto* module = implementation<RemoteModule>(as_module(v));
  return module ? &module->remote : nullptr;
}

}  // namespace tw::rpc
