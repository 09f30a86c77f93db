"""The static search beside AutoTVM by the cycle-level simulator: layers of networks on several accelerators.

The search compiles nothing. AutoTVM draws configurations of the template at random, each once, compiles each and counts its cycles, until
it takes longer than the best one. What counts as tried without a run:
- what fits no memory, and of tilings that the knobs say twice, one;
- a tiling whose lower bound (`search.best.bound`, or `search.model.least`: each instruction as if it had the bus for itself, after those
  that it waits for) is not below the best so far. Each program that is run is compared with its bounds: the benchmark fails where one
  takes fewer cycles. `--everything` runs these, too;
- with `--within 0.02`, a tiling whose lower bound says that it is no more than that faster than what the search found; the lowest of
  these bounds then counts as if it had been reached.

The same layer of several networks is run once on an accelerator. Tiles of the template have whole rows: layers of which not one row fits
are told at the end. Each layer of an accelerator is a line in a file (`--results`); what is there is not measured again, so that Ctrl-C
loses one layer."""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accelerator.tiled_layers import CONFIGURATIONS, Convolution, can_run, cycles, task_of, tiling_of
from benchmarks.options import names, takes_json, write_json
from tilewright import autotvm
from tilewright.vta.config_fields import of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import Environment
from tilewright.vta.explore.networks import NETWORKS, Layer
from tilewright.vta.search.best import Freedom, bound, choose, tilings
from tilewright.vta.search.model import least
from tilewright.vta.search.problem import Problem, Tiling

FIRST: dict[str, Layer] = {
    **dict.fromkeys(("resnet18", "resnet34", "resnet50", "inception_v1"), Layer(224, 3, 64, 7, 2)),
    **dict.fromkeys(("mobilenet_v1", "mobilenet_v2"), Layer(224, 3, 32, 3, 2)),
    "squeezenet": Layer(224, 3, 64, 3, 2), "vgg16": Layer(224, 3, 64, 3), "detector": Layer(416, 3, 16, 3),
}  # fmt: skip
"""The first convolutions of networks."""
HEADS: dict[str, tuple[Layer, ...]] = {
    **dict.fromkeys(("resnet18", "resnet34"), (Layer(1, 512, 1000, columns=1),)), "resnet50": (Layer(1, 2048, 1000, columns=1),),
    "vgg16": tuple([Layer(1, *sides, columns=1) for sides in ((25088, 4096), (4096, 4096), (4096, 1000))]),
}  # fmt: skip
"""Dense layers that `NETWORKS` leaves out."""


