// What a worker does: it runs parts of parallel loops, and what messages say while it is not in the runtime's pool.

import { linked, sideImports } from "./loader.js";
import { Frame, LinearMemory } from "./memory.js";
import { builtin, listen, system } from "./system.js";
import { IN_NODE, encoded } from "./values.js";

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
if (IN_NODE) builtin("worker_threads").then(({ parentPort }) => serve(parentPort));
else serve(self);
