"""Elements per nanosecond of vector math on one thread, beside torch and NumPy, interleaved in one run.

python -m benchmarks vector_math [--functions exp,tanh]
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import options
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import compile_object, emit_module, load_objects
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tir import BufferLoad, BufferStore, For, PrimFunc, Ramp, Var, decl_buffer
from tilewright.tir import op as T

COUNT, ROUNDS = 1 << 14, 31
NAMES = """exp log tanh erf sigmoid sin cos rsqrt exp2 log2 log1p log10 sqrt tan sinh cosh asin acos atan asinh acosh atanh
    pow"""
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
         "pow": "power"}  # fmt: skip
RANGES = {"exp": (-20, 20), "log1p": (-0.9, 20), "log": (1e-3, 100), "log2": (1e-3, 100), "log10": (1e-3, 100), "rsqrt": (1e-3, 100),
          "sqrt": (1e-3, 100), "pow": (1e-3, 20), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "acosh": (1, 20),
          "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100)}  # fmt: skip


def ours(name: str, arrays: list[np.ndarray]) -> Callable[[], Any]:
    """A call of the compiled function: `COUNT` elements, a vector at a time."""
    target = Target("llvm")
    lanes = target.cpu.lanes(32)
    inputs = [decl_buffer((COUNT,), "float32", f"in{k}") for k in range(len(arrays))]
    out, i = decl_buffer((COUNT,), "float32", "out"), Var("i")
    place = (Ramp(i * lanes, 1, lanes),)
    value = T.call_intrin(f"float32x{lanes}", f"tir.{name}", *[BufferLoad(b, place) for b in inputs])
    func = PrimFunc([*inputs, out], For(i, 0, COUNT // lanes, 0, BufferStore(out, value, place)))
    mod = IRModule({"main": func.with_attr("global_symbol", "main").with_attr("calling_conv", AOT)})
    entry = load_objects([compile_object(emit_module(mod, target), target)], ["main"]).function("main", ctypes.c_void_p)
    result = aligned(np.zeros(COUNT))
    args = (ctypes.c_void_p * (len(arrays) + 1))(*[a.ctypes.data for a in (*arrays, result)])
    call = lambda: entry(args)  # noqa: E731
    call.keep = (arrays, result)  # type: ignore[attr-defined]
    return call


def aligned(values: np.ndarray) -> np.ndarray:
    raw = np.zeros(COUNT + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    raw[start : start + COUNT] = values
    return raw[start : start + COUNT]


def main(argv: list[str] | None = None) -> int:
    """Prints the table: medians, and the ratio of the time to the faster peer's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks vector_math", description=__doc__)
    parser.add_argument("--functions", default=",".join(NAMES.split()))
    options.takes_json(parser)
    given = parser.parse_args(argv)
    names, results = options.names(parser, "--functions", given.functions, NAMES.split()), []
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    contestants: dict[tuple[str, str], Callable[[], Any]] = {}
    for name in names:
        count = 2 if name == "pow" else 1
        arrays = [aligned(rng.uniform(*RANGES.get(name, (-5, 5)), COUNT).astype(np.float32)) for _ in range(count)]
        tensors, out = [torch.from_numpy(a) for a in arrays], torch.empty(COUNT)
        contestants[name, "ours"] = ours(name, arrays)
        peer = getattr(torch, name)
        contestants[name, "torch"] = lambda peer=peer, tensors=tensors, out=out: peer(*tensors, out=out)
        numpy = getattr(np, NUMPY.get(name, name), None)
        if numpy is not None:
            kept = np.zeros(COUNT, np.float32)
            contestants[name, "numpy"] = lambda numpy=numpy, arrays=arrays, kept=kept: numpy(*arrays, out=kept)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in contestants}
    for _ in range(ROUNDS):
        for key, call in contestants.items():
            call()
            began = time.perf_counter()
            for _ in range(4):
                call()
            times[key].append((time.perf_counter() - began) / 4)
    print(f"elements/ns, float32, {COUNT} at a time, one thread, medians of {ROUNDS} interleaved rounds")
    print(f"{'function':10}{'ours':>8}{'torch':>8}{'numpy':>8}{'time / best peer':>18}")
    for name in names:
        rate = {who: COUNT / statistics.median(times[n, who]) / 1e9 for n, who in contestants if n == name}
        best = max(v for who, v in rate.items() if who != "ours")
        cells = "".join(f"{rate[who]:8.2f}" if who in rate else f"{'-':>8}" for who in ("ours", "torch", "numpy"))
        results.append({"function": name, "elements_a_ns": rate, "ratio": best / rate["ours"]})
        print(f"{name:10}{cells}{best / rate['ours']:18.2f}")
    options.write_json(given, results)
    return 0
