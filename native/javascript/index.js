// Compiled models in web pages and in node: the runtime (tilewright.wasm), a loader of models, and values that both sides share.
//
//   const tvm = await instantiate();
//   const library = await tvm.loadModule("model.wasm");
//   const executor = tvm.createExecutor(library, tvm.cpu());
//   executor.setInput(0, picture);
//   executor.run();
//   const scores = executor.getOutput(0).toArray();

export { DLDevice, Scalar, TVMError, TVMObject, ADT } from "./values.js";
export {} from "./numbers.js";
export { BenchmarkResult } from "./timing.js";
export { NDArray } from "./arrays.js";
export { Module, Executor, GraphExecutor, VirtualMachine } from "./modules.js";
export {} from "./memory.js";
export {} from "./system.js";
export {} from "./loader.js";
export { Instance } from "./instance.js";
export { instantiate } from "./start.js";
export {} from "./messages.js";
export {} from "./session.js";
export { RPCServer } from "./rpc.js";
