// Tests of the package that node and browsers run: a list of [name, function]. `at` reads a file of the folder of models.
import { BenchmarkResult, GraphExecutor, NDArray, Scalar, TVMError, VirtualMachine, instantiate } from "../tilewright/index.js";

export function check(holds, what) {
  if (!holds) throw new Error(`it does not hold that ${what}`);
}
function same(found, wanted, what = "the value is right") {
  const text = (v) => JSON.stringify(v, (_, x) => (typeof x === "bigint" ? `${x}n` : ArrayBuffer.isView(x) ? Array.from(x) : x));
  check(text(found) === text(wanted), `${what}: ${text(found)} is ${text(wanted)}`);
}
function near(found, wanted, what, allowed = 1e-5) {
  check(found.length === wanted.length, `${what} has ${wanted.length} elements, not ${found.length}`);
  found.forEach((v, i) => check(Math.abs(v - wanted[i]) <= allowed * (1 + Math.abs(wanted[i])), `${what}: element ${i}, ${v}, is ${wanted[i]}`));
}
function refused(action, kind, words) {
  try {
    action();
  } catch (error) {
    return checkError(error, kind, words);
  }
  check(false, `an error says ${words}`);
}
async function refusedLater(promise, kind, words) {
  return promise.then(
    () => check(false, `an error says ${words}`),
    (error) => checkError(error, kind, words),
  );
}
function checkError(error, kind, words) {
  check(error instanceof TVMError && error.kind === kind && words.test(error.message), `${error.name}: ${error.message} is ${kind}: ${words}`);
  return error;
}

