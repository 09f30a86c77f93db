#include "graph.h"

#include "device.h"

namespace tw {
namespace {

using namespace tilewright::detail;

struct Graph {
  CudaDevice& device;
  CUgraphExec exec = nullptr;
  ~Graph() {
    if (exec) cuda().release_graph_exec(exec);
  }
};

int64_t integer(const TVMFFIAny* args, int32_t count, int32_t i) {
  if (i >= count || args[i].type_index != kTVMFFIInt) fail("TypeError", "argument %d of a function of graphs must be an integer", i);
  return args[i].v_int64;
}
CUstream stream_of(const TVMFFIAny* args, int32_t count, int32_t i) { return reinterpret_cast<CUstream>(static_cast<uintptr_t>(integer(args, count, i))); }
CudaDevice& device_among(const TVMFFIAny* args, int32_t count) {
  if (!cuda().begin_capture || !cuda().instantiate_graph) fail("RuntimeError", "the CUDA driver has no graphs; they need that of CUDA 11.4");
  return cuda_device({kDLCUDA, static_cast<int32_t>(integer(args, count, 0))});
}

// (number of the device, stream): what this thread gives the stream from now on is kept and not run.
void begin(const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  CudaDevice& device = device_among(args, count);
  const CUstream stream = stream_of(args, count, 1);
  if (!stream) fail("ValueError", "the default stream of %s cannot be captured; set another one first", device.text().c_str());
  const Current current(device);
  check(cuda().begin_capture(stream, kCaptureThreadLocal), "capture a stream of", device);
  device.memory.streams.set_captured(stream, true);
}

// (number of the device, stream) -> a function of a stream that gives it all that was kept.
void end(const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  CudaDevice& device = device_among(args, count);
  const CUstream stream = stream_of(args, count, 1);
  const Current current(device);
  CUgraph graph = nullptr;
  const CUresult ended = cuda().end_capture(stream, &graph);
  device.memory.streams.set_captured(stream, false);
  if (ended >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && ended <= CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
    fail("RuntimeError", "the work on %s cannot be captured: %s. A captured run must not wait: its inputs and outputs are on the device, and all it does is launches and copies there",
         device.text().c_str(), code_text(ended).c_str());
  check(ended, "end the capture of a stream of", device);
  auto made = std::make_shared<Graph>(Graph{device});
  const CUresult code = cuda().instantiate_graph(&made->exec, graph, 0);
  cuda().release_graph(graph);
  check(code, "make a graph for", device);
  *result = of_object(make_function([made](const TVMFFIAny* values, int32_t n, TVMFFIAny*) {
                        const Current here(made->device);
                        check(cuda().launch_graph(made->exec, stream_of(values, n, 0)), "run a graph on", made->device);
                      }).release());
}

void set(const char* name, void (*body)(const TVMFFIAny*, int32_t, TVMFFIAny*)) {
  const Held function = make_function(body);
  const TVMFFIByteArray key = {name, strlen(name)};
  tilewright::detail::check(tilewright::host_api().set_global(&key, function.get(), 1));
}

}  // namespace

void register_graphs() {
  set("runtime.cuda.begin_capture", begin);
  set("runtime.cuda.end_capture", end);
}

}  // namespace tw
