// The pipeline executor: modules as stages, each in a thread of its own, so that one run's later stages overlap with the next
// run's earlier ones. Stages may form any graph without cycles; runs come out in the order in which they went in.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "../json.h"
#include "../module.h"
#include "../platform/threads.h"

namespace tw {
namespace {

using Tensor = Ref<TensorObject>;

TVMFFIAny view_of(const Tensor& t) {
  TVMFFIAny v{};
  v.type_index = kTVMFFITensor;
  v.v_obj = &t->header;
  return v;
}
// Calls, and drops what is returned.
template <size_t N>
void invoke(const Ref<FunctionObject>& f, const TVMFFIAny (&args)[N]) {
  TVMFFIAny result = call(f.get(), args, static_cast<int32_t>(N));
  destroy(result);
}
struct Text {
  TVMFFIAny any;
  explicit Text(const std::string& s) : any(from_string(s)) {}
  Text(const Text&) = delete;
  ~Text() { destroy(any); }
};
Tensor copy_of(const DLTensor& t) {
  auto made = empty_tensor(t.ndim, t.shape, t.dtype, {kDLCPU, 0});
  gather(t, made->tensor.data);
  return made;
}
std::string type_text(const DLTensor& t) { return shape_text(t.ndim, t.shape) + " " + dtype_text(t.dtype); }
bool same_type(const DLTensor& a, const DLTensor& b) {
  bool same = a.ndim == b.ndim && memcmp(&a.dtype, &b.dtype, sizeof a.dtype) == 0;
  for (int32_t d = 0; same && d < a.ndim; ++d) same = a.shape[d] == b.shape[d];
  return same;
}

struct Source {
  std::string input;   // of the stage
  int32_t stage;       // whose output it is, below 0 for an input of the pipeline
  int32_t index;
};
struct Job {
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> results;  // by stage and output
  std::vector<int32_t> waiting;              // by stage: how many stages it waits for
  size_t remaining = 0;
  std::string error_kind, error;             // of the first stage that failed
};
struct Stage {
  std::string name;
  Ref<ModuleObject> module;
  Ref<FunctionObject> set_input, run, get_input, get_output;
  std::vector<Source> sources;
  std::vector<int32_t> children, outputs;    // stages that read it, outputs that are read
  int32_t parents = 0;
  std::vector<int32_t> cpus;
  std::deque<std::shared_ptr<Job>> inbox;
  std::mutex busy;                           // held while the module is in use
};

class State {
 public:
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<std::pair<int32_t, int32_t>> outputs;  // stage, output
  std::vector<std::string> input_names;
  std::vector<Tensor> types, pending;                // by input of the pipeline: what it must be like, what is set
  std::mutex lock;
  std::condition_variable work, finished;
  std::deque<std::shared_ptr<Job>> unfinished, done;
  size_t most_unfinished = 0, started = 0;
  bool stopping = false;

  void finish(Stage& stage, const std::shared_ptr<Job>& job) {
    std::lock_guard<std::mutex> hold(lock);
    for (int32_t c : stage.children)
      if (--job->waiting[static_cast<size_t>(c)] == 0) stages[static_cast<size_t>(c)]->inbox.push_back(job);
    if (--job->remaining == 0) {
      unfinished.erase(std::find(unfinished.begin(), unfinished.end(), job));
      done.push_back(job);
    }
    work.notify_all();
    finished.notify_all();
  }

  void compute(size_t index, Job& job) {
    Stage& s = *stages[index];
    std::lock_guard<std::mutex> hold(s.busy);
    for (auto& from : s.sources) {
      const Tensor& t = from.stage < 0 ? job.inputs[static_cast<size_t>(from.index)] : job.results[static_cast<size_t>(from.stage)][static_cast<size_t>(from.index)];
      Text key(from.input);
      invoke(s.set_input, {key.any, view_of(t)});
    }
    TVMFFIAny result = call(s.run.get(), nullptr, 0);
    destroy(result);
    for (int32_t k : s.outputs) {
      TVMFFIAny number = from_int(k);
      TVMFFIAny made = call(s.get_output.get(), &number, 1);
      auto held = Ref<>::steal(made.type_index >= kTVMFFIStaticObjectBegin ? made.v_obj : nullptr);
      const DLTensor* t = as_tensor(made);
      if (!t) fail("TypeError", "output %d is not a tensor", k);
      auto& results = job.results[index];
      if (results.size() <= static_cast<size_t>(k)) results.resize(static_cast<size_t>(k) + 1);
      results[static_cast<size_t>(k)] = copy_of(*t);
    }
  }

