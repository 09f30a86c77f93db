// Modules of functions, and the executors of models.

import { NDArray } from "./arrays.js";
import { measured } from "./timing.js";
import { TVMObject, fail } from "./values.js";

/** A module: functions by name, and modules that it imports. */
export class Module extends TVMObject {
  /** The function of a name, of this module or of what it imports. Throws where there is none. */
  getFunction(name, queryImports = true) {
    const found = this.instance.call("runtime.ModuleGetFunction", this, name, queryImports);
    return found ?? fail("AttributeError", `the module has no function \`${name}\``);
  }
  importModule(other) {
    this.instance.call("runtime.ModuleImport", this, other);
  }
  get typeKey() {
    return this.instance.call("runtime.ModuleGetTypeKey", this);
  }
  /** A function that measures calls of the function of that name: it takes their arguments, and gives a BenchmarkResult. `number` calls make one
   * result, `repeat` results are taken; the number grows until they take `minRepeatMs`. */
  timeEvaluator(name, device = this.instance.cpu(), options = {}) {
    const f = this.instance.detachFromCurrentScope(this.getFunction(name));
    return async (...args) => {
      const found = await measured(this.instance.repeated(f, args), options);
      await device.sync();
      return found;
    };
  }
  /** What the library says of itself: the inputs, outputs and kernels of its model, the target. */
  getMetadata() {
    return this.instance.withNewScope(() => JSON.parse(this.getFunction("get_metadata")()));
  }
}

export class Executor {
  #functions = new Map();
  constructor(module) {
    this.module = module;
    this.instance = module.instance;
  }
  method(name) {
    let found = this.#functions.get(name);
    if (!found) this.#functions.set(name, (found = this.instance.detachFromCurrentScope(this.module.getFunction(name))));
    return found;
  }
  dispose() {
    for (const f of this.#functions.values()) f.dispose();
    this.#functions.clear();
    this.module.dispose();
  }
}

/** Runs a model of fixed shapes, compiled for the ahead-of-time or the graph executor. */
export class GraphExecutor extends Executor {
  getNumInputs() {
    return this.method("get_num_inputs")();
  }
  getNumOutputs() {
    return this.method("get_num_outputs")();
  }
  /** Shapes and types of the inputs by name. */
  getInputInfo() {
    return this.instance.withNewScope(() => {
      const shape = {}, dtype = {};
      for (let i = 0; i < this.getNumInputs(); ++i) {
        const name = this.method("get_input_name")(i), array = this.getInput(i);
        shape[name] = array.shape;
        dtype[name] = array.dtype;
      }
      return { shape, dtype };
    });
  }
  /** Copies an NDArray, a typed array or numbers into an input, which is named or counted from 0. */
  setInput(key, value) {
    if (value instanceof NDArray) this.method("set_input")(key, value);
    else this.instance.withNewScope(() => void this.method("set_input")(key, this.#like(this.getInput(key), value)));
  }
  #like(input, value) {
    return this.instance.empty(input.shape, input.dtype).copyFrom(value);
  }
  /** Makes the memory of an NDArray that of an input, without a copy. */
  setInputZeroCopy(key, value) {
    this.method("set_input_zero_copy")(key, value);
  }
  getInput(key) {
    return this.method("get_input")(key);
  }
  /** The memory of an output, which the next run writes again. */
  getOutput(key) {
    return this.method("get_output")(key);
  }
  /** Sets the parameters of a file that the compiler saved. */
  loadParams(bytes) {
    this.method("load_params")(bytes);
  }
  run(times = 1) {
    const run = this.method("run");
    for (let i = 0; i < times; ++i) run();
  }
  /** Milliseconds of a run: `repeat` means of `number` runs each. */
  async benchmarkRuns(device, number = 10, repeat = 4) {
    return this.instance.benchmark(() => this.run(), device, number, repeat);
  }
}

/** Runs a program with control flow or dynamic shapes. */
export class VirtualMachine extends Executor {
  /** Calls a function of the program with NDArrays, numbers, or lists for tuples. */
  invoke(name, ...args) {
    return this.method("invoke")(name, ...args);
  }
  run(...args) {
    return this.invoke("main", ...args);
  }
  setInput(name, ...args) {
    this.method("set_input")(name, ...args);
  }
  invokeStateful(name = "main") {
    this.method("invoke_stateful")(name);
  }
  getOutputs() {
    return Array.from({ length: this.method("get_num_outputs")() }, (_, i) => this.method("get_output")(i));
  }
}
