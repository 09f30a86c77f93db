// A host without Python: loads a library of the virtual machine, runs main on values from a file, writes the result to another. With a
// graph and parameters in files of their own, it runs the graph on the library's kernels, and writes its first output.
// Values: 'T' code bits lanes ndim, 8-byte extents, data; 'A' tag count (4 bytes each), fields. Used: the packed ABI alone.
#include <tilewright/abi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out);
int TVMFFIFunctionCall(TVMFFIObjectHandle f, TVMFFIAny* args, int32_t count, TVMFFIAny* result);
void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* out);
int TWTensorEmpty(int32_t ndim, const int64_t* shape, const DLDataType* dtype, const DLDevice* device, TVMFFIObjectHandle* out);
}

static void check(int code) {
  if (code == 0) return;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  auto* cell = reinterpret_cast<TVMFFIErrorCell*>(static_cast<TVMFFIObject*>(error) + 1);
  fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(cell->kind.size), cell->kind.data, static_cast<int>(cell->message.size), cell->message.data);
  exit(1);
}
static TVMFFIAny value(int32_t type, int64_t word) {
  TVMFFIAny a;
  a.type_index = type;
  a.zero_padding = 0;
  a.v_int64 = word;
  return a;
}
static TVMFFIAny text(const char* s) { return value(kTVMFFIRawStr, reinterpret_cast<int64_t>(s)); }
static TVMFFIAny object(void* o) { return value(static_cast<TVMFFIObject*>(o)->type_index, reinterpret_cast<int64_t>(o)); }

static TVMFFIAny call(TVMFFIAny f, std::vector<TVMFFIAny> args) {
  TVMFFIAny result = value(kTVMFFINone, 0);
  check(TVMFFIFunctionCall(f.v_ptr, args.data(), static_cast<int32_t>(args.size()), &result));
  return result;
}
static TVMFFIAny global(const char* name, std::vector<TVMFFIAny> args) {
  TVMFFIByteArray key{name, strlen(name)};
  TVMFFIObjectHandle f = nullptr;
  check(TVMFFIFunctionGetGlobal(&key, &f));
  return call(object(f), std::move(args));
}
static TVMFFIAny method(TVMFFIAny module, const char* name) { return global("runtime.ModuleGetFunction", {module, text(name), value(kTVMFFIInt, 0)}); }

static void take(FILE* in, void* to, size_t bytes) {
  if (bytes && fread(to, bytes, 1, in) != 1) { fprintf(stderr, "the file of arguments is cut off\n"); exit(2); }
}
static size_t bytes_of(const DLTensor& t) {
  size_t n = static_cast<size_t>(t.dtype.bits * t.dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < t.ndim; ++i) n *= static_cast<size_t>(t.shape[i]);
  return n;
}
static TVMFFIAny read_value(FILE* in) {
  char kind;
  take(in, &kind, 1);
  if (kind == 'A') {
    int32_t head[2];
    take(in, head, sizeof head);
    std::vector<TVMFFIAny> args{value(kTVMFFIInt, head[0])};
    for (int32_t i = 0; i < head[1]; ++i) args.push_back(read_value(in));
    return global("runtime.ADT", args);
  }
  int32_t head[4];
  take(in, head, sizeof head);
  std::vector<int64_t> shape(static_cast<size_t>(head[3]));
  take(in, shape.data(), 8 * shape.size());
  DLDataType dtype{static_cast<uint8_t>(head[0]), static_cast<uint8_t>(head[1]), static_cast<uint16_t>(head[2])};
  DLDevice cpu{kDLCPU, 0};
  TVMFFIObjectHandle made = nullptr;
  check(TWTensorEmpty(head[3], shape.data(), &dtype, &cpu, &made));
  auto* t = reinterpret_cast<DLTensor*>(static_cast<TVMFFIObject*>(made) + 1);
  take(in, t->data, bytes_of(*t));
  return object(made);
}
static void write_value(FILE* out, TVMFFIAny v) {
  if (v.type_index == kTVMFFITensor) {
    auto* t = reinterpret_cast<DLTensor*>(v.v_obj + 1);
    int32_t head[4] = {t->dtype.code, t->dtype.bits, t->dtype.lanes, t->ndim};
    fputc('T', out);
    fwrite(head, sizeof head, 1, out);
    fwrite(t->shape, 8, static_cast<size_t>(t->ndim), out);
    fwrite(static_cast<char*>(t->data) + t->byte_offset, 1, bytes_of(*t), out);
    return;
  }
  int32_t head[2] = {static_cast<int32_t>(global("runtime.GetADTTag", {v}).v_int64), static_cast<int32_t>(global("runtime.GetADTSize", {v}).v_int64)};
  fputc('A', out);
  fwrite(head, sizeof head, 1, out);
  for (int32_t i = 0; i < head[1]; ++i) write_value(out, global("runtime.GetADTFields", {v, value(kTVMFFIInt, i)}));
}

static std::string contents(const char* path) {
  std::string data;
  FILE* in = fopen(path, "rb");
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) data.append(buffer, n);
  fclose(in);
  return data;
}
static TVMFFIAny run_graph(TVMFFIAny library, TVMFFIAny device, const char* graph, const char* params, const std::vector<TVMFFIAny>& inputs) {
  std::string json = contents(graph), data = contents(params);
  TVMFFIByteArray bytes{data.data(), data.size()};
  TVMFFIAny executor = global("tvm.graph_executor.create", {text(json.c_str()), library, device});
  call(method(executor, "load_params"), {value(kTVMFFIByteArrayPtr, reinterpret_cast<int64_t>(&bytes))});
  for (size_t i = 0; i < inputs.size(); ++i) call(method(executor, "set_input"), {value(kTVMFFIInt, static_cast<int64_t>(i)), inputs[i]});
  call(method(executor, "run"), {});
  return call(method(executor, "get_output"), {value(kTVMFFIInt, 0)});
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) { fprintf(stderr, "usage: host library arguments result [graph.json model.params]\n"); return 2; }
  TVMFFIAny library = global("runtime.ModuleLoadFromFile", {text(argv[1])});
  TVMFFIAny device = value(kTVMFFIDevice, 0);
  device.v_device = {kDLCPU, 0};
  std::vector<TVMFFIAny> args{text("main")};
  FILE* in = fopen(argv[2], "rb");
  int32_t count;
  take(in, &count, 4);
  while (count--) args.push_back(read_value(in));
  FILE* out = fopen(argv[3], "wb");
  if (argc == 6) {
    write_value(out, run_graph(library, device, argv[4], argv[5], {args.begin() + 1, args.end()}));
  } else {
    TVMFFIAny machine = call(method(library, "default"), {device});
    write_value(out, call(method(machine, "invoke"), args));
  }
  return fclose(out);
}
