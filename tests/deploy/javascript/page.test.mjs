// The blocks of JavaScript in docs/browser.md, one after the other in one module: they print what the page shows.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { check } from "./cases.mjs";

test("docs/browser.md", () => {
  const folder = path.resolve(import.meta.dirname, "../page"), blocks = [...readFileSync(process.env.PAGE, "utf8").matchAll(/^```js\n(.*?)^```\n\n(?:^```text\n(.*?)^```)?/gms)];
  check(blocks.length > 3, "the page has blocks");
  writeFileSync(path.join(folder, "page.mjs"), blocks.map(([, code]) => code).join("\n"));
  const printed = execFileSync("node", ["page.mjs"], { cwd: folder, encoding: "utf8" }), shown = blocks.map(([, , text]) => text ?? "").join("");
  check(printed === shown, `the page shows\n${shown}\nbut the code prints\n${printed}`);
});
