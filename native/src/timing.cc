// time_evaluator: repeats a call inside native code, so that the caller's language is not in the measurement.
#include <chrono>
#include <cmath>
#include <thread>

#include "devices/device.h"

namespace tw {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Plan {
  int64_t number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_ms, repeats_to_cooldown, flush_bytes;
};

// Measures what happens between start and stop on a device: by its own clock where it has one, else by ours, once it has done all.
class Timer {
 public:
  explicit Timer(DLDevice device) : device_(device), api_(on_cpu(device) ? nullptr : &device_api(device.device_type)) {
    if (api_ && !api_->create_event) api_ = nullptr;
    if (api_) check_device(api_->create_event(api_->self, device_, &begin_), "make an event of", device_);
    if (api_) check_device(api_->create_event(api_->self, device_, &end_), "make an event of", device_);
  }
  ~Timer() {
    auto pending = take_raised();
    for (void* event : {begin_, end_})
      if (event && api_->release_event(api_->self, device_, event)) take_raised();
    if (pending) set_raised(std::move(pending));
  }
  void start() {
    synchronize(device_, current_stream(device_));
    if (api_) record(begin_);
    else from_ = now();
  }
  double stop() {
    if (!api_) {
      synchronize(device_, current_stream(device_));
      return now() - from_;
    }
    double seconds = 0;
    record(end_);
    check_device(api_->elapsed(api_->self, device_, begin_, end_, &seconds), "read the clock of", device_);
    return seconds;
  }

 private:
  void record(void* event) { check_device(api_->record_event(api_->self, device_, event, current_stream(device_)), "record an event of", device_); }
  DLDevice device_;
  const TWDeviceAPI* api_;
  void *begin_ = nullptr, *end_ = nullptr;
  double from_ = 0;
};

// Returns seconds per call, one for each repeat.
std::vector<double> measure(FunctionObject* f, const TVMFFIAny* args, int32_t count, Plan plan, FunctionObject* before, DLDevice device) {
  Timer timer(device);
  auto once = [&] {
    TVMFFIAny result = call(f, args, count);
    destroy(result);
  };
  std::vector<char> flush(static_cast<size_t>(plan.flush_bytes));
  once();  // warm-up, as in classic TVM
  std::vector<double> seconds;
  int64_t number = plan.number;
  for (int64_t r = 0; r < plan.repeat; ++r) {
    if (before) {
      TVMFFIAny result = call(before, args, count);
      destroy(result);
    }
    for (size_t i = 0; i < flush.size(); i += 64) ++flush[i];
    double spent = 0;
    for (int64_t zero_runs = 0;;) {
      timer.start();
      for (int64_t i = 0; i < number; ++i) once();
      spent = timer.stop();
      if (check_signals() != 0) throw Raised{};
      if (spent <= 0 && ++zero_runs >= plan.limit_zero_time_iterations) break;
      if (spent * 1e3 >= static_cast<double>(plan.min_repeat_ms)) break;
      double scale = spent > 0 ? static_cast<double>(plan.min_repeat_ms) / (spent * 1e3) + 1 : 2;
      double golden = static_cast<double>(number) * 1.618;
      number = static_cast<int64_t>(std::max(scale * static_cast<double>(number), golden));
    }
    seconds.push_back(spent / static_cast<double>(number));
    if (plan.cooldown_ms > 0 && plan.repeats_to_cooldown > 0 && (r + 1) % plan.repeats_to_cooldown == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(plan.cooldown_ms));
  }
  return seconds;
}

// The bytes of a tensor leave the caches of the CPU. Nothing where a program may not ask for that.
void flush(const DLTensor& t) {
  char* from = static_cast<char*>(t.data) + t.byte_offset;
  const int64_t bytes = on_cpu(t.device) && is_compact(t) ? tensor_bytes(t) : 0;
  for (int64_t i = 0; i < bytes; i += 64) {
#if defined(__SSE2__)
    __builtin_ia32_clflush(from + i);
#elif defined(__aarch64__) && !defined(__APPLE__) && !defined(_WIN32)
    asm volatile("dc civac, %0" ::"r"(from + i) : "memory");
#else
    (void)from;
#endif
  }
}

void register_timing() {
  // For f_preproc of time_evaluator: what a call reads, but for its first argument, comes from memory.
  register_global("cache_flush_cpu_non_first_arg", [](Args args) {
    for (int32_t i = 1; i < args.count; ++i)
      if (const DLTensor* t = as_tensor(args[i])) flush(*t);
    return none();
  });
  // (function, number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown,
  //  cache_flush_bytes, function to call before each repeat or None, device) -> function that answers with float64 bytes
  register_global("runtime.TimeEvaluator", [](Args args) {
    if (args[0].type_index != kTVMFFIFunction) fail("TypeError", "time_evaluator needs a function");
    auto f = Ref<FunctionObject>::share(args[0].v_obj);
    Plan plan{as_int(args[1], "number"), as_int(args[2], "repeat"), as_int(args[3], "min_repeat_ms"),
              as_int(args[4], "limit_zero_time_iterations"), as_int(args[5], "cooldown_interval_ms"),
              as_int(args[6], "repeats_to_cooldown"), as_int(args[7], "cache_flush_bytes")};
    if (plan.number < 1 || plan.repeat < 1) fail("ValueError", "number and repeat must be at least 1, got %lld and %lld", static_cast<long long>(plan.number), static_cast<long long>(plan.repeat));
    if (plan.flush_bytes < 0) fail("ValueError", "cache_flush_bytes must not be negative, got %lld", static_cast<long long>(plan.flush_bytes));
    Ref<FunctionObject> before;
    if (args[8].type_index == kTVMFFIFunction) before = Ref<FunctionObject>::share(args[8].v_obj);
    if (args[9].type_index != kTVMFFIDevice) fail("TypeError", "time_evaluator needs a device");
    const DLDevice device = args[9].v_device;
    return from_ref(make_function([f, plan, before, device](Args inner) {
      auto seconds = measure(f.get(), inner.values, inner.count, plan, before.get(), device);
      return from_string(std::string(reinterpret_cast<char*>(seconds.data()), seconds.size() * sizeof(double)), true);
    }));
  });
}
const int timing_registered = (register_timing(), 0);

}  // namespace
}  // namespace tw
