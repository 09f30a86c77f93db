// A runtime with its memory, functions and models.

import { NDArray, dtypeOf } from "./arrays.js";
import { compiled, dylinkOf, linked, sideImports } from "./loader.js";
import { Frame } from "./memory.js";
import { Executor, GraphExecutor, Module, VirtualMachine } from "./modules.js";
import { bitsOf } from "./numbers.js";
import { measured } from "./timing.js";
import {
  ADT, ARRAY, BOOL, BORROWED_TENSOR, BYTES, CPU, DEVICE, DLDevice, DTYPE, FIRST_OBJECT, FLOAT, FUNCTION, FunctionObject, INT, MODULE, NONE, OBJECT_HEADER, POINTER,
  RAW_BYTES, RAW_STRING, SHAPE, SMALL_BYTES, SMALL_STRING, STRING, Scalar, TENSOR, TVMError, TVMObject, described, encoded, fail,
} from "./values.js";

export class Instance {
  #scopes = [];
  #functions = new Map(); // JavaScript functions that the runtime knows, by number
  #nextFunction = 1;
  #globals = new Map();
  #registered = new Map(); // JavaScript functions by the names that they were registered with
  #dtypes = new Map();
  #thrown = null; // what a JavaScript function threw last, until the error comes back
  #left = new FinalizationRegistry((handle) => this.exports && this.exports.TVMFFIObjectDecRef(handle));
  #borrowed = []; // arrays of each call from compiled code that is going on
  #freeSlots = []; // [how many, the first] of the table
  #tupleType;

  constructor(exports, memory) {
    this.exports = exports;
    this.memory = memory;
    this.table = exports.__indirect_function_table;
  }
  /** Imports of tilewright.wasm. */
  static imports(host) {
    return {
      tilewright_call: (number, args, count, result) => host.instance.#called(number, args >>> 0, count, result >>> 0),
      tilewright_drop(number) {
        const functions = host.instance.#functions, { leave } = functions.get(number);
        functions.delete(number);
        leave?.();
      },
    };
  }

  // ---- lives

