// What executors of graphs with fixed shapes have in common: tensors that a host sets and reads, by name or number.
#pragma once
#include <atomic>
#include <deque>

#include "../json.h"
#include "../module.h"

namespace tw {

using KernelCode = int32_t (*)(void** args);

// A tensor of the graph. `tensor` may be the executor's own, a view of its arena or of the constants, or a caller's.
struct Slot {
  std::string name;
  DLDataType dtype{};
  std::vector<int64_t> shape;
  Ref<TensorObject> tensor;
  bool constant = false;  // the memory belongs to the library's constants, which all its executors read
  void* data() const { return static_cast<char*>(tensor->tensor.data) + tensor->tensor.byte_offset; }
  int64_t bytes() const;
  void allocate(DLDevice device);                    // zeroed memory of its own
  void view(void* data, DLDevice device, Ref<> keep);
};
Slot read_slot(const Json& item);

// Memory for what a model needs on a device ("intermediate values"). Where there is none, the error says so, and names the largest of the
// values (bytes, name) that it is for.
Ref<TensorObject> memory_of_model(const char* what, int64_t bytes, DLDevice device, std::vector<std::pair<int64_t, std::string>> values = {});

// A bool is one byte in memory.
int64_t bytes_in_memory(const DLTensor& t);

class StaticExecutor : public ModuleImpl {
 public:
  static constexpr char kClass = 0;
  const void* class_of() const override { return &kClass; }
  Ref<FunctionObject> get_function(const std::string& name, ModuleObject* self) override;
  std::vector<std::string> function_names() override;

 protected:
  using Method = TVMFFIAny (StaticExecutor::*)(Args);
  virtual Method find_method(const std::string& name) const;
  static const std::map<std::string, Method>& methods();
  // The memory of an input or output is another one from now on.
  virtual void bind() = 0;
  virtual TVMFFIAny run(Args) = 0;
  // Gives a constant that is to be changed memory that only this executor reads.
  virtual void unshare(Slot& s) = 0;

  // Buffers belong to one caller at a time; two at once would read each other's half-written results.
  struct Use {
    explicit Use(StaticExecutor& e) : busy(e.busy_) {
      if (busy.exchange(true, std::memory_order_acquire))
        fail("RuntimeError", "the executor is in use by another thread: make one for each thread, library[\"default\"](device)");
    }
    ~Use() { busy.store(false, std::memory_order_release); }
    std::atomic<bool>& busy;
  };

  // The tensor that a value is, which has the slot's shape and dtype; contiguous where its memory is to be used.
  static const DLTensor* matching(const Slot& s, const TVMFFIAny& value, const char* what, bool contiguous = true);
  static int64_t find(const std::vector<Slot*>& slots, const std::string& name);
  static Slot& slot(const std::vector<Slot*>& slots, const TVMFFIAny& key, const char* what);
  virtual Slot& input(const TVMFFIAny& key) { return slot(inputs_, key, "input"); }
  // Writes a value where it must have changed.
  void write(Slot& s, const DLTensor& value);
  static TVMFFIAny fetch(Slot& s, Args args, const char* what);
  // Raises what a kernel left as its error.
  static void check(int32_t code, const std::string& name, const std::string& label);

  TVMFFIAny set_input(Args args);
  TVMFFIAny share(Slot& s, const TVMFFIAny& value, const char* what);
  TVMFFIAny set_input_zero_copy(Args args);
  TVMFFIAny set_output_zero_copy(Args args);
  TVMFFIAny get_input(Args args);
  TVMFFIAny get_output(Args args) { return fetch(slot(outputs_, args[0], "output"), args, "output"); }
  TVMFFIAny get_num_inputs(Args) { return from_int(static_cast<int64_t>(inputs_.size())); }
  TVMFFIAny get_num_outputs(Args) { return from_int(static_cast<int64_t>(outputs_.size())); }
  TVMFFIAny get_input_index(Args args) { return from_int(find(inputs_, as_string(args[0]))); }
  TVMFFIAny get_output_index(Args args) { return from_int(find(outputs_, as_string(args[0]))); }
  TVMFFIAny get_input_name(Args args) { return from_string(slot(inputs_, args[0], "input").name); }
  TVMFFIAny get_input_dtype(Args args) { return from_string(dtype_text(input(args[0]).dtype)); }
  TVMFFIAny get_output_name(Args args) { return from_string(slot(outputs_, args[0], "output").name); }
  TVMFFIAny get_metadata(Args) { return from_string(metadata_); }
  // Whether a parameter of this name was fixed when the model was compiled, and is not an input any more.
  TVMFFIAny is_bound(Args args);
  TVMFFIAny is_param(Args args) { return from_int(parameter(input(args[0]))); }
  virtual bool parameter(const Slot& s) const { return s.constant; }
  TVMFFIAny load_params(Args args);
  TVMFFIAny share_params(Args args);
  // Whether an executor has a tensor of this name that parameters may set.
  virtual bool has_input(const std::string& name) const { return find(inputs_, name) >= 0; }

  std::deque<Slot> slots_;  // every tensor that has a name; addresses stay
  std::vector<Slot*> inputs_, outputs_;
  std::vector<std::string> bound_;
  std::string metadata_;
  std::atomic<bool> busy_{false};
};

// Named arrays of a parameter file, as views of its bytes.
struct Parameter {
  std::string name;
  DLDataType dtype;
  std::vector<int64_t> shape;
  const char* data;
};
std::vector<Parameter> read_params(const char* data, size_t size);

}  // namespace tw