export const cases = [
  ["arrays of every type", async ({ tvm }) => {
    for (const [dtype, values] of Object.entries({
      float32: [1.5, -2, 0], float64: [1e300, 0.1, -0], int8: [-128, 127, 1], uint8: [0, 255, 3], int16: [-32768, 1, 2], uint16: [65535, 1, 2],
      int32: [-(2 ** 31), 1, 2], uint32: [2 ** 32 - 1, 1, 2], int64: [2n ** 62n, -1n, 5n], uint64: [2n ** 64n - 1n, 0n, 5n], bool: [1, 0, 1],
    })) {
      const a = tvm.empty([1, 3], dtype).copyFrom(values);
      same([a.dtype, a.shape, a.ndim, a.size], [dtype, [1, 3], 2, 3]);
      same(a.toArray(), values, dtype);
      same(tvm.empty([3], dtype).copyFrom(a.view([3])).toArray(), values, `a copy of ${dtype}`);
      a.data[1] = values[0];
      same(a.toArray()[1], values[0], "data shows the elements in place");
    }
    same(tvm.array(new BigInt64Array([7n])).dtype, "int64");
    same(tvm.empty([3], "int64").copyFrom([1, 2n, true]).toArray(), [1n, 2n, 1n]);
    same(tvm.empty([2, 2]).copyFrom([[1, 2], [3, 4]]).toArray(), [1, 2, 3, 4]);
    same(tvm.empty([], "int32").copyFrom([9]).toArray(), [9]);
    same(tvm.empty([0, 4]).toArray().length, 0);
  }],
  ["floats of 16 bits", async ({ tvm }) => {
    const numbers = [1, -2.5, 0.1, 65504, 1e6, 2 ** -24, 2 ** -14, 1.0009765625, 2 ** -25, -0, 2047.5];
    same(Array.from(tvm.empty([11], "float16").copyFrom(numbers).data), [15360, 49408, 11878, 31743, 31744, 1, 1024, 15361, 0, 32768, 26624]);
    const halves = tvm.empty([11], "float16").copyFrom(numbers).toArray();
    near(halves.slice(0, 4), [1, -2.5, 0.0999755859375, 65504], "halves", 0);
    same([halves[4], halves[5], halves[10]], [null, 2 ** -24, 2048]);
    check(halves[4] === Infinity, "what is too large is infinite");
    for (let bits = 0; bits < 65536; bits += 7) {
      const a = tvm.withNewScope(() => Number(tvm.empty([1], "float16").copyFrom(new Uint16Array([bits])).toArray()[0]));
      if (!Number.isNaN(a)) check(tvm.withNewScope(() => tvm.empty([1], "float16").copyFrom([a]).data[0]) === bits, `${bits.toString(16)} comes back`);
    }
    same(Array.from(tvm.empty([4], "bfloat16").copyFrom([1, 3.140625, 1.00390625, -1e38]).data), [16256, 16457, 16256, 65174]);
    near(tvm.empty([2], "bfloat16").copyFrom([1, -2]).toArray(), [1, -2], "bfloat16", 0);
  }],
  ["what arrays refuse", async ({ tvm }) => {
    const a = tvm.empty([2, 3], "int32");
    refused(() => a.copyFrom([1, 2]), "ValueError", /2 elements were given for NDArray\(\[2, 3\], "int32"\), which has 6/);
    refused(() => a.copyFrom([1, 2, 3, 4, 5, 0.5]), "TypeError", /an integer was expected .* the number 0.5/);
    refused(() => a.copyFrom(tvm.empty([2, 3])), "TypeError", /types differ/);
    refused(() => a.copyFrom(7), "TypeError", /the number 7 was given/);
    refused(() => a.view([4]), "ValueError", /has 6 elements/);
    refused(() => tvm.empty([-1]), "ValueError", /dimension 0 is negative/);
    refused(() => tvm.empty([1.5]), "TypeError", /a shape consists of integers/);
    refused(() => tvm.empty([2], "flout"), "ValueError", /unknown data type/);
    refused(() => tvm.empty([2 ** 31]), "MemoryError", /cannot allocate/);
    refused(() => tvm.device("cuda"), "ValueError", /no device of the type cuda/);
  }],
  ["functions of both sides", async ({ tvm }) => {
    tvm.registerFunc("test.back", (...args) => args);
    const back = tvm.getGlobalFunc("test.back"), long = "ä".repeat(5000);
    same(back(1, -2.5, 2n ** 60n, true, null, "short", long, new Uint8Array([0, 1]), [1, ["x"]]), [1, -2.5, 2n ** 60n, true, undefined, "short", long, new Uint8Array([0, 1]), [1, ["x"]]]);
    same(back(new Scalar(1, "float32"), new Scalar(7, "int32"), 2 ** 60), [1, 7, 2 ** 60]);
    same(String(back(tvm.cpu())[0]), "cpu(0)");
    check(back((x) => x + 1)[0](41) === 42, "a function passes as an argument");
    same(tvm.toPackedFunc((a, b) => a * b)(6, 7), 42);
    check(tvm.isPackedFunc(back) && !tvm.isPackedFunc(() => 0), "packed functions are known");
    check(tvm.listGlobalFuncNames().includes("test.back"), "names are listed");
    refused(() => tvm.registerFunc("test.back", () => 0), "ValueError", /already registered/);
    tvm.registerFunc("test.back", () => "new", true);
    same(tvm.getGlobalFunc("test.back")(), "new");
    refused(() => tvm.getGlobalFunc("test.none"), "ValueError", /no global function `test.none`/);
    refused(() => back(Symbol.iterator), "TypeError", /a symbol cannot be passed/);
    refused(() => back({}), "TypeError", /an object of type Object cannot be passed/);
  }],
  ["errors of both sides", async ({ tvm }) => {
    class OwnError extends RangeError {
      name = "OwnError";
    }
    const thrown = new OwnError("out of range: ä");
    tvm.registerFunc("test.throws", () => { throw thrown; });
    tvm.registerFunc("test.through", () => tvm.getGlobalFunc("test.throws")());
    const found = refused(() => tvm.getGlobalFunc("test.through")(), "OwnError", /^out of range: ä$/);
    check(found.cause === thrown || found.cause.cause === thrown, "the cause is what was thrown");
    tvm.registerFunc("test.waits", async () => 1);
    refused(() => tvm.getGlobalFunc("test.waits")(), "TypeError", /asynchronous/);
  }],
  ["the ahead-of-time executor", async ({ tvm, at, expected }) => {
    const library = await tvm.loadModule(await at("dense.wasm"));
    const executor = tvm.createExecutor(library);
    check(executor instanceof GraphExecutor && executor.module.typeKey === "AotExecutor", "it is of the kind of the model");
    same(executor.getInputInfo(), { shape: { x: [2, 16] }, dtype: { x: "float32" } });
    executor.setInput("x", new Float32Array(expected.x));
    executor.run();
    near(executor.getOutput(0).toArray(), expected.relu, "relu");
    near(executor.getOutput(1).toArray(), expected.softmax, "softmax");
    executor.setInput(0, tvm.array(new Float32Array(32), [2, 16]));
    executor.run(2);
    near(executor.getOutput(1).toArray(), new Array(32).fill(1 / 16), "softmax of zeros");
    check((await executor.benchmarkRuns(tvm.cpu(), 2, 3)).length === 3, "there are three means");
    const own = tvm.array(expected.x, [2, 16]);
    executor.setInputZeroCopy("x", own);
    executor.run();
    near(executor.getOutput(0).toArray(), expected.relu, "relu of shared memory");
    refused(() => executor.setInput("y", [1]), "ValueError", /no input named `y`/);
    refused(() => executor.setInput("x", [1, 2]), "ValueError", /2 elements/);
    refused(() => executor.setInput("x", tvm.empty([3, 16])), "ValueError", /3, 16/);
    refused(() => library.getFunction("nothing"), "AttributeError", /no function `nothing`/);
    refused(() => tvm.createVirtualMachine(library), "TypeError", /not for the virtual machine, but for AotExecutor/);
    same(library.getMetadata().target.triple, "wasm32-unknown-unknown");
    executor.dispose();
    library.dispose();
    refused(() => library.getFunction("default"), "ReferenceError", /disposed of/);
  }],
  ["measurements", async ({ tvm, at }) => {
    const library = await tvm.loadModule(await at("functions.wasm")), arrays = [tvm.array([1, 2, 3, 4, 5]), tvm.empty([5])];
    const time = library.timeEvaluator("twice_float32", tvm.cpu(), { number: 3, repeat: 4, minRepeatMs: 3 });
    const { results, mean, median, min, max, std } = await time(...arrays);
    check(results.length === 4 && results.every((v) => v > 0 && v < 1e-3), `there are four means of calls, in seconds: ${results}`);
    near([mean, min, max], [results.reduce((a, b) => a + b) / 4, Math.min(...results), Math.max(...results)], "what they have in common");
    check(min <= median && median <= max && std >= 0 && std <= max - min, "their middle is in the middle");
    same(arrays[1].toArray(), [2, 4, 6, 8, 10]);
    let begun = 0;
    const counted = new BenchmarkResult([3, 1, 2]);
    same([counted.mean, counted.median, counted.min, counted.max, counted.std], [2, 2, 1, 3, Math.sqrt(2 / 3)]);
    const reader = tvm.createExecutor(await tvm.loadModule(await at("dense.wasm"))).module;
    await reader.timeEvaluator("run", tvm.cpu(), { number: 2, repeat: 3, before: () => void ++begun })();
    same(begun, 3, "what comes before each result is called");
    await refusedLater(time(tvm.empty([4]), arrays[1]), "ValueError", /argument 0 \(x\): dimension 0 must be 5, but is 4/);
    await refusedLater(library.timeEvaluator("twice_float32", tvm.cpu(), { number: 0 })(...arrays), "ValueError", /number must be at least 1, and an integer, but it is 0/);
    refused(() => library.timeEvaluator("nothing"), "AttributeError", /no function `nothing`/);
  }],
  ["the graph executor", async ({ tvm, at, expected }) => {
    const library = await tvm.loadModule(await at("graph.wasm"));
    for (const executor of [tvm.createExecutor(library), tvm.createGraphExecutor(new TextDecoder().decode(await at("graph.json")), library)]) {
      same(executor.module.typeKey, "GraphExecutor");
      executor.loadParams(await at("graph.params"));
      executor.setInput("x", expected.x);
      executor.run();
      near(executor.getOutput(0).toArray(), expected.relu, "relu");
      near(executor.getOutput(1).toArray(), expected.softmax, "softmax");
    }
    refused(() => tvm.createGraphExecutor("{}", library), "ValueError", /not a graph/);
  }],
  ["the virtual machine", async ({ tvm, at }) => {
    const machine = tvm.createVirtualMachine(await tvm.loadModule(await at("loop.wasm")));
    check(machine instanceof VirtualMachine, "it is a virtual machine");
    for (const rows of [1, 3, 0]) {
      const m = tvm.array(Float32Array.from({ length: rows * 4 }, (_, i) => i), [rows, 4]);
      const sum = [0, 1, 2, 3].map((c) => Array.from({ length: rows }, (_, r) => 4 * r + c).reduce((a, b) => a + b, 0));
      same(machine.run(m).toArray(), sum, `the sum of ${rows} rows`);
    }
    const pair = machine.invoke("pair", tvm.array([1, 2, 3]));
    same([pair.tag, pair.size, pair.toArray().map((a) => Array.from(a.toArray()))], [0, 2, [[1, 2, 3], [2, 4, 6]]]);
    machine.setInput("pair", tvm.array([4, 5, 6]));
    machine.invokeStateful("pair");
    same(machine.getOutputs().map((a) => Array.from(a.toArray())), [[4, 5, 6], [8, 10, 12]]);
    refused(() => machine.invoke("other"), "ValueError", /other/);
    refused(() => machine.run(tvm.empty([2, 5])), "ValueError", /5/);
  }],
  ["compiled functions", async ({ tvm, at }) => {
    const library = await tvm.loadModule(await at("functions.wasm"));
    refused(() => tvm.createExecutor(library), "ValueError", /the library has no model, but functions/);
    refused(() => library.getFunction("twice_float32")(new Float32Array(5), tvm.empty([5])), "TypeError", /a Float32Array cannot be passed to a function: make it an NDArray/);
    for (const dtype of ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]) {
      const x = tvm.empty([5], dtype).copyFrom([1, 2, 3, 4, 5]), y = tvm.empty([5], dtype);
      library.getFunction(`twice_${dtype}`)(x, y);
      same(Array.from(y.toArray(), Number), [2, 4, 6, 8, 10], dtype);
    }
    const truth = tvm.empty([5], "bool");
    library.getFunction("twice_bool")(tvm.empty([5], "bool").copyFrom([true, false, true, false, true]), truth);
    same(truth.toArray(), [1, 0, 1, 0, 1]);
    refused(() => library.getFunction("twice_int32")(tvm.empty([5]), tvm.empty([5])), "TypeError", /int32/);
    refused(() => library.getFunction("twice_int32")(tvm.empty([6], "int32"), tvm.empty([6], "int32")), "ValueError", /5/);
  }],
  ["compiled code calls JavaScript", async ({ tvm, at }) => {
    const library = await tvm.loadModule(await at("functions.wasm")), asks = library.getFunction("asks");
    const a = tvm.array([1, 2, 3, 4]), b = tvm.empty([4]);
    refused(() => asks(a, b), "ValueError", /`test.fill`, which is not registered/);
    tvm.registerFunc("test.fill", (address, count, value, words) => {
      same([count, value, words], [4, 2.5, "words"]);
      new Float32Array(tvm.memory.buffer, address, count).fill(value);
    });
    asks(a, b);
    same(b.toArray(), [3.5, 3.5, 3.5, 3.5]);
    tvm.registerFunc("test.fill", () => { throw new RangeError("not today"); }, true);
    refused(() => asks(a, b), "RangeError", /not today/);
  }],
  ["scopes end what was made in them", async ({ tvm }) => {
    let kept, lost;
    const moved = tvm.withNewScope(() => {
      lost = tvm.empty([3]);
      kept = tvm.detachFromCurrentScope(tvm.empty([3]).copyFrom([1, 2, 3]));
      return tvm.empty([1]);
    });
    refused(() => lost.toArray(), "ReferenceError", /was disposed of/);
    same(kept.toArray(), [1, 2, 3]);
    same(moved.size, 1);
    kept.dispose();
    moved.dispose();
    refused(() => tvm.endScope(), "RuntimeError", /without beginScope/);
    let seen;
    tvm.registerFunc("test.keeps", (array) => void (seen = array));
    tvm.getGlobalFunc("test.keeps")(tvm.array([1]));
    refused(() => seen.toArray(), "ReferenceError", /was disposed of/);
    tvm.registerFunc("test.keeps", (array) => void (seen = tvm.detachFromCurrentScope(array)), true);
    tvm.getGlobalFunc("test.keeps")(tvm.array([5]));
    same(seen.toArray(), [5]);
    same(await tvm.withNewScope(async () => (await null, tvm.array([6]))).then((a) => a.toArray()), [6]);
  }],
  ["memory grows under views, and comes back", async ({ tvm, at, expected }) => {
    const small = tvm.array([1, 2, 3]), before = tvm.memory.buffer.byteLength, data = small.data;
    const large = tvm.empty([before]);
    check(tvm.memory.buffer.byteLength > before, "memory has grown");
    check(tvm.workers || data.length === 0, "an old view is empty");
    same(small.data, [1, 2, 3]);
    large.dispose();
    const grown = tvm.memory.buffer.byteLength;
    for (let i = 0; i < 20; ++i) tvm.withNewScope(() => void tvm.empty([before]));
    same(tvm.memory.buffer.byteLength, grown, "freed memory is used again");
    const bytes = await at("dense.wasm"), places = tvm.table.length;
    for (let i = 0; i < 30; ++i) {
      const library = await tvm.loadModule(bytes), executor = tvm.createExecutor(library);
      executor.setInput(0, expected.x);
      executor.run();
      if (i % 10 === 0) near(executor.getOutput(0).toArray(), expected.relu, "relu");
      executor.dispose();
      library.dispose();
    }
    const more = tvm.memory.buffer.byteLength - grown;
    check(more <= 1 << 20 && tvm.table.length - places < 10, `a module that is gone leaves its place: there are ${more} more bytes, and ${tvm.table.length - places} more places in the table`);
  }],
  ["addresses above 2 GB", async ({ tvm, at, expected }) => {
    const large = [0, 1].map(() => tvm.empty([1.2e9], "int8"));
    let a;
    for (let i = 0; i < 5000; ++i) a = tvm.array([1, 2, 3]);
    check(a.getDataPtr() > 2 ** 31 && a.getHandle() > 2 ** 31, "an array is above 2 GB");
    same([a.toArray(), a.shape, a.view([3, 1]).toArray()], [[1, 2, 3], [3], [1, 2, 3]]);
    tvm.registerFunc("test.back", (...args) => args);
    const text = "x".repeat(100000);
    check(tvm.getGlobalFunc("test.back")(text, [text, 1])[1][0] === text, "texts come back");
    const executor = tvm.createExecutor(await tvm.loadModule(await at("dense.wasm")));
    executor.setInput(0, expected.x);
    executor.run();
    near(executor.getOutput(0).toArray(), expected.relu, "relu");
    refused(() => executor.setInput("y", [1]), "ValueError", /no input named `y`/);
    large.forEach((array) => array.dispose());
  }],
  ["files that are no models", async ({ tvm, at }) => {
    const good = new Uint8Array(await at("dense.wasm"));
    for (const at of [9, 2000, good.length - 60, good.length - 30, good.length - 3]) {
      const bad = good.slice();
      bad[at] ^= 4;
      await refusedLater(tvm.loadModule(bad), "ValueError", /the model is damaged: its checksum is not that of its contents/);
    }
    check((await tvm.loadModule(new Uint8Array([0, ...good]).subarray(1))).typeKey === "library", "bytes may begin anywhere");
    await refusedLater(tvm.loadModule(good.slice(0, 2000)), "RuntimeError", /the model cannot be compiled by this host/);
    await refusedLater(tvm.loadModule(new Uint8Array(0)), "ValueError", /the model is no WebAssembly: it is empty; a model is compiled for the target wasm32/);
    for (const [bytes, words] of [[[0x7f, 0x45, 0x4c, 0x46, 2], /it is a library for Linux \(ELF\)/], [[0x4d, 0x5a, 0x90, 0], /for Windows/], [[0xcf, 0xfa, 0xed, 0xfe], /for macOS/], [[1, 2, 3, 200], /it begins with the bytes 01 02 03 c8/]])
      await refusedLater(tvm.loadModule(new Uint8Array(bytes)), "ValueError", words);
    await refusedLater(tvm.loadModule(new TextEncoder().encode("<!doctype html><title>404</title>")), "ValueError", /it is a text that begins with "<!doctype html>/);
    await refusedLater(tvm.loadModule("http://127.0.0.1:1/model.wasm"), "OSError", /the model \(http:\/\/127.0.0.1:1\/model.wasm\) cannot be fetched: ./);
    await refusedLater(instantiate(good), "ValueError", /the runtime is started from tilewright.wasm/);
    await refusedLater(tvm.loadModule(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])), "ValueError", /no section `dylink.0`/);
    await refusedLater(tvm.loadModule(5), "TypeError", /not from the number 5/);
    await refusedLater(tvm.loadModule(await at("dense_threads.wasm")), "RuntimeError", /does not fit the runtime, which has no threads/);
    const next = await tvm.loadModule(good);
    check(next.getFunction("default"), "the next one is loaded");
  }],
  ["several runtimes at once", async ({ tvm, at, expected }) => {
    const other = await instantiate();
    const executor = other.createExecutor(await other.loadModule(await at("dense.wasm")));
    executor.setInput(0, expected.x);
    executor.run();
    near(executor.getOutput(0).toArray(), expected.relu, "relu");
    same(tvm.array([2]).copyFrom(other.array([3])).toArray(), [3]);
    other.dispose();
    refused(() => other.empty([1]), "RuntimeError", /was disposed of/);
  }],
];

