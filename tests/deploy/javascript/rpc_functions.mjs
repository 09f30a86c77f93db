// The functions that the servers of these tests offer. `package`: the module of the JavaScript package.
export async function offering({ instantiate }) {
  const tvm = await instantiate();
  tvm.registerFunc("page.back", (...values) => values);
  tvm.registerFunc("page.sum", (array) => array.toArray().reduce((x, y) => x + y));
  tvm.registerFunc("page.array", () => tvm.array([1, 2, 3, 4], [2, 2]));
  tvm.registerFunc("page.later", async (f, x) => 2 * (await f(x, tvm.array([x]))));
  tvm.registerFunc("page.add", (x) => (y) => x + y);
  tvm.registerFunc("page.at_once", (f) => f(1));
  tvm.registerFunc("test.fill", (at, count, value) => void new Float32Array(tvm.memory.buffer, at, count).fill(value)); // what compiled code asks for
  return tvm;
}
