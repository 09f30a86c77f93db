import { instantiate } from "tilewright";

async function run(): Promise<void> {
  const tvm = await instantiate();
  const executor = tvm.createExecutor(await tvm.loadModule(fetch("/dense.wasm")));
  executor.setInput(0, new Float32Array(32));
  executor.run();
  postMessage(Array.from(executor.getOutput(1).toArray() as Float32Array));
}
void run();
