"""Pragmas that change what is lowered."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tests.te_schedule.helpers import check, execute, random
from tilewright import te, tir


def added() -> tuple[Any, Any, Any]:
    a = te.placeholder((20,), name="A")
    b = te.compute((20,), lambda i: a[i] + 1.0, name="B")
    return a, b, te.create_schedule(b.op)


def test_loops_that_are_to_be_partitioned() -> None:
    value = random(20)
    for hinted in (False, True):
        a, b, s = added()
        outer, _ = s[b].split(b.op.axis[0], factor=8)
        if hinted:
            s[b].pragma(outer, "loop_partition_hint", True)
        with tvm.transform.PassContext(config={"tir.LoopPartition": {"partition_const_loop": False}}):
            text = str(tvm.lower(s, [a, b]))
            check(s, [a, b], [value], [value + 1])
        # Two whole parts without a test, then the one that is not whole.
        assert ("T.grid(2, 8)" in text and "i_inner + 16" in text) is hinted
        assert "T.likely" in text and "hint" not in text


def test_loops_that_are_to_be_unrolled() -> None:
    value = random(20)
    for step, unrolled in ((16, False), (20, True)):
        a, b, s = added()
        s[b].pragma(b.op.axis[0], "auto_unroll_max_step", step)
        s[b].pragma(b.op.axis[0], "unroll_explicit", True)
        assert ("T.unroll" in str(tvm.lower(s, [a, b], simple_mode=True))) is unrolled
        check(s, [a, b], [value], [value + 1])


def test_functions_that_are_imported_as_llvm() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: tir.call_pure_extern("float32", "three_times", a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(
        b.op.axis[0],
        "import_llvm",
        "define float @three_times(float %x) {\n  %y = fmul float %x, 3.0\n  ret float %y\n}",
    )
    value = random(8)
    execute(s, [a, b], [value], [value * np.float32(3)])


def test_loops_that_are_left_out_to_look_for_a_fault() -> None:
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    d = te.compute((4,), lambda i: a[i] - 1.0, name="D")
    s = te.create_schedule([b.op, d.op])
    s[b].pragma(b.op.axis[0], "debug_skip_region")
    value = random(4)
    out = [tvm.nd.array(np.zeros(4, "float32")) for _ in range(3)]
    tvm.build(s, [a, d, b, c], "llvm")(tvm.nd.array(value), *out)
    np.testing.assert_allclose(out[0].numpy(), value - 1)
    assert not out[1].numpy().any() and not out[2].numpy().any()
