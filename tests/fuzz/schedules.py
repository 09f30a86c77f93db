"""`python -m tests.fuzz.schedules --count 10000`: random schedules of random spaces: plans of kernels, traces, sketches and templates.
Candidates are drawn, changed and crossed, as a search does. Each must be refused, or be built by LLVM and compute what the kernel computes
without a schedule; small ones are run by the interpreter as well, which looks for races. Each space has a process of its own."""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import native
from tests.fuzz.caches import own_cache
from tests.fuzz.forked import CPU_SECONDS, Died, forked
from tests.fuzz.progress import Progress
from tests.generators import spaces
from tests.generators.case import Case, difference
from tilewright.codegen import interp
from tilewright.driver.pipeline import lower_for
from tilewright.ir import IRModule
from tilewright.support.errors import InternalError, TVMError
from tilewright.target import Target
from tilewright.tir.analysis import estimate_tir_flops
from tilewright.tuning import inputs
from tilewright.tuning.inputs import kernel_of, signature_of

EACH = 8
"""Schedules of a space."""
INTERPRETED = 3000
"""Operations of a kernel that the interpreter runs as well."""


class Result(NamedTuple):
    """What became of the schedules of a seed: how many by fate, and what was wrong, with the candidate and its program."""

    fates: Counter[str]
    finds: list[tuple[str, str]]


