"""InferType writes types on the parameters and results of functions: programs are equal however they were annotated."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.expr_functor import ExprFunctor, ExprVisitor


def inferred(f: relay.Function) -> relay.Function:
    return relay.transform.InferType()(tvm.IRModule.from_expr(f))["main"]


def program(annotated: bool) -> relay.Function:
    t = relay.TensorType((2,), "float32") if annotated else None
    x, y, g = relay.var("x", shape=(2,)), relay.Var("y", t), relay.var("g")
    inner = relay.Function([y], relay.add(y, x), t)
    return relay.Function([x], relay.Let(g, inner, relay.Call(g, [relay.Call(g, [x])])), t)


def test_annotated_or_not_is_the_same() -> None:
    open_, closed = inferred(program(False)), inferred(program(True))
    assert tvm.ir.structural_equal(open_, closed) and tvm.ir.structural_hash(open_) == tvm.ir.structural_hash(closed)
    inner = open_.body.value
    assert inner.params[0].type_annotation == inner.ret_type == open_.ret_type == relay.TensorType((2,), "float32")
    assert inferred(open_) is open_


def test_weights_without_a_shape() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w")
    f = inferred(relay.Function([x, w], relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=4)))
    assert f.params[1].type_annotation == f.params[1].checked_type == relay.TensorType((4, 3, 3, 3), "float32")
    assert f.body.args[1] is f.params[1] and f.body.checked_type == f.ret_type


def test_kinds_that_a_functor_does_not_define() -> None:
    class Count(ExprFunctor[int]):
        def visit_var(self, var: relay.Var) -> int:
            return 1

        def visit_tuple(self, tup: relay.Tuple) -> int:
            return super().visit_tuple(tup)

    x = relay.var("x", shape=(2,))
    assert Count().visit(x) == 1
    for e, name in (
        (relay.add(x, x), "Call, but defines no visit_call"),
        (relay.Tuple([x]), "Tuple, but defines no visit_tuple"),
    ):
        with pytest.raises(NotImplementedError, match=f"Count meets a {name}"):
            Count().visit(e)
    ExprVisitor().visit(relay.Function([x], relay.Tuple([relay.add(x, x)])))


def test_devices_that_expressions_tell() -> None:
    x, cpu, gpu = relay.var("x", shape=(2,)), tvm.cpu(0), tvm.cuda(1)
    open_ = tvm.target.VirtualDevice()
    assert x.virtual_device_ == relay.add(x, x).virtual_device == open_
    placed = relay.annotation.on_device(x, gpu, constrain_result=True)
    assert placed.virtual_device_.device == gpu and relay.annotation.on_device(x, gpu).virtual_device_ == open_
    assert relay.op.device_copy(x, cpu, gpu).virtual_device_.device == gpu
    f = relay.Function([x], placed)
    assert f.virtual_device_ == open_
    on = relay.op.annotation.function_on_device(f, [cpu], gpu)
    assert on.virtual_device_.device == gpu
