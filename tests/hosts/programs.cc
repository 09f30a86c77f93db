// What programs written for classic TVM use besides: lists and dictionaries as nodes, kinds of modules with tables of methods and files of
// their own, exported functions, timers, the pool of threads.
#include <tilewright/host.h>
#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/memory/memory_manager.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/profiling.h>
#include <tvm/runtime/registry.h>
#include <tvm/runtime/threading_backend.h>

#include <cstdio>
#include <sstream>
#include <unordered_set>
#include <vector>

#include "expect.h"

using namespace tvm::runtime;

static void lists() {
  Array<String> all{"a", "b"};
  const Array<String> before = all;
  all.insert(all.begin(), "z");
  all.insert(all.end(), all.begin(), all.begin() + 2);  // its own elements
  EXPECT(all.size() == 5 && all[0] == "z" && all[3] == "z" && all[4] == "a" && before.size() == 2);
  all.erase(all.begin());
  all.erase(all.begin(), all.begin() + 2);
  EXPECT(all.size() == 2 && all.front() == "z" && all.back() == "a");
  all.MutateByApply([](String text) { return text + "!"; });
  EXPECT(all[0] == "z!" && *all.rbegin() == "a!");
  all.Assign(before.begin(), before.end());
  EXPECT(Concat(all, before).size() == 4 && all.size() == 2);
  expect_error(error_of([&] { all.erase(all.begin() + 1, all.end() + 1); }), "IndexError: Check failed: (0 <= from && from <= to && to <= "
               "static_cast<std::ptrdiff_t>(size())) is false: cannot erase elements from 1 to 3 of an array of size 2");
  expect_error(error_of([&] { Array<String> none; none.erase(none.begin()); }), "IndexError: Check failed: (!empty()) is false: cannot erase because array is empty");
  // As a list of a base class, and as a node.
  Array<ObjectRef> objects = all;
  const auto* node = objects.as<ArrayNode>();
  EXPECT(objects.same_as(all) && node->size() == 2 && Downcast<String>(node->at(1)) == "b" && Downcast<String>((*node)[0]) == "a");
  size_t texts = 0;
  for (const ObjectRef& each : *node) texts += each->IsInstance<StringObj>();
  EXPECT(texts == 2 && error_of([&] { node->at(2); }).substr(0, 12) == "IndexError: ");
}

static void dictionaries() {
  Map<String, String> few{{"a", "1"}, {"b", "2"}};
  Map<String, String> all = Merge(few, Map<String, String>{{"b", "3"}, {"c", "4"}});
  EXPECT(all.size() == 3 && all["b"] == "3" && few["b"] == "2");
  Map<ObjectRef, ObjectRef> objects = all;
  const auto* node = objects.as<MapNode>();
  EXPECT(node->count(String("c")) == 1 && node->count(String("d")) == 0 && Downcast<String>(node->at(String("a"))) == "1");
  std::string keys;
  for (const auto& entry : *node) keys += Downcast<String>(entry.first).c_str();
  EXPECT(keys == "abc" && error_of([&] { node->at(String("d")); }).substr(0, 12) == "IndexError: ");
  PackedFunc takes_text([](TVMArgs args, TVMRetValue* rv) { *rv = String::CanConvertFrom(args[0]); });
  EXPECT(static_cast<bool>(takes_text("text")) && !static_cast<bool>(takes_text(1)));
  const std::vector<ObjectRef> fields{String("x"), IntTuple{3}};
  ADT value(2, fields), tuple = ADT::Tuple(fields);
  EXPECT(value->tag == 2 && value->size == 2 && tuple->tag == 0 && ObjectRef(value).as<ADTObj>() != nullptr);
}

