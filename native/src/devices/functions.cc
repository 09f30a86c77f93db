// Devices whose table of functions is made of packed functions: of a host in another language, or of another machine.
#include "device.h"

#include <memory>

namespace tw {
namespace {

TVMFFIAny from_device(DLDevice d) {
  TVMFFIAny a = none();
  a.type_index = kTVMFFIDevice;
  a.v_device = d;
  return a;
}
TVMFFIAny from_address(const void* p) { return from_int(static_cast<int64_t>(reinterpret_cast<uintptr_t>(p))); }
void* address(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

struct FunctionDevice {
  TWDeviceAPI table;
  Ref<FunctionObject> attribute, allocate, release, copy, synchronize, create_stream, release_stream, set_stream, order_streams, load_code,
      release_code, find_kernel, launch, create_event, release_event, record_event, elapsed;

  static FunctionDevice& of(void* self) { return *static_cast<FunctionDevice*>(self); }
  template <size_t N>
  static int64_t answer(const Ref<FunctionObject>& f, const char* what, const TVMFFIAny (&args)[N]) {
    TVMFFIAny found = call(f.get(), args, static_cast<int32_t>(N));
    if (found.type_index == kTVMFFIInt) return found.v_int64;
    destroy(found);
    fail("TypeError", "`%s` of a device must return an integer", what);
  }
  template <size_t N>
  static int32_t handle(const Ref<FunctionObject>& f, const char* what, void** result, const TVMFFIAny (&args)[N]) {
    return guarded([&] { *result = reinterpret_cast<void*>(static_cast<uintptr_t>(answer(f, what, args))); });
  }
  template <size_t N>
  static int32_t run(const Ref<FunctionObject>& f, const TVMFFIAny (&args)[N]) {
    return guarded([&] {
      TVMFFIAny found = call(f.get(), args, static_cast<int32_t>(N));
      destroy(found);
    });
  }

  FunctionDevice() : table{} {
    table.version = TW_DEVICE_API_VERSION;
    table.self = this;
    table.attribute = [](void* self, DLDevice device, int32_t kind, TVMFFIAny* result) {
      return guarded([&] {
        const TVMFFIAny args[] = {from_device(device), from_int(kind)};
        *result = call(of(self).attribute.get(), args, 2);
      });
    };
    table.allocate = [](void* self, const DLTensor* like, size_t bytes, size_t alignment, const char* scope, void** result) {
      return guarded([&] {
        TVMFFIAny dtype = none(), name = none();
        dtype.type_index = kTVMFFIDataType;
        dtype.v_dtype = like->dtype;
        name.type_index = kTVMFFIRawStr;
        name.v_c_str = scope;
        std::vector<TVMFFIAny> dims;
        for (int32_t i = 0; i < like->ndim; ++i) dims.push_back(from_int(like->shape[i]));
        auto shape = Ref<ArrayObject>::steal(make<ArrayObject>(std::move(dims)));
        TVMFFIAny list = none();
        list.type_index = kTVMFFIArray;
        list.v_obj = &shape->header;
        const TVMFFIAny args[] = {from_device(like->device), from_int(static_cast<int64_t>(bytes)), from_int(static_cast<int64_t>(alignment)), list, dtype, name};
        *result = reinterpret_cast<void*>(static_cast<uintptr_t>(answer(of(self).allocate, "allocate", args)));
      });
    };
    table.release = [](void* self, DLDevice device, void* data) { return run(of(self).release, {from_device(device), from_address(data)}); };
    table.copy = [](void* self, const DLTensor* from, const DLTensor* to, void* stream) {
      return run(of(self).copy, {from_device(from->device), from_address(address(*from)), from_device(to->device), from_address(address(*to)),
                                 from_int(tensor_bytes(*from)), from_address(stream)});
    };
    table.synchronize = [](void* self, DLDevice device, void* stream) { return run(of(self).synchronize, {from_device(device), from_address(stream)}); };
  }
  // The parts of the table that a device need not have.
  void set_streams() {
    table.create_stream = [](void* self, DLDevice device, void** result) {
      return handle(of(self).create_stream, "create_stream", result, {from_device(device)});
    };
    table.release_stream = [](void* self, DLDevice device, void* stream) { return run(of(self).release_stream, {from_device(device), from_address(stream)}); };
    table.set_stream = [](void* self, DLDevice device, void* stream) { return run(of(self).set_stream, {from_device(device), from_address(stream)}); };
    table.order_streams = [](void* self, DLDevice device, void* first, void* then) {
      return run(of(self).order_streams, {from_device(device), from_address(first), from_address(then)});
    };
  }
  void set_kernels() {
    table.load_code = [](void* self, DLDevice device, const char* form, const void* data, size_t bytes, void** result) {
      TVMFFIAny code = from_string(std::string(static_cast<const char*>(data), bytes), true), name = none();
      name.type_index = kTVMFFIRawStr;
      name.v_c_str = form;
      const int32_t failed = handle(of(self).load_code, "load_code", result, {from_device(device), name, code});
      destroy(code);
      return failed;
    };
    table.release_code = [](void* self, DLDevice device, void* code) { return run(of(self).release_code, {from_device(device), from_address(code)}); };
    table.find_kernel = [](void* self, DLDevice device, void* code, const char* name, const char*, void** result) {
      TVMFFIAny text = none();
      text.type_index = kTVMFFIRawStr;
      text.v_c_str = name;
      return handle(of(self).find_kernel, "find_kernel", result, {from_device(device), from_address(code), text});
    };
    table.launch = [](void* self, DLDevice device, const TWLaunch* l, void* stream) {
      return guarded([&] {
        std::vector<TVMFFIAny> extents, names, values;
        for (uint32_t n : l->grid) extents.push_back(from_int(n));
        for (uint32_t n : l->block) extents.push_back(from_int(n));
        for (int32_t i = 0; i < l->num_args; ++i) {
          names.push_back(from_string(dtype_text(l->types[i])));
          values.push_back(argument(l->types[i], l->args[i]));
        }
        TVMFFIAny types = from_object(&make<ArrayObject>(std::move(names))->header);
        TVMFFIAny sizes = from_object(&make<ArrayObject>(std::move(extents))->header), given = from_object(&make<ArrayObject>(std::move(values))->header);
        const int32_t failed = run(of(self).launch, {from_device(device), from_address(l->kernel), sizes, from_int(static_cast<int64_t>(l->shared_bytes)), types, given, from_address(stream)});
        destroy(sizes);
        destroy(types);
        destroy(given);
        if (failed) throw Raised{};
      });
    };
    table.create_event = [](void* self, DLDevice device, void** result) { return handle(of(self).create_event, "create_event", result, {from_device(device)}); };
    table.release_event = [](void* self, DLDevice device, void* event) { return run(of(self).release_event, {from_device(device), from_address(event)}); };
    table.record_event = [](void* self, DLDevice device, void* event, void* stream) {
      return run(of(self).record_event, {from_device(device), from_address(event), from_address(stream)});
    };
    table.elapsed = [](void* self, DLDevice device, void* begin, void* end, double* seconds) {
      return guarded([&] {
        const TVMFFIAny args[] = {from_device(device), from_address(begin), from_address(end)};
        TVMFFIAny found = call(of(self).elapsed.get(), args, 3);
        if (found.type_index != kTVMFFIFloat) {
          destroy(found);
          fail("TypeError", "`elapsed` of a device must return seconds");
        }
        *seconds = found.v_float64;
      });
    };
  }
  // An argument of a kernel as a value: an address or an integer as an int.
  static TVMFFIAny argument(DLDataType type, const void* at) {
    if (type.code == kDLFloat && type.bits == 32) return from_float(*static_cast<const float*>(at));
    if (type.code == kDLFloat && type.bits == 64) return from_float(*static_cast<const double*>(at));
    if (type.code == kDLOpaque) return from_address(*static_cast<void* const*>(at));
    int64_t value = 0;
    memcpy(&value, at, static_cast<size_t>(type.bits + 7) / 8);
    if (type.code == kDLInt && type.bits < 64) value = static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - type.bits)) >> (64 - type.bits);
    return from_int(value);
  }
  static TVMFFIAny from_float(double v) {
    TVMFFIAny a = none();
    a.type_index = kTVMFFIFloat;
    a.v_float64 = v;
    return a;
  }
};

const int functions_registered = [] {
  // (name of the type of devices, its functions in the order of TWDeviceAPI: those up to synchronize, those for streams too, or all). They
  // take devices, numbers and addresses as it does.
  register_global("runtime.RegisterDeviceAPI", [](Args args) {
    const std::string type = as_string(args[0]), name = "device_api." + type;
    if (args.count != 6 && args.count != 10 && args.count != 18)
      fail("TypeError", "a runtime of devices has 5 functions, 9 with those for streams, or 17 with those for kernels and events too, but %d were given", args.count - 1);
    auto made = std::make_unique<FunctionDevice>();
    Ref<FunctionObject>* const places[] = {&made->attribute, &made->allocate, &made->release, &made->copy, &made->synchronize,
                                           &made->create_stream, &made->release_stream, &made->set_stream, &made->order_streams, &made->load_code, &made->release_code,
                                           &made->find_kernel, &made->launch, &made->create_event, &made->release_event, &made->record_event, &made->elapsed};
    for (int32_t i = 1; i < args.count; ++i) {
      if (args[i].type_index != kTVMFFIFunction) fail("TypeError", "argument %d of a runtime of devices must be a function", i);
      *places[i - 1] = Ref<FunctionObject>::share(args[i].v_obj);
    }
    if (args.count >= 10) made->set_streams();
    if (args.count == 18) made->set_kernels();
    if (get_global(name)) fail("ValueError", "devices of type %s have a runtime in this process already", type.c_str());
    const TWDeviceAPI* table = &made.release()->table;  // what devices have allocated may be freed as late as at the end of the process
    register_global(name.c_str(), [table](Args) {
      TVMFFIAny answer = none();
      answer.type_index = kTVMFFIOpaquePtr;
      answer.v_ptr = const_cast<TWDeviceAPI*>(table);
      return answer;
    });
    return none();
  });
  return 0;
}();

}  // namespace
}  // namespace tw
