// What the classic C++ interface does, checked in C++: conversions, messages, views, containers, counted references, modules, threads.
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/optional.h>
#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/memory.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/object.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "expect.h"

using namespace tvm::runtime;

static void MyAdd(TVMArgs args, TVMRetValue* rv) {
  int a = args[0];
  int b = args[1];
  *rv = a + b;
}
static int alive = 0;
class PointNode : public Object {
 public:
  int x, y;
  PointNode(int x, int y) : x(x), y(y) { ++alive; }
  PointNode(const PointNode& o) : Object(o), x(o.x), y(o.y) { ++alive; }
  ~PointNode() { --alive; }
  virtual int sum() const { return x + y; }  // so that the object does not begin with its header
  static constexpr const char* _type_key = "test.Point";
  TVM_DECLARE_BASE_OBJECT_INFO(PointNode, Object)
};
TVM_REGISTER_OBJECT_TYPE(PointNode);
class NamedPointNode : public PointNode {
 public:
  String name;
  NamedPointNode(int x, int y, String name) : PointNode(x, y), name(name) {}
  int sum() const override { return PointNode::sum() + static_cast<int>(name.size()); }
  static constexpr const char* _type_key = "test.NamedPoint";
  TVM_DECLARE_FINAL_OBJECT_INFO(NamedPointNode, PointNode)
};
class Point : public ObjectRef {
 public:
  Point(int x, int y) { data_ = make_object<PointNode>(x, y); }
  TVM_DEFINE_OBJECT_REF_METHODS(Point, ObjectRef, PointNode)
  TVM_DEFINE_OBJECT_REF_COW_METHOD(PointNode)
};
class NamedPoint : public Point {
 public:
  NamedPoint(int x, int y, String name) : Point(make_object<NamedPointNode>(x, y, name)) {}
  TVM_DEFINE_OBJECT_REF_METHODS(NamedPoint, Point, NamedPointNode)
};
enum class Colour : int { kRed = 3 };

TVM_REGISTER_GLOBAL("test.myadd").set_body(MyAdd);
TVM_REGISTER_GLOBAL("test.sum_of").set_body_method<Point>(&PointNode::sum);
TVM_REGISTER_GLOBAL("test.raise").set_body([](TVMArgs, TVMRetValue*) { LOG(FATAL) << "ValueError: raised"; });
TVM_REGISTER_GLOBAL("test.size").set_body_method(&String::size);