class Checker:
    """A space, its kernel, and what this computes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}/candidates")
        random.seed(seed)  # templates walk by numbers that all share
        self.seed, self.drawn = seed, spaces.draw(seed)
        case = self.drawn.case
        self.case = Case(case.kind, case.func, case.fill, {}, tolerance=case.tolerance)
        self.target = Target(self.drawn.target)
        untuned = named(self.drawn.space.untuned())
        self.small = is_small(IRModule.from_expr(case.func))
        self.signature = signature_of(untuned)
        self.expected = self.interpreted(untuned) if self.small else self.native(lower_for(untuned, self.target))
        if self.small:
            self.compare(self.native(lower_for(untuned, self.target)))
        self.made: list[Any] = []
        self.candidate: Any = None

    def next(self) -> Any:
        """A candidate: drawn, or made of those before. Raises TVMError where the space finds none that fits."""
        space, rng = self.drawn.space, self.rng
        way = rng.random()
        if len(self.made) > 1 and way < 0.25:
            return space.crossed(*rng.sample(self.made, 2), rng)
        if self.made and way < 0.6:
            return space.neighbour(rng.choice(self.made), rng)
        return space.draw(rng)

    def fate(self) -> str:
        """What becomes of the next candidate. Raises AssertionError where it computes something else."""
        space = self.drawn.space
        self.candidate = None
        try:
            self.candidate = candidate = self.next()
            program = named(space.program(candidate))
        except InternalError:
            raise
        except TVMError as error:
            return f"refused: {first_line(error)}"
        self.made.append(candidate)
        if self.rng.random() < 0.25:
            data = json.loads(json.dumps(space.write(candidate)))
            assert space.key(space.read(data)) == space.key(candidate), "a record of it is another candidate"
        found = signature_of(program)
        assert found == self.signature, f"its parameters are {found}"
        try:
            lowered = lower_for(program, self.target)
            if self.small and self.rng.random() < 0.25:
                self.compare(self.interpreted(lowered, check_races=True))
            values = self.native(lowered)
        except (InternalError, interp.InterpError):
            raise
        except TVMError as error:
            return f"not built: {first_line(error)}"
        self.compare(values)
        return "right"

    def native(self, lowered: IRModule) -> list[Any]:
        return native.run(lowered, self.case, self.seed, "kernel" if self.rng.random() < 0.2 else "plain")

    def interpreted(self, program: IRModule, check_races: bool = False) -> list[Any]:
        """Races are looked for in lowered programs: who shares a buffer depends on where it is allocated."""
        args = self.case.arguments(self.seed)
        with np.errstate(all="ignore"):
            interp.run(program, args, check_races=check_races)
        return args

    def compare(self, found: list[Any]) -> None:
        if self.drawn.exact:
            wrong = difference(self.expected, found, self.case.tolerance)
        else:
            sides = [[values[i] for i in self.signature.outputs] for values in (found, self.expected)]
            wrong = inputs.difference(self.signature, *sides)
        assert not wrong, wrong


def named(program: IRModule) -> IRModule:
    return IRModule({"main": kernel_of(program).with_attr("global_symbol", "main")})


def is_small(program: IRModule) -> bool:
    """Whether the interpreter runs a kernel as well; not where data decide how often a loop runs."""
    try:
        return estimate_tir_flops(program) < INTERPRETED
    except TVMError:
        return False


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:70]


def check(seed: int, count: int = EACH) -> Result:
    """The schedules of a seed."""
    fates: Counter[str] = Counter()
    finds: list[tuple[str, str]] = []
    try:
        checker = Checker(seed)
    except Exception as error:
        return Result(fates, [(f"making the space: {described(error)}", "")])
    kind = checker.drawn.kind
    for i in range(count):
        try:
            fates[f"{kind} {checker.fate()}"] += 1
        except Exception as error:
            finds.append((f"{kind}, schedule {i}: {described(error)}", text_of(checker)))
    return Result(fates, finds)


def described(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    if isinstance(error, AssertionError):
        return f"other results: {text}"
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} at {where.filename.rpartition('/')[2]}:{where.lineno} {where.name}"


def text_of(checker: Checker) -> str:
    """The kernel, the last candidate and its program, as far as they can be shown."""
    parts, candidate = [str(checker.case.func)], checker.candidate
    if candidate is None:
        return parts[0]
    try:
        parts.append(json.dumps(checker.drawn.space.write(candidate)))
        parts.append(str(checker.drawn.space.program(candidate)))
    except Exception as error:
        parts.append(f"{type(error).__name__}: {error}")
    return "\n".join(parts)


@own_cache()
def main(arguments: list[str] | None = None, fate: Callable[[int, int], Result] = check) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.schedules", description=(__doc__ or "").partition("`: ")[2]
    )
    parser.add_argument("--count", type=int, default=200, help="how many schedules")
    parser.add_argument("--seed", type=int, default=0, help=f"the first space's seed; a space has {EACH} schedules")
    parser.add_argument("--limit", type=int, default=CPU_SECONDS, help="seconds of processor time for a space")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    fates: Counter[str] = Counter()
    progress = Progress(options.count, "schedules")
    seed = options.seed
    while progress.done < options.count:
        wanted = min(EACH, options.count - progress.done)
        try:
            found = forked(lambda seed=seed, wanted=wanted: fate(seed, wanted), options.limit)
        except Died as how:
            found = Result(Counter(), [(f"process: {how}", "")])
        fates.update(found.fates)
        for what, text in found.finds:
            progress.failures += 1
            progress.clear()
            print(f"seed {seed}: {what}", flush=True)
            if options.count <= EACH:
                print(text)
        progress.done += wanted
        seed += 1
        progress.show()
    progress.clear()
    print(summary(fates))
    print(progress.text(f"from seed {options.seed}"))
    return int(progress.failures > 0)


def summary(fates: Counter[str]) -> str:
    """How many schedules of each kind were right, refused and not built; the reasons for what was not built, and the commonest others."""
    totals: Counter[tuple[str, str]] = Counter()
    for name, count in fates.items():
        kind, _, rest = name.partition(" ")
        totals[kind, rest.partition(":")[0]] += count
    lines = [f"{count:6} {kind} {what}" for (kind, what), count in sorted(totals.items())]
    reasons = [(count, name) for name, count in fates.items() if " not built:" in name]
    reasons += sorted([(count, name) for name, count in fates.items() if " refused:" in name], reverse=True)[:12]
    return "\n".join([*lines, *[f"{count:6}   {name}" for count, name in reasons]])


if __name__ == "__main__":
    sys.exit(main())
