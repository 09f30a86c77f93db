"""What computes, axes and functions refuse, and the full text that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.support.errors import ScheduleError

A = te.placeholder((8, 6), name="A")
K, K2 = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 6), "k2")
B = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, name="B")
C = te.compute((8,), lambda i: te.sum(B[i, K], axis=K), name="C")


def schedule() -> Any:
    return te.create_schedule(C.op)


REFUSED: list[tuple[str, type[Exception], Callable[[], Any], str]] = [
    (
        "too many indices",
        ValueError,
        lambda: te.compute((4,), lambda i, j: i, name="X"),
        "compute 'X': the function takes 2 indices (i, j), but the shape has 1 dimensions",
    ),
    (
        "no function",
        TypeError,
        lambda: te.compute((4,), 3, name="X"),  # type: ignore[arg-type]
        "compute 'X': a function of the indices is needed, as in lambda i, j: a[i, j] + 1, but was given 3",
    ),
    (
        "text",
        TypeError,
        lambda: te.compute((4,), lambda i: "x", name="X"),
        "compute 'X': the function must return an expression or a number for each element, but returned 'x'",
    ),
    (
        "nothing",
        TypeError,
        lambda: te.compute((4,), lambda i: None, name="X"),
        "compute 'X': the function must return an expression or a number for each element, but returned None",
    ),
    (
        "a tensor",
        TypeError,
        lambda: te.compute((4,), lambda i: A, name="X"),
        "compute 'X': the function must return an expression or a number for each element, but returned tensor A; index"
        " it, as in A[i]",
    ),
    ("negative", ValueError, lambda: te.placeholder((-4,)), "a dimension must not be negative, but is -4"),
    (
        "fraction",
        TypeError,
        lambda: te.placeholder((4.5,)),
        "a dimension must be an integer or an expression, but is 4.5",
    ),
    (
        "float index",
        TypeError,
        lambda: A[0, 0.5],
        "tensor A: index 1 must be an integer, but is float32: T.float32(0.5)",
    ),
    (
        "reduction beside another expression",
        ValueError,
        lambda: te.compute((8,), lambda i: (te.sum(A[i, K], axis=K), A[i, 0]), name="X"),
        "compute 'X': its first output is a reduction, so all outputs must be the parts of that one reduction in order,"
        " but output 1 is A[i, 0]",
    ),
    (
        "axis reduced twice",
        ValueError,
        lambda: te.compute((8,), lambda i: te.sum(A[i, K], axis=[K, K]), name="X"),
        "compute 'X': axis k is reduced over twice",
    ),
    (
        "free reduction axis",
        ValueError,
        lambda: te.create_prim_func([A, te.compute((8,), lambda i: te.sum(A[i, K2], axis=K), name="X")]),
        "create_prim_func: compute 'X' uses k2, which is not an axis of it, an argument or a dimension of one; reduction"
        " axes are named in axis= of the reduction",
    ),
    (
        "missing input",
        ValueError,
        lambda: tvm.lower(schedule(), [C]),
        "create_prim_func: placeholder 'A' is read, but is not among the arguments; add it to them",
    ),
    (
        "no arguments",
        ValueError,
        lambda: tvm.lower(schedule()),
        "lower: a te.Schedule needs args, the tensors and variables that become the function's parameters",
    ),
    (
        "no tensor",
        ValueError,
        lambda: tvm.lower(schedule(), [A, 3, C]),
        "lower: args holds tensors, buffers and variables, but was given int: 3",
    ),
    (
        "twice",
        ValueError,
        lambda: tvm.lower(schedule(), [A, A, C]),
        "create_prim_func: tensor A is given twice, the second time as argument 1",
    ),
    (
        "no reader",
        ScheduleError,
        lambda: schedule().cache_read(A, "local", []),
        "cache_read: stage A: at least one reader of the copy must be given",
    ),
    (
        "unknown scope",
        ScheduleError,
        lambda: schedule()[B].set_scope("nowhere"),
        "set_scope: stage B: the storage scope must be one of global, shared, local, warp, wmma, m16n8k8, amx, texture,"
        " or a part of one, but is 'nowhere'",
    ),
    (
        "no thread",
        ScheduleError,
        lambda: schedule()[B].bind(B.op.axis[0], "threadIdx.x"),
        "bind: stage B: i is bound to a thread axis, as te.thread_axis makes it, but was given 'threadIdx.x'",
    ),
    (
        "factor of another type",
        TypeError,
        lambda: schedule()[B].split(B.op.axis[0], factor=2.0),
        "split: stage B: factor must be an integer, but is 2.0",
    ),
]


@pytest.mark.parametrize(("kind", "act", "text"), [x[1:] for x in REFUSED], ids=[x[0] for x in REFUSED])
def test_refusals(kind: type[Exception], act: Callable[[], Any], text: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert str(caught.value) == text


def test_stages_that_are_attached_to_each_other() -> None:
    d = te.compute((8,), lambda i: C[i] * 2.0, name="D")
    s = te.create_schedule(d.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].compute_at(s[B], B.op.axis[0])
    with pytest.raises(ScheduleError) as caught:
        s.to_prim_func([A, d])
    assert str(caught.value) == "stage C: compute_at: it is attached to stage B, which does not read it"


def test_shapes_are_checked_where_a_function_is_called() -> None:
    import numpy as np

    function = tvm.build(schedule(), [A, C], "llvm")
    wrong, out = tvm.nd.array(np.zeros((8, 5), "float32")), tvm.nd.array(np.zeros(8, "float32"))
    with pytest.raises(ValueError, match=r"^default_function: argument 0 \(A\): dimension 1 must be 6, but is 5$"):
        function(wrong, out)


def test_whole_floats_and_defaults_are_taken() -> None:
    a = te.compute((4.0,), lambda i, scale=2: i * scale, name="X")
    assert [int(d) for d in a.shape] == [4] and [x.var.name for x in a.op.axis] == ["i"]