static void conversions() {
  PackedFunc id([](TVMArgs args, TVMRetValue* rv) { *rv = args[0]; });
  PackedFunc code([](TVMArgs args, TVMRetValue* rv) { *rv = args[0].type_code(); });
  EXPECT(static_cast<int>(PackedFunc(MyAdd)(1, 2)) == 3);
  EXPECT(static_cast<int64_t>(id(int64_t{1} << 40)) == int64_t{1} << 40);
  EXPECT(static_cast<double>(id(2)) == 2.0 && static_cast<double>(id(2.5f)) == 2.5);
  EXPECT(static_cast<bool>(id(true)) && static_cast<int>(code(true)) == kTVMArgBool && static_cast<int>(code(7)) == kTVMArgInt);
  EXPECT(std::isnan(static_cast<double>(id(nullptr))) && static_cast<void*>(id(nullptr)) == nullptr);
  EXPECT(static_cast<Colour>(id(Colour::kRed)) == Colour::kRed);
  std::string text = id("a text that is longer than seven");
  EXPECT(text == "a text that is longer than seven" && std::string(id("short")) == "short" && std::string(id(std::string("s"))) == "s");
  EXPECT(static_cast<int>(code("x")) == kTVMStr);
  const std::string zeros("a\0b\0c", 5);
  TVMByteArray bytes{zeros.data(), zeros.size()};
  EXPECT(static_cast<std::string>(id(bytes)) == zeros && static_cast<int>(code(bytes)) == kTVMBytes);
  EXPECT(static_cast<std::string>(id(id(bytes))) == zeros);
  const std::string many(100, '\0');
  EXPECT(static_cast<std::string>(id(TVMByteArray{many.data(), many.size()})).size() == 100);
  EXPECT(static_cast<String>(id(String("seven letters"))) == "seven letters");
  EXPECT(static_cast<DLDataType>(id(DataType::Float(32, 4))).lanes == 4 && DataType(static_cast<DLDataType>(id("int8x16"))) == DataType::Int(8, 16));
  EXPECT(static_cast<std::string>(id(DataType::BFloat(16))) == "bfloat16");
  tvm::Device device = id(tvm::Device{kDLCPU, 3});
  EXPECT(device.device_type == kDLCPU && device.device_id == 3);
  int here = 0;
  EXPECT(static_cast<void*>(id(static_cast<void*>(&here))) == &here);
  PackedFunc same = id(id);
  EXPECT(same.same_as(id));
  TypedPackedFunc<int(int, int)> typed = id(TypedPackedFunc<int(int, int)>([](int a, int b) { return a * b; }));
  EXPECT(typed(6, 7) == 42);
  Array<int64_t> numbers = id(Array<int64_t>{1, 2, 3});
  EXPECT(numbers.size() == 3 && numbers[2] == 3);
  Array<String> texts = id(Array<String>{"a", "a longer element"});
  EXPECT(texts[0] == "a" && texts.back() == "a longer element");
  ShapeTuple shape = id(ShapeTuple{2, 3});
  EXPECT(shape.Product() == 6 && static_cast<ShapeTuple>(id(numbers)).size() == 3);
  Map<String, Array<int>> map = id(Map<String, Array<int>>{{"one", {1}}, {"two", {1, 2}}});
  EXPECT(map.size() == 2 && map["two"][1] == 2 && map.count("three") == 0 && (*map.begin()).first == "one");
  Optional<String> none = id(nullptr), some = id("here");
  EXPECT(!none && some.value() == "here" && some == String("here"));
  EXPECT(id(Point(1, 2)).IsObjectRef<Point>() && !id(1).IsObjectRef<Point>());
  // More arguments than fit into the room of most calls.
  PackedFunc count([](TVMArgs args, TVMRetValue* rv) { *rv = args.size() + static_cast<int>(args[11]); });
  EXPECT(static_cast<int>(count(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)) == 24);
  TVMValue values[2];
  int codes[2];
  TVMArgsSetter setter(values, codes);
  setter(0, 20);
  setter(1, 22);
  TVMRetValue rv;
  PackedFunc(MyAdd).CallPacked(TVMArgs(values, codes, 2), &rv);
  EXPECT(static_cast<int>(rv) == 42);
  TVMValue moved;
  int moved_code;
  rv = Point(1, 2);
  rv.MoveToCHost(&moved, &moved_code);
  EXPECT(moved_code == kTVMObjectHandle && alive == 1);
  EXPECT(static_cast<Point>(TVMRetValue::MoveFromCHost(moved, moved_code))->y == 2);
  EXPECT(alive == 0);
}

