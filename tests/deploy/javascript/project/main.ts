// A page of a user of the npm package: a model in the page, in a worker of its own, and with threads.
import { instantiate, type GraphExecutor } from "tilewright";
import type { Answer } from "./answer";

async function bytes(name: string): Promise<ArrayBuffer> {
  return (await fetch(name)).arrayBuffer();
}
async function inPage(): Promise<number[]> {
  const tvm = await instantiate();
  const executor = tvm.createExecutor(await tvm.loadModule(fetch("/dense.wasm")), tvm.cpu());
  executor.setInput("x", new Float32Array(32));
  executor.run();
  return Array.from(executor.getOutput(1).toArray() as Float32Array);
}
async function inWorker(): Promise<number[]> {
  const worker = new Worker(new URL("./work.ts", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onmessage = (event: MessageEvent<number[]>) => resolve(event.data);
    worker.onerror = (event) => reject(new Error(event.message));
  });
}
async function inThreads(): Promise<number> {
  const tvm = await instantiate(undefined, { numThreads: 2 });
  const executor: GraphExecutor = tvm.createExecutor(await tvm.loadModule(fetch("/wide_threads.wasm")));
  executor.setInput(0, new Float32Array(await bytes("/picture.bin")));
  executor.run();
  const wanted = new Float32Array(await bytes("/wide.bin")), found = executor.getOutput(0).toArray() as Float32Array;
  return found.reduce((most, v, i) => Math.max(most, Math.abs(v - wanted[i])), 0);
}
async function all(): Promise<Answer> {
  return { page: await inPage(), worker: await inWorker(), error: await inThreads() };
}
all().then(
  (answer) => (globalThis.answer = answer),
  (error) => (globalThis.answer = String(error.stack ?? error)),
);