  own(object, handle) {
    this.#left.register(object, handle, object);
    this.#scopes.at(-1)?.add(object);
  }
  disown(object, handle) {
    this.#left.unregister(object);
    this.exports?.TVMFFIObjectDecRef(handle);
  }
  beginScope() {
    this.#scopes.push(new Set());
  }
  endScope() {
    if (!this.#scopes.length) fail("RuntimeError", "endScope was called without beginScope");
    for (const object of this.#scopes.pop()) object.dispose();
  }
  /** Runs `action`; what it made is disposed of at its end, except what it detaches and what it returns. */
  withNewScope(action) {
    this.beginScope();
    const depth = this.#scopes.length;
    const end = (value) => {
      if (this.#scopes.length !== depth) fail("RuntimeError", "scopes must end in the order in which they began: an asynchronous action ran beside another one");
      this.moveToParentScope(value);
      this.endScope();
      return value;
    };
    let value;
    try {
      value = action();
    } catch (error) {
      end();
      throw error;
    }
    if (typeof value?.then !== "function") return end(value);
    return value.then(end, (error) => {
      end();
      throw error;
    });
  }
  /** Keeps an object after the end of its scope: `dispose` ends it. */
  detachFromCurrentScope(object) {
    for (const part of objectsOf(object)) this.#scopes.at(-1)?.delete(part);
    return object;
  }
  attachToCurrentScope(object) {
    for (const part of objectsOf(object)) this.#scopes.at(-1)?.add(part);
    return object;
  }
  moveToParentScope(object) {
    for (const part of objectsOf(object)) if (this.#scopes.at(-1)?.delete(part)) this.#scopes.at(-2)?.add(part);
    return object;
  }
  /** Ends the runtime; its memory goes when nothing refers to it. */
  dispose() {
    while (this.#scopes.length) this.endScope();
    this.workers?.end();
    this.exports = null;
  }

  // ---- memory

  allocate(bytes, alignment = 64) {
    const rounded = Math.ceil(Math.max(bytes, 1) / alignment) * alignment;
    const at = rounded < 2 ** 32 ? this.exports.TWAllocate(rounded, alignment) >>> 0 : 0;
    return at || fail("MemoryError", `cannot allocate ${bytes} bytes; ${this.memory.buffer.byteLength} are in use by the runtime and its models`);
  }
  #frame(action) {
    if (!this.exports) fail("RuntimeError", "the instance was disposed of");
    const frame = new Frame(this);
    try {
      return action(frame);
    } finally {
      frame.end();
    }
  }

  // ---- values

  #write(at, value, frame) {
    let type = NONE, word = 0n;
    const object = (kind, handle) => [type, word] = [kind, BigInt(handle)];
    if (value === undefined || value === null) {
    } else if (typeof value === "boolean") [type, word] = [BOOL, value ? 1n : 0n];
    else if (typeof value === "bigint") [type, word] = [INT, BigInt.asIntN(64, value)];
    else if (typeof value === "number") {
      if (Number.isSafeInteger(value) && !Object.is(value, -0)) [type, word] = [INT, BigInt(value)];
      else [type, word] = [FLOAT, bitsOf(value)];
    } else if (value instanceof Scalar) {
      const whole = /^u?int|^bool/.test(value.dtype);
      [type, word] = whole ? [INT, BigInt(value.value)] : [FLOAT, bitsOf(Number(value.value))];
    } else if (typeof value === "string") object(RAW_STRING, frame.copy(encoded(value), 1));
    else if (value instanceof Uint8Array) object(RAW_BYTES, frame.cell(value));
    else if (value instanceof ArrayBuffer) object(RAW_BYTES, frame.cell(new Uint8Array(value)));
    else if (value instanceof DLDevice) [type, word] = [DEVICE, BigInt(value.deviceType) | (BigInt(value.deviceId) << 32n)];
    else if (value instanceof TVMObject) object(this.memory.u32[(value.getHandle() + 8) >>> 2], value.getHandle());
    else if (value instanceof Executor) object(MODULE, value.module.getHandle());
    else if (typeof value === "function") object(FUNCTION, (value.object ?? frame.until(this.#hosted(value))).getHandle());
    else if (Array.isArray(value)) object(ARRAY, frame.until(this.#list(value)).getHandle());
    else if (ArrayBuffer.isView(value)) fail("TypeError", `a ${value.constructor.name} cannot be passed to a function: make it an NDArray by array(elements, shape)`);
    else fail("TypeError", `${described(value)} cannot be passed to a function: numbers, strings, Uint8Array (bytes), NDArray, DLDevice, Module, functions and lists of them can`);
    const { u32, i64 } = this.memory;
    u32[at >>> 2] = type;
    u32[(at >>> 2) + 1] = 0;
    i64[(at >>> 3) + 1] = word;
  }
  /** The value at an address. `owned`: its reference becomes ours; else it is of the caller. */
  #read(at, owned) {
    const { memory } = this, { u32, i64, f64, u8 } = memory;
    const type = u32[at >>> 2], word = i64[(at >>> 3) + 1], handle = u32[(at >>> 2) + 2];
    switch (type) {
      case NONE: return undefined;
      case INT: return word >= BigInt(Number.MIN_SAFE_INTEGER) && word <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(word) : word;
      case BOOL: return word !== 0n;
      case FLOAT: return f64[(at >>> 3) + 1];
      case POINTER: return handle;
      case DTYPE: return this.dtypeText(u8.slice(at + 8, at + 12));
      case DEVICE: return new DLDevice(u32[(at >>> 2) + 2], u32[(at >>> 2) + 3]);
      case RAW_STRING: return memory.text(handle, u8.indexOf(0, handle) - handle);
      case RAW_BYTES: return memory.bytesOf(handle);
      case SMALL_STRING: return memory.text(at + 8, u32[(at >>> 2) + 1]);
      case BORROWED_TENSOR: return this.#borrow(handle);
      case SMALL_BYTES: return u8.slice(at + 8, at + 8 + u32[(at >>> 2) + 1]);
      default: break;
    }
    if (type < FIRST_OBJECT) fail("TypeError", `a value of type index ${type} has no form in JavaScript`);
    if (!owned) this.exports.TVMFFIObjectIncRef(handle);
    if (type === TENSOR) return new NDArray(handle, this);
    if (type === MODULE) return new Module(handle, this);
    if (type === FUNCTION) return this.#function(handle);
    if (type !== STRING && type !== BYTES && type !== ARRAY && type !== SHAPE) return new (type === this.#tuple() ? ADT : TVMObject)(handle, this);
    try {
      const content = handle + OBJECT_HEADER;
      if (type === BYTES) return memory.bytesOf(content);
      const [data, size] = u32.subarray(content >>> 2, (content >>> 2) + 4).filter((_, i) => i === 0 || i === (type === ARRAY ? 2 : 1));
      if (type === STRING) return memory.text(data, size);
      if (type === SHAPE) return Array.from(this.memory.i64.subarray(data >>> 3, (data >>> 3) + size), Number);
      return Array.from({ length: size }, (_, i) => this.#read(data + 16 * i, false));
    } finally {
      this.exports.TVMFFIObjectDecRef(handle);
    }
  }
  // A tensor of the caller's, which ends with the call.
  #borrow(tensor) {
    return this.#frame((frame) => {
      const out = frame.allocate(16);
      this.#check(this.exports.TVMFFITensorCreateUnsafeView(0, tensor, out));
      const array = new NDArray(this.memory.u32[out >>> 2], this);
      this.#borrowed.at(-1)?.push(array);
      return array;
    });
  }
  #tuple() {
    return (this.#tupleType ??= this.call("runtime.ADTTypeIndex"));
  }
  #list(values) {
    return this.#frame((frame) => {
      const items = frame.allocate(16 * values.length), out = frame.allocate(16);
      values.forEach((value, i) => this.#write(items + 16 * i, value, frame));
      for (let i = 0; i < values.length; ++i) this.#check(this.exports.TVMFFIAnyViewToOwnedAny(items + 16 * i, items + 16 * i));
      this.#check(this.exports.TWArrayCreate(items, BigInt(values.length), out));
      return new TVMObject(this.memory.u32[out >>> 2], this);
    });
  }

  // ---- functions and errors

  #function(handle) {
    const object = new FunctionObject(handle, this);
    const packed = (...args) => this.#call(object, args);
    packed.object = object;
    packed.dispose = () => object.dispose();
    return packed;
  }
  #hosted(body) {
    return this.#frame((frame) => {
      const number = this.#nextFunction++, out = frame.allocate(16);
      this.#functions.set(number, body);
      this.#check(this.exports.TWFunctionFromHost(number, out));
      return new FunctionObject(this.memory.u32[out >>> 2], this);
    });
  }
  #call(object, args, times = 1) {
    return this.#frame((frame) => {
      const at = frame.allocate(16 * args.length + 16), values = at + 16, handle = object.getHandle();
      args.forEach((value, i) => this.#write(values + 16 * i, value, frame));
      for (let left = times; ; ) {
        this.#write(at, undefined, frame);
        this.#check(this.exports.TVMFFIFunctionCall(handle, values, args.length, at));
        if (--left <= 0) return this.#read(at, true);
        const { u32 } = this.memory;
        if (u32[at >>> 2] >= FIRST_OBJECT) this.exports.TVMFFIObjectDecRef(u32[(at >>> 2) + 2]);
      }
    });
  }
  /** `run(times)` calls a function so often with these arguments, which are handed over once for all of them. */
  repeated(f, args) {
    if (this.isPackedFunc(f)) return (times) => this.withNewScope(() => void this.#call(f.object, args, times));
    return async (times) => {
      while (times--) await f(...args);
    };
  }
  // Compiled code or the runtime calls a function of JavaScript.
  #called(number, args, count, result) {
    this.beginScope();
    this.#borrowed.push([]);
    try {
      const values = Array.from({ length: count }, (_, i) => this.#read(args + 16 * i, false));
      const value = this.#functions.get(number)(...values);
      if (typeof value?.then === "function") fail("TypeError", "compiled code cannot wait for an asynchronous function: it must return its value, not a promise");
      this.#frame((frame) => {
        const at = frame.allocate(16);
        this.#write(at, value, frame);
        this.#check(this.exports.TVMFFIAnyViewToOwnedAny(at, result));
      });
      return 0;
    } catch (error) {
      const kind = error?.name ?? "Error", message = error?.message ?? String(error);
      this.#thrown = { kind, message, error };
      this.#frame((frame) => this.exports.TVMFFIErrorSetRaisedFromCStr(frame.copy(encoded(kind), 1), frame.copy(encoded(message), 1)));
      return -1;
    } finally {
      for (const array of this.#borrowed.pop()) array.dispose();
      this.endScope();
    }
  }
  #check(code) {
    if (code === 0) return;
    const [kind, message] = this.#frame((frame) => {
      const out = frame.allocate(16);
      this.exports.TVMFFIErrorMoveFromRaised(out);
      const handle = this.memory.u32[out >>> 2];
      if (!handle) return ["RuntimeError", `a function failed with code ${code} and left no reason`];
      const cells = handle + OBJECT_HEADER, texts = [cells, cells + 8].map((cell) => new TextDecoder().decode(this.memory.bytesOf(cell)));
      this.exports.TVMFFIObjectDecRef(handle);
      return texts;
    });
    const own = this.#thrown;
    this.#thrown = null;
    throw new TVMError(kind, message, own && own.kind === kind && own.message === message ? { cause: own.error } : undefined);
  }
  #global(name) {
    return this.#frame((frame) => {
      const key = frame.cell(encoded(name)), out = frame.allocate(16);
      this.#check(this.exports.TVMFFIFunctionGetGlobal(key, out));
      const handle = this.memory.u32[out >>> 2];
      return handle ? this.#function(handle) : undefined;
    });
  }
  /** A function of the runtime, or one that was registered, by its name. Throws where there is none. */
  getGlobalFunc(name) {
    return this.#global(name) ?? fail("ValueError", `there is no global function \`${name}\``);
  }
  listGlobalFuncNames() {
    return this.call("ffi.FunctionListGlobalNames");
  }
  /** Calls a function of the runtime by its name. */
  call(name, ...args) {
    let found = this.#globals.get(name);
    if (!found) this.#globals.set(name, (found = this.detachFromCurrentScope(this.getGlobalFunc(name))));
    return found(...args);
  }
  /** Lets compiled code call a JavaScript function by a name. Its NDArrays live as long as the call, unless it detaches them. */
  registerFunc(name, body, override = false) {
    this.#frame((frame) => {
      const f = frame.until(this.#hosted(body));
      this.#check(this.exports.TVMFFIFunctionSetGlobal(frame.cell(encoded(name)), f.getHandle(), override ? 1 : 0));
      this.#registered.set(name, body);
    });
  }
  /** The JavaScript function that was registered by this name, else a function of the runtime; undefined where there is none. */
  registeredFunc(name) {
    return this.#registered.get(name) ?? this.#global(name);
  }
  isPackedFunc(value) {
    return typeof value === "function" && value.object instanceof FunctionObject;
  }
  /** A JavaScript function as a function of the runtime. */
  toPackedFunc(body) {
    if (this.isPackedFunc(body)) return body;
    const object = this.detachFromCurrentScope(this.#hosted(body)), handle = object.getHandle();
    this.exports.TVMFFIObjectIncRef(handle);
    object.dispose();
    return this.#function(handle);
  }

  // ---- arrays

  get numThreads() {
    return (this.workers?.count ?? 0) + 1;
  }
  cpu(deviceId = 0) {
    return new DLDevice(CPU, deviceId);
  }
  device(type, deviceId = 0) {
    if (type !== "cpu" && type !== CPU) fail("ValueError", `there is no device of the type ${type} here: "cpu" is`);
    return this.cpu(deviceId);
  }
  dtypeText(bytes) {
    const key = String(bytes);
    let text = this.#dtypes.get(key);
    if (text === undefined) {
      text = this.#frame((frame) => {
        const at = frame.copy(bytes), out = frame.allocate(16);
        this.#check(this.exports.TVMFFIDataTypeToString(at, out));
        return this.#read(out, true);
      });
      this.#dtypes.set(key, text);
    }
    return text;
  }
  /** An array without contents. */
  empty(shape, dtype = "float32", device = this.cpu()) {
    const dims = typeof shape === "number" ? [shape] : Array.from(shape);
    for (const d of dims) if (!Number.isSafeInteger(d)) fail("TypeError", `a shape consists of integers, but ${described(d)} was given`);
    return this.#frame((frame) => {
      const at = frame.allocate(8 * dims.length), type = frame.allocate(16), where = frame.allocate(16), out = frame.allocate(16);
      this.memory.i64.set(dims.map(BigInt), at >>> 3);
      this.memory.u32.set([device.deviceType, device.deviceId], where >>> 2);
      this.#check(this.exports.TVMFFIDataTypeFromString(frame.cell(encoded(dtype)), type));
      this.#check(this.exports.TWTensorEmpty(dims.length, at, type, where, out));
      return new NDArray(this.memory.u32[out >>> 2], this);
    });
  }
  /** A typed array, or numbers, as an array of the runtime. */
  array(elements, shape = [elements.length], dtype = dtypeOf(elements)) {
    return this.empty(shape, dtype).copyFrom(elements);
  }
  /** Elements of an array under another shape; `at`: their address and the bytes of their type, if these differ too. */
  viewOf(array, shape, at) {
    return this.#frame((frame) => {
      const like = frame.allocate(48), dims = frame.allocate(8 * shape.length), out = frame.allocate(16), from = array.getHandle() + OBJECT_HEADER;
      this.memory.u8.copyWithin(like, from, from + 40);
      this.memory.i64.set(shape.map(BigInt), dims >>> 3);
      const { u32, u8, i64 } = this.memory;
      [u32[(like + 12) >>> 2], u32[(like + 20) >>> 2], u32[(like + 24) >>> 2]] = [shape.length, dims, 0];
      if (at) {
        [u32[like >>> 2], i64[(like + 32) >>> 3]] = [at.address, 0n];
        u8.set(at.type, like + 16);
      }
      this.#check(this.exports.TVMFFITensorCreateUnsafeView(array.getHandle(), like, out));
      return new NDArray(this.memory.u32[out >>> 2], this);
    });
  }

  // ---- models

  /** Loads a compiled model (model.wasm): its bytes, an URL, a Response, the path of a file in node, or a WebAssembly.Module. */
  async loadModule(source) {
    const code = await compiled(source, "the model");
    const side = dylinkOf(code), names = WebAssembly.Module.exports(code).filter((e) => e.kind === "function").map((e) => e.name);
    const before = this.memory.buffer.byteLength;
    const place = { memory: this.allocate(side.memory, Math.max(2 ** side.memoryAlign, 64)), table: 0, functions: 0, slots: side.table + names.length };
    this.memory.u8.fill(0, place.memory, Math.min(place.memory + side.memory, Math.max(before, place.memory))); // what memory grew by is 0
    place.table = this.#takeSlots(place.slots);
    place.functions = place.table + side.table;
    const leave = () => {
      if (!this.exports) return;
      for (let i = 0; i < place.slots; ++i) this.table.set(place.table + i, null);
      this.#freeSlots.push([place.slots, place.table]);
      this.exports.TWFree(place.memory);
    };
    try {
      const imports = sideImports(code, this, place);
      const { exports } = await WebAssembly.instantiate(code, imports).catch((error) => {
        const [has, lacks] = this.workers ? ["has", "without"] : ["has no", "for"];
        throw new TVMError("RuntimeError", `the model does not fit the runtime, which ${has} threads, if it was compiled ${lacks} threads (-mattr=+atomics): ${error.message}`, { cause: error });
      });
      const symbols = linked(exports, imports, names, this, place);
      await this.workers?.load({ code, names, place });
      // It stays in its place as long as a function or an executor of it lives.
      return this.withNewScope(() => this.call("runtime.ModuleFromSymbols", this.#hosted(Object.assign(() => {}, { leave })), "", null, ...symbols));
    } catch (error) {
      leave();
      throw error;
    }
  }
  #takeSlots(count) {
    const free = this.#freeSlots.findIndex(([size]) => size === count);
    return free < 0 ? this.table.grow(count) : this.#freeSlots.splice(free, 1)[0][1];
  }
  /** The executor of a model, of the kind that it was compiled for. */
  createExecutor(library, device = this.cpu()) {
    return this.withNewScope(() => {
      const create = this.call("runtime.ModuleGetFunction", library, "default", true);
      return this.#executor(create ?? fail("ValueError", "the library has no model, but functions: getFunction gives them by name"), device);
    });
  }
  createVirtualMachine(library, device = this.cpu()) {
    return this.withNewScope(() => {
      const executor = this.createExecutor(library, device);
      return executor instanceof VirtualMachine ? executor : fail("TypeError", `the model is not for the virtual machine, but for ${executor.module.typeKey}: createExecutor makes that`);
    });
  }
  /** Runs a graph in the classic JSON form on the functions of a library. */
  createGraphExecutor(graphJson, library, device = this.cpu()) {
    return this.withNewScope(() => this.#executor(this.getGlobalFunc("tvm.graph_executor.create"), graphJson, library, device));
  }
  #executor(create, ...args) {
    const module = this.detachFromCurrentScope(create(...args));
    const executor = new (module.typeKey === "VirtualMachine" ? VirtualMachine : GraphExecutor)(module);
    this.#scopes.at(-1)?.add(executor);
    return executor;
  }
  /** Milliseconds of a call: `repeat` means of `number` calls each. */
  async benchmark(run, device = this.cpu(), number = 10, repeat = 1) {
    const { results } = await measured(this.repeated(run, []), { number, repeat });
    await device.sync();
    return results.map((seconds) => 1000 * seconds);
  }
}

function* objectsOf(value) {
  if (value instanceof TVMObject || value instanceof Executor) yield value;
  else if (value?.object instanceof TVMObject) yield value.object;
  else if (Array.isArray(value)) for (const item of value) yield* objectsOf(item);
}
