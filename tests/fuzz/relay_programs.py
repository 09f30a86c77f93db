"""`python -m tests.fuzz.relay_programs --count 500`: random well-typed relay programs. Each must come back from its text, keep its values
through passes in a random order, and give in the virtual machine, or as a graph, what the interpreter gives. Each runs in a process of its
own, for a limited time."""

from __future__ import annotations

import argparse
import collections
import random
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.caches import own_cache
from tests.fuzz.forked import CPU_SECONDS, Died, forked
from tests.fuzz.progress import Progress
from tests.generators.relay_language import Program
from tests.generators.relay_roundtrip import assert_relay_roundtrip
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.instrument import PassVerifier
from tilewright.ir.transform import PassContext
from tilewright.support.errors import TVMError

PASSES = (
    "SimplifyInference", "FoldConstant", "CanonicalizeOps", "SimplifyExpr", "EliminateCommonSubexpr", "DeadCodeElimination",
    "ToANormalForm", "ToGraphNormalForm", "ToBasicBlockNormalForm", "Inline", "LambdaLift", "FoldScaleAxis", "DynamicToStatic",
    "PartialEvaluate", "EtaExpand", "FuseOps",
)  # fmt: skip


def flat_values(value: Any) -> list[np.ndarray]:
    """The arrays of a result, whatever tuples they are in."""
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("ADT", "TupleValue"):
        return [a for v in value for a in flat_values(v)]
    return [value.numpy()]


def same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """AssertionError where results differ: integers at all, floats by more than another order of sums may make."""
    assert len(got) == len(want), f"{len(got)} results instead of {len(want)}"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        assert (g.dtype, g.shape) == (w.dtype, w.shape), (
            f"result {k} is {g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
        )
        if g.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-3, err_msg=f"result {k}")
        else:
            np.testing.assert_array_equal(g, w, err_msg=f"result {k}")


def drive(seed: int, compiled: bool = True) -> tuple[str, str]:
    """ "ran", or what went wrong with the program of a seed, and its text. compiled: beside the interpreter."""
    rng = random.Random(seed)
    flat = rng.random() < 0.3
    stage, text = "drawing", ""

    def values(kind: str, mod: IRModule) -> list[np.ndarray]:
        return flat_values(relay.create_executor(kind, mod).evaluate()(*inputs))

    try:
        program = Program(seed, flat)
        inputs = program.inputs()
        stage = "types"
        text = repr(program.mod)
        mod = relay.transform.InferType()(program.mod)
        text = repr(mod)
        stage = "text"
        assert_relay_roundtrip(mod)
        stage = "interpreter"
        want = values("debug", mod)
        names = rng.sample(PASSES[:-1] if rng.random() < 0.7 else PASSES, rng.randint(1, 3))
        stage = ", ".join(names)
        with PassContext(opt_level=4, instruments=[PassVerifier()]):
            changed = mod
            for name in sorted(names, key=lambda n: n == "FuseOps"):
                changed = getattr(relay.transform, name)()(changed)
        same(values("debug", changed), want)
        if compiled:
            stage = rng.choice(["graph", "aot"]) if flat else "vm"
            same(values(stage, mod), want)
    except AssertionError as error:
        return f"BAD {stage}: other results: {' '.join(str(error).split())[:300]}", text
    except TVMError as error:
        return f"BAD {stage}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", text
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno} {where.name}"
        return f"BAD {stage}: {type(error).__name__}: {str(error)[:200]} at {place}", text
    return "ran", text


@own_cache()
def main(
    arguments: list[str] | None = None,
    fate: Callable[[int, bool], tuple[str, str]] = drive,
    about: str = __doc__ or "",
) -> int:
    command, _, description = about.partition("`: ")
    parser = argparse.ArgumentParser(prog=" ".join(command.strip("`").split()[:3]), description=description)
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument(
        "--vm", action="store_true", help="compile each program too, for the virtual machine or as a graph"
    )
    parser.add_argument(
        "--limit", type=int, default=CPU_SECONDS, help="seconds of processor time that a program may take (%(default)s)"
    )
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    fates: collections.Counter[str] = collections.Counter()
    progress = Progress(options.count)
    for seed in range(options.seed, options.seed + options.count):
        try:
            what, text = forked(lambda seed=seed: fate(seed, options.vm), options.limit)
        except Died as how:
            what, text = f"BAD process: {how}", ""
        fates[what.partition(":")[0]] += 1
        if what != "ran":
            progress.failures += 1
            progress.clear()
            print(f"seed {seed}: {what}", flush=True)
            if options.count == 1:
                print(text)
        progress.done += 1
        progress.show()
    progress.clear()
    for what, count in fates.most_common():
        print(f"{count:6} {what}")
    ran = fates["ran"]
    print(f"{ran} of {options.count} programs from seed {options.seed} ran ({100 * ran / max(options.count, 1):.1f} %)")
    return int(ran < options.count)


if __name__ == "__main__":
    sys.exit(main())
