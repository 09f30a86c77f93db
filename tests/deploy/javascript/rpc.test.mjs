// Servers of sessions in node and in headless Chromium, behind a proxy, with a client in Python.
import { execFile, spawn } from "node:child_process";
import { createServer } from "node:net";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { check } from "./cases.mjs";
import { launched } from "./chromium.mjs";

const HERE = import.meta.dirname, MODELS = path.resolve(HERE, "../models"), PYTHON = process.env.PYTHON ?? "python3", ROOT = path.resolve(process.env.EXAMPLE, "../..");
const started = [];
let port, web, url, browser;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port: found } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return found;
}
/** A program, and what it prints; `said` waits for words. */
function running(program, args) {
  const child = spawn(program, args, { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  let text = "", heard = () => {};
  child.stdout.on("data", (data) => heard((text += data)));
  const ended = new Promise((resolve) => child.once("exit", (code) => (resolve(code), heard())));
  let over = false;
  ended.then(() => (over = true));
  const said = async (words) => {
    while (!words.test(text)) {
      check(!over, `the program says ${words} before it ends: ${text}`);
      await new Promise((resolve) => (heard = resolve));
    }
    return words.exec(text);
  };
  const found = { child, ended, said, text: () => text };
  started.push(found);
  return found;
}
const proxied = (...options) => running(PYTHON, ["-m", "tilewright.exec.rpc_proxy", "--port", "0", ...options]);
const served = (at, key) => running("node", ["--experimental-websocket", "--no-warnings", path.join(HERE, "rpc_server.mjs"), at, key]);
const client = async (key) => {
  const { stdout } = await promisify(execFile)(PYTHON, ["-m", "tests.deploy.javascript.rpc_client", String(port), key, MODELS], { cwd: ROOT });
  console.log(`${key}: ${stdout.trim().split("\n").join("; ")}`);
  check(stdout.includes("all answers are right"), "the client has checked all");
};

before(async () => {
  web = await freePort();
  url = `ws://127.0.0.1:${web}/ws`;
  const proxy = proxied("--web-port", String(web), "--example-rpc=1", "--resource", `/more/=${path.join(HERE, "rpc_functions.mjs")}`);
  port = Number((await proxy.said(/joining on 127\.0\.0\.1:(\d+)/))[1]);
  browser = await launched();
}, { timeout: 300000 });
after(async () => {
  await browser?.close();
  for (const { child } of started) child.kill();
});

test("a server in node", { timeout: 120000 }, async () => {
  const server = served(url, "node");
  await server.said(/waiting at/);
  await client("node");
  const second = served(url, "node");
  check((await second.ended) === 1 && /RPCError: the key is in use at the proxy/.test(second.text()), `a second one with the key is refused: ${second.text()}`);
  server.child.kill();
  check((await server.ended) === 0, "it stops when it is told to");
});

test("the page of the proxy, and a server with functions in a page", { timeout: 120000 }, async () => {
  const page = await browser.context.newPage();
  await page.goto(`http://127.0.0.1:${web}/?key=example`);
  await page.waitForFunction(() => document.getElementById("log").textContent.includes("waiting at"));
  await client("example");
  await page.click("#stop");
  await page.waitForFunction(() => document.getElementById("log").textContent.includes("stopped"));
  await page.evaluate(async (at) => {
    const tilewright = await import("/index.js"), { offering } = await import("/more/rpc_functions.mjs");
    globalThis.logged = [];
    globalThis.server = new tilewright.RPCServer(at, "page", { start: () => offering(tilewright), log: (text) => logged.push(text) });
  }, url);
  await page.waitForFunction(() => logged.length);
  await client("page");
  await page.evaluate(() => server.stop());
});

test("a proxy that goes away, and one that is not there", { timeout: 60000 }, async () => {
  const other = await freePort(), proxy = proxied("--web-port", String(other));
  await proxy.said(/joining on/);
  const server = served(`ws://127.0.0.1:${other}/ws`, "lost");
  await server.said(/waiting at/);
  proxy.child.kill();
  check((await server.ended) === 1 && /ConnectionError: the connection to the proxy is lost \(ws:/.test(server.text()), `the server says so: ${server.text()}`);
  const late = served(`ws://127.0.0.1:${other}/ws`, "lost");
  check((await late.ended) === 1 && /ConnectionError: cannot connect to the proxy: it does not run/.test(late.text()), `it says why: ${late.text()}`);
});
