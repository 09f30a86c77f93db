#include "accelerator.h"

#include <chrono>
#include <map>

#include "../common/errors.h"
#include "order.h"

namespace tw {
namespace {

struct Registry {
  std::mutex lock;
  std::map<int, std::shared_ptr<Accelerator>> found;
  int next = 1;
};
Registry& registry() {
  static auto* made = [] {
    auto* r = new Registry;  // outlives tensors that are freed when the process ends
    r->found[0] = std::make_shared<Accelerator>(0);
    return r;
  }();
  return *made;
}

}  // namespace

std::string Accelerator::text() const { return format("ext_dev(%d)", id_); }
void Accelerator::configure(const std::string& description) {
  const Description d(description);
  dram.set_coherent(d.coherent);
  times = Times();
  trace.clear();
  machine_ = std::make_unique<Machine>(d, &dram);
}
double Accelerator::seconds() const {
  if (machine_ && machine_->d.timed) return static_cast<double>(cycles_) / (static_cast<double>(machine_->d.frequency) * 1e6);
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
Machine& Accelerator::machine() {
  if (!machine_) fail("RuntimeError", "%s has no accelerator yet; give it one with vta.reconfig_runtime()", text().c_str());
  return *machine_;
}
void Accelerator::run(uint64_t address, uint64_t count) {
  Machine& m = machine();
  const std::vector<Instruction> program = m.program(address, count);
  const Order order = order_of(m.d, program);
  if (skips) return;
  m.begin(&program, &order);
  if (m.d.timed) {
    const int64_t before = times.cycles;
    CycleSimulator(&m, program, address, times.cycles, &trace).run(&times);
    cycles_ += times.cycles - before;
  } else {
    for (uint32_t n : order.starts) m.execute(program[n], n);
  }
  ++m.counters.programs;
}

int64_t Accelerator::cycles_of(uint64_t address, uint64_t count, int64_t most) {
  Machine& m = machine();
  if (!m.d.timed) fail("RuntimeError", "%s is functional and has no cycles; its target must be tsim", text().c_str());
  const std::vector<Instruction> program = m.program(address, count);
  order_of(m.d, program);
  struct WithoutData {
    explicit WithoutData(Machine* machine) : machine_(machine), counters_(machine->counters) { machine_->without_data = true; }
    ~WithoutData() { machine_->without_data = false, machine_->counters = counters_; }
    Machine* machine_;
    const Counters counters_;
  } guard(&m);
  Times taken;
  Trace none;
  return CycleSimulator(&m, program, address, 0, &none).run(&taken, most) ? taken.cycles : -1;
}

std::shared_ptr<Accelerator> accelerator(int id) {
  std::lock_guard<std::mutex> hold(registry().lock);
  auto it = registry().found.find(id);
  if (it == registry().found.end()) fail("ValueError", "there is no device ext_dev(%d)", id);
  return it->second;
}
bool has_accelerator(int id) {
  std::lock_guard<std::mutex> hold(registry().lock);
  return registry().found.count(id) != 0;
}
int add_accelerator() {
  std::lock_guard<std::mutex> hold(registry().lock);
  const int id = registry().next++;
  registry().found[id] = std::make_shared<Accelerator>(id);
  return id;
}
void remove_accelerator(int id) {
  std::lock_guard<std::mutex> hold(registry().lock);
  registry().found.erase(id);
}

}  // namespace tw
