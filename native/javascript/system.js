// What the runtime asks of the system that it is on.

import { IN_NODE, fail } from "./values.js";

/** What the C library of the runtime asks a system for: the time, and to write messages; all else it does not have. */
export function system(host) {
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

/** A module of node's, by a name that bundlers for browsers do not look for. */
export function builtin(name) {
  const address = `node:${name}`;
  return import(/* @vite-ignore */ /* webpackIgnore: true */ address);
}

/** Calls `body` with each message of a worker, or in a worker. */
export function listen(port, body) {
  if (IN_NODE) port.on("message", body);
  else port.onmessage = (event) => body(event.data);
}
