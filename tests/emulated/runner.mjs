// node runner.mjs LIBRARY PARAMS RESULTS [THREADS]: what runner.cc does, in the runtime for WebAssembly.
import fs from "node:fs";
import { instantiate } from "../../build/emulated/wasm32/index.js";

const [library, params, results, threads = "1"] = process.argv.slice(2);
const CODES = { int: 0, uint: 1, float: 2, bfloat: 4 };

function outputs(executor) {
  const parts = [];
  for (let i = 0, n = executor.method("get_num_outputs")(); i < n; ++i) {
    const array = executor.method("get_output")(i);
    const [, name, bits] = /^([a-z]+?)(\d*)$/.exec(array.dtype);
    const head = Buffer.alloc(12 + 8 * array.shape.length);
    [name === "bool" ? 1 : CODES[name], name === "bool" ? 1 : Number(bits), array.shape.length].forEach((v, k) => head.writeInt32LE(v, 4 * k));
    array.shape.forEach((v, k) => head.writeBigInt64LE(BigInt(v), 12 + 8 * k));
    parts.push(head, Buffer.from(array.toRawBytes()));
  }
  return Buffer.concat(parts);
}

try {
  const tvm = await instantiate(undefined, { numThreads: Number(threads) });
  const executor = tvm.createExecutor(await tvm.loadModule(fs.readFileSync(library)));
  executor.method("load_params")(new Uint8Array(fs.readFileSync(params)));
  executor.method("run")();
  const first = outputs(executor);
  executor.method("run")();
  if (Buffer.compare(outputs(executor), first) !== 0) throw new Error("a second run gives something else");
  fs.writeFileSync(results, first);
  tvm.dispose();
} catch (error) {
  console.error(`${error.kind ?? error.name}: ${error.message}`);
  process.exitCode = 1;
}
