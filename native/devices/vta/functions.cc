#include "functions.h"

#include <cstring>

#include "../common/library.h"
#include "accelerator.h"

namespace tw {
namespace {

// The arguments of a packed function.
class Arguments {
 public:
  Arguments(const char* name, const TVMFFIAny* args, int32_t count) : name_(name), args_(args), count_(count) {}
  int64_t number(int n) const {
    const TVMFFIAny& a = at(n);
    if (a.type_index != kTVMFFIInt && a.type_index != kTVMFFIBool) fail("TypeError", "%s: argument %d must be an integer", name_, n);
    return a.v_int64;
  }
  std::string bytes(int n) const {
    TVMFFIByteArray found;
    if (!tilewright::detail::bytes_of(at(n), &found)) fail("TypeError", "%s: argument %d must be a text or bytes", name_, n);
    return std::string(found.data, found.size);
  }
  uint64_t address(int n) const { return static_cast<uint64_t>(number(n)); }
  std::shared_ptr<Accelerator> device() const { return accelerator(static_cast<int>(number(0))); }

 private:
  const TVMFFIAny& at(int n) const {
    if (n >= count_) fail("TypeError", "%s: argument %d is missing", name_, n);
    return args_[n];
  }
  const char* name_;
  const TVMFFIAny* args_;
  int32_t count_;
};

template <typename F>
void define(const char* name, F body) {
  const auto function = tilewright::detail::make_function([name, body](const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    const Arguments given(name, args, count);
    *result = body(given);
  });
  const std::string text = name;
  const TVMFFIByteArray key = tilewright::detail::bytes(text);
  tilewright::detail::check(tilewright::host_api().set_global(&key, function.get(), 1));
}
template <typename F>
void define_on_device(const char* name, F body) {
  define(name, [body](const Arguments& args) {
    const std::shared_ptr<Accelerator> device = args.device();
    std::lock_guard<std::mutex> hold(device->lock);
    return body(*device, args);
  });
}
TVMFFIAny nothing() { return tilewright::detail::none(); }

const char* const kActivityNames[kActivities] = {"busy", "idle", "waits for prev", "waits for next", "token queue full", "DRAM", "port", "hazard"};

// The cycles of a timed accelerator, by unit and by what it did.
std::string times_text(const Times& t) {
  std::string text = format("\"cycle_count\": %lld, \"dram_busy\": %lld, \"fetch_nbytes\": %lld, \"units\": {", static_cast<long long>(t.cycles),
                            static_cast<long long>(t.bus_busy), static_cast<long long>(t.moved[kOfFetch]));
  for (int u = 0; u < kUnits; ++u) {
    text += format("%s\"%s\": {\"nbytes\": %lld", u ? ", " : "", kUnitNames[u], static_cast<long long>(t.moved[u]));
    for (int a = 0; a < kActivities; ++a) text += format(", \"%s\": %lld", kActivityNames[a], static_cast<long long>(t.spent[u][a]));
    text += "}";
  }
  return text + "}, ";
}

std::string counters_text(Accelerator& device) {
  const Machine& m = device.machine();
  const Counters& c = m.counters;
  std::string text = "{" + (m.d.timed ? times_text(device.times) : std::string());
  for (int memory = 0; memory < kMemories; ++memory)
    text += format("\"%s_%s_nbytes\": %lld, ", kMemoryNames[memory], memory == kOut ? "store" : "load", static_cast<long long>(c.bytes[memory]));
  return text + format("\"gemm_counter\": %lld, \"alu_counter\": %lld, \"instructions\": %lld, \"programs\": %lld}", static_cast<long long>(c.gemm_steps),
                       static_cast<long long>(c.alu_steps), static_cast<long long>(c.instructions), static_cast<long long>(c.programs));
}

}  // namespace

void register_functions() {
  define("vta.device.add", [](const Arguments&) { return known(add_accelerator()); });
  define("vta.device.remove", [](const Arguments& args) { return remove_accelerator(static_cast<int>(args.number(0))), nothing(); });
  define_on_device("vta.device.configure", [](Accelerator& a, const Arguments& args) { return a.configure(args.bytes(1)), nothing(); });
  define_on_device("vta.device.description", [](Accelerator& a, const Arguments&) { return known(a.configured() ? a.machine().d.text : ""); });
  define_on_device("vta.device.allocate", [](Accelerator& a, const Arguments& args) {
    return known(static_cast<int64_t>(a.dram.allocate(args.address(1))));
  });
  define_on_device("vta.device.release", [](Accelerator& a, const Arguments& args) { return a.dram.release(args.address(1)), nothing(); });
  define_on_device("vta.device.write", [](Accelerator& a, const Arguments& args) {
    const std::string data = args.bytes(2);
    memcpy(a.dram.cpu(args.address(1), data.size(), [] { return "vta.device.write:"; }), data.data(), data.size());
    return nothing();
  });
  define_on_device("vta.device.read", [](Accelerator& a, const Arguments& args) {
    const uint64_t size = args.address(2);
    const uint8_t* from = a.dram.cpu(args.address(1), size, [] { return "vta.device.read:"; });
    return tilewright::detail::of_text(std::string(reinterpret_cast<const char*>(from), size), kTVMFFIBytes);
  });
  define_on_device("vta.device.flush", [](Accelerator& a, const Arguments& args) { return a.dram.flush(args.address(1), args.address(2)), nothing(); });
  define_on_device("vta.device.invalidate", [](Accelerator& a, const Arguments& args) {
    return a.dram.invalidate(args.address(1), args.address(2)), nothing();
  });
  define_on_device("vta.device.run", [](Accelerator& a, const Arguments& args) { return a.run(args.address(1), args.address(2)), nothing(); });
  define_on_device("vta.device.cycles", [](Accelerator& a, const Arguments& args) {
    return known(a.cycles_of(args.address(1), args.address(2), args.number(3)));
  });
  define_on_device("vta.device.stats", [](Accelerator& a, const Arguments&) { return known(counters_text(a)); });
  define_on_device("vta.device.clear_stats", [](Accelerator& a, const Arguments&) {
    a.machine().counters = Counters();
    a.times = Times();
    a.trace.clear();
    return nothing();
  });
  define_on_device("vta.device.skip", [](Accelerator& a, const Arguments& args) { return a.skips = args.number(1) != 0, nothing(); });
  define_on_device("vta.device.trace", [](Accelerator& a, const Arguments& args) { return a.trace.on = args.number(1) != 0, nothing(); });
  define_on_device("vta.device.trace_text", [](Accelerator& a, const Arguments&) { return known(a.trace.json()); });
}

}  // namespace tw
