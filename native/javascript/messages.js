// Messages of a session (docs/rooms/rpc.md): numbers, texts and tensors as bytes, little-endian.

import { DLDevice, encoded, fail } from "./values.js";

export const MAGIC = 0xff271;
export const SHUTDOWN = 1, INIT = 2, CALL = 3, RETURN = 4, EXCEPTION = 5, COPY_FROM = 6, COPY_TO = 7, COPY_ACK = 8, GET_GLOBAL = 9, FREE_HANDLE = 10, SET_DEVICE = 11,
  GET_ATTRIBUTE = 12, ALLOCATE = 13, FREE_MEMORY = 14, SYNCHRONIZE = 15, COPY_AMONG = 16, ALLOCATE_LIKE = 17, CREATE_STREAM = 18, FREE_STREAM = 19, SET_STREAM = 20;

/** An address of the other side, or a number by which it names an object. */
export class Address {
  constructor(value) {
    this.value = value;
  }
}
/** A tensor as a message describes it; `type`: the four bytes of its data type. */
export class Described {
  constructor(address, device, type, shape) {
    Object.assign(this, { address, device, type, shape });
  }
  get byteLength() {
    const bits = this.type[1] * (this.type[2] | (this.type[3] << 8));
    return this.shape.reduce((size, n) => size * n, Math.ceil(bits / 8));
  }
}

export class MessageReader {
  #bytes;
  #view;
  #at = 0;
  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  #take(size) {
    const at = this.#at;
    if (!(size >= 0 && size <= this.#bytes.length - at)) fail("RPCError", "the client sent a message that ends too early");
    this.#at += size;
    return at;
  }
  get left() {
    return this.#bytes.length - this.#at;
  }
  bytes(size = this.left) {
    const at = this.#take(size);
    return this.#bytes.subarray(at, at + size);
  }
  i32() {
    return this.#view.getInt32(this.#take(4), true);
  }
  i64() {
    return this.#view.getBigInt64(this.#take(8), true);
  }
  u64() {
    return Number(this.#view.getBigUint64(this.#take(8), true));
  }
  f64() {
    return this.#view.getFloat64(this.#take(8), true);
  }
  text(size) {
    return new TextDecoder().decode(this.bytes(size));
  }
  device() {
    return new DLDevice(this.i32(), this.i32());
  }
  shape(count) {
    if (!(count >= 0 && count <= this.left / 8)) fail("RPCError", "the client sent a message that ends too early");
    return Array.from({ length: count }, () => Number(this.i64()));
  }
  tensor() {
    const data = this.u64(), device = this.device(), ndim = this.i32(), type = this.bytes(4).slice(), shape = this.shape(ndim);
    return new Described(data + this.u64(), device, type, shape);
  }
}

export class MessageWriter {
  #parts = [];
  #size = 0;
  #number(size, write) {
    const bytes = new Uint8Array(size);
    write(new DataView(bytes.buffer));
    return this.bytes(bytes);
  }
  bytes(bytes) {
    this.#parts.push(bytes);
    this.#size += bytes.length;
    return this;
  }
  i32(...values) {
    for (const value of values) this.#number(4, (view) => view.setInt32(0, value, true));
    return this;
  }
  i64(value) {
    return this.#number(8, (view) => view.setBigInt64(0, BigInt(value), true));
  }
  f64(value) {
    return this.#number(8, (view) => view.setFloat64(0, value, true));
  }
  data(bytes) {
    return this.i64(bytes.length).bytes(bytes);
  }
  text(text) {
    return this.data(encoded(text));
  }
  tensor({ address, device, type, shape }) {
    this.i64(address).i32(device.deviceType, device.deviceId, shape.length).bytes(type);
    for (const n of shape) this.i64(n);
    return this.i64(0);
  }
  /** The message with its length. */
  finished() {
    const found = new Uint8Array(8 + this.#size);
    new DataView(found.buffer).setBigUint64(0, BigInt(this.#size), true);
    let at = 8;
    for (const part of this.#parts) {
      found.set(part, at);
      at += part.length;
    }
    return found;
  }
}

/** Bytes that come in pieces: `exactly` waits for so many. */
export class Incoming {
  #pieces = [];
  #size = 0;
  #ended = null;
  #awake = () => {};
  push(piece) {
    this.#pieces.push(piece);
    this.#size += piece.length;
    this.#awake();
  }
  end(error) {
    this.#ended ??= error;
    this.#awake();
  }
  async exactly(count) {
    while (this.#size < count) {
      if (this.#ended) throw this.#ended;
      await new Promise((resolve) => (this.#awake = resolve));
    }
    const found = new Uint8Array(count);
    for (let at = 0; at < count; ) {
      const piece = this.#pieces[0], part = piece.subarray(0, count - at);
      found.set(part, at);
      at += part.length;
      if (part.length === piece.length) this.#pieces.shift();
      else this.#pieces[0] = piece.subarray(part.length);
    }
    this.#size -= count;
    return found;
  }
}
