"""Shapes that are values: what exporters leave of them becomes static or symbolic, the rest is read by the virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.ir import Op
from tilewright.relay.backend.vm.build import name_dimensions
from tilewright.relay.functor import post_order
from tilewright.support.errors import DiagnosticError, OpNotImplemented, TVMError


def operators(mod: Any) -> list[str]:
    return [e.op.name for e in post_order(mod["main"]) if isinstance(e, relay.Call) and isinstance(e.op, Op)]


def run(mod: Any, *args: Any, kind: str = "vm") -> list[np.ndarray[Any, Any]]:
    found = relay.create_executor(kind, mod).evaluate()(*args)
    return [v.numpy() for v in (found if isinstance(found, (list, tuple)) or not hasattr(found, "numpy") else [found])]


def exported(x: relay.Var) -> relay.Expr:
    """What PyTorch exports for x.view(x.shape[0], -1, 2) * 1 and the like."""
    n = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"), axis=0)
    parts = [relay.expand_dims(n, 0), relay.const(np.array([-1])), relay.const(np.array([2]))]
    return relay.reshape(x, relay.concatenate(parts, axis=0))


def test_exported_chain_of_known_shape_becomes_static() -> None:
    x = relay.var("x", shape=(3, 8))
    mod = relay.transform.DynamicToStatic()(tvm.IRModule.from_expr(relay.Function([x], exported(x))))
    assert operators(mod)[-1] == "reshape"
    assert mod["main"].ret_type.concrete_shape == (3, 4, 2)
    (got,) = run(mod, np.ones((3, 8), "float32"), kind="graph")
    assert got.shape == (3, 4, 2)


def test_exported_chain_of_open_batch_becomes_symbolic() -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    mod = name_dimensions(tvm.IRModule.from_expr(relay.Function([x], exported(x))))
    mod = relay.transform.DynamicToStatic()(mod)
    assert operators(mod)[-1] == "reshape"
    n, *rest = mod["main"].ret_type.shape
    assert n.same_as(mod["main"].params[0].checked_type.shape[0])
    assert [int(d) for d in rest] == [4, 2]


def test_unknown_element_is_the_one_that_reshape_infers() -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    n = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"), axis=0)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.reshape(x, [n, 2, 4])))
    mod = relay.transform.DynamicToStatic()(mod)
    assert tuple(mod["main"].body.attrs.newshape) == (-1, 2, 4)


@pytest.mark.parametrize("batch", [1, 5])
def test_open_batch_runs_at_any_size(batch: int) -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    n = relay.take(relay.shape_of(x, dtype="int64"), relay.const(0, "int64"), axis=0)
    results = [
        exported(x),
        relay.zeros([n, 2], "int32"),
        relay.full(relay.const(2.5), [n * relay.const(2, "int64")]),
        relay.broadcast_to(relay.const(np.ones((1, 3), "float32")), [n, 3]),
        relay.tile(x, [n, 1]),
        relay.arange(n, dtype="int64"),
        relay.strided_slice(x, [0, 0], [n - relay.const(1, "int64"), 5]),
        relay.nn.pad(x, [[0, n], [0, 0]]),
        relay.one_hot(relay.const(np.array([0, 3])), relay.const(1.0), relay.const(0.0), n, -1, "float32"),
    ]
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(results)))
    value = np.arange(batch * 8, dtype="float32").reshape(batch, 8)
    for got, want in zip(run(mod, value), run(mod, value, kind="debug"), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(3, 4, 3), (1, -1, 2), (0, 2, 6)])
def test_shape_is_an_input(shape: tuple[int, ...]) -> None:
    x, s = relay.var("x", shape=(relay.Any(), 12)), relay.var("s", shape=(3,), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, s], relay.reshape(x, s) + relay.const(1.0)))
    args = [np.arange(36, dtype="float32").reshape(3, 12), np.array(shape)]
    np.testing.assert_array_equal(run(mod, *args)[0], run(mod, *args, kind="debug")[0])


def test_number_of_best_is_an_input() -> None:
    x, k = relay.var("x", shape=(2, 100)), relay.var("k", shape=(), dtype="int32")
    mod = tvm.IRModule.from_expr(relay.Function([x, k], relay.topk(x, k, ret_type="values")))
    value = np.random.default_rng(0).standard_normal((2, 100)).astype("float32")
    for count in (1, 7, 100):
        (got,) = run(mod, value, np.array(count, "int32"))
        np.testing.assert_array_equal(got, np.sort(value)[:, ::-1][:, :count])


def test_bounds_of_a_slice_are_inputs() -> None:
    x = relay.var("x", shape=(relay.Any(), 6))
    b, e = relay.var("b", shape=(2,), dtype="int64"), relay.var("e", shape=(2,), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, b, e], relay.strided_slice(x, b, e)))
    value = np.arange(30, dtype="float32").reshape(5, 6)
    for begin, end in (((1, 2), (3, 5)), ((-3, 0), (-1, 100)), ((4, 4), (2, 2))):
        (got,) = run(mod, value, np.array(begin), np.array(end))
        np.testing.assert_array_equal(got, value[begin[0] : end[0], begin[1] : end[1]])


def test_floating_range() -> None:
    a, b, c = [relay.var(n, shape=()) for n in "abc"]
    mod = tvm.IRModule.from_expr(relay.Function([a, b, c], relay.arange(a, b, c)))
    for bounds in ((0.0, 2.0, 0.3), (5.0, 1.0, -1.5), (3.0, 1.0, 1.0)):
        (got,) = run(mod, *[np.array(v, "float32") for v in bounds])
        np.testing.assert_allclose(got, np.arange(*bounds), rtol=1e-6)


def test_graphs_say_what_to_do() -> None:
    x, s = relay.var("x", shape=(4,)), relay.var("s", shape=(2,), dtype="int64")
    with pytest.raises(TVMError, match="dimension that is not known|no kernel of its own"):
        relay.build(tvm.IRModule.from_expr(relay.Function([x, s], relay.reshape(x, s))), target="llvm")
    with pytest.raises(OpNotImplemented, match=r"the values of newshape decide its shape\. Make them constants"):
        relay.op.find_card("dyn.reshape")().compute()


def test_constant_arguments_are_asked_for() -> None:
    x, axis = relay.var("x", shape=(4, 5)), relay.var("axis", shape=(), dtype="int64")
    mod = tvm.IRModule.from_expr(relay.Function([x, axis], relay.expand_dims(x, axis)))
    with pytest.raises(TVMError, match="dyn.expand_dims: the axis must be constant"):
        relay.vm.compile(mod, "llvm")
    n = relay.var("n", shape=(relay.Any(),), dtype="int64")
    with pytest.raises(DiagnosticError, match="the number of elements of newshape must be known"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, n], relay.reshape(x, n))))
