// A session with a client: its questions are carried out on a runtime.

import { NDArray } from "./arrays.js";
import {
  ALLOCATE, ALLOCATE_LIKE, Address, CALL, COPY_ACK, COPY_AMONG, COPY_FROM, COPY_TO, CREATE_STREAM, Described, EXCEPTION, FREE_HANDLE, FREE_MEMORY, FREE_STREAM,
  GET_ATTRIBUTE, GET_GLOBAL, INIT, MessageReader, MessageWriter, RETURN, SET_DEVICE, SET_STREAM, SHUTDOWN, SYNCHRONIZE,
} from "./messages.js";
import { Module } from "./modules.js";
import {
  ARRAY, BOOL, BORROWED_TENSOR, BYTES, CPU, DEVICE, DLDevice, DTYPE, FLOAT, FUNCTION, INT, MODULE, NONE, OBJECT_HEADER, POINTER, RAW_BYTES, RAW_STRING, SHAPE,
  SMALL_BYTES, SMALL_STRING, STRING, Scalar, TENSOR, TVMError, described, fail,
} from "./values.js";

const VERSION = "0.8.0"; // of the protocol
const MINE = 1 << 16; // of what belongs to the sender
const DEEPEST = 32; // lists in lists
const LARGEST = 2 ** 31; // bytes of a message

export class Session {
  #objects = new Map(); // what the client has handles of
  #allocated = new Map(); // arrays of bytes that the client allocated, by address
  #lastHandle = 0;
  #asked = []; // questions to the client that wait for their answers
  #idle = () => {}; // called when the next message may be read
  #left = []; // functions of the client that nothing here refers to
  #gone = new FinalizationRegistry((handle) => this.#left.push(handle));
  /** functions: those of this side by name, before the runtime's. send: takes bytes. */
  constructor(instance, functions, send) {
    this.instance = instance;
    this.functions = functions;
    this.send = send;
  }
  /** Answers questions until the client ends the session. */
  async serve(incoming) {
    for (;;) {
      const size = new MessageReader(await incoming.exactly(8)).u64();
      if (size < 4 || size > LARGEST) fail("RPCError", `the client sent a message of ${size} bytes, where 4 to ${LARGEST} are taken`);
      const message = new MessageReader(await incoming.exactly(size)), code = message.i32();
      if (code === SHUTDOWN) return;
      // While a question to the client waits, the client asks others; else one is answered before the next is read.
      await new Promise((resolve) => {
        this.#idle = resolve;
        if (code === RETURN || code === EXCEPTION) this.#answered(code, message);
        else this.#answer(code, message);
      });
    }
  }

  // ---- questions to the client: functions that it passed