static void arrays() {
  const DLDevice cpu{kDLCPU, 0};
  NDArray a = NDArray::Empty({4}, tvm::DataType::Float(32), cpu), b = NDArray::Empty({4}, tvm::DataType::Float(32), cpu);
  static_cast<float*>(a->data)[3] = 5;
  NDArray::CopyFromTo(a.operator->(), const_cast<DLTensor*>(b.operator->()), nullptr);
  EXPECT(static_cast<float*>(b->data)[3] == 5);
  DLTensor other = *a.get(), elsewhere = *a.get();
  other.data = static_cast<float*>(other.data) + 1;
  elsewhere.device = {kDLCUDA, 0};
  EXPECT(NDArray::AbilityOfZeroCopyForDLTensor(const_cast<DLTensor*>(a.get()), cpu));
  EXPECT(!NDArray::AbilityOfZeroCopyForDLTensor(&other, cpu) && !NDArray::AbilityOfZeroCopyForDLTensor(&elsewhere, cpu));
  tvm::runtime::DeviceAPI* api = tvm::runtime::DeviceAPI::Get(cpu);
  EXPECT(api->GetDataSize(*a.get()) == 16 && api->GetCurrentStream(cpu) == nullptr);
  std::ostringstream os;
  os << cpu << ' ' << DLDevice{static_cast<DLDeviceType>(kDLCUDA + 2 * kRPCSessMask), 1} << ' ' << DLDataTypeCode2Str(kDLBfloat);
  EXPECT(os.str() == "cpu(0) remote[1]-cuda(1) bfloat");
  std::unordered_set<DataType> types{DataType::Float(32), DataType::Float(32, 4), DataType::Float(32)};
  EXPECT(types.size() == 2 && DataType::ShapeIndex() == DataType::Int(64));
  EXPECT(DataType::NVFloat8E4M3().is_float8() && DataType::NVFloat8E5M2().is_e5m2_float8() && !DataType::UInt(8).is_float8());
  EXPECT(DLDataType2String(DataType::NVFloat8E4M3(2)) == "float8_e4m3fnx2");
}

class TableModule : public ModuleNode {
 public:
  explicit TableModule(int base) : base_(base) {}
  int Add(int a, int b) const { return a + b + base_; }
  void SetBase(int base) { base_ = base; }
  void Count(TVMArgs args, TVMRetValue* rv) { *rv = args.size(); }
  int GetPropertyMask() const final { return ModulePropertyMask::kRunnable; }
  TVM_MODULE_VTABLE_BEGIN("table");
  TVM_MODULE_VTABLE_ENTRY("add", &TableModule::Add);
  TVM_MODULE_VTABLE_ENTRY("set_base", &TableModule::SetBase);
  TVM_MODULE_VTABLE_ENTRY_PACKED("count", &TableModule::Count);
  TVM_MODULE_VTABLE_END();

 private:
  int base_;
};
class DefaultModule : public ModuleNode {
 public:
  PackedFunc Other(const String& name) { return name == "other" ? PackedFunc([](TVMArgs, TVMRetValue* rv) { *rv = 7; }) : nullptr; }
  TVM_MODULE_VTABLE_BEGIN("default");
  TVM_MODULE_VTABLE_END_WITH_DEFAULT(&DefaultModule::Other);
};
TVM_REGISTER_GLOBAL("runtime.module.loadfile_numbers").set_body_typed([](String path, String format) {
  EXPECT(format == "numbers");
  return Module(make_object<TableModule>(static_cast<int>(path.size())));
});
TVM_REGISTER_GLOBAL("runtime.module.loadfile_nothing").set_body([](TVMArgs, TVMRetValue*) {});

static void modules() {
  Module table(make_object<TableModule>(10));
  EXPECT(static_cast<int>(table.GetFunction("add")(1, 2)) == 13 && static_cast<int>(table.GetFunction("count")(1, "x")) == 2);
  PackedFunc set_base = table.GetFunction("set_base");
  set_base(20);
  PackedFunc ask = *Registry::Get("runtime.ModuleGetFunction");
  EXPECT(static_cast<int>(ask(table, "add", false).operator PackedFunc()(1, 2)) == 23 && table.GetFunction("sub") == nullptr);
  expect_error(error_of([&] { set_base(); }), "TypeError: Function set_base(0: int) -> void expects 1 arguments, but 0 were provided.");
  EXPECT(table->IsRunnable() && !table->IsDSOExportable() && !table->IsBinarySerializable() && std::string(table->type_key()) == "table");
  Module other(make_object<DefaultModule>());
  EXPECT(static_cast<int>(other.GetFunction("other")()) == 7 && other.GetFunction("none") == nullptr);
  other.Import(table);
  EXPECT(other->ImplementsFunction("add", true) && static_cast<int>(ask(other, "add", true).operator PackedFunc()(0, 0)) == 20);
  other->ClearImports();
  EXPECT(other->imports().empty() && !other->ImplementsFunction("add", true) && ask(other, "add", true).type_code() == kTVMNullptr);
  // A file of a format of one's own.
  EXPECT(static_cast<int>(Module::LoadFromFile("of.numbers").GetFunction("add")(0, 0)) == 10);
  EXPECT(static_cast<int>(Module::LoadFromFile("of.1", "numbers").GetFunction("add")(0, 0)) == 4);
  expect_error(error_of([] { tilewright::Function::global("runtime.SystemLob"); }), "ValueError: there is no global function `runtime.SystemLob`; did you mean "
               "`runtime.SystemLib`?");
  expect_error(error_of([] { Module::LoadFromFile("of.nothing"); }), "TypeError: `runtime.module.loadfile_nothing` must return a module");
}