  void work_on(size_t index) {
    Stage& s = *stages[index];
    for (;;) {
      std::shared_ptr<Job> job;
      bool failed;
      {
        std::unique_lock<std::mutex> hold(lock);
        work.wait(hold, [&] { return stopping || !s.inbox.empty(); });
        if (stopping) return;
        job = s.inbox.front();
        s.inbox.pop_front();
        failed = !job->error_kind.empty();
      }
      if (!failed) {
        std::string kind, message;
        try {
          compute(index, *job);
        } catch (const Error& e) {
          kind = e.kind;
          message = e.message;
        } catch (const Raised&) {
          auto error = take_raised();
          kind = error ? error->kind : "RuntimeError";
          message = error ? error->message : "it failed";
        } catch (const std::exception& e) {
          kind = "RuntimeError";
          message = e.what();
        }
        if (!kind.empty()) {
          std::lock_guard<std::mutex> hold(lock);
          if (job->error_kind.empty()) {
            job->error_kind = kind;
            job->error = format("stage %zu of the pipeline (%s): %s", index, s.name.c_str(), message.c_str());
          }
        }
      }
      finish(s, job);
    }
  }
};

class Pipeline : public ModuleImpl {
 public:
  Pipeline(const std::string& config, std::vector<Ref<ModuleObject>> modules) : state_(std::make_shared<State>()) {
    Json json = JsonReader(config, "the pipeline's configuration").read();
    if (json["stages"].items.size() != modules.size()) fail("ValueError", "the pipeline's configuration has %zu stages, but %zu modules were given", json["stages"].items.size(), modules.size());
    if (modules.empty()) fail("ValueError", "a pipeline needs at least one stage");
    for (size_t i = 0; i < modules.size(); ++i) read_stage(json["stages"].items[i], std::move(modules[i]));
    for (auto& n : json["inputs"].items) state_->input_names.push_back(n.string);
    state_->types.resize(state_->input_names.size());
    state_->pending.resize(state_->input_names.size());
    for (auto& o : json["outputs"].items) {
      auto stage = static_cast<int32_t>(o["stage"].integer), index = static_cast<int32_t>(o["index"].integer);
      read(stage, index);
      state_->outputs.emplace_back(stage, index);
    }
    if (state_->outputs.empty()) fail("ValueError", "the pipeline has no output: connect an output of a module to one of the pipeline");
    connect();
    for (size_t i = 0; i < state_->stages.size(); ++i) threads_.push_back(start(i));
    state_->most_unfinished = 2 * state_->stages.size() + 2;
  }
  ~Pipeline() override {
    // Whoever lets go of the last reference may hold a lock that a stage waits for; threads end on their own then.
    tell_to_stop();
    for (auto& t : threads_)
      if (t.joinable()) t.detach();
  }
  const char* kind() const override { return "PipelineExecutor"; }

  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override {
    static const std::map<std::string, TVMFFIAny (Pipeline::*)(Args)> methods = {
        {"set_input", &Pipeline::set_input}, {"get_input", &Pipeline::get_input}, {"get_input_dtype", &Pipeline::get_input_dtype}, {"set_param", &Pipeline::set_param},
        {"run", &Pipeline::run}, {"get_output", &Pipeline::get_output}, {"get_num_inputs", &Pipeline::get_num_inputs},
        {"get_num_outputs", &Pipeline::get_num_outputs}, {"get_num_started", &Pipeline::get_num_started}, {"stop", &Pipeline::stop}};
    auto it = methods.find(name);
    if (it == methods.end()) return {};
    auto method = it->second;
    auto owner = Ref<ModuleObject>::share(self);
    return make_function([this, owner, method](Args args) { return (this->*method)(args); });
  }

