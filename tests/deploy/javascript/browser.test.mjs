// The cases in headless Chromium, and the page of examples/browser: node --test build/browser/tests
import { spawn } from "node:child_process";
import path from "node:path";
import { after, before, test } from "node:test";
import { check } from "./cases.mjs";
import { launched } from "./chromium.mjs";

const FOLDER = path.resolve(import.meta.dirname, "..");
let server, origin, browser;

before(async () => {
  // The server of the example, which sends the headers that threads need.
  const serve = "import sys; sys.path.insert(0, sys.argv[1]); import make_site, pathlib; make_site.serve(pathlib.Path(sys.argv[2]), 0)";
  server = spawn(process.env.PYTHON ?? "python3", ["-c", serve, process.env.EXAMPLE, FOLDER], { stdio: ["ignore", "pipe", "ignore"] });
  origin = await new Promise((resolve, reject) => {
    server.stdout.once("data", (data) => resolve(String(data).trim()));
    server.once("exit", (code) => reject(new Error(`the server ended with code ${code}`)));
  });
  browser = await launched();
}, { timeout: 60000 });
after(async () => {
  await browser?.close();
  server?.kill();
});

async function opened(place) {
  const page = await browser.context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(String(error)));
  await page.goto(`${origin}${place}`);
  return page;
}

test("the cases in a page", { timeout: 120000 }, async (t) => {
  const page = await opened("tests/cases.html");
  const results = await (await page.waitForFunction(() => globalThis.results, null, { timeout: 100000 })).jsonValue();
  check(await page.evaluate(() => globalThis.crossOriginIsolated), "the page may share memory");
  for (const [name, result] of Object.entries(results)) await t.test(name, () => check(result === "passed", result));
});

// Strokes of digits, in parts of the canvas.
const STROKES = {
  0: [[[0.5, 0.12], [0.3, 0.25], [0.27, 0.6], [0.38, 0.85], [0.6, 0.86], [0.72, 0.62], [0.7, 0.28], [0.5, 0.12]]],
  1: [[[0.36, 0.3], [0.52, 0.12], [0.52, 0.88]]],
  3: [[[0.3, 0.18], [0.55, 0.12], [0.68, 0.28], [0.48, 0.46], [0.7, 0.62], [0.62, 0.84], [0.3, 0.86]]],
  4: [[[0.45, 0.12], [0.28, 0.56], [0.75, 0.56]], [[0.62, 0.36], [0.58, 0.9]]],
  7: [[[0.28, 0.14], [0.72, 0.14], [0.46, 0.88]]],
};

test("the page of the example knows drawn digits", { timeout: 60000 }, async () => {
  const page = await opened("site/index.html");
  await page.waitForFunction(() => document.getElementById("status").textContent === "Ready.");
  const box = await page.locator("#drawing").boundingBox();
  let right = 0;
  for (const [digit, strokes] of Object.entries(STROKES)) {
    await page.click("#clear");
    for (const stroke of strokes) {
      const points = stroke.map(([x, y]) => [box.x + x * box.width, box.y + y * box.height]);
      await page.mouse.move(...points[0]);
      await page.mouse.down();
      for (const point of points) await page.mouse.move(...point, { steps: 4 });
      await page.mouse.up();
    }
    const said = await page.textContent("#status");
    right += said.startsWith(`It is a ${digit}.`);
    console.log(`drawn ${digit}: ${said}`);
    await page.screenshot({ path: path.join(FOLDER, `drawn_${digit}.png`) });
  }
  check(right >= 4, `at least 4 of 5 digits are right, not ${right}`);
  check(page.errors.length === 0, `there are no errors, but ${page.errors}`);
});

test("the page of the example knows a picture from a file", { timeout: 60000 }, async () => {
  const page = await opened("site/index.html");
  await page.waitForFunction(() => document.getElementById("status").textContent === "Ready.");
  await page.setInputFiles("#file", path.join(FOLDER, "digit.png"));
  await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("It is a "));
  const said = await page.textContent("#status");
  await page.screenshot({ path: path.join(FOLDER, "file.png") });
  check(said.startsWith("It is a 6."), `the digit of the file is a 6: ${said}`);
});
