"""`python -m tests.fuzz.relay_passes --count 1000 --seed 7`: relay's passes in random orders on random graphs and on programs with control
flow, types verified after each; results against the interpreter's of the program as it was. A failure is shown with the fewest passes.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings

import numpy as np

from tests.fuzz.caches import own_cache
from tests.relay.random_graphs import Generator, assert_same, evaluate
from tests.relay.transform.functional.test_partial_eval import PROGRAMS, program
from tests.relay.transform.test_optional_passes import ANY_ORDER
from tilewright.ir import IRModule
from tilewright.ir.instrument import PassVerifier
from tilewright.ir.transform import PassContext

ENDS = ("FuseOps", "LabelOps", "ToANormalForm", "ToGraphNormalForm", "DefuseOps")


def subject(seed: int) -> tuple[IRModule, list[np.ndarray]]:
    """A program and its inputs."""
    rng = random.Random(seed)
    if rng.random() < 0.3:
        return program(rng.choice(list(PROGRAMS)))
    g = Generator(seed, rng.choice([6, 12, 20]))
    return g.module(), g.inputs()


def order(seed: int) -> list[str]:
    """Names of passes, in the order of their runs."""
    rng = random.Random(seed + 1)
    names = [rng.choice(list(ANY_ORDER)) for _ in range(rng.randint(2, 8))]
    if rng.random() < 0.3:
        # Nothing but these is meant for programs of primitive functions.
        names += ["FuseOps", *[rng.choice(ENDS[1:]) for _ in range(rng.randint(0, 2))]]
    return names


def failure(seed: int, names: list[str]) -> str:
    """What goes wrong; empty where nothing does."""
    from tilewright.relay import transform

    mod, inputs = subject(seed)
    want = evaluate(mod, inputs)
    try:
        with PassContext(opt_level=4, instruments=[PassVerifier()]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                made = ANY_ORDER[name] if name in ANY_ORDER else getattr(transform, name)
                mod = made()(mod)
        assert_same(evaluate(mod, inputs), want)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def fewest(seed: int, names: list[str]) -> list[str]:
    """The passes without those that the failure does not need."""
    for name in list(names):
        rest = list(names)
        rest.remove(name)
        if failure(seed, rest):
            names = rest
    return names


@own_cache()
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.relay_passes", description=(__doc__ or "").split("`: ")[1]
    )
    parser.add_argument("--count", type=int, default=200, help="how many programs; 0: until interrupted")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    options = parser.parse_args(arguments)
    seed, failures = options.seed, 0
    try:
        while not options.count or seed < options.seed + options.count:
            found = failure(seed, order(seed))
            if found:
                failures += 1
                least = fewest(seed, order(seed))
                print(f"seed {seed}, passes {', '.join(least)}\n{failure(seed, least)}\n", flush=True)
            seed += 1
    except KeyboardInterrupt:
        pass
    print(f"{seed - options.seed} programs from seed {options.seed}, {failures} failures", file=sys.stderr)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