static void refusals() {
  PackedFunc id([](TVMArgs args, TVMRetValue* rv) { *rv = args[0]; });
  expect_error(error_of([&] { int x = id("text"); (void)x; }), "TypeError: expected int but got str");
  expect_error(error_of([&] { int x = id(int64_t{1} << 40); (void)x; }), "ValueError: Check failed: (v >= std::numeric_limits<int>::min() && v <= "
               "std::numeric_limits<int>::max()) is false: 1099511627776 is no number of 32 bits");
  expect_error(error_of([&] { int x = id(1.5); (void)x; }), "TypeError: expected int but got float");
  expect_error(error_of([&] { double x = id("1"); (void)x; }), "TypeError: expected float but got str");
  expect_error(error_of([&] { std::string x = id(1); }), "TypeError: expected str but got int");
  expect_error(error_of([&] { NDArray x = id("a"); }), "TypeError: expected runtime.NDArray but got str");
  expect_error(error_of([&] { DLTensor* x = id(id); (void)x; }), "TypeError: expected DLTensor* or NDArray but got FunctionHandle");
  expect_error(error_of([&] { Module x = id(1); }), "TypeError: expected runtime.Module but got int");
  expect_error(error_of([&] { Array<String> x = id(Array<int>{1}); }), "TypeError: expected Array<str> but got Array");
  expect_error(error_of([&] { Point x = id(String("far too long for one")); }), "TypeError: expected test.Point but got str");
  expect_error(error_of([&] { id(uint64_t(-1)); }), "ValueError: Check failed: v <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) "
               "(18446744073709551615 vs. 9223372036854775807) : the number is too large for a packed function");
  expect_error(error_of([&] { PackedFunc{MyAdd}(1); }), "TypeError: Check failed: (i >= 0 && i < num_args) is false: not enough argument passed, 1 passed but "
               "request arg[1].");
  expect_error(error_of([&] { PackedFunc()(1); }), "ValueError: Check failed: (data_ != nullptr) is false: a null PackedFunc was called: there is no function of the name that was asked for");
  expect_error(error_of([&] { Registry::Register("test.myadd").set_body(MyAdd); }), "ValueError: global function `test.myadd` is already registered; pass "
               "override=True to replace it");
  expect_error(error_of([&] { Module::LoadFromFile("/nowhere/model.so"); }).substr(0, 19), "FileNotFoundError: ");
  expect_error(error_of([&] { (*Registry::Get("test.sum_of"))("x"); }), "TypeError: In function test.sum_of(0: test.Point) -> int: error while converting "
               "argument 0: expected test.Point but got str");
  expect_error(error_of([&] { TypedPackedFunc<int8_t(int8_t)>([](int8_t x) { return x; }).packed()(300); }),
               "ValueError: In function <anonymous>(0: int8_t) -> int8_t: error while converting argument 0: 300 does not fit into int8_t");
  expect_error(error_of([&] { LOG(FATAL) << "ValueError: no ink"; }), "ValueError: no ink");
  expect_error(error_of([&] { LOG(FATAL) << "no ink"; }), "InternalError: no ink");
  expect_error(error_of([&] { ICHECK_EQ(1, 2) << "not so"; }), "InternalError: Check failed: 1 == 2 (1 vs. 2) : not so");
  expect_error(error_of([&] { PackedFunc([](TVMArgs, TVMRetValue*) { throw std::runtime_error("KeyError: lost"); })(); }), "KeyError: lost");
  expect_error(error_of([&] { PackedFunc([](TVMArgs, TVMRetValue*) { throw 3; })(); }), "InternalError: a function in C++ threw what is no std::exception");
  for (const char* type : {"float", "bool", "void", "handle", "float8_e4m3fn", "uint1", "int4x8", "bfloat16"}) EXPECT(DLDataType2String(String2DLDataType(type)).size());
  for (const char* type : {"flat32", "float32x", "int8y2", "int999", "float32x0"}) EXPECT(error_of([&] { String2DLDataType(type); }).substr(0, 12) == "ValueError: ");
}

static void arrays() {
  const tvm::Device cpu{kDLCPU, 0};
  NDArray a = NDArray::Empty({2, 3}, DataType::Float(32), cpu);
  std::vector<float> values{0, 1, 2, 3, 4, 5}, back(6);
  a.CopyFromBytes(values.data(), 24);
  NDArray view = a.CreateView({3, 2}, DataType::Float(32));
  EXPECT(a.use_count() == 2 && view->data == a->data && view.Shape()[0] == 3 && view.DataType() == DataType::Float(32));
  static_cast<float*>(a->data)[5] = 7;
  NDArray copy = a.CopyTo(cpu);
  a.reset();
  EXPECT(view.use_count() == 1 && static_cast<float*>(view->data)[5] == 7);
  view.CopyToBytes(back.data(), 24);
  EXPECT(back[5] == 7 && back[4] == 4 && static_cast<float*>(copy->data)[5] == 7 && NDArray::IsAligned(*copy.get()));
  expect_error(error_of([&] { view.CopyToBytes(back.data(), 20); }), "ValueError: Check failed: nbytes == GetDataSize(*get()) (20 vs. 24) : the number of "
               "bytes must be that of the array");
  EXPECT(error_of([&] { view.CreateView({3, 3}, DataType::Float(32)); }).substr(0, 12) == "ValueError: ");
  EXPECT(error_of([&] { NDArray::Empty({-1}, DataType::Float(32), cpu); }).substr(0, 12) == "ValueError: ");
  EXPECT(error_of([&] { copy.CopyFrom(NDArray::Empty({5}, DataType::Float(32), cpu)); }).substr(0, 12) == "ValueError: ");
  DLManagedTensor* managed = copy.ToDLPack();
  copy = NDArray::FromDLPack(managed);
  EXPECT(copy.use_count() == 1 && static_cast<float*>(copy->data)[5] == 7);
  alignas(64) float own[4] = {1, 2, 3, 4};
  int64_t extent = 4;
  DLTensor outside{own, cpu, 1, DataType::Float(32), &extent, nullptr, 0};
  NDArray borrowed = NDArray::FromExternalDLTensor(outside), moved = NDArray::NewFromDLTensor(&outside, cpu);
  own[0] = 9;
  EXPECT(static_cast<float*>(borrowed->data)[0] == 9 && static_cast<float*>(moved->data)[0] == 1);
  std::ostringstream os;
  os << borrowed.DataType() << borrowed.Shape();
  EXPECT(os.str() == "float32[4]");
  tvm::runtime::DeviceAPI* api = tvm::runtime::DeviceAPI::Get(cpu);
  void* memory = api->AllocDataSpace(cpu, 128, kAllocAlignment, DataType::Float(32));
  TVMRetValue exists;
  api->GetAttr(cpu, kExist, &exists);
  EXPECT(reinterpret_cast<uintptr_t>(memory) % kAllocAlignment == 0 && static_cast<int>(exists) == 1);
  api->FreeDataSpace(cpu, memory);
  void* work = api->AllocWorkspace(cpu, 64);
  EXPECT(work != nullptr);
  api->FreeWorkspace(cpu, work);
}

