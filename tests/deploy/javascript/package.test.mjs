// The npm package as a user has it: packed, installed into an empty project, checked by TypeScript, bundled, and run in headless Chromium.
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";
import { check } from "./cases.mjs";
import { launched } from "./chromium.mjs";

const FOLDER = path.resolve(import.meta.dirname, ".."), PROJECT = path.join(FOLDER, "project"), TOOLS = path.join(FOLDER, "node_modules");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
const ISOLATED = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };
let browser;

const run = (program, ...args) => execFileSync(program, args, { cwd: PROJECT, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const node = (tool, ...args) => run("node", path.join(TOOLS, tool), ...args);

before(async () => {
  rmSync(PROJECT, { recursive: true, force: true });
  cpSync(path.join(import.meta.dirname, "project"), PROJECT, { recursive: true });
  writeFileSync(path.join(PROJECT, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
  const packed = run("npm", "pack", path.join(FOLDER, "tilewright"), "--silent").trim();
  run("npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", `./${packed}`);
  mkdirSync(path.join(PROJECT, "public"));
  for (const name of ["dense.wasm", "wide_threads.wasm", "picture.bin", "wide.bin"]) copyFileSync(path.join(FOLDER, "models", name), path.join(PROJECT, "public", name));
  browser = await launched();
}, { timeout: 120000 });
after(() => browser?.close());

/** What the page of a folder answers. */
async function answered(folder) {
  const server = createServer((question, answer) => {
    const file = path.join(PROJECT, folder, new URL(question.url, "http://host").pathname.replace(/\/$/, "/index.html"));
    const found = existsSync(file);
    answer.writeHead(found ? 200 : 404, { "Content-Type": TYPES[path.extname(file)] ?? "application/octet-stream", ...ISOLATED });
    answer.end(found ? readFileSync(file) : "");
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const page = await browser.context.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const found = await (await page.waitForFunction(() => globalThis.answer, null, { timeout: 60000 })).jsonValue();
  await page.close();
  server.close();
  check(typeof found === "object", `the page works: ${found}`);
  for (const place of ["page", "worker"]) check(found[place].length === 32 && found[place].every((v) => Math.abs(v - 1 / 16) < 1e-6), `the ${place} computes the softmax of zeros: ${found[place]}`);
  check(found.error < 1e-4, `threads compute what one computes: ${found.error}`);
}

test("TypeScript", { timeout: 60000 }, () => {
  node("typescript/bin/tsc", "-p", ".");
});

test("bundled by vite", { timeout: 120000 }, async () => {
  node("vite/bin/vite.js", "build", "--logLevel", "warn");
  check(readdirSync(path.join(PROJECT, "dist/assets")).filter((name) => name.endsWith(".wasm")).length === 2, "the files of the runtime are copied");
  await answered("dist");
});

// esbuild leaves addresses as they are: the files of the runtime are copied beside the bundle.
test("bundled by esbuild", { timeout: 120000 }, async () => {
  run(path.join(TOOLS, "esbuild/bin/esbuild"), "main.ts", "work.ts", "--bundle", "--minify", "--format=esm", "--outdir=built", "--log-level=warning");
  const built = path.join(PROJECT, "built");
  cpSync(path.join(PROJECT, "public"), built, { recursive: true });
  for (const name of ["tilewright.wasm", "tilewright-threads.wasm"]) copyFileSync(path.join(PROJECT, "node_modules/tilewright", name), path.join(built, name));
  const main = readFileSync(path.join(built, "main.js"), "utf8");
  check(main.includes("./work.ts"), "the worker's address is as it was written");
  writeFileSync(path.join(built, "main.js"), main.replace("./work.ts", "./work.js"));
  writeFileSync(path.join(built, "index.html"), readFileSync(path.join(PROJECT, "index.html"), "utf8").replace("main.ts", "main.js"));
  await answered("built");
});
