"""The work of a packed function stands in a function of its own, which is optimised; what it may assume of its arguments."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.script import tir as T


def definitions(f: object) -> dict[str, str]:
    text = f.get_source("ll")  # type: ignore[attr-defined]
    return {m[1]: m[0] for m in re.finditer(r"^define .*?@([\w.]+)\(.*", text, re.M)}


def shifted(promise: bool | None) -> tir.PrimFunc:
    """B[i + 1] = A[i] + 1, which reads what it has written when A and B are one array."""

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(63):
            B[i + 1] = A[i] + T.float32(1)

    made: tir.PrimFunc = main
    return made if promise is None else made.with_attr("tir.noalias", promise)


@pytest.mark.llvm
def test_work_is_optimised() -> None:
    found = definitions(tvm.build(shifted(True), name="f"))
    assert "optnone" in found["__tvm_ffi_f"]
    (work,) = [text for name, text in found.items() if name.startswith("__tvm_ffi_f.compute")]
    assert "optnone" not in work and "noinline" not in work
    assert work.count("noalias") == 2


@pytest.mark.llvm
@pytest.mark.parametrize("promise", [None, False])
def test_one_array_twice(promise: bool | None) -> None:
    f = tvm.build(shifted(promise))
    assert not any("noalias" in text for name, text in definitions(f).items() if "compute" in name)
    a = tvm.nd.array(np.zeros(64, "float32"))
    f(a, a)
    np.testing.assert_array_equal(a.numpy(), np.arange(64, dtype="float32"))


def test_one_array_twice_in_parallel_tasks() -> None:
    @T.prim_func
    def main(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
        for t in T.parallel(4):
            for i in range(63):
                B[t, i + 1] = A[t, i] + T.float32(1)

    a = tvm.nd.array(np.zeros((4, 64), "float32"))
    tvm.build(main)(a, a)
    np.testing.assert_array_equal(a.numpy(), np.tile(np.arange(64, dtype="float32"), (4, 1)))