static void MyAdd(TVMArgs args, TVMRetValue* rv) { *rv = static_cast<int>(args[0]) + static_cast<int>(args[1]); }
TVM_DLL_EXPORT_PACKED_FUNC(my_add, MyAdd)
TVM_DLL_EXPORT_PACKED_FUNC(my_first, [](TVMArgs args, TVMRetValue* rv) { *rv = args[0]; })

static void exported() {
  const TVMFFIAny args[] = {tilewright::detail::of_int(40), tilewright::detail::of_int(2)};
  TVMFFIAny result = tilewright::detail::none();
  EXPECT(__tvm_ffi_my_add(nullptr, args, 2, &result) == 0 && result.v_int64 == 42);
  EXPECT(__tvm_ffi_my_first(nullptr, args, 1, &result) == 0 && result.v_int64 == 40);
  expect_error(error_of([&] { tilewright::detail::check(__tvm_ffi_my_add(nullptr, args, 1, &result)); }),
               "TypeError: Check failed: (i >= 0 && i < num_args) is false: not enough argument passed, 1 passed but request arg[1].");
}

class CountingTimerNode : public TimerNode {
 public:
  void Start() final { ++count_; }
  void Stop() final { ++count_; }
  int64_t SyncAndGetElapsedNanos() final { return count_; }
  static constexpr const char* _type_key = "test.CountingTimer";
  TVM_DECLARE_FINAL_OBJECT_INFO(CountingTimerNode, TimerNode)

 private:
  int64_t count_ = 0;
};
TVM_REGISTER_OBJECT_TYPE(CountingTimerNode);
TVM_REGISTER_GLOBAL("profiling.timer.ext_dev").set_body_typed([](DLDevice) { return Timer(make_object<CountingTimerNode>()); });

static void times() {
  const DLDevice cpu{kDLCPU, 0};
  Timer timer = Timer::Start(cpu);
  volatile double sum = 0;
  for (int i = 0; i < 100000; ++i) sum = sum + i;
  timer->Stop();
  const int64_t once = timer->SyncAndGetElapsedNanos();
  EXPECT(once > 1000 && timer->SyncAndGetElapsedNanos() == once);
  Timer counting = Timer::Start({kDLExtDev, 0});
  counting->Stop();
  EXPECT(counting->SyncAndGetElapsedNanos() == 2);
  int calls = 0;
  PackedFunc count([&calls](TVMArgs args, TVMRetValue*) { calls += static_cast<int>(args[0]); });
  std::string seconds = profiling::WrapTimeEvaluator(count, cpu, 5, 3, 0, 1, 0, 0)(1);
  EXPECT(seconds.size() == 3 * sizeof(double) && calls == 1 + 5 * 3);
}

static void threads() {
  std::vector<int> calls(1000);
  parallel_for_with_threading_backend([&](int64_t i) { ++calls[static_cast<size_t>(i)]; }, 10, 1000);
  int all = 0;
  for (int c : calls) all += c;
  EXPECT(all == 990 && calls[9] == 0 && calls[10] == 1 && calls[999] == 1);
  parallel_for_with_threading_backend([&](int64_t) { ++all; }, 5, 5);
  expect_error(error_of([] {
                 parallel_for_with_threading_backend([](int64_t i) { CHECK_NE(i, 3) << "KeyError: three"; }, 0, 8);
               }), "KeyError: Check failed: i != 3 (3 vs. 3) : three");
  threading::Configure(threading::ThreadGroup::kBig, 2);
  EXPECT(all == 990 && threading::NumThreads() == 2 && threading::MaxConcurrency() == 2);
  threading::ResetThreadPool();
  EXPECT(threading::NumThreads() == 2 && memory::AllocatorType::kPooled == 2);
}

int main() {
  lists();
  dictionaries();
  arrays();
  modules();
  exported();
  times();
  threads();
  if (failed == 0) std::printf("fine\n");
  return failed != 0;
}
