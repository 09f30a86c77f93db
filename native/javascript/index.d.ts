/** Where a WebAssembly file comes from: its bytes, an URL, a Response, the path of a file in node, or compiled code. */
export type Source = ArrayBuffer | ArrayBufferView | string | URL | Response | WebAssembly.Module | Promise<Response> | Promise<ArrayBuffer>;

export type Elements =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array | BigInt64Array | BigUint64Array;

/** What functions take and return. */
export type Value =
  | undefined | null | boolean | number | bigint | string | Uint8Array | ArrayBuffer | Scalar | DLDevice | TVMObject | Executor | PackedFunc
  | ((...args: any[]) => unknown) | Value[];

/** What `copyFrom` and `setInput` take: elements in row-major order. */
export type Data = NDArray | Elements | readonly (number | bigint | boolean)[] | readonly unknown[][];

/** A function of the runtime, of a module, or a JavaScript function that `toPackedFunc` was given. */
export interface PackedFunc {
  (...args: Value[]): any;
  dispose(): void;
}

/** What compiled code, the runtime or this module refuses; `kind` and `name` are the kind of error, such as "ValueError". */
export class TVMError extends Error {
  constructor(kind: string, message: string, options?: ErrorOptions);
  readonly kind: string;
}

/** A number passed as a type of its own: `new Scalar(1, "float32")` where an integer would be taken for one. */
export class Scalar {
  constructor(value: number | bigint, dtype: string);
  value: number | bigint;
  dtype: string;
}

export class DLDevice {
  constructor(deviceType: number, deviceId: number);
  readonly deviceType: number;
  readonly deviceId: number;
  sync(): Promise<void>;
  toString(): string;
}

/** A reference to an object of the runtime. It ends with `dispose`, with the scope that it was made in, or with the JavaScript object. */
export class TVMObject {
  readonly instance: Instance;
  getHandle(): number;
  dispose(): void;
}

/** An array in the memory that compiled code reads and writes. */
export class NDArray extends TVMObject {
  readonly shape: number[];
  readonly dtype: string;
  readonly device: DLDevice;
  readonly ndim: number;
  /** How many elements there are. */
  readonly size: number;
  readonly byteLength: number;
  /** The elements in place, without a copy; made anew at each access, since memory that grows has another buffer. */
  readonly data: Elements;
  getDataPtr(): number;
  /** A copy of the elements; those of float16 and bfloat16 as a Float32Array. */
  toArray(): Elements;
  toRawBytes(): Uint8Array;
  copyFrom(source: Data): this;
  copyFromRawBytes(bytes: ArrayBuffer | ArrayBufferView): this;
  /** The same elements under another shape. */
  view(shape: readonly number[]): NDArray;
  toString(): string;
}

/** Seconds of a call: the mean of each repeat, and what they have in common. */
export class BenchmarkResult {
  readonly results: number[];
  readonly mean: number;
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly std: number;
}

/** How calls are measured, as `time_evaluator` does it in Python. */
export interface TimeEvaluatorOptions {
  /** Calls that make one result (10). */
  number?: number;
  /** Results (1). */
  repeat?: number;
  /** Milliseconds that one result takes at least: the number of calls grows until they do (0). */
  minRepeatMs?: number;
  /** Measurements of no time at all, after which the number grows no more (100). */
  limitZeroTimeIterations?: number;
  /** Milliseconds of rest after each `repeatsToCooldown` results (0, 1). */
  cooldownIntervalMs?: number;
  repeatsToCooldown?: number;
  /** Called before each result. */
  before?: () => unknown;
}

/** A module: functions by name, and modules that it imports. */
export class Module extends TVMObject {
  readonly typeKey: string;
  getFunction(name: string, queryImports?: boolean): PackedFunc;
  importModule(other: Module): void;
  /** A function that measures calls of the function of that name, with the arguments that it is given. */
  timeEvaluator(name: string, device?: DLDevice, options?: TimeEvaluatorOptions): (...args: Value[]) => Promise<BenchmarkResult>;
  /** What the library says of itself: the inputs, outputs and kernels of its model, the target. */
  getMetadata(): Record<string, any>;
}

/** A value of a data type of the virtual machine; a tuple has the tag 0. */
export class ADT extends TVMObject {
  readonly tag: number;
  readonly size: number;
  field(index: number): any;
  toArray(): any[];
}

