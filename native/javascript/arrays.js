// Arrays in the memory that compiled code reads and writes.

import { fromBrain, fromHalf, toBrain, toHalf } from "./numbers.js";
import { DLDevice, OBJECT_HEADER, TVMObject, described, fail } from "./values.js";

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array, float16: Uint16Array,
  bfloat16: Uint16Array,
};
const HALVES = { float16: { read: fromHalf, write: toHalf }, bfloat16: { read: fromBrain, write: toBrain } };

/** An array in the memory that compiled code reads and writes. */
export class NDArray extends TVMObject {
  #content; // shape and dtype do not change
  constructor(handle, instance) {
    super(handle, instance);
    const { u32, i64, u8 } = instance.memory, at = handle + OBJECT_HEADER;
    const ndim = u32[(at + 12) >>> 2], dims = u32[(at + 20) >>> 2];
    this.shape = Array.from({ length: ndim }, (_, i) => Number(i64[(dims >>> 3) + i]));
    this.dtype = instance.dtypeText(u8.slice(at + 16, at + 20));
    this.device = new DLDevice(u32[(at + 4) >>> 2], u32[(at + 8) >>> 2]);
    this.#content = { size: this.shape.reduce((a, b) => a * b, 1), item: Math.ceil((u8[at + 17] * (u8[at + 18] | (u8[at + 19] << 8))) / 8) };
  }
  get ndim() {
    return this.shape.length;
  }
  get size() {
    return this.#content.size;
  }
  get byteLength() {
    return this.size * this.#content.item;
  }
  /** The address of the elements. */
  getDataPtr() {
    const { u32, i64 } = this.instance.memory, at = this.getHandle() + OBJECT_HEADER;
    return u32[at >>> 2] + Number(i64[(at + 32) >>> 3]);
  }
  /** The elements in place: a typed array over the memory, without a copy. It is made anew at each access, since memory that grows has
   * another buffer; keep it only as long as nothing is called. Types of 16 bits that JavaScript lacks show their bits. */
  get data() {
    const type = ARRAYS[this.dtype] ?? Uint8Array;
    return new type(this.instance.memory.buffer, this.getDataPtr(), this.byteLength / type.BYTES_PER_ELEMENT);
  }
  /** A copy of the elements; those of float16 and bfloat16 as a Float32Array. */
  toArray() {
    const half = HALVES[this.dtype];
    return half ? Float32Array.from(this.data, half.read) : this.data.slice();
  }
  toRawBytes() {
    return this.instance.memory.u8.slice(this.getDataPtr(), this.getDataPtr() + this.byteLength);
  }
  copyFromRawBytes(bytes) {
    if (bytes.byteLength !== this.byteLength) fail("ValueError", `${bytes.byteLength} bytes were given for ${this}, which has ${this.byteLength}`);
    this.instance.memory.u8.set(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength), this.getDataPtr());
    return this;
  }
  /** Elements in row-major order: another NDArray of this type, a typed array, or numbers. A Uint16Array gives the bits of 16-bit floats. */
  copyFrom(source) {
    if (source instanceof NDArray) {
      if (source.dtype !== this.dtype) fail("TypeError", `${source} cannot be copied into ${this}: their types differ`);
      return this.copyFromRawBytes(source.instance.memory.u8.subarray(source.getDataPtr(), source.getDataPtr() + source.byteLength));
    }
    if (Array.isArray(source) && source.some(Array.isArray)) source = source.flat(Infinity);
    if (typeof source?.length !== "number") fail("TypeError", `an array was expected as the elements of ${this}, but ${described(source)} was given`);
    if (source.length !== this.size) fail("ValueError", `${source.length} elements were given for ${this}, which has ${this.size}`);
    const data = this.data, half = HALVES[this.dtype];
    if (source.constructor === data.constructor) data.set(source);
    else for (let i = 0; i < data.length; ++i) data[i] = half ? half.write(Number(source[i])) : this.#element(data, source[i]);
    return this;
  }
  #element(data, value) {
    if (data instanceof Float32Array || data instanceof Float64Array) return Number(value);
    if (typeof value !== "bigint" && typeof value !== "boolean" && !Number.isInteger(value))
      fail("TypeError", `an integer was expected for ${this}, but ${described(value)} was given`);
    return this.dtype.endsWith("64") ? BigInt(value) : Number(value);
  }
  /** The same elements under another shape. */
  view(shape) {
    const size = shape.reduce((a, b) => a * b, 1);
    if (size !== this.size) fail("ValueError", `${this} has ${this.size} elements, but the shape [${shape}] has ${size}`);
    return this.instance.viewOf(this, shape);
  }
  toString() {
    return `NDArray([${this.shape.join(", ")}], "${this.dtype}")`;
  }
}

export function dtypeOf(elements) {
  for (const name in ARRAYS) if (elements.constructor === ARRAYS[name]) return name;
  return "float32";
}
