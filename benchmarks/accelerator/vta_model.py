"""The analytic model of tilings beside the cycle-level simulator: error and rank correlation over random layers and tilings.

Layers, tilings and accelerators are drawn at random; each is compiled with these knobs and run."""

from __future__ import annotations

import argparse
import logging
import random
import time
from typing import Any

import numpy as np

from benchmarks.accelerator.tiled_layers import CONFIGURATIONS, Convolution, can_run, cycles, task_of, tiling_of
from benchmarks.options import takes_json, write_json
from tilewright.vta.environment import Environment
from tilewright.vta.search.best import bound
from tilewright.vta.search.model import estimate, least

MOST_STEPS = 2_000_000
"""Steps of the largest layer that is drawn."""


def random_layer(rng: random.Random) -> Convolution:
    """A layer of usual sizes, of all kinds; strides only where they divide."""
    while True:
        size, kernel = rng.choice([7, 8, 12, 13, 14, 16, 20, 28, 56]), rng.choice([1, 1, 3, 3, 5])
        stride = rng.choice([1, 1, 2]) if size % 2 == 0 else 1
        ins, outs, kind = rng.choice([1, 2, 3, 4, 8, 16]), rng.choice([1, 2, 3, 4, 8, 16]), rng.randrange(8)
        layer = Convolution(size, ins, outs, kernel, stride)
        if kind == 0:
            layer = Convolution(size, outs, outs, kernel, stride, depthwise=1)
        elif kind == 1:
            layer = Convolution(rng.choice([1, 8, 64, 128, 197]), ins, outs, 1, 1, columns=1)
        if layer.problem().steps <= MOST_STEPS:
            return layer


def ranks(values: Any) -> Any:
    found = np.empty(len(values))
    found[np.argsort(values)] = np.arange(len(values))
    return found


def main(argv: list[str] | None = None) -> int:
    """Prints a line for each case whose error is above a hundredth, and the whole."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks vta_model", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    takes_json(parser)
    options = parser.parse_args(argv)
    if options.count < 1:
        parser.error(f"--count is {options.count}; it must be at least 1")
    logging.disable(logging.WARNING)  # there are no records, and none are wanted
    rng = random.Random(options.seed)
    found: list[dict[str, Any]] = []
    while len(found) < options.count:
        name, layer = rng.choice(list(CONFIGURATIONS)), random_layer(rng)
        if layer.depthwise and "BLOCK_IN" in CONFIGURATIONS[name]:
            continue  # its inputs and outputs are not as many
        with Environment({**CONFIGURATIONS[name], "TARGET": "tsim"}) as env:
            task = task_of(layer, env)
            entity = task.config_space.get(rng.randrange(len(task.config_space)))
            tiling, problem = tiling_of(entity, layer), layer.problem()
            if not can_run(tiling, problem, env.configuration):
                continue
            begin = time.perf_counter()
            said = estimate(problem, tiling, env.configuration)
            seconds = time.perf_counter() - begin
            low = max(f(problem, tiling, env.configuration) for f in (bound, least))
            measured = cycles(task, entity, env)
        if measured is None:
            continue
        error = said / measured - 1
        found.append(
            {"configuration": name, "layer": list(layer), "tiling": list(tiling), "said": said, "measured": measured}
        )
        found[-1] |= {"error": error, "seconds": seconds, "bound": low / measured}
        if abs(error) > 0.01:
            print(f"{error:>8.2%} {measured:>9} cycles  {name:<20}{tuple(layer)} {tuple(tiling)}", flush=True)
    errors = np.abs([f["error"] for f in found])
    correlation = float(np.corrcoef(*[ranks([f[n] for f in found]) for n in ("said", "measured")])[0, 1])
    print(
        f"{len(found)} tilings: error {errors.mean():.2%} on average, {np.quantile(errors, 0.95):.2%} of 95 in 100, {errors.max():.2%} at"
        f" most; rank correlation {correlation:.5f}; bounds at most {max([f['bound'] for f in found]):.4f} of the cycles;"
        f" {1e3 * np.mean([f['seconds'] for f in found]):.1f} ms an estimate"
    )
    write_json(options, {"cases": found, "correlation": correlation})
    return 0
