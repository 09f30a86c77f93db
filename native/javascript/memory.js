// The memory that JavaScript and compiled code share.

export class LinearMemory {
  #views = {};
  constructor(object) {
    this.object = object;
  }
  get buffer() {
    return this.object.buffer;
  }
  // A view lasts until the memory grows: its buffer is another one then.
  #view(name, type) {
    const view = this.#views[name];
    return view?.buffer === this.buffer ? view : (this.#views[name] = new type(this.buffer));
  }
  get u8() { return this.#view("u8", Uint8Array); }
  get i32() { return this.#view("i32", Int32Array); }
  get u32() { return this.#view("u32", Uint32Array); }
  get i64() { return this.#view("i64", BigInt64Array); }
  get f64() { return this.#view("f64", Float64Array); }
  text(at, size) {
    return new TextDecoder().decode(this.u8.slice(at, at + size)); // a copy: decoders refuse shared memory
  }
  bytesOf(cell) {
    const [at, size] = this.u32.subarray(cell >>> 2, (cell >>> 2) + 2);
    return this.u8.slice(at, at + size);
  }
}

/** Memory for the time of a call: on the stack of compiled code, or where it is much, from the heap. */
export class Frame {
  #instance;
  #stack;
  #heap = [];
  #temporaries = [];
  constructor(instance) {
    this.#instance = instance;
    this.#stack = instance.exports.__stack_pointer.value;
  }
  allocate(bytes) {
    const { exports } = this.#instance;
    if (bytes > 4096) {
      const at = this.#instance.allocate(bytes);
      this.#heap.push(at);
      return at;
    }
    const pointer = exports.__stack_pointer;
    pointer.value = (pointer.value - bytes) & ~15;
    return pointer.value >>> 0;
  }
  copy(bytes, end = 0) {
    const at = this.allocate(bytes.length + end);
    this.#instance.memory.u8.set(bytes, at);
    if (end) this.#instance.memory.u8[at + bytes.length] = 0;
    return at;
  }
  /** A TVMFFIByteArray. */
  cell(bytes) {
    const data = this.copy(bytes), at = this.allocate(8);
    this.#instance.memory.u32.set([data, bytes.length], at >>> 2);
    return at;
  }
  until(object) {
    this.#temporaries.push(object);
    return object;
  }
  end() {
    for (const object of this.#temporaries) object.dispose();
    for (const at of this.#heap) this.#instance.exports.TWFree(at);
    this.#instance.exports.__stack_pointer.value = this.#stack;
  }
}
