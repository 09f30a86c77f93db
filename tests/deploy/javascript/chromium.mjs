// Headless Chromium for tests.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { check } from "./cases.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** A browser with a profile of its own; `close` ends it. */
export async function launched() {
  check(existsSync(CHROMIUM), `there is a Chromium at ${CHROMIUM}: apt-get install chromium, or set CHROMIUM`);
  const profile = mkdtempSync(path.join(tmpdir(), "tilewright-chromium-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: CHROMIUM, headless: true, args: OPTIONS, viewport: { width: 760, height: 620 } });
  const close = async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  };
  return { context, close };
}
