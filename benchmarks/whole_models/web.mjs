// One model in both runtimes, in turn: node web.mjs FOLDER THREADS ROUNDS. The last line of the output is the result as JSON.
import fs from "node:fs";
import path from "node:path";
import * as ort from "onnxruntime-web";
import { instantiate } from "tilewright";

const [folder, threads, rounds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const about = JSON.parse(fs.readFileSync(path.join(folder, "about.json")));
const TYPES = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array };
const bytes = (name) => new Uint8Array(fs.readFileSync(path.join(folder, name))).buffer;
const inputs = about.inputs.map((input, i) => new TYPES[input.dtype](bytes(`in${i}.bin`)));
const wanted = Array.from({ length: about.outputs }, (_, i) => new Float32Array(bytes(`out${i}.bin`)));

function error(outputs) {
  let largest = 0;
  outputs.forEach((output, k) => {
    const scale = wanted[k].reduce((most, v) => Math.max(most, Math.abs(v)), 0);
    if (output.length !== wanted[k].length) largest = Infinity;
    output.forEach((v, i) => (largest = Math.max(largest, Math.abs(v - wanted[k][i]) / scale)));
  });
  return largest;
}
const size = (...files) => files.reduce((sum, file) => sum + fs.statSync(file).size, 0);
const timed = async (body) => {
  const begin = performance.now();
  const value = await body();
  return [value, performance.now() - begin];
};
const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];

ort.env.wasm.numThreads = threads;
const tvm = await instantiate(undefined, { numThreads: threads });
const ours = path.join(folder, `model${threads}.wasm`);
const [executor, ourLoad] = await timed(async () => {
  const made = tvm.createExecutor(await tvm.loadModule(fs.readFileSync(ours)));
  about.inputs.forEach((input, i) => made.setInput(input.name, inputs[i]));
  made.run();
  return made;
});
const feeds = Object.fromEntries(about.inputs.map((input, i) => [input.name, new ort.Tensor(input.dtype, inputs[i], input.shape)]));
const [session, peerLoad] = await timed(async () => {
  const made = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(about.onnx)), { executionProviders: ["wasm"], graphOptimizationLevel: "all" });
  await made.run(feeds);
  return made;
});

let peerOutputs;
const spent = [[], []];
for (let i = -2; i < rounds; ++i) {
  const [, ourTime] = await timed(() => executor.run());
  let peerTime;
  [peerOutputs, peerTime] = await timed(() => session.run(feeds));
  if (i >= 0) [ourTime, peerTime].forEach((time, k) => spent[k].push(time));
}
const own = path.dirname(new URL(import.meta.resolve("tilewright")).pathname), other = path.dirname(new URL(import.meta.resolve("onnxruntime-web")).pathname);
const peerWasm = fs.readdirSync(other).find((name) => name === "ort-wasm-simd-threaded.wasm");
console.log(JSON.stringify({
  tilewright: {
    latency: median(spent[0]), load: ourLoad, model: size(ours), error: error(wanted.map((_, i) => executor.getOutput(i).data)),
    runtime: size(path.join(own, threads > 1 ? "tilewright-threads.wasm" : "tilewright.wasm"), path.join(own, "index.js")),
  },
  "onnxruntime-web": {
    latency: median(spent[1]), load: peerLoad, model: size(about.onnx), error: error(session.outputNames.map((name) => peerOutputs[name].data)),
    runtime: size(path.join(other, peerWasm)),
  },
}));
process.exit(0);
