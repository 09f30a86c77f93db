// The cases in node: node --test build/browser/tests
import { readFile, stat } from "node:fs/promises";
import { test } from "node:test";
import { instantiate } from "../tilewright/index.js";
import { cases, check, threaded } from "./cases.mjs";

const at = (name) => readFile(new URL(`../models/${name}`, import.meta.url));
const expected = JSON.parse(await at("expected.json"));
for (const [name, body] of cases) test(name, async () => body({ tvm: await instantiate(), at, expected }));
for (const [name, body] of threaded) test(name, async () => body({ at, expected }));

test("where files come from", async () => {
  const tvm = await instantiate();
  const url = new URL("../models/dense.wasm", import.meta.url), bytes = await readFile(url);
  for (const source of [url, url.pathname, String(url), bytes, new Response(bytes), await WebAssembly.compile(bytes), Promise.resolve(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))])
    check((await tvm.loadModule(source)).typeKey === "library", "it is loaded");
  for (const [source, kind, words] of [["/no/such.wasm", "FileNotFoundError", /the model \(\/no\/such.wasm\) cannot be read/], [new Response("", { status: 404, statusText: "Not Found" }), "OSError", /404 Not Found/]])
    await tvm.loadModule(source).then(() => check(false, "it is refused"), (e) => check(e.kind === kind && words.test(e.message), `${e} is ${kind}`));
});

test("the runtime is small", async () => {
  for (const name of ["tilewright.wasm", "tilewright-threads.wasm"]) {
    const { size } = await stat(new URL(`../tilewright/${name}`, import.meta.url));
    check(size < 400_000, `${name} has less than 400 KB, not ${size} bytes`);
  }
});
