// How long calls take.

import { fail } from "./values.js";

/** Seconds of a call: the mean of each repeat, and what they have in common. */
export class BenchmarkResult {
  constructor(results) {
    const sorted = [...results].sort((a, b) => a - b), half = sorted.length >> 1;
    this.results = results;
    this.mean = results.reduce((a, b) => a + b, 0) / results.length;
    this.median = sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    this.min = sorted[0];
    this.max = sorted.at(-1);
    this.std = Math.sqrt(results.reduce((sum, v) => sum + (v - this.mean) ** 2, 0) / results.length);
  }
}

/** Measures `run(times)`, which calls a function so often. The numbers are those of `time_evaluator` in Python. */
export async function measured(run, options = {}) {
  const plan = { number: 10, repeat: 1, minRepeatMs: 0, limitZeroTimeIterations: 100, cooldownIntervalMs: 0, repeatsToCooldown: 1, before: undefined, ...options };
  for (const [name, value] of Object.entries(plan)) {
    if (name === "before") continue;
    const least = name === "number" || name === "repeat" ? 1 : 0;
    if (typeof value !== "number" || !(value >= least) || (name !== "minRepeatMs" && name !== "cooldownIntervalMs" && !Number.isInteger(value)))
      fail("ValueError", `${name} must be at least ${least}${name.endsWith("Ms") ? "" : ", and an integer"}, but it is ${value}`);
  }
  const results = [];
  let number = plan.number;
  await run(1); // what is done once only is not measured
  for (let r = 1; r <= plan.repeat; ++r) {
    await plan.before?.();
    let spent = 0;
    for (let unmeasured = 0; ; ) {
      const begin = performance.now();
      const waits = run(number);
      if (waits) await waits;
      spent = performance.now() - begin;
      if (spent <= 0 && ++unmeasured >= plan.limitZeroTimeIterations) break;
      if (spent >= plan.minRepeatMs) break;
      number = Math.trunc(Math.max((spent > 0 ? plan.minRepeatMs / spent + 1 : 2) * number, 1.618 * number));
    }
    results.push(spent / number / 1000);
    if (plan.cooldownIntervalMs > 0 && plan.repeatsToCooldown > 0 && r % plan.repeatsToCooldown === 0)
      await new Promise((resolve) => setTimeout(resolve, plan.cooldownIntervalMs));
  }
  return new BenchmarkResult(results);
}