static void objects() {
  {
    Point p(1, 2), q = p;
    NamedPoint n(3, 4, "abc");
    EXPECT(p.same_as(q) && p.use_count() == 2 && p->GetTypeKey() == "test.Point" && n->IsInstance<PointNode>() && !p->IsInstance<NamedPointNode>());
    ObjectRef any = n;
    EXPECT(any.as<PointNode>()->sum() == 10 && Downcast<NamedPoint>(any)->name == "abc" && any.as<ArrayNode>() == nullptr && any.as<Point>().value()->x == 3);
    EXPECT(error_of([&] { Downcast<NamedPoint>(ObjectRef(p)); }) ==
           "TypeError: Check failed: (ref->template IsInstance<typename R::ContainerType>()) is false: Downcast from test.Point to test.NamedPoint failed.");
    q.CopyOnWrite()->x = 5;
    EXPECT(p->x == 1 && q->x == 5 && alive == 3);
    EXPECT(static_cast<int>((*Registry::Get("test.sum_of"))(n)) == 10 && static_cast<int>((*Registry::Get("test.size"))("four")) == 4);
    Array<Point> all{p, q};
    all.push_back(n);
    Array<Point> other = all;
    other.Set(0, n);
    EXPECT(all[0].same_as(p) && other[0].same_as(n) && all.size() == 3);
    int sum = 0;
    for (const Point& each : other) sum += each->x;
    EXPECT(sum == 3 + 5 + 3 && other.Map([](Point each) { return each->y; })[2] == 4);
    EXPECT(error_of([&] { all[7]; }) == "IndexError: Check failed: (i >= 0 && static_cast<size_t>(i) < size()) is false: indexing 7 on an array of size 3");
    Map<Point, String> names{{p, "p"}};
    names.Set(q, "q");
    names.erase(p);
    EXPECT(names.size() == 1 && names[q] == "q" && names.find(p) == names.end());
    ADT tuple = ADT::Tuple(String("x"), p);
    EXPECT(tuple.size() == 2 && tuple.tag() == 0 && Downcast<Point>(tuple[1]).same_as(p));
    expect_error(error_of([&] { tuple[2]; }), "IndexError: field 2 of a value with 2 was asked for");
    String a = "abc", b = a + "def";
    EXPECT(b == "abcdef" && a < b && b.at(3) == 'd' && b.size() == 6 && std::hash<String>()(a) == std::hash<String>()(String("abc")));
  }
  EXPECT(alive == 0);
}

static int modules_alive = 0;
class MathModule : public ModuleNode {
 public:
  explicit MathModule(int factor) : factor_(factor) { ++modules_alive; }
  ~MathModule() override { --modules_alive; }
  const char* type_key() const final { return "math"; }
  PackedFunc GetFunction(const String& name, const ObjectPtr<Object>& self) final {
    if (name != "times") return nullptr;
    return TypedPackedFunc<int(int)>([this, self](int x) { return x * factor_; });
  }
  String GetSource(const String& format) final { return "x * " + std::to_string(factor_) + std::string(format); }

 private:
  int factor_;
};