export const threaded = [
  ["threads share the loops of a model", async ({ at }) => {
    const tvm = await instantiate(undefined, { numThreads: 2 });
    same(tvm.numThreads, 2);
    const executors = [];
    for (let i = 0; i < 2; ++i) executors.push(tvm.createExecutor(await tvm.loadModule(await at("wide_threads.wasm"))));
    const picture = new Float32Array(await buffer(at("picture.bin"))), wanted = new Float32Array(await buffer(at("wide.bin")));
    for (const executor of executors) {
      executor.setInput(0, picture);
      for (let i = 0; i < 5; ++i) {
        executor.getOutput(0).data.fill(0);
        executor.run();
        near(executor.getOutput(0).toArray(), wanted, "the output", 1e-4);
      }
    }
    await refusedLater(tvm.loadModule(await at("dense.wasm")), "RuntimeError", /does not fit the runtime, which has threads/);
    await Promise.all(executors.map(async () => void (await tvm.loadModule(await at("dense_threads.wasm")))));
    executors[0].run();
    near(executors[0].getOutput(0).toArray(), wanted, "the output after more models", 1e-4);
    tvm.dispose();
  }],
  ["numbers of threads", async () => {
    await refusedLater(instantiate(undefined, { numThreads: 0 }), "ValueError", /positive integer/);
    await refusedLater(instantiate(new URL("../tilewright/tilewright.wasm", import.meta.url), { numThreads: 2 }), "ValueError", /one thread/);
  }],
];

async function buffer(bytes) {
  return new Uint8Array(await bytes).slice().buffer;
}