 private:
  void read_stage(const Json& item, Ref<ModuleObject> module) {
    auto stage = std::make_unique<Stage>();
    stage->name = item["name"].string;
    stage->module = std::move(module);
    auto method = [&](const char* name) {
      auto f = stage->module->find(name, false);
      if (!f) fail("ValueError", "stage %zu (%s) is not an executor: it has no function `%s`", state_->stages.size(), stage->name.c_str(), name);
      return f;
    };
    stage->set_input = method("set_input");
    stage->run = method("run");
    stage->get_input = method("get_input");
    stage->get_output = method("get_output");
    for (auto& s : item["inputs"].items) stage->sources.push_back({s["name"].string, static_cast<int32_t>(s["from"].integer), static_cast<int32_t>(s["index"].integer)});
    for (auto& c : item["cpus"].items) stage->cpus.push_back(static_cast<int32_t>(c.integer));
    state_->stages.push_back(std::move(stage));
  }
  // An output of a stage that something reads.
  void read(int32_t stage, int32_t index) {
    if (stage < 0 || stage >= static_cast<int32_t>(state_->stages.size()) || index < 0) fail("ValueError", "the pipeline's configuration is damaged: it reads output %d of stage %d", index, stage);
    auto& all = state_->stages[static_cast<size_t>(stage)]->outputs;
    if (std::find(all.begin(), all.end(), index) == all.end()) all.push_back(index);
  }
  static Tensor tensor_of(const Ref<FunctionObject>& f, const TVMFFIAny& key) {
    TVMFFIAny found = call(f.get(), &key, 1);
    if (found.type_index != kTVMFFITensor) {
      destroy(found);
      fail("TypeError", "a stage of a pipeline must return its inputs and outputs as tensors");
    }
    return Tensor::steal(found.v_obj);
  }
  void connect() {
    auto& stages = state_->stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      std::vector<int32_t> parents;
      for (auto& from : stages[i]->sources) {
        Text key(from.input);
        Tensor wanted = tensor_of(stages[i]->get_input, key.any);
        if (from.stage < 0) {
          if (from.index < 0 || from.index >= static_cast<int32_t>(state_->types.size())) fail("ValueError", "the pipeline's configuration is damaged: stage %zu reads input %d", i, from.index);
          Tensor& type = state_->types[static_cast<size_t>(from.index)];
          if (type && !same_type(type->tensor, wanted->tensor))
            fail("ValueError", "the pipeline's input `%s` goes to inputs of two types: %s and %s", state_->input_names[static_cast<size_t>(from.index)].c_str(), type_text(type->tensor).c_str(), type_text(wanted->tensor).c_str());
          type = wanted;
          continue;
        }
        read(from.stage, from.index);
        if (from.stage >= static_cast<int32_t>(i)) fail("ValueError", "stage %zu (%s) reads stage %d, which does not come before it", i, stages[i]->name.c_str(), from.stage);
        Tensor given = tensor_of(stages[static_cast<size_t>(from.stage)]->get_output, from_int(from.index));
        if (!same_type(given->tensor, wanted->tensor))
          fail("ValueError", "output %d of stage %d (%s) is %s, but the input `%s` of stage %zu (%s) that it is connected to is %s", from.index, from.stage, stages[static_cast<size_t>(from.stage)]->name.c_str(),
               type_text(given->tensor).c_str(), from.input.c_str(), i, stages[i]->name.c_str(), type_text(wanted->tensor).c_str());
        if (std::find(parents.begin(), parents.end(), from.stage) == parents.end()) {
          parents.push_back(from.stage);
          stages[static_cast<size_t>(from.stage)]->children.push_back(static_cast<int32_t>(i));
        }
      }
      stages[i]->parents = static_cast<int32_t>(parents.size());
    }
    for (size_t i = 0; i < state_->types.size(); ++i)
      if (!state_->types[i]) fail("ValueError", "the pipeline's input `%s` is connected to no module", state_->input_names[i].c_str());
  }
  std::thread start(size_t i) {
    // The thread shares the state, so that it may outlive this module.
    std::thread t([state = state_, i] { state->work_on(i); });
    Processors wanted;
    for (int32_t c : state_->stages[i]->cpus) wanted.add(c);
    // A wish: where the processor is not there, the stage runs elsewhere.
    if (wanted.count()) set_processors((ThreadHandle)t.native_handle(), wanted);
    return t;
  }
  void tell_to_stop() {
    std::lock_guard<std::mutex> hold(state_->lock);
    state_->stopping = true;
    state_->work.notify_all();
    state_->finished.notify_all();
  }
  void need_running() const {
    if (state_->stopping) fail("RuntimeError", "the pipeline was stopped");
  }

