// What the types of the package say: checked by tsc, never run.
import { BenchmarkResult, DLDevice, GraphExecutor, Module, NDArray, PackedFunc, RPCServer, Scalar, TVMError, VirtualMachine, instantiate } from "tilewright";

const tvm = await instantiate();
await instantiate(new URL("https://example.org/tilewright.wasm"));
await instantiate(fetch("tilewright-threads.wasm"), { numThreads: 4 });
const library: Module = await tvm.loadModule(new Uint8Array(8));
const executor: GraphExecutor = tvm.createExecutor(library);
executor.setInput("x", new Float32Array(3));
executor.setInput(0, [1, 2, 3]);
executor.run(2);
const output: NDArray = tvm.withNewScope(() => executor.getOutput(0));
const shape: number[] = output.shape, name: string = output.dtype;
const machine: VirtualMachine = tvm.createVirtualMachine(library, tvm.cpu());
machine.run(output, 1, [output, 2n]);
tvm.registerFunc("f", (a: number, b: NDArray) => a + b.size);
const f: PackedFunc = library.getFunction("f");
f(1, "text", true, null, new Scalar(1, "float32"), (x: number) => x);
const device: DLDevice = tvm.device("cpu");
const means: number[] = await executor.benchmarkRuns(device, 1, 2);
const measured: BenchmarkResult = await library.timeEvaluator("f", device, { number: 3, minRepeatMs: 1 })(output);
const mean: number = measured.mean + measured.results[0];
const server = new RPCServer("ws://127.0.0.1:8888/ws", "page", { start: () => instantiate(), log: (text: string) => console.log(text, mean) });
await server.ended;
try {
  f();
} catch (error) {
  if (error instanceof TVMError) console.log(error.kind, error.message, shape, name, means);
}
// @ts-expect-error: a string is no shape
tvm.empty("3");
// @ts-expect-error: an input takes elements
executor.setInput("x", "1");
// @ts-expect-error: there is no such method
executor.start();
