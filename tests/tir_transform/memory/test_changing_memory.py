"""Passes over programs that change what they have tested: a condition that loads memory holds only until it is written."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.generators import imperative
from tilewright.codegen.interp import run
from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext
from tilewright.script import from_source
from tilewright.script import tir as T
from tilewright.tir import transform as X

PROGRAMS = {
    "a condition in its branch": """
    if a[0] == 3:
        a[0] = 1
        b[0] = a[0]
""",
    "a condition in its other branch": """
    if a[0] != 3:
        b[1] = 1
    else:
        a[0] = 1
        b[0] = a[0]
""",
    "a condition in a loop": """
    if a[0] == 3:
        for i in range(4):
            b[i] = a[0]
            a[0] = i
""",
    "a condition, written under another name": """
    if a[0] == 3:
        c = T.decl_buffer((2, 2), "int32", data=a.data)
        c[0, 0] = 1
        b[0] = a[0]
""",
    "an assertion": """
    assert a[0] == 3, "as given"
    a[0] = 1
    b[0] = a[0]
""",
    "an extent": """
    for i in range(a[0]):
        a[0] = 0
        b[i] = T.max(a[0], 1) + T.Select(a[0] > 0, 5, 6)
""",
    "a condition on a loop": """
    for i in range(4):
        if T.likely(i < a[0]):
            a[0] = a[0] - 1
            b[i] = 7
""",
    "a condition on a loop, made there": """
    for i in range(4):
        c_data = T.allocate([1], "int32", "global")
        c = T.Buffer((1,), "int32", data=c_data)
        c[0] = a[i]
        if T.likely(i < c[0]):
            b[i] = 7
""",
    "the bound of an inner loop": """
    for i in range(4):
        for j in range(a[0]):
            if T.likely(i + j < 4):
                b[i + j] = b[i + j] + 1
        a[0] = 4
""",
}


def result(mod: IRModule) -> list[Any]:
    args = [np.array([3, 1, 4, 1], "int32"), np.zeros(4, "int32")]
    run(mod, args)
    return args


@pytest.mark.parametrize("make", [X.Simplify, X.LoopPartition, X.HoistIfThenElse, X.HoistExpression, X.RemoveNoOp])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_tested_holds_until_it_is_written(name: str, make: type[Pass]) -> None:
    text = '@T.prim_func\ndef main(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32")):' + PROGRAMS[name]
    mod = IRModule({"main": from_source(text)})
    for got, want in zip(result(make()(mod)), result(mod), strict=True):
        np.testing.assert_array_equal(got, want)


def test_conditions_on_memory_that_nobody_writes_are_used() -> None:
    text = """
@T.prim_func
def main(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32")):
    if a[0] == 3:
        b[0] = a[0]
        b[1] = T.max(a[0], 1)
"""
    mod = X.Simplify()(IRModule({"main": from_source(text)}))
    assert "b[1] = 3" in str(mod)


FLAT = [
    X.Simplify, X.RemoveNoOp, X.HoistIfThenElse, X.HoistExpression, X.CommonSubexprElimTIR, X.UnrollLoop, X.LoopPartition,
    X.StorageRewrite, X.VectorizeLoop, X.ConvertSSA, X.RewriteUnsafeSelect, X.RenormalizeSplitPattern,
]  # fmt: skip
OPTIONS = {
    "tir.RemoveNoOp": {"use_dataflow_analysis": True},
    "tir.Simplify": {"convert_boolean_to_and_of_ors": True, "apply_constraints_to_boolean_branches": True},
    "tir.UnrollLoop": {"auto_max_step": 64, "explicit_unroll": True},
}


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    def answer(mod: IRModule) -> list[Any]:
        rng = np.random.default_rng(seed)
        args = [rng.integers(0, 9, shape).astype("int32") for shape in imperative.SHAPES]
        run(mod, args)
        return args

    rng = random.Random(seed)
    mod = IRModule({"main": from_source(imperative.draw(seed))})
    want = answer(mod)
    mod = X.FlattenBuffer()(mod)
    with PassContext(config={k: v for k, v in OPTIONS.items() if rng.random() < 0.5}):
        for make in rng.choices(FLAT, k=6):
            mod = make()(mod)
    for got, value in zip(answer(mod), want, strict=True):
        np.testing.assert_array_equal(got, value)


def test_flat_views_reach_to_their_end() -> None:
    """The flat buffer of a view that begins inside of another has indices of the whole, so it is as long as the view's end is far."""

    @T.prim_func
    def main(a: T.handle) -> None:
        T.func_attr({"global_symbol": "main"})
        A = T.match_buffer(a, (4, 3), "float32")
        inner = T.Buffer((2, 3), "float32", data=A.data, strides=(3, 1), elem_offset=3)
        for i, j in T.grid(2, 3):
            inner[i, j] = T.float32(1)

    x = np.zeros((4, 3), "float32")
    run(X.FlattenBuffer()(IRModule({"main": main})), [x])
    np.testing.assert_array_equal(x[:, 0], [0, 1, 1, 0])
