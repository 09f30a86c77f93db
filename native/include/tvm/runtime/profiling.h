// Times of calls on devices.
#ifndef TVM_RUNTIME_PROFILING_H_
#define TVM_RUNTIME_PROFILING_H_

#include <chrono>

#include "device_api.h"
#include "registry.h"

namespace tvm {
namespace runtime {

// A way to measure on devices of one type. The global function `profiling.timer.TYPE` makes one of a device.
class TimerNode : public Object {
 public:
  virtual ~TimerNode() = default;
  virtual void Start() = 0;
  virtual void Stop() = 0;
  // Waits until the device is done; nanoseconds between Start and Stop.
  virtual int64_t SyncAndGetElapsedNanos() = 0;
  static constexpr const char* _type_key = "TimerNode";
  TVM_DECLARE_BASE_OBJECT_INFO(TimerNode, Object)
};

namespace detail {
// The clock of the host; a device is waited for on both ends.
class HostTimerNode final : public TimerNode {
 public:
  explicit HostTimerNode(Device device) : device_(device) {}
  void Start() final { start_ = now(); }
  void Stop() final { nanoseconds_ = std::chrono::nanoseconds(now() - start_).count(); }
  int64_t SyncAndGetElapsedNanos() final { return nanoseconds_; }
  static constexpr const char* _type_key = "HostTimerNode";
  TVM_DECLARE_FINAL_OBJECT_INFO(HostTimerNode, TimerNode)

 private:
  std::chrono::steady_clock::time_point now() {
    if (device_.device_type != kDLCPU) DeviceAPI::Get(device_)->StreamSync(device_, nullptr);
    return std::chrono::steady_clock::now();
  }
  Device device_;
  int64_t nanoseconds_ = 0;
  std::chrono::steady_clock::time_point start_;
};
}  // namespace detail

class Timer : public ObjectRef {
 public:
  TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(Timer, ObjectRef, TimerNode)
  // A timer that runs: Timer t = Timer::Start(device); f(); t->Stop(); t->SyncAndGetElapsedNanos();
  static inline Timer Start(Device dev);
};

// By the clock of the host, for devices that have no timer of their own.
inline Timer DefaultTimer(Device dev) {
  Timer made(make_object<detail::HostTimerNode>(dev));
  made->Start();
  return made;
}
inline Timer Timer::Start(Device dev) {
  const PackedFunc* own = Registry::Get(std::string("profiling.timer.") + DLDeviceType2Str(dev.device_type));
  if (!own) return DefaultTimer(dev);
  Timer made = (*own)(dev);
  made->Start();
  return made;
}

namespace profiling {
// A function that measures calls of `pf` with its arguments: `repeat` times the mean of `number` calls, which become more until they take
// `min_repeat_ms`. Its result has the seconds, as the bytes of `repeat` doubles.
inline PackedFunc WrapTimeEvaluator(PackedFunc pf, Device dev, int number, int repeat, int min_repeat_ms, int limit_zero_time_iterations,
                                    int cooldown_interval_ms, int repeats_to_cooldown, int cache_flush_bytes = 0, PackedFunc f_preproc = nullptr) {
  return (*Registry::Get("runtime.TimeEvaluator"))(pf, number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
                                                   repeats_to_cooldown, cache_flush_bytes, f_preproc, dev);
}
}  // namespace profiling

}  // namespace runtime
}  // namespace tvm

#endif
