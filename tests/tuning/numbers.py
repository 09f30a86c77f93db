"""A space whose candidates are pairs of numbers, and measurements that need no machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tuning.measure import Builder, Built, CostModel, Failure, Measured, Run, Runner, Source
from tilewright.tuning.space import Space
from tilewright.tuning.task import Task

Pair = tuple[int, int]
SIDE = 64


def best(pair: Pair) -> float:
    """Seconds, least for (40, 13)."""
    return 1.0 + ((pair[0] - 40) / 64) ** 2 + ((pair[1] - 13) / 64) ** 2


class Pairs(Space[Pair]):
    """Pairs of numbers below `side`; those whose sum is a multiple of 7 are refused."""

    def __init__(self, func: PrimFunc, side: int = SIDE) -> None:
        self.func, self.side = func, side
        self.refusals = 0

    def untuned(self) -> IRModule:
        return IRModule.from_expr(self.func.with_attr("pair", (0, 0)))

    def program(self, candidate: Pair) -> IRModule:
        if sum(candidate) % 7 == 0:
            self.refusals += 1
            raise TVMError(f"{candidate} is refused")
        return IRModule.from_expr(self.func.with_attr("pair", candidate))

    def draw(self, random: Random) -> Pair:
        return random.randrange(self.side), random.randrange(self.side)

    def neighbour(self, candidate: Pair, random: Random) -> Pair:
        place, step = random.randrange(2), random.choice((-4, -1, 1, 4))
        changed = [min(max(v + step * (i == place), 0), self.side - 1) for i, v in enumerate(candidate)]
        return changed[0], changed[1]

    def crossed(self, first: Pair, second: Pair, random: Random) -> Pair:
        return first[0], second[1]

    def write(self, candidate: Pair) -> object:
        return list(candidate)

    def read(self, data: object) -> Pair:
        match data:
            case [int(a), int(b)]:
                return a, b
        raise TVMError(f"{data!r} is no pair")


def pair_of(program: IRModule) -> Pair:
    (func,) = program.functions.values()
    a, b = func.attrs["pair"]
    return int(a), int(b)


class Names(Builder):
    """Builds nothing: the name of a library is the pair."""

    def __init__(self) -> None:
        self.built: list[Pair] = []

    def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
        pairs = [pair_of(s.program) for s in sources]
        self.built += pairs
        return [Built(folder / f"{a}-{b}.so", 0.0) for a, b in pairs]


def pair_at(path: Path) -> Pair:
    a, b = path.stem.split("-")
    return int(a), int(b)


class Formula(Runner):
    """Times by a formula. load: how much slower everything is at a call; fails: pairs whose process dies."""

    def __init__(
        self,
        seconds: Callable[[Pair], float] = best,
        load: Callable[[int], float] = lambda call: 1.0,
        fails: Callable[[Pair], bool] = lambda pair: False,
    ) -> None:
        self.seconds, self.load, self.fails, self.calls = seconds, load, fails, 0

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        found = []
        for run in runs:
            self.calls += 1
            scale, pair = self.load(self.calls), pair_at(run.library)
            if self.fails(pair):
                found.append(Measured((), (), Failure.RUN, "killed by signal 11"))
                continue
            beside = (self.seconds(pair_at(run.beside)) * scale,) * 3 if run.beside else ()
            found.append(Measured((self.seconds(pair) * scale,) * 3, beside))
        return found


class Perfect(CostModel):
    """Knows the formula."""

    def __init__(self, seconds: Callable[[Pair], float] = best) -> None:
        self.seconds, self.learned = seconds, 0

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        return [-self.seconds(pair_of(p)) for p in programs]

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        self.learned += len(programs)


class Ignorant(Perfect):
    """Takes all programs for equal."""

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        return [0.0] * len(programs)


def task(func: PrimFunc, name: str = "pairs", weight: float = 1.0, side: int = SIDE) -> Task:
    return Task(name, f"key of {name}", Target("llvm"), Pairs(func, side), weight, flops=1e9)
