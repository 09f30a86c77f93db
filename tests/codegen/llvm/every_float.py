"""Vector math over all 4,294,967,296 float32 arguments: the largest error of each function in units of the last place.

    python -m tests.codegen.llvm.every_float [exp log ..] [--target "llvm -mcpu=x86-64-v3"] [--lanes 16] [--step 1] [--workers 2]

Compiled functions are compared with float64 ones of NumPy, and of the C library where NumPy has none; `tests/codegen/llvm/test_vecmath.py`
compares those with 64-bit mantissas. Results of a wrong kind count as infinitely wrong: a NaN or an infinity where there is none, or
none where there is one, and a wrong sign, zeros included. --step N takes every N-th block of arguments.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.codegen.small_programs import aligned, elementwise
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import compile_object, emit_module, load_objects
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tir import op as T

BLOCK = 1 << 14
SHARE = 1 << 24
"""Arguments that a process takes at once."""

Array = np.ndarray[Any, Any]


def _c_library(name: str) -> Callable[[Array], Array]:
    """A float64 function of the C library, in a compiled loop."""

    def call(x: Array) -> Array:
        func = elementwise(["float64"], "float64", x.size, 1, lambda a: T.call_intrin("float64", f"tir.{name}", a))
        out = aligned(np.zeros(x.size), "float64")
        _compiled(func, "llvm", ("c", name, x.size))([x, out])
        return out

    return call


class Function(NamedTuple):
    """A function of float32: what is expected, in float64, and the largest error in units of the last place."""

    exact: Callable[[Array], Array]
    limit: float = 1.0


FUNCTIONS = {
    "exp": Function(np.exp),
    "log": Function(np.log),
    "tanh": Function(np.tanh),
    "erf": Function(_c_library("erf")),
    "sigmoid": Function(lambda x: 1 / (1 + np.exp(-x))),
    "sin": Function(np.sin),
    "cos": Function(np.cos),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x)),
    "exp2": Function(np.exp2),
    "exp10": Function(lambda x: np.exp2(x * np.log2(10.0))),
    "log2": Function(np.log2),
    "log10": Function(np.log10),
    "log1p": Function(np.log1p),
    "sqrt": Function(np.sqrt, 0.5),
    "tan": Function(np.tan),
    "sinh": Function(np.sinh),
    "cosh": Function(np.cosh),
    "asin": Function(np.arcsin),
    "acos": Function(np.arccos),
    "atan": Function(np.arctan),
    "asinh": Function(np.arcsinh),
    "acosh": Function(np.arccosh),
    "atanh": Function(np.arctanh),
}

_loaded: dict[Any, Callable[[list[Array]], None]] = {}


def _compiled(func: Any, target: str, key: Any) -> Callable[[list[Array]], None]:
    found = _loaded.get(key)
    if found is None:
        text = emit_module(IRModule({"main": func.with_attr("calling_conv", AOT)}), Target(target))
        entry = load_objects([compile_object(text, target, 1)], ["main"]).function("main", ctypes.c_void_p)

        def found(arrays: list[Array]) -> None:
            entry((ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]))

        _loaded[key] = found
    return found


def function(name: str, count: int, lanes: int, target: str) -> Callable[[list[Array]], None]:
    """[x, out] -> None: the compiled function on `count` numbers."""
    func = elementwise(["float32"], "float32", count, lanes, lambda a: T.call_intrin(a.dtype, f"tir.{name}", a))
    return _compiled(func, target, (name, count, lanes, target))


def errors(got: Array, exact: Array) -> Array:
    """Errors in units of the last place of the exact values; infinity where the kind or the sign of a result is wrong."""
    limit = 2.0**128
    with np.errstate(all="ignore"):
        binade = (exact.view(np.int64) & (0x7FF << 52)).view(np.float64)
        unit = np.clip(binade * 2.0**-23, 2.0**-149, 2.0**104)
        wide = np.clip(got.astype(np.float64), -limit, limit)
        found = np.abs(wide - np.clip(exact, -limit, limit)) / unit
        nan = np.isnan(exact)
        wrong = (np.isnan(got) != nan) | ((np.abs(exact) >= limit) & np.isfinite(got))
        wrong |= ~nan & (np.signbit(got) != np.signbit(exact))
        found[nan] = 0.0
        found[wrong] = np.inf
    return found


class Worst(NamedTuple):
    """The largest error and an argument that has it; how many results are of the wrong kind."""

    error: float
    argument: float
    wrong: int


def share(work: tuple[str, int, int, int, str]) -> tuple[str, Worst]:
    """The largest error of a function among SHARE neighbouring arguments."""
    name, start, step, lanes, target = work
    call, exact = function(name, BLOCK, lanes, target), FUNCTIONS[name].exact
    worst, wrong = (-1.0, 0.0), 0
    x, out = aligned(np.zeros(BLOCK), "float32"), aligned(np.zeros(BLOCK), "float32")
    wide = aligned(np.zeros(BLOCK), "float64")
    shift = (start // SHARE * 5 % step) * BLOCK  # other blocks of each share
    for first in range(start + shift, start + SHARE, BLOCK * step):
        x.view(np.uint32)[:] = np.arange(first, first + BLOCK, dtype=np.uint32)
        call([x, out])
        with np.errstate(all="ignore"):
            wide[:] = x
            found = errors(out, exact(wide))
        wrong += int(np.isinf(found).sum())
        at = int(found.argmax())
        if found[at] > worst[0]:
            worst = (float(found[at]), float(x[at]))
    return name, Worst(*worst, wrong)


def run(names: list[str], step: int, lanes: int, target: str, workers: int) -> Iterator[tuple[str, Worst]]:
    """Shares of all functions as they are done, in order."""
    jobs = [(name, start, step, lanes, target) for name in names for start in range(0, 1 << 32, SHARE)]
    if workers < 2:
        yield from map(share, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(share, jobs)


def main(argv: list[str] | None = None) -> int:
    """Prints the table; 1 when a function exceeds its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.codegen.llvm.every_float")
    parser.add_argument("names", nargs="*", help="functions; all without")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--step", type=int, default=1, help="one of N blocks of 16384 arguments")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args(argv)
    names = args.names or list(FUNCTIONS)
    if unknown := [name for name in names if name not in FUNCTIONS]:
        parser.error(f"no function {', '.join(unknown)}; there are {', '.join(FUNCTIONS)}")
    total, began, failed = len(names) * ((1 << 32) // SHARE), time.perf_counter(), 0
    print(
        f"{'function':10}{'max ulp':>9}{'limit':>7}{'at':>16}{'wrong kind':>12}   {args.target}, {args.lanes} lanes",
        flush=True,
    )
    sofar: dict[str, Worst] = {}
    for done, (name, found) in enumerate(run(names, args.step, args.lanes, args.target, args.workers), 1):
        before = sofar.get(name, Worst(-1.0, 0.0, 0))
        worst = found if found.error > before.error else before
        sofar[name] = Worst(worst.error, worst.argument, before.wrong + found.wrong)
        if sys.stderr.isatty():
            left = (time.perf_counter() - began) / done * (total - done)
            print(f"\r{name}: {done}/{total}, {left / 60:.0f} min left ", end="", file=sys.stderr, flush=True)
        if done % ((1 << 32) // SHARE) == 0:
            error, argument, wrong = sofar[name]
            failed += error > FUNCTIONS[name].limit
            if sys.stderr.isatty():
                print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)
            print(f"{name:10}{error:9.4f}{FUNCTIONS[name].limit:7.2f}{argument:16.9g}{wrong:12d}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
