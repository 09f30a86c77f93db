// How a runtime starts, alone or with workers as its threads.

import { Instance } from "./instance.js";
import { compiled, linked, sideImports } from "./loader.js";
import { Frame, LinearMemory } from "./memory.js";
import { IN_NODE, TVMError, encoded, fail } from "./values.js";

/** What the C library of the runtime asks a system for: the time, and to write messages; all else it does not have. */
function system(host) {
  const known = {
    clock_time_get(id, precision, out) {
      host.memory.i64[out >>> 3] = BigInt(Math.round((performance.timeOrigin * (id === 0) + performance.now()) * 1e6));
      return 0;
    },
    fd_write(file, vectors, count, written) {
      const { u32 } = host.memory;
      let total = 0, text = "";
      for (let i = vectors >>> 2; count--; i += 2) [text, total] = [text + host.memory.text(u32[i], u32[i + 1]), total + u32[i + 1]];
      u32[written >>> 2] = total;
      if (text.trim()) console.error(text.trimEnd());
      return 0;
    },
    environ_sizes_get(count, size) {
      host.memory.u32[count >>> 2] = host.memory.u32[size >>> 2] = 0;
      return 0;
    },
    environ_get: () => 0,
    proc_exit: (code) => fail("SystemError", `the runtime ended with code ${code}`),
  };
  return new Proxy(known, { get: (all, name) => all[name] ?? (() => 8) }); // 8: no such file
}

/** Starts a runtime. `source` of tilewright.wasm as in `loadModule`; by default the file beside this one.
 * `numThreads`: how many threads compiled code may use, this one among them. More than one needs memory that workers share. */
export async function instantiate(source, { numThreads = 1 } = {}) {
  if (!Number.isInteger(numThreads) || numThreads < 1) fail("ValueError", `numThreads must be a positive integer, but it is ${numThreads}`);
  const code = await compiled(source ?? new URL(numThreads > 1 ? "./tilewright-threads.wasm" : "./tilewright.wasm", import.meta.url), "the runtime");
  const shared = WebAssembly.Module.imports(code).some((i) => i.kind === "memory");
  if (numThreads > 1 && !shared) fail("ValueError", "this build of the runtime has one thread; tilewright-threads.wasm has more");
  if (shared && typeof SharedArrayBuffer === "undefined")
    fail("RuntimeError", "threads need shared memory, which this page may not use: serve it with the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp");
  const host = {};
  const memory = shared ? sharedMemory() : undefined;
  const { exports } = await WebAssembly.instantiate(code, { env: { memory, ...Instance.imports(host) }, wasi_snapshot_preview1: system(host) });
  host.memory = new LinearMemory(memory ?? exports.memory);
  const instance = (host.instance = new Instance(exports, host.memory));
  exports._initialize();
  if (shared) await (instance.workers = new Workers(instance, code)).start(numThreads - 1);
  return instance;
}
function sharedMemory() {
  return new WebAssembly.Memory({ initial: 256, maximum: 65535, shared: true });
}

// ---- threads: workers that run parts of parallel loops. They do what messages say while they are not in the runtime's pool.

const WORKER = "tilewright-worker";
const STACK = 1 << 20;

class Workers {
  #all = [];
  #left = Promise.resolve([]); // until all have left the pool
  #busy = Promise.resolve();
  constructor(instance, code) {
    this.instance = instance;
    this.code = code;
  }
  async start(count) {
    const { instance } = this, { exports } = instance;
    for (let index = 1; index <= count; ++index) {
      const worker = await newWorker();
      this.#all.push(worker);
      const place = { stack: instance.allocate(STACK) + STACK, storage: instance.allocate(exports.__tls_size.value + 1, Math.max(exports.__tls_align.value, 16)) };
      worker.send({ start: { code: this.code, memory: instance.memory.object, index, place } });
    }
    this.#keepAwake(true);
    await this.#answers();
    this.#enter();
  }
  get count() {
    return this.#all.length;
  }
  /** Loads a module in the place that it has in this thread. */
  load(what) {
    const loaded = this.#busy.then(async () => {
      this.instance.exports.TWLeavePool();
      this.#keepAwake(true);
      await this.#left;
      for (const worker of this.#all) worker.send({ load: what });
      await this.#answers().finally(() => this.#enter());
    });
    this.#busy = loaded.catch(() => {});
    return loaded;
  }
  #enter() {
    this.instance.exports.TWEnterPool(this.#all.length);
    for (const worker of this.#all) worker.send({ work: true });
    this.#left = this.#answers();
    this.#keepAwake(false);
  }
  // Node ends when it waits for nothing: workers in the pool are nothing to wait for.
  #keepAwake(awake) {
    if (IN_NODE) for (const { thread } of this.#all) awake ? thread.ref() : thread.unref();
  }
  async #answers() {
    for (const { error } of await Promise.all(this.#all.map((worker) => worker.answer()))) if (error) throw new TVMError("RuntimeError", `a worker failed: ${error}`);
  }
  end() {
    for (const { thread } of this.#all) thread.terminate();
  }
}

async function newWorker() {
  const url = new URL(import.meta.url);
  const worker = IN_NODE ? new (await import("node:worker_threads")).Worker(url, { workerData: WORKER }) : new Worker(url, { type: "module", name: WORKER });
  const answers = [], waiting = [];
  const answer = (message) => (waiting.length ? waiting.shift()(message) : answers.push(message));
  listen(worker, answer);
  if (IN_NODE) worker.on("error", (error) => answer({ error: String(error) }));
  else worker.onerror = (event) => answer({ error: event.message ?? "it cannot be started" });
  return {
    thread: worker,
    send: (message) => worker.postMessage(message),
    answer: () => (answers.length ? Promise.resolve(answers.shift()) : new Promise((resolve) => waiting.push(resolve))),
  };
}
function listen(port, body) {
  if (IN_NODE) port.on("message", body);
  else port.onmessage = (event) => body(event.data);
}

function serve(port) {
  const host = {};
  const does = {
    start({ code, memory, index, place }) {
      host.memory = new LinearMemory(memory);
      const refused = () => {
        const { exports } = host, frame = new Frame(host);
        exports.TVMFFIErrorSetRaisedFromCStr(frame.copy(encoded("RuntimeError"), 1), frame.copy(encoded("a parallel loop cannot call functions of JavaScript"), 1));
        frame.end();
        return -1;
      };
      host.exports = new WebAssembly.Instance(code, { env: { memory, tilewright_call: refused, tilewright_drop() {} }, wasi_snapshot_preview1: system(host) }).exports;
      host.exports.__stack_pointer.value = place.stack;
      host.exports.__wasm_init_tls(place.storage);
      host.index = index;
    },
    load({ code, names, place }) {
      const table = host.exports.__indirect_function_table, missing = place.table + place.slots - table.length;
      if (missing > 0) table.grow(missing);
      const imports = sideImports(code, host, place);
      linked(new WebAssembly.Instance(code, imports).exports, imports, names, host, place, false);
    },
    work: () => host.exports.TWWork(host.index),
  };
  listen(port, (message) => {
    let error;
    try {
      for (const name in message) does[name](message[name]);
    } catch (caught) {
      error = String(caught);
    }
    port.postMessage({ error });
  });
}
if (IN_NODE) import("node:worker_threads").then(({ isMainThread, workerData, parentPort }) => isMainThread || workerData !== WORKER || serve(parentPort));
else if (typeof WorkerGlobalScope !== "undefined" && self.name === WORKER) serve(self);
