// How a runtime starts, alone or with workers as its threads.

import { Instance } from "./instance.js";
import { compiled } from "./loader.js";
import { LinearMemory } from "./memory.js";
import { builtin, listen, system } from "./system.js";
import { IN_NODE, TVMError, fail } from "./values.js";

const WORKER_SOURCE = "@WORKER@"; // worker.js with what it imports: a text, as bundlers give a module another address

/** Starts a runtime. `source` of tilewright.wasm as in `loadModule`; by default the file beside this one.
 * `numThreads`: how many threads compiled code may use, this one among them. More than one needs memory that workers share. */
export async function instantiate(source, { numThreads = 1 } = {}) {
  if (!Number.isInteger(numThreads) || numThreads < 1) fail("ValueError", `numThreads must be a positive integer, but it is ${numThreads}`);
  // Bundlers copy the files of addresses that are written like this.
  source ??= numThreads > 1 ? new URL("./tilewright-threads.wasm", import.meta.url) : new URL("./tilewright.wasm", import.meta.url);
  const code = await compiled(source, "the runtime");
  if (!WebAssembly.Module.imports(code).some((i) => i.name === "tilewright_call")) fail("ValueError", "the runtime is started from tilewright.wasm, but another WebAssembly module was given; loadModule loads models");
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

// ---- threads: workers that run parts of parallel loops (worker.js)

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

let workerAddress;
async function newWorker() {
  workerAddress ??= IN_NODE ? new URL(`data:text/javascript,${encodeURIComponent(WORKER_SOURCE)}`) : URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
  const worker = IN_NODE ? new (await builtin("worker_threads")).Worker(workerAddress) : new Worker(workerAddress, { name: "tilewright" });
  const answers = [], waiting = [];
  const answer = (message) => (waiting.length ? waiting.shift()(message) : answers.push(message));
  listen(worker, answer);
  if (IN_NODE) worker.on("error", (error) => answer({ error: String(error) }));
  else worker.onerror = (event) => answer({ error: event.message || "it cannot be started; a page with a Content-Security-Policy must allow worker-src blob:" });
  return {
    thread: worker,
    send: (message) => worker.postMessage(message),
    answer: () => (answers.length ? Promise.resolve(answers.shift()) : new Promise((resolve) => waiting.push(resolve))),
  };
}
