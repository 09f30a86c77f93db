"""Programs of scheduled kernels as a device runs them, for the interpreter: with barriers, registers, asynchronous copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.codegen.interp.values import np_type
from tilewright.driver import lower
from tilewright.ir import IRModule
from tilewright.ir.transform import Sequential
from tilewright.target import Target
from tilewright.tir import transform as T


def as_on_device(mod: IRModule, target: str = "cuda -arch=sm_80") -> IRModule:
    """The module lowered as for a device, before kernels are split from the host."""
    passes = [
        T.ThreadSync("shared"), T.ThreadSync("shared.dyn"), T.ThreadSync("warp"), T.LowerThreadAllreduce(), T.LowerWarpMemory(),
        T.InjectPTXAsyncCopy(), T.OptimizeTileIterators(), T.MergeSharedMemoryAllocations(), T.Simplify(),
    ]  # fmt: skip
    with Target(target):
        return Sequential(passes)(lower(mod))


def inputs_of(func: tir.PrimFunc, seed: int = 0) -> list[Any]:
    """Small integers in the types of the parameters, so that sums are exact."""
    rng = np.random.default_rng(seed)
    buffers = [func.buffer_map[p] for p in func.params]
    return [np.asarray(rng.integers(-4, 5, [int(n) for n in b.shape])).astype(np_type(b.dtype)) for b in buffers]  # type: ignore[call-overload]


def results(mod: IRModule | tir.PrimFunc, inputs: list[Any], check_races: bool = False) -> list[Any]:
    """The arrays after a run."""
    arrays = [x.copy() for x in inputs]
    run(mod, arrays, check_races=check_races)
    return arrays


__all__ = ["as_on_device", "inputs_of", "results"]
