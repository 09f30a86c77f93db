// What values are in the ABI of the runtime, and those of JavaScript that stand for them.

export const NONE = 0, INT = 1, BOOL = 2, FLOAT = 3, POINTER = 4, DTYPE = 5, DEVICE = 6, BORROWED_TENSOR = 7, RAW_STRING = 8, RAW_BYTES = 9, SMALL_STRING = 11,
  SMALL_BYTES = 12, FIRST_OBJECT = 64, STRING = 65, BYTES = 66, FUNCTION = 68, SHAPE = 69, TENSOR = 70, ARRAY = 71, MODULE = 73;
export const OBJECT_HEADER = 24; // bytes before what an object holds
export const CPU = 1;
export const IN_NODE = typeof process !== "undefined" && Boolean(process.versions?.node);

/** What compiled code, the runtime or this module refuses; `name` is the kind of error, such as "ValueError". */
export class TVMError extends Error {
  constructor(kind, message, options) {
    super(message, options);
    this.name = kind;
  }
  get kind() {
    return this.name;
  }
}
export const fail = (kind, message) => {
  throw new TVMError(kind, message);
};

/** A number passed as a type of its own: `new Scalar(1, "float32")` where an integer would be taken for one. */
export class Scalar {
  constructor(value, dtype) {
    this.value = value;
    this.dtype = dtype;
  }
}

export class DLDevice {
  constructor(deviceType, deviceId) {
    this.deviceType = deviceType;
    this.deviceId = deviceId;
  }
  /** Waits for what the device was given; the CPU has always done it. */
  async sync() {}
  toString() {
    return this.deviceType === CPU ? `cpu(${this.deviceId})` : `device(${this.deviceType}, ${this.deviceId})`;
  }
}

/** A reference to an object of the runtime. It ends with `dispose`, with the scope that it was made in, or with the JavaScript object. */
export class TVMObject {
  #handle;
  constructor(handle, instance) {
    this.#handle = handle;
    this.instance = instance;
    instance.own(this, handle);
  }
  getHandle() {
    return this.#handle || fail("ReferenceError", `this ${this.constructor.name} was disposed of, or the scope that it was made in has ended`);
  }
  dispose() {
    if (this.#handle) this.instance.disown(this, this.#handle);
    this.#handle = 0;
  }
}

/** A value of a data type of the virtual machine (a tuple has the tag 0), or a function of a program. */
export class ADT extends TVMObject {
  get tag() {
    return this.instance.call("runtime.GetADTTag", this);
  }
  get size() {
    return this.instance.call("runtime.GetADTSize", this);
  }
  field(index) {
    return this.instance.call("runtime.GetADTFields", this, index);
  }
  toArray() {
    return Array.from({ length: this.size }, (_, i) => this.field(i));
  }
}

export class FunctionObject extends TVMObject {}

export const encoded = (text) => new TextEncoder().encode(text);
export function described(value) {
  if (value === null || value === undefined) return "nothing";
  if (typeof value === "number" || typeof value === "boolean") return `the ${typeof value} ${value}`;
  return typeof value === "object" ? `an object of type ${value.constructor?.name ?? "Object"}` : `a ${typeof value}`;
}
