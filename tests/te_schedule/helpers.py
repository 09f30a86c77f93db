"""Running what a TE schedule says: in the interpreter and as native code, both against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright.codegen import interp

RNG = np.random.default_rng(11)
Array = np.ndarray[Any, Any]


def random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype("float32")


def interpret(s: Any, args: list[Any], inputs: list[Any], want: list[Any], externs: Any = None) -> None:
    """Runs the schedule's function in the interpreter: as blocks, and lowered, when parallel loops are looked at for races."""
    for lowered in (False, True):
        outputs = [np.zeros(w.shape, w.dtype) for w in want]
        program = tvm.lower(s, args) if lowered else s.to_prim_func(args)
        interp.run(program, [*inputs, *outputs], externs=externs, check_races=lowered)
        for out, w in zip(outputs, want, strict=True):
            np.testing.assert_allclose(out, w, rtol=1e-4, atol=1e-5)


def execute(s: Any, args: list[Any], inputs: list[Any], want: list[Any]) -> None:
    """Builds the schedule and runs the native code."""
    outputs = [tvm.nd.array(np.zeros(w.shape, w.dtype)) for w in want]
    tvm.build(s, args, "llvm")(*[tvm.nd.array(i) for i in inputs], *outputs)
    for out, w in zip(outputs, want, strict=True):
        np.testing.assert_allclose(out.numpy(), w, rtol=1e-4, atol=1e-5)


def check(s: Any, args: list[Any], inputs: list[Any], want: list[Any]) -> None:
    interpret(s, args, inputs, want)
    execute(s, args, inputs, want)