  size_t input_index(const TVMFFIAny& key) const {
    std::string name = as_string(key), known;
    for (size_t i = 0; i < state_->input_names.size(); ++i) {
      if (state_->input_names[i] == name) return i;
      known += (known.empty() ? "`" : ", `") + state_->input_names[i] + "`";
    }
    fail("ValueError", "the pipeline has no input `%s`; its inputs are: %s", name.c_str(), known.empty() ? "none" : known.c_str());
  }
  TVMFFIAny set_input(Args args) {
    size_t i = input_index(args[0]);
    const DLTensor* t = as_tensor(args[1]);
    const char* name = state_->input_names[i].c_str();
    if (!t || t->device.device_type != kDLCPU) fail("TypeError", "the pipeline's input `%s` must be a tensor on the CPU", name);
    const DLTensor& wanted = state_->types[i]->tensor;
    if (!same_type(*t, wanted)) fail("ValueError", "the pipeline's input `%s` must be %s, but is %s", name, type_text(wanted).c_str(), type_text(*t).c_str());
    Tensor copy = copy_of(*t);  // runs that are on their way keep what they were given
    std::lock_guard<std::mutex> hold(state_->lock);
    state_->pending[i] = std::move(copy);
    return none();
  }
  TVMFFIAny get_input_dtype(Args args) { return from_string(dtype_text(state_->types[input_index(args[0])]->tensor.dtype)); }
  TVMFFIAny get_input(Args args) {
    size_t i = input_index(args[0]);
    std::lock_guard<std::mutex> hold(state_->lock);
    if (!state_->pending[i]) fail("ValueError", "the pipeline's input `%s` was not set", state_->input_names[i].c_str());
    return from_ref(copy_of(state_->pending[i]->tensor));
  }
  // (stage, parameter, value): waits for the run that the stage is at.
  TVMFFIAny set_param(Args args) {
    int64_t i = as_int(args[0], "the stage");
    if (i < 0 || i >= static_cast<int64_t>(state_->stages.size())) fail("IndexError", "stage %lld is out of range: the pipeline has %zu", static_cast<long long>(i), state_->stages.size());
    Stage& s = *state_->stages[static_cast<size_t>(i)];
    std::lock_guard<std::mutex> hold(s.busy);
    invoke(s.set_input, {args[1], args[2]});
    return none();
  }
  // Waits until `ready`, and lets the host interrupt.
  template <typename F>
  void wait(std::unique_lock<std::mutex>& hold, F ready) {
    while (!state_->finished.wait_for(hold, std::chrono::milliseconds(50), ready)) {
      hold.unlock();
      if (check_signals() != 0) throw Raised{};
      hold.lock();
    }
  }
  TVMFFIAny run(Args) {
    auto job = std::make_shared<Job>();
    std::unique_lock<std::mutex> hold(state_->lock);
    need_running();
    for (size_t i = 0; i < state_->pending.size(); ++i)
      if (!state_->pending[i]) fail("ValueError", "the input `%s` of the pipeline was not set; call set_input first", state_->input_names[i].c_str());
    wait(hold, [&] { return state_->stopping || state_->unfinished.size() < state_->most_unfinished; });
    need_running();
    job->inputs = state_->pending;
    job->remaining = state_->stages.size();
    job->results.resize(state_->stages.size());
    for (auto& s : state_->stages) job->waiting.push_back(s->parents);
    state_->unfinished.push_back(job);
    ++state_->started;
    for (auto& s : state_->stages)
      if (s->parents == 0) s->inbox.push_back(job);
    state_->work.notify_all();
    return none();
  }
  // (wait or not): the outputs of the oldest run that has not been asked for; none where there is no such run, or none is ready.
  TVMFFIAny get_output(Args args) {
    bool patient = args.count == 0 || as_int(args[0], "whether to wait") != 0;
    std::shared_ptr<Job> job;
    {
      std::unique_lock<std::mutex> hold(state_->lock);
      if (patient) wait(hold, [&] { return state_->stopping || !state_->done.empty() || state_->unfinished.empty(); });
      if (!state_->done.empty()) {
        job = state_->done.front();
        state_->done.pop_front();
      }
    }
    std::vector<TVMFFIAny> items;
    if (job) {
      if (!job->error_kind.empty()) fail(job->error_kind.c_str(), "%s", job->error.c_str());
      for (auto& o : state_->outputs) items.push_back(from_ref(job->results[static_cast<size_t>(o.first)][static_cast<size_t>(o.second)]));
    }
    return from_object(&make<ArrayObject>(std::move(items))->header);
  }
  TVMFFIAny get_num_inputs(Args) { return from_int(static_cast<int64_t>(state_->input_names.size())); }
  TVMFFIAny get_num_outputs(Args) { return from_int(static_cast<int64_t>(state_->outputs.size())); }
  TVMFFIAny get_num_started(Args) {
    std::lock_guard<std::mutex> hold(state_->lock);
    return from_int(static_cast<int64_t>(state_->started));
  }
  // Ends the threads; runs that are on their way are given up.
  TVMFFIAny stop(Args) {
    tell_to_stop();
    for (auto& t : threads_)
      if (t.joinable() && t.get_id() != std::this_thread::get_id()) t.join();
    return none();
  }

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

const int pipeline_registered = [] {
  // (configuration as JSON, modules of the stages...)
  register_global("tvm.pipeline_executor.create", [](Args args) {
    std::vector<Ref<ModuleObject>> modules;
    for (int32_t i = 1; i < args.count; ++i) modules.push_back(Ref<ModuleObject>::share(as_module(args[i])));
    return from_ref(make_module(std::make_unique<Pipeline>(as_string(args[0]), std::move(modules))));
  });
  return 0;
}();

}  // namespace
}  // namespace tw
