// The loader: WebAssembly's conventions for dynamic linking, and where files come from.

import { builtin } from "./system.js";
import { IN_NODE, TVMError, described, fail } from "./values.js";

/** What a module asks for: bytes of memory, places in the table. */
export function dylinkOf(code) {
  const [section] = WebAssembly.Module.customSections(code, "dylink.0");
  if (!section) fail("ValueError", "this WebAssembly module is no compiled model: it has no section `dylink.0`; compile the model with --target wasm32");
  const bytes = new Uint8Array(section);
  let at = 0;
  const number = () => {
    for (let value = 0, shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value += (byte & 127) * 2 ** shift;
      if (!(byte & 128)) return value;
    }
  };
  while (at < bytes.length) {
    const kind = bytes[at++], size = number();
    if (kind === 1) return { memory: number(), memoryAlign: number(), table: number() };
    at += size;
  }
  return { memory: 0, memoryAlign: 0, table: 0 };
}
/** host: exports of the runtime in this thread. */
export function sideImports(code, host, place) {
  const constant = (value) => new WebAssembly.Global({ value: "i32" }, value);
  const env = {
    memory: host.memory.object, __indirect_function_table: host.exports.__indirect_function_table, __stack_pointer: host.exports.__stack_pointer,
    __memory_base: constant(place.memory), __table_base: constant(place.table),
  };
  const got = { "GOT.mem": {}, "GOT.func": {} }, own = {};
  const names = new Set(WebAssembly.Module.exports(code).map((e) => e.name));
  for (const { module, name, kind } of WebAssembly.Module.imports(code)) {
    if (module in got) got[module][name] = new WebAssembly.Global({ value: "i32", mutable: true }, 0);
    // A function that another module might have replaced, such as a weak one, is imported though it is the module's own.
    else if (kind === "function" && names.has(name)) env[name] = (...args) => own.exports[name](...args);
    else if (kind === "function") env[name] ??= host.exports[name] ?? mathematics(name) ?? fail("RuntimeError", `the model calls the function \`${name}\`, which the runtime does not have`);
  }
  return { env, ...got, own };
}
/** Functions of C's library that JavaScript has: of doubles, or with an f at the end of their names, of floats. */
function mathematics(name) {
  if (name === "fmod") return (x, y) => x % y;
  if (typeof Math[name] === "function") return Math[name];
  const wide = name.endsWith("f") ? mathematics(name.slice(0, -1)) : undefined;
  return wide && ((...args) => Math.fround(wide(...args)));
}
/** Gives the functions of a module their places in the table. Returns names and addresses of what it exports. */
export function linked(exports, imports, names, host, place, first = true) {
  imports.own.exports = exports;
  const number = new Map(names.map((name, i) => [name, i]));
  const address = (name) => (number.has(name) ? place.functions + number.get(name) : place.memory + exports[name].value);
  names.forEach((name, i) => host.exports.__indirect_function_table.set(place.functions + i, exports[name]));
  for (const globals of [imports["GOT.mem"], imports["GOT.func"]])
    for (const [name, global] of Object.entries(globals))
      global.value = name in exports ? address(name) : fail("RuntimeError", `the model refers to \`${name}\`, which neither it nor the runtime has`);
  if (first) {
    exports.__wasm_apply_data_relocs?.();
    exports.__wasm_call_ctors?.();
  }
  return Object.keys(exports).filter((name) => !name.startsWith("__wasm_")).flatMap((name) => [name, address(name)]);
}

/** A module of an URL, a path, a Response, bytes, or a promise of one of them. */
export async function compiled(source, what) {
  source = await source;
  if (source instanceof WebAssembly.Module) return source;
  const place = typeof source === "string" || source instanceof URL ? String(source) : (source?.url ?? "");
  const name = place ? `${what} (${place})` : what;
  if (place && !source.arrayBuffer) source = await opened(place, name);
  if (typeof Response !== "undefined" && source instanceof Response) {
    if (!source.ok) fail("OSError", `${name} cannot be read: the server answers ${source.status} ${source.statusText}`);
    source = await source.arrayBuffer();
  }
  if (!(source instanceof ArrayBuffer) && !ArrayBuffer.isView(source)) fail("TypeError", `${what} is loaded from bytes, an URL or a Response, not from ${described(source)}`);
  const bytes = ArrayBuffer.isView(source) ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength) : new Uint8Array(source);
  checkKind(bytes, name);
  checkSeal(bytes, name);
  try {
    return await WebAssembly.compile(source);
  } catch (error) {
    throw new TVMError("RuntimeError", `${name} cannot be compiled by this host: the file is damaged, or the host lacks an instruction set (128-bit SIMD, exceptions): ${error.message}`, { cause: error });
  }
}
function checkKind(bytes, name) {
  if (bytes.length >= 4 && bytes[0] === 0 && bytes[1] === 97 && bytes[2] === 115 && bytes[3] === 109) return;
  const [first, second] = bytes, text = new TextDecoder("latin1").decode(bytes.subarray(0, 40));
  const what = !bytes.length ? "it is empty"
    : first === 0x7f && second === 0x45 ? "it is a library for Linux (ELF)"
    : first === 0x4d && second === 0x5a ? "it is a library for Windows"
    : (first & 0xfe) === 0xce && second === 0xfa ? "it is a library for macOS"
    : /^[\t\n\r -~]*$/.test(text) ? `it is a text that begins with ${JSON.stringify(text)}`
    : `it begins with the bytes ${Array.from(bytes.subarray(0, 4), (b) => b.toString(16).padStart(2, "0")).join(" ")}`;
  fail("ValueError", `${name} is no WebAssembly: ${what}; a model is compiled for the target wasm32 (tilewright compile --target wasm32-unknown-unknown)`);
}
// The section at the end of a model: a custom one of 24 bytes, whose name has 15.
const SEAL = new TextEncoder().encode("\0\x18\x0ftilewright.seal");

/** Compares the checksums that a model ends with; files without them pass. */
function checkSeal(bytes, name) {
  const end = bytes.length - SEAL.length - 8;
  if (end < 0 || SEAL.some((byte, i) => bytes[end + i] !== byte)) return;
  const aligned = bytes.byteOffset % 4 ? bytes.slice(0, end) : bytes, words = new Int32Array(aligned.buffer, aligned.byteOffset, end >>> 2);
  let first = 0, second = 0;
  for (let i = 0; i < words.length; ++i) second = (second + (first = (first + words[i]) | 0)) | 0;
  if (end % 4) {
    for (let i = end & ~3; i < end; ++i) first = (first + bytes[i] * 2 ** (8 * (i % 4))) | 0;
    second = (second + first) | 0;
  }
  const said = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 8);
  if (said.getInt32(0, true) !== first || said.getInt32(4, true) !== second) fail("ValueError", `${name} is damaged: its checksum is not that of its contents; copy or compile it again`);
}
async function opened(place, name) {
  if (!IN_NODE || /^(https?|data|blob):/.test(place))
    return fetch(place).catch((error) => {
      throw new TVMError("OSError", `${name} cannot be fetched: ${error.cause?.message || error.message}`, { cause: error });
    });
  const { readFile } = await builtin("fs/promises");
  try {
    return await readFile(place.startsWith("file:") ? new URL(place) : place);
  } catch (error) {
    throw new TVMError(error.code === "ENOENT" ? "FileNotFoundError" : "OSError", `${name} cannot be read: ${error.message}`, { cause: error });
  }
}