export class Executor {
  readonly module: Module;
  readonly instance: Instance;
  /** A function of the executor by its name, such as "get_num_kernels". */
  method(name: string): PackedFunc;
  dispose(): void;
}

/** Runs a model of fixed shapes, compiled for the ahead-of-time or the graph executor. */
export class GraphExecutor extends Executor {
  getNumInputs(): number;
  getNumOutputs(): number;
  getInputInfo(): { shape: Record<string, number[]>; dtype: Record<string, string> };
  /** Copies into an input, which is named or counted from 0. */
  setInput(key: string | number, value: Data): void;
  setInputZeroCopy(key: string | number, value: NDArray): void;
  getInput(key: string | number): NDArray;
  /** The memory of an output, which the next run writes again. */
  getOutput(key: string | number): NDArray;
  loadParams(bytes: Uint8Array | ArrayBuffer): void;
  run(times?: number): void;
  /** Milliseconds of a run: `repeat` means of `number` runs each. */
  benchmarkRuns(device?: DLDevice, number?: number, repeat?: number): Promise<number[]>;
}

/** Runs a program with control flow or dynamic shapes. */
export class VirtualMachine extends Executor {
  invoke(name: string, ...args: Value[]): any;
  run(...args: Value[]): any;
  setInput(name: string, ...args: Value[]): void;
  invokeStateful(name?: string): void;
  getOutputs(): any[];
}

/** A runtime with its memory, functions and models. */
export class Instance {
  cpu(deviceId?: number): DLDevice;
  device(type: string | number, deviceId?: number): DLDevice;
  /** An array without contents. */
  empty(shape: number | readonly number[], dtype?: string, device?: DLDevice): NDArray;
  /** A typed array, or numbers, as an array of the runtime. */
  array(elements: Elements | readonly (number | bigint | boolean)[], shape?: readonly number[], dtype?: string): NDArray;

  loadModule(source: Source): Promise<Module>;
  /** The executor of a model, of the kind that it was compiled for: a VirtualMachine, else a GraphExecutor. */
  createExecutor<T extends GraphExecutor | VirtualMachine = GraphExecutor>(library: Module, device?: DLDevice): T;
  createVirtualMachine(library: Module, device?: DLDevice): VirtualMachine;
  createGraphExecutor(graphJson: string, library: Module, device?: DLDevice): GraphExecutor;

  /** Lets compiled code call a JavaScript function by a name. */
  registerFunc(name: string, body: (...args: any[]) => Value | void, override?: boolean): void;
  getGlobalFunc(name: string): PackedFunc;
  listGlobalFuncNames(): string[];
  call(name: string, ...args: Value[]): any;
  isPackedFunc(value: unknown): value is PackedFunc;
  toPackedFunc(body: PackedFunc | ((...args: any[]) => unknown)): PackedFunc;

  beginScope(): void;
  endScope(): void;
  /** Runs `action`; what it made is disposed of at its end, except what it detaches and what it returns. */
  withNewScope<T>(action: () => T): T;
  detachFromCurrentScope<T>(object: T): T;
  attachToCurrentScope<T>(object: T): T;
  moveToParentScope<T>(object: T): T;

  /** Milliseconds of a call: `repeat` means of `number` calls each. */
  benchmark(run: () => unknown, device?: DLDevice, number?: number, repeat?: number): Promise<number[]>;
  /** How many threads compiled code uses. */
  readonly numThreads: number;
  dispose(): void;
}

/** Starts a runtime. `source`: tilewright.wasm, by default the file beside this module. `numThreads`: how many threads compiled code may
 * use; more than one needs tilewright-threads.wasm, and memory that workers share. */
export function instantiate(source?: Source | null, options?: { numThreads?: number }): Promise<Instance>;

/** Serves the clients that a proxy (`tilewright rpc proxy`) sends, one after the other, until `stop`. */
export class RPCServer {
  /** `url`: the proxy's, such as "ws://127.0.0.1:8888/ws". `start` makes the runtime of each session, with the functions that clients may call;
   * `log` gets what happens; `WebSocket`: one for hosts that have none. */
  constructor(url: string | URL, key?: string, options?: { start?: () => Promise<Instance>; log?: (text: string) => void; WebSocket?: new (url: string) => any });
  /** Ends with `stop`; fails when the proxy cannot be reached, or refuses. */
  readonly ended: Promise<void>;
  stop(): void;
}