  #ask(code, write) {
    const message = new MessageWriter().i32(code);
    write(message);
    this.send(message.finished());
    return new Promise((resolve, reject) => {
      this.#asked.push({ resolve, reject });
      this.#idle();
    });
  }
  #answered(code, message) {
    const question = this.#asked.pop();
    if (!question) return this.#idle();
    try {
      const values = Array.from({ length: message.i32() }, () => this.#read(message));
      if (code === EXCEPTION) fail("RPCError", `a function of the client failed: ${values[0]}`);
      const [type, value] = values.length > 1 ? values : [NONE, values[0]];
      if (value instanceof Address && type === FUNCTION) question.resolve(this.#theirs(value.value));
      else if (value instanceof Address && type !== POINTER) fail("TypeError", "a function of the client returned an array or an object of the client, which this side cannot use");
      else question.resolve(plain(this.#argument(value)));
    } catch (error) {
      question.reject(error);
    }
  }
  #theirs(handle) {
    const f = (...args) =>
      this.#ask(CALL, (message) => {
        message.i64(handle).i32(args.length);
        for (const value of args) this.#write(message, value);
      });
    f.theirs = handle;
    this.#gone.register(f, handle);
    return f;
  }

  // ---- questions of the client

  async #answer(code, message) {
    try {
      if (code === CALL) await this.#call(message);
      else if (code === COPY_FROM) this.#copyFrom(message);
      else {
        const value = code === COPY_TO ? this.#copyTo(message) : this.#system(code, code === INIT ? message : Array.from({ length: message.i32() }, () => this.#read(message)));
        const answer = new MessageWriter().i32(RETURN, 1);
        this.#write(answer, value);
        this.send(answer.finished());
      }
    } catch (error) {
      this.send(new MessageWriter().i32(EXCEPTION, 1, RAW_STRING).text(`${error?.name ?? "Error"}: ${error?.message ?? error}`).finished());
    }
    this.#idle();
  }
  async #call(message) {
    const f = this.#held(message.u64(), FUNCTION);
    let found = this.instance.withNewScope(() => {
      const args = Array.from({ length: message.i32() }, () => this.#argument(this.#read(message)));
      if (this.instance.isPackedFunc(f)) return f(...args);
      return f(...plain(args));
    });
    if (typeof found?.then === "function") found = await found;
    while (this.#left.length) await this.#ask(FREE_HANDLE, (question) => this.#write(question.i32(1), new Address(this.#left.pop()))).catch(() => {});
    const answer = new MessageWriter();
    this.#writeResult(answer, found);
    this.send(answer.finished());
  }
  // Arrays that a function gets are arrays of the runtime, which keep the memory they are in.
  #argument(value) {
    if (value instanceof Described) return this.#array(value);
    return Array.isArray(value) ? value.map((v) => this.#argument(v)) : value;
  }
  #copyFrom(message) {
    const tensor = message.tensor(), size = message.u64(), answer = new MessageWriter().i32(COPY_ACK);
    this.send(answer.bytes(this.#bytes(tensor, size).slice()).finished());
  }
  #copyTo(message) {
    const tensor = message.tensor(), size = message.u64();
    if (size !== message.left) fail("RPCError", `the client announced ${size} bytes and sent ${message.left}`);
    this.#bytes(tensor, size).set(message.bytes());
  }
  #system(code, args) {
    switch (code) {
      case INIT: {
        const version = args.text(args.u64()), count = args.i32();
        if (version !== VERSION) fail("RPCError", `the client speaks version ${version} of the protocol, and this side version ${VERSION}`);
        if (count) fail("RPCError", "this side opens no sessions with others: leave session_constructor_args out");
        return;
      }
      case GET_GLOBAL: {
        const f = this.functions[args[0]] ?? this.instance.registeredFunc(args[0]);
        return new Address(f ? this.#hold(f) : 0);
      }
      case FREE_HANDLE: return this.#free(args[0]?.value);
      case GET_ATTRIBUTE: {
        const there = args[0].deviceType === CPU && args[0].deviceId === 0;
        return args[1] === 0 ? Number(there) : undefined; // 0: whether there is the device
      }
      case ALLOCATE: return this.#allocate(args[0], Number(args[1]));
      case ALLOCATE_LIKE: return this.#allocate(args[0].device, args[0].byteLength);
      case FREE_MEMORY: {
        const address = args[1]?.value, array = this.#allocated.get(address) ?? fail("RPCError", "the client freed memory that it has not allocated");
        this.#allocated.delete(address);
        return array.dispose();
      }
      case COPY_AMONG: {
        const [from, to] = args, size = from.byteLength;
        if (to.byteLength !== size) fail("ValueError", `${size} bytes cannot be copied into ${to.byteLength}`);
        return this.#bytes(to, size).set(this.#bytes(from, size));
      }
      case SET_DEVICE: case SYNCHRONIZE: case SET_STREAM: case FREE_STREAM: return this.#check(args[0]);
      case CREATE_STREAM: this.#check(args[0]); return new Address(0);
      default: fail("RPCError", `the client sent a message of a kind that this side does not know (${code})`);
    }
  }

  // ---- objects and memory that the client refers to

  #check(device) {
    if (device.deviceType !== CPU || device.deviceId !== 0) fail("ValueError", `this side has no device ${device}: it has cpu(0)`);
  }
  #hold(value) {
    this.instance.detachFromCurrentScope(value);
    this.#objects.set(++this.#lastHandle, value);
    return this.#lastHandle;
  }
  #held(handle, kind) {
    const found = this.#objects.get(handle);
    if (kind === FUNCTION ? typeof found === "function" : found instanceof Module) return found;
    fail("RPCError", `the client asked for a ${kind === FUNCTION ? "function" : "module"} that it does not have`);
  }
  #free(handle) {
    const found = this.#objects.get(handle) ?? fail("RPCError", "the client freed an object that it does not have");
    this.#objects.delete(handle);
    if (found instanceof NDArray || found instanceof Module || this.instance.isPackedFunc(found)) found.dispose();
  }
  #allocate(device, size) {
    this.#check(device);
    if (!(size >= 0)) fail("ValueError", `an array of ${size} bytes cannot be allocated`);
    const array = this.instance.detachFromCurrentScope(this.instance.empty([Math.max(size, 1)], "uint8")), address = array.getDataPtr();
    this.#allocated.set(address, array);
    return new Address(address);
  }
  /** The array in whose memory these bytes are. */
  #owner(tensor, size) {
    this.#check(tensor.device);
    const holds = (array) => {
      const at = tensor.address - array.getDataPtr();
      return at >= 0 && at + size <= array.byteLength;
    };
    const exact = this.#allocated.get(tensor.address);
    if (exact && holds(exact)) return exact;
    for (const array of [...this.#allocated.values(), ...this.#objects.values()]) if (array instanceof NDArray && holds(array)) return array;
    fail("RPCError", `the client asked for ${size} bytes at an address that the session has not allocated`);
  }
  #bytes(tensor, size) {
    if (size === 0) return new Uint8Array(0);
    this.#owner(tensor, size);
    return this.instance.memory.u8.subarray(tensor.address, tensor.address + size);
  }
  #array(tensor) {
    const size = tensor.byteLength;
    if (!Number.isSafeInteger(size) || tensor.shape.some((n) => n < 0)) fail("ValueError", `a tensor of shape [${tensor.shape}] is larger than memory`);
    return size ? this.instance.viewOf(this.#owner(tensor, size), tensor.shape, tensor) : this.instance.empty(tensor.shape, this.instance.dtypeText(tensor.type));
  }

  // ---- values

  #read(message, depth = 0) {
    const type = message.i32();
    if (depth > DEEPEST) fail("RPCError", `the client sent lists in lists, more than ${DEEPEST} deep`);
    switch (type) {
      case NONE: return undefined;
      case INT: {
        const value = message.i64();
        return Number.isSafeInteger(Number(value)) ? Number(value) : value;
      }
      case BOOL: return message.i64() !== 0n;
      case FLOAT: return new Scalar(message.f64(), "float64");
      case POINTER: return new Address(message.u64());
      case DTYPE: return this.instance.dtypeText(message.bytes(8).slice(0, 4));
      case DEVICE: return message.device();
      case BORROWED_TENSOR: return message.tensor();
      case RAW_STRING: return message.text(message.u64());
      case RAW_BYTES: return message.bytes(message.u64()).slice();
      case STRING: case BYTES: case SMALL_STRING: case SMALL_BYTES: {
        const form = message.i32(), size = message.u64();
        return form === BYTES ? message.bytes(size).slice() : message.text(size);
      }
      case FUNCTION: case MODULE: return this.#held(message.u64(), type);
      case MINE | FUNCTION: return this.#theirs(message.u64());
      case SHAPE: return message.shape(message.u64());
      case ARRAY: {
        const size = message.u64();
        if (size > message.left / 4) fail("RPCError", "the client sent a message that ends too early");
        return Array.from({ length: size }, () => this.#read(message, depth + 1));
      }
      default:
        if (type === (MINE | MODULE)) fail("TypeError", "a module of the client's cannot be passed to this side: upload it, and load it here");
        fail("RPCError", `the client sent a value of a type that this side does not know (${type})`);
    }
  }
  #write(message, value, depth = 0) {
    if (depth > DEEPEST) fail("ValueError", `lists in lists cannot be sent when they are more than ${DEEPEST} deep`);
    if (value === undefined || value === null) message.i32(NONE);
    else if (typeof value === "boolean") message.i32(BOOL).i64(value ? 1 : 0);
    else if (typeof value === "bigint" || (Number.isSafeInteger(value) && !Object.is(value, -0))) message.i32(INT).i64(BigInt.asIntN(64, BigInt(value)));
    else if (typeof value === "number") message.i32(FLOAT).f64(value);
    else if (value instanceof Scalar) /^u?int|^bool/.test(value.dtype) ? message.i32(INT).i64(value.value) : message.i32(FLOAT).f64(Number(value.value));
    else if (value instanceof Address) message.i32(POINTER).i64(value.value);
    else if (typeof value === "string") message.i32(RAW_STRING).text(value);
    else if (value instanceof Uint8Array) message.i32(BYTES, BYTES).data(value);
    else if (value instanceof DLDevice) message.i32(DEVICE, value.deviceType, value.deviceId);
    else if (value instanceof NDArray) message.i32(MINE | TENSOR).tensor(this.#described(value)).i64(this.#hold(value));
    else if (value.theirs) message.i32(FUNCTION).i64(value.theirs);
    else if (typeof value === "function" || value instanceof Module) message.i32(MINE | (value instanceof Module ? MODULE : FUNCTION)).i64(this.#hold(value));
    else if (Array.isArray(value)) {
      message.i32(ARRAY).i64(value.length);
      for (const item of value) this.#write(message, item, depth + 1);
    } else fail("TypeError", `${described(value)} cannot be sent to the client; numbers, strings, Uint8Array (bytes), devices, functions, modules, lists of them, and NDArrays can`);
  }
  /** The answer to a call: the type of the value, then the value. */
  #writeResult(message, value) {
    const kind = value instanceof NDArray ? TENSOR : value instanceof Module ? MODULE : typeof value === "function" && !value.theirs ? FUNCTION : NONE;
    message.i32(RETURN, kind === TENSOR ? 3 : 2, INT);
    if (kind === TENSOR) message.i64(kind).i32(BORROWED_TENSOR).tensor(this.#described(value));
    if (kind !== NONE) {
      if (kind !== TENSOR) message.i64(kind);
      message.i32(POINTER).i64(this.#hold(value));
    } else if (value instanceof Uint8Array) message.i64(BYTES).i32(RAW_BYTES).data(value);
    else this.#write(message.i64(NONE), value);
  }
  #described(array) {
    const at = array.getHandle() + OBJECT_HEADER;
    return { address: array.getDataPtr(), device: array.device, type: this.instance.memory.u8.slice(at + 16, at + 20), shape: array.shape };
  }
}

// Functions of JavaScript know floats as numbers.
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  return value instanceof Scalar ? value.value : value;
}
