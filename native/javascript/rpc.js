// A server of sessions in a page or a program: it connects to a proxy by a WebSocket, as neither can listen.

import { Incoming, MAGIC, MessageReader, MessageWriter } from "./messages.js";
import { Session } from "./session.js";
import { instantiate } from "./start.js";
import { measured } from "./timing.js";
import { DLDevice, TVMError, encoded, fail } from "./values.js";

const NO_CODES = { [MAGIC + 1]: "the key is in use at the proxy", [MAGIC + 3]: "the proxy demands a key file, which a server in JavaScript has not" };

/** Serves the clients that a proxy sends, one after the other, each with a runtime and files of its own, until `stop`.
 * `start` makes the runtime of a session; `log` gets what happens. */
export class RPCServer {
  #socket;
  #stopped = false;
  constructor(url, key = "", { start = instantiate, log = () => {}, WebSocket = globalThis.WebSocket } = {}) {
    Object.assign(this, { url: String(url), key, start, log });
    if (!WebSocket) fail("RuntimeError", "this host has no WebSocket: node 22 or newer has one, node 20 with --experimental-websocket; or give one: { WebSocket }");
    this.WebSocket = WebSocket;
    /** Ends with `stop`; fails when the proxy cannot be reached, or refuses. */
    this.ended = this.#run();
    this.ended.catch(() => {});
  }
  stop() {
    this.#stopped = true;
    this.#socket?.close();
  }
  async #run() {
    while (!this.#stopped) {
      const { incoming, send } = await this.#connected();
      try {
        await this.#serve(incoming, send);
      } catch (error) {
        if (this.#stopped) return;
        throw error;
      } finally {
        this.#socket.close();
      }
    }
  }
  async #connected() {
    const incoming = new Incoming(), socket = (this.#socket = new this.WebSocket(this.url));
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => incoming.push(new Uint8Array(data));
    const lost = (what) => new TVMError("ConnectionError", `${what} (${this.url})`);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = socket.onclose = () => reject(lost("cannot connect to the proxy: it does not run, its address is another one (ws://host:port/ws), or it does not trust the origin of this page (--web-origin)"));
    });
    socket.onerror = socket.onclose = () => incoming.end(lost("the connection to the proxy is lost"));
    return { incoming, send: (bytes) => socket.readyState === 1 && socket.send(bytes) };
  }
  async #serve(incoming, send) {
    const greeting = encoded(`server:${this.key}`);
    send(new MessageWriter().i32(MAGIC, greeting.length).bytes(greeting).finished().subarray(8));
    const number = async () => new MessageReader(await incoming.exactly(4)).i32();
    this.log(`waiting at ${this.url} with the key ${JSON.stringify(this.key)}`);
    const code = await number();
    if (code === MAGIC + 2) return; // no client came in the proxy's time: it is asked again
    if (code !== MAGIC) fail("RPCError", `${NO_CODES[code] ?? `it is no proxy: it answered 0x${(code >>> 0).toString(16)}`} (${this.url})`);
    const client = new TextDecoder().decode(await incoming.exactly(await number()));
    const seconds = Number(/ -timeout=(\d+)/.exec(client)?.[1] ?? 0), instance = await this.start();
    const clock = seconds ? setTimeout(() => incoming.end(new TVMError("TimeoutError", `the session took longer than ${seconds} s`)), 1000 * seconds) : undefined;
    this.log(`a session with ${client.split(" ")[0]}`);
    try {
      await new Session(instance, serverFunctions(instance), send).serve(incoming);
      this.log("the session has ended");
    } catch (error) {
      if (this.#stopped) throw error;
      // The next client may come. The proxy closes a connection whose client is gone.
      this.log(`the session has ended: ${error.name === "ConnectionError" ? "the client or the proxy is gone" : error.message}`);
    } finally {
      clearTimeout(clock);
      instance.dispose();
    }
  }
}

/** What a server offers beside the functions of its runtime: files in memory, modules, measurements. */
function serverFunctions(instance) {
  const files = new Map(), prefix = "tvm.rpc.server.";
  const place = (path) => {
    const parts = [];
    for (const part of path.split("/")) {
      if (part === "..") parts.length ? parts.pop() : fail("ValueError", `the path '${path}' leads out of the session's folder`);
      else if (part && part !== ".") parts.push(part);
    }
    return parts.join("/");
  };
  const file = (path) => files.get(place(path)) ?? fail("FileNotFoundError", `there is no '${path}' in the session's folder; uploaded are: ${[...files.keys()].sort().join(", ") || "none"}`);
  const within = (path) => (place(path) ? `${place(path)}/` : "");
  return {
    [`${prefix}upload`]: (path, bytes) => void files.set(place(path), bytes),
    [`${prefix}append`](path, bytes) {
      const before = file(path), both = new Uint8Array(before.length + bytes.length);
      both.set(before);
      both.set(bytes, before.length);
      files.set(place(path), both);
    },
    [`${prefix}size`]: (path) => file(path).length,
    [`${prefix}read`]: (path, start, count) => file(path).slice(start, start + count),
    [`${prefix}download`]: (path) => file(path),
    [`${prefix}remove`](path) {
      files.delete(place(path));
      for (const name of [...files.keys()]) if (within(path) && name.startsWith(within(path))) files.delete(name);
    },
    [`${prefix}listdir`](path) {
      const folder = within(path), inside = [...files.keys()].filter((name) => name.startsWith(folder));
      return [...new Set(inside.map((name) => name.slice(folder.length).split("/")[0]))].sort().join(",");
    },
    [`${prefix}workpath`]: (path) => place(path),
    [`${prefix}load_module`](path) {
      if (/\.(o|a|tar)$/.test(path)) fail("ValueError", `'${path}' is not linked: a model for WebAssembly is linked where it is compiled, by export_library("model.wasm")`);
      return instance.loadModule(file(path));
    },
    [`${prefix}ModuleGetFunction`]: (module, name, queryImports) => instance.call("runtime.ModuleGetFunction", module, name, Boolean(queryImports)),
    [`${prefix}ImportModule`]: (module, other) => module.importModule(other),
    "runtime.RPCTimeEvaluator"(module, name, deviceType, deviceId, number, repeat, minRepeatMs, limitZeroTimeIterations, cooldownIntervalMs, repeatsToCooldown, flushed, before) {
      if (flushed) fail("ValueError", "cache_flush_bytes must be 0 here: WebAssembly cannot flush caches");
      const f = instance.detachFromCurrentScope(module ? module.getFunction(name) : instance.getGlobalFunc(name));
      const first = before ? instance.getGlobalFunc(before) : undefined, device = new DLDevice(deviceType, deviceId);
      instance.device(device.deviceType);
      return async (...args) => {
        const run = instance.repeated(f, args), plan = { number, repeat, minRepeatMs, limitZeroTimeIterations, cooldownIntervalMs, repeatsToCooldown };
        const { results } = await measured(run, { ...plan, before: first && (() => first(...args)) });
        return new Uint8Array(Float64Array.from(results).buffer);
      };
    },
  };
}