def layers_of(name: str, config: Configuration) -> list[Convolution]:
    """The different layers of a network in blocks of an accelerator; one whose inputs and outputs are not as many runs no depthwise
    convolutions."""
    found = []
    for layer in (*([FIRST[name]] if name in FIRST else []), *NETWORKS[name], *HEADS.get(name, ())):
        if layer.depthwise and config.block_in != config.block_out:
            continue
        blocks = -(-layer.channels // config.block_in), -(-layer.filters // config.block_out)
        found.append(Convolution(layer.size, *blocks, layer.kernel, layer.stride, layer.columns, layer.depthwise))
    return list(dict.fromkeys(found))


def drawn(task: Any, trials: int) -> Iterator[Any]:
    """So many configurations of a task, at random, or all."""
    tuner, left = autotvm.tuner.RandomTuner(task), trials
    while left > 0 and tuner.has_next():
        batch = tuner.next_batch(min(32, left))
        if not batch:
            return
        left -= len(batch)
        yield from batch


def same_program(t: Tiling, p: Problem) -> Tiling:
    """One of the tilings that are the same program: where a loop outside has one trip, its order says nothing."""
    outs = p.out_blocks // (t.out_blocks * t.out_threads)
    spatial = p.rows // (t.rows * t.row_threads) * (p.columns // t.columns)
    return t._replace(spatial_outer=t.spatial_outer and outs > 1 and spatial > 1)


class Trials:
    """Configurations of a layer's template, and the best of those that were run. within: the share by which a trial must be faster than
    the tiling that was found to be run; everything: all are run."""

    def __init__(self, layer: Convolution, env: Environment, within: float, everything: bool) -> None:
        self.layer, self.env, self.problem, self.config = layer, env, layer.problem(), env.configuration
        self.task = task_of(layer, env)
        self.within, self.everything = within, everything
        self.known: set[Tiling] = set()
        self.tried = self.run = self.static = self.wrong = 0
        self.best, self.lowest = 1 << 62, float("inf")

    def _bounds(self, t: Tiling, enough: float) -> float:
        low = bound(self.problem, t, self.config)
        return low if low >= enough else max(low, least(self.problem, t, self.config, enough))

    def _measured(self, entity: Any, t: Tiling, low: float) -> int | None:
        found = cycles(self.task, entity, self.env, self.best)
        if found is not None and found < low:
            print(f"{t} of {self.layer} takes {found} cycles, less than its lower bound {low}")
            self.wrong += 1
        return found

    def begin(self, found: Tiling) -> None:
        """Runs the tiling that was found."""
        space = self.task.config_space
        chosen = next(e for e in map(space.get, range(len(space))) if tiling_of(e, self.layer) == found)
        measured = self._measured(chosen, found, self._bounds(found, float("inf")))
        assert measured is not None, f"the tiling that was found does not fit: {found}"
        self.static = self.best = measured
        self.known.add(same_program(found, self.problem))

    def add(self, entity: Any) -> None:
        """One trial."""
        self.tried += 1
        t = tiling_of(entity, self.layer)
        if not can_run(t, self.problem, self.config) or same_program(t, self.problem) in self.known:
            return
        self.known.add(same_program(t, self.problem))
        enough = min(self.best, self.static / (1 + self.within))
        low = self._bounds(t, float("inf") if self.everything else enough)
        if low >= enough and not self.everything:
            self.lowest = min(self.lowest, low)
            return
        self.run += 1
        measured = self._measured(entity, t, low)
        if measured is not None:
            self.best = min(self.best, measured)


def compared(
    layer: Convolution, env: Environment, trials: int, everything: bool = False, within: float = 0.0
) -> dict[str, Any] | None:
    """Cycles of the tiling that the search finds, and of the best one of so many trials, of which it is one; None where no configuration of
    the template fits. everything, within: which trials are run, as the options say."""
    done = Trials(layer, env, within, everything)
    space = done.task.config_space
    freedom = Freedom("tile_w" in space.space_map, "outer" in space.space_map)
    if next(tilings(done.problem, done.config, freedom), None) is None:
        return None
    choose.cache_clear()
    begin = time.process_time()
    found = choose(done.problem, done.config, freedom)
    seconds = time.process_time() - begin
    begin = time.perf_counter()
    done.begin(found.tiling)
    for entity in drawn(done.task, trials):
        done.add(entity)
    return {
        "static": done.static, "said": found.cycles, "bound": found.bound, "seconds": seconds, "tried": done.tried,
        "programs": len(done.known), "run": done.run, "best": done.best, "wrong_bounds": done.wrong,
        "ratio": done.static / min(done.best, done.lowest), "wall": time.perf_counter() - begin,
    }  # fmt: skip


def rows_in(path: Path) -> list[dict[str, Any]]:
    """What was measured before; a line that was cut off is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def summary(rows: Sequence[dict[str, Any]], wanted: Sequence[tuple[str, Convolution]]) -> None:
    """A line for each accelerator."""
    for name in dict.fromkeys([name for name, _ in wanted]):
        done = [r for r in rows if r["configuration"] == name]
        total = sum([n == name for n, _ in wanted])
        if not done:
            print(f"{name:<20} 0 of {total} layers")
            continue
        worst = max(done, key=lambda r: r["ratio"])
        slowest = max([r["seconds"] for r in done])
        programs, run = (sum([r[k] for r in done]) for k in ("programs", "run"))
        print(
            f"{name:<20}{len(done):>4} of {total} layers; worst {worst['ratio']:.4f} {tuple(worst['layer'])};"
            f" {sum([r['ratio'] > 1.02 for r in done])} above 1.02; at most {slowest:.2f} s to search; {programs} programs, {run} run"
        )


def main(argv: list[str] | None = None) -> int:
    """Prints a line for each layer and accelerator, and the worst of each accelerator."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks vta_search", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="configurations that AutoTVM tries")
    parser.add_argument(
        "--configuration", choices=CONFIGURATIONS, action="append", help="one of them, may be repeated; default: all"
    )
    parser.add_argument("--networks", default=",".join(NETWORKS), help="names with commas between; default: all")
    parser.add_argument("--everything", action="store_true", help="run trials, too, whose lower bound rules them out")
    parser.add_argument("--results", type=Path, default=Path("build/vta_search.jsonl"), help="the file of results")
    parser.add_argument(
        "--within", type=float, default=0.0, help="leave out trials that are faster by no more than this share"
    )
    takes_json(parser)
    options = parser.parse_args(argv)
    if options.trials < 1:
        parser.error(f"--trials is {options.trials}; it must be at least 1")
    if options.within < 0:
        parser.error(f"--within is {options.within}; it must be at least 0")
    networks = names(parser, "--networks", options.networks, NETWORKS)
    wanted: dict[tuple[str, Convolution], None] = {}
    for name in options.configuration or CONFIGURATIONS:
        config = of_fields(CONFIGURATIONS[name])
        wanted |= dict.fromkeys([(name, layer) for network in networks for layer in layers_of(network, config)])
    logging.disable(logging.WARNING)  # there are no records, and none are wanted
    rows = [
        r
        for r in rows_in(options.results)
        if (r["configuration"], Convolution(*r["layer"])) in wanted
        and (r["trials"], r["everything"]) == (options.trials, options.everything)
        and r["within"] <= options.within
    ]
    there = {(r["configuration"], Convolution(*r["layer"])) for r in rows}
    # Small layers first, of all accelerators, so that what was interrupted says something of each. Tilings of dense layers are many.
    left = sorted([w for w in wanted if w not in there], key=lambda w: (w[1].columns == 1, w[1].problem().steps))
    without: list[str] = []
    options.results.parent.mkdir(parents=True, exist_ok=True)
    try:
        for name, layer in left:
            with Environment({**CONFIGURATIONS[name], "TARGET": "tsim"}) as env:
                found = compared(layer, env, options.trials, options.everything, options.within)
            if found is None:
                without.append(f"{name} {tuple(layer)}")
                continue
            row = {
                "configuration": name,
                "layer": list(layer),
                "trials": options.trials,
                "everything": options.everything,
                "within": options.within,
            }
            rows.append({**row, **found})
            with options.results.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            times = f"{found['seconds']:>6.2f} s{found['static']:>10} cycles, best of {found['tried']} trials {found['best']}"
            done = f"{found['run']} of {found['programs']} programs run in {found['wall']:.1f} s"
            what = f"{len(rows):>4} of {len(wanted)}  {name:<20}{tuple(layer)!s:<32}"
            print(f"{what}{times} ({found['ratio']:.4f}); {done}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on")
    summary(rows, list(wanted))
    if without:
        print(f"no configuration of the template fits: {'; '.join(without)}")
    write_json(options, {"results": rows})
    return int(any([r["wrong_bounds"] for r in rows]))