static void modules() {
  {
    Module three(make_object<MathModule>(3)), empty(make_object<MathModule>(1));
    PackedFunc id([](TVMArgs args, TVMRetValue* rv) { *rv = args[0]; });
    Module back = id(three);
    EXPECT(back.same_as(three) && std::string(back->type_key()) == "math" && back->GetSource(" c") == "x * 3 c");
    PackedFunc ask = *Registry::Get("runtime.ModuleGetFunction");
    PackedFunc times = ask(three, "times", false);
    EXPECT(static_cast<int>(times(14)) == 42 && ask(three, "none", false).type_code() == kTVMNullptr);
    EXPECT(static_cast<std::string>((*Registry::Get("runtime.ModuleGetTypeKey"))(three)) == "math");
    Module system = (*Registry::Get("runtime.SystemLib"))();
    EXPECT(std::string(system->type_key()) == "library");
    system.Import(three);
    EXPECT(system->imports().size() == 1 && static_cast<int>(system.GetFunction("times", true)(2)) == 6 && system.GetFunction("times") == nullptr);
    empty.Import(three);
    EXPECT(static_cast<int>(empty->GetFunction("times", true)(3)) == 3 && empty->imports().size() == 1);
    expect_error(error_of([&] { three.Import(empty); }), "ValueError: Check failed: (next != this) is false: importing this module would make a cycle of imports");
    expect_error(error_of([&] { three->SaveToFile("a.so", ""); }), "ValueError: module[math] does not support SaveToFile (a.so)");
    EXPECT(static_cast<int>((*three->GetFuncFromEnv("test.myadd"))(1, 1)) == 2);
    EXPECT(modules_alive == 2);
    times = nullptr;
  }
  EXPECT(modules_alive == 0);
}

static int add_task(int task, TVMParallelGroupEnv* env, void* data) {
  __atomic_fetch_add(static_cast<int*>(data), task + env->num_task, __ATOMIC_RELAXED);
  return TVMBackendParallelBarrier(task, env) && env->num_task == 1 ? -1 : 0;
}
static int set_once(void* data) { return ++*static_cast<int*>(data), 0; }

static void c_interface() {
  int total = 0, once = 0;
  void* handle = nullptr;
  EXPECT(TVMBackendParallelLaunch(add_task, &total, 4) == 0 && total == 0 + 1 + 2 + 3 + 16);
  EXPECT(TVMBackendRunOnce(&handle, set_once, &once, 0) == 0 && TVMBackendRunOnce(&handle, set_once, &once, 0) == 0 && once == 1);
  int count = 0;
  const char** names = nullptr;
  EXPECT(TVMFuncListGlobalNames(&count, &names) == 0 && count > 20);
  TVMFunctionHandle f = nullptr;
  EXPECT(TVMFuncGetGlobal("no.such", &f) == 0 && f == nullptr && TVMBackendGetFuncFromEnv(nullptr, "no.such", &f) == -1);
  EXPECT(std::string(TVMGetLastError()) == "ValueError: no global function is registered as `no.such`");
  TVMValue none[1] = {};
  int none_code = kTVMNullptr;
  EXPECT(TVMFuncGetGlobal("test.raise", &f) == 0 && TVMFuncCall(f, none, &none_code, 0, none, &none_code) == -1 && TVMFuncFree(f) == 0);
  EXPECT(std::string(TVMGetLastBacktrace()).find("classic.cc\", line ") != std::string::npos && std::string(TVMGetLastError()) == "ValueError: raised");
  unsigned index = 0;
  char* key = nullptr;
  EXPECT(TVMObjectTypeKey2Index("test.NamedPoint", &index) == 0 && TVMObjectTypeIndex2Key(index, &key) == 0 && std::string(key) == "test.NamedPoint");
  free(key);
  int derived = 0;
  EXPECT(TVMObjectDerivedFrom(index, PointNode::RuntimeTypeIndex(), &derived) == 0 && derived == 1);
  EXPECT(Registry::Remove("test.size") && Registry::Get("test.size") == nullptr && !Registry::Remove("test.size"));
  bool listed = false;
  for (const String& name : Registry::ListNames()) listed |= name == "test.myadd";
  EXPECT(listed);
}

int main() {
  conversions();
  refusals();
  arrays();
  objects();
  modules();
  c_interface();
  if (failed == 0) std::printf("fine\n");
  return failed != 0;
}
