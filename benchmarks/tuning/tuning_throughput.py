"""Candidates that tuning measures a minute, and its own share of the time: for tiles of a matrix product, or kernels of a network."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.options import takes_json, write_json
from tilewright import te
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay.backend.tuning_tasks import tuning_tasks
from tilewright.relay.testing import squeezenet
from tilewright.support.errors import TVMError
from tilewright.support.processors import usable_processors
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.cost_model import default_model
from tilewright.tuning.measure import Built, CostModel, Measured, Run, Source
from tilewright.tuning.running.local import LocalRunner
from tilewright.tuning.session import Limits, Session
from tilewright.tuning.space import Space
from tilewright.tuning.task import Task

Tile = tuple[int, int, int]
CHOICES = ((1, 2, 3, 4, 6, 8), (8, 16, 32, 64), (1, 4, 16, 64))
"""Rows, columns and depth of a tile."""


class Tiles(Space[Tile]):
    """c[i0, j0, k0, k1, i1, j1], whose innermost loops are registers."""

    def __init__(self, size: int) -> None:
        a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
        k = te.reduce_axis((0, size), name="k")
        c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
        self.func = te.create_prim_func([a, b, c])

    def untuned(self) -> IRModule:
        return self.program((1, 8, 1))

    def program(self, candidate: Tile) -> IRModule:
        schedule = Schedule(IRModule.from_expr(self.func))
        block = schedule.get_block("c")
        i, j, k = schedule.get_loops(block)
        i0, i1 = schedule.split(i, [None, candidate[0]])
        j0, j1 = schedule.split(j, [None, candidate[1]])
        k0, k1 = schedule.split(k, [None, candidate[2]])
        schedule.reorder(i0, j0, k0, k1, i1, j1)
        schedule.unroll(i1)
        schedule.vectorize(j1)
        schedule.decompose_reduction(block, k0)
        return schedule.mod

    def draw(self, random: Random) -> Tile:
        rows, columns, depth = (random.choice(sizes) for sizes in CHOICES)
        return rows, columns, depth

    def neighbour(self, candidate: Tile, random: Random) -> Tile:
        place = random.randrange(3)
        rows, columns, depth = (random.choice(CHOICES[i]) if i == place else v for i, v in enumerate(candidate))
        return rows, columns, depth

    def write(self, candidate: Tile) -> object:
        return list(candidate)

    def read(self, data: object) -> Tile:
        match data:
            case [int(rows), int(columns), int(depth)]:
                return rows, columns, depth
        raise TVMError(f"{data!r} is no tile")


class NoModel(CostModel):
    """Takes all programs for equal, so that none of the time is a model's."""

    seconds = 0.0

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        return [0.0] * len(programs)

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        pass


class Compiling(LocalBuilder):
    """Adds up the seconds of compilations."""

    seconds = 0.0

    def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
        found = super().build(sources, folder)
        self.seconds += sum([built.seconds for built in found])
        return found


class Running(LocalRunner):
    """Adds up the seconds of measurements."""

    seconds = 0.0

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        found = super().run(runs)
        self.seconds += sum([measured.elapsed for measured in found])
        return found


class Timed(Space[Any]):
    """Another space, and the seconds that it takes to make candidates and their programs."""

    def __init__(self, inner: Space[Any]) -> None:
        self.inner, self.seconds = inner, 0.0

    def _timed(self, function: Callable[..., Any], *args: Any) -> Any:
        begun = time.perf_counter()
        try:
            return function(*args)
        finally:
            self.seconds += time.perf_counter() - begun

    def untuned(self) -> IRModule:
        return self.inner.untuned()

    def program(self, candidate: Any) -> IRModule:
        found: IRModule = self._timed(self.inner.program, candidate)
        return found

    def draw(self, random: Random) -> Any:
        return self._timed(self.inner.draw, random)

    def neighbour(self, candidate: Any, random: Random) -> Any:
        return self._timed(self.inner.neighbour, candidate, random)

    def crossed(self, first: Any, second: Any, random: Random) -> Any:
        return self._timed(self.inner.crossed, first, second, random)

    def write(self, candidate: Any) -> object:
        return self.inner.write(candidate)

    def read(self, data: object) -> Any:
        return self.inner.read(data)


class Ranking(CostModel):
    """The usual cost model, and its seconds."""

    def __init__(self) -> None:
        self.inner, self.seconds = default_model(), 0.0

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        begun = time.perf_counter()
        found = self.inner.predict(programs, target)
        self.seconds += time.perf_counter() - begun
        return found

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        begun = time.perf_counter()
        self.inner.update(key, programs, target, seconds)
        self.seconds += time.perf_counter() - begun


def product(size: int) -> Task:
    """Tiles of a product of square matrices."""
    return Task("product", f"product of {size}", Target("llvm"), Timed(Tiles(size)), flops=2 * size**3)


def network(kernels: int) -> list[Task]:
    """The kernels of a network of convolutions with the most operations, as `tilewright tune` has them."""
    mod, params = squeezenet.get_workload(image_shape=(3, 64, 64))
    with PassContext(opt_level=3):
        tasks = tuning_tasks(mod, "llvm", params)
    heaviest = sorted(tasks, key=lambda task: -task.flops)[:kernels]
    return [replace(task, space=Timed(task.space)) for task in heaviest]


def main(argv: list[str] | None = None) -> None:
    """Prints candidates a minute, and where the time of a trial goes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning_throughput", description=__doc__)
    parser.add_argument("--size", type=int, default=512, help="rows and columns of the matrices (default: 512)")
    parser.add_argument("--network", type=int, metavar="KERNELS", help="so many kernels of SqueezeNet instead")
    parser.add_argument("--trials", type=int, default=64, help="candidates (default: 64)")
    takes_json(parser)
    options = parser.parse_args(argv)
    builder, runner = Compiling(), Running()
    tasks = [product(options.size)] if options.network is None else network(options.network)
    # Where candidates are tiles, none of the time is a model's.
    model = NoModel() if options.network is None else Ranking()
    spaces = [task.space for task in tasks if isinstance(task.space, Timed)]
    session = Session(tasks, builder, runner, model)
    session.run(Limits(trials=2, batch=2))  # starts the processes
    for part in (builder, runner, model, *spaces):
        part.seconds = 0.0
    before, begun = len(session.records), time.perf_counter()
    session.run(Limits(trials=options.trials, patience=options.trials))
    elapsed, trials = time.perf_counter() - begun, len(session.records) - before
    compiled, scheduled = builder.seconds / usable_processors(), sum([space.seconds for space in spaces])
    engine = elapsed - compiled - runner.seconds - scheduled - model.seconds
    results = {
        "trials": trials,
        "trials_a_minute": 60 * trials / elapsed,
        "compile_ms": 1e3 * compiled / trials,
        "measure_ms": 1e3 * runner.seconds / trials,
        "schedule_ms": 1e3 * scheduled / trials,
        "model_ms": 1e3 * model.seconds / trials,
        "engine_ms": 1e3 * engine / trials,
        "engine_share": engine / elapsed,
        "search_share": (scheduled + model.seconds) / elapsed,
    }
    if options.network is None:
        results["gflops"] = tasks[0].flops / session.progress[0].seconds / 1e9
    builder.close()
    runner.close()
    for name, value in results.items():
        print(f"{name:16} {value:10.3f}")
    write_json(options, results)
