"""Passes give the forms that their documentation shows: slices and splits of joined results, kernels, folded padding."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tests.relay.random_graphs import assert_same, evaluate
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import assert_structural_equal
from tilewright.relay import transform


def typed(body: relay.Expr) -> Any:
    return transform.InferType()(IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))["main"]


def gives(made: Any, body: relay.Expr, wanted: relay.Expr) -> None:
    """The pass gives `wanted`, with the parameters in the order of `body`, and keeps the values."""
    before = typed(body)
    after = transform.InferType()(made(IRModule.from_expr(before)))
    want = relay.Function(relay.analysis.free_vars(body), wanted)
    assert_structural_equal(after["main"], transform.InferType()(IRModule.from_expr(want))["main"])
    rng = np.random.default_rng(1)
    types = [p.checked_type for p in before.params]
    inputs = [np.asarray(rng.standard_normal(t.concrete_shape) * 3).astype(t.dtype) for t in types]
    assert_same(evaluate(after, inputs), evaluate(IRModule.from_expr(before), inputs))


def group(fields: list[Any]) -> relay.Tuple:
    return relay.Tuple(tuple(fields))


def sized(data: relay.Expr, begin: list[int], sizes: list[int]) -> Any:
    return relay.strided_slice(data, begin=begin, end=sizes, strides=[1] * len(begin), slice_mode="size")


def test_joined_convolutions() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    w1, w2 = relay.var("w1", shape=(4, 4, 1, 1)), relay.var("w2", shape=(8, 4, 1, 1))
    other = relay.nn.conv2d(x, relay.var("w3", shape=(4, 4, 3, 3)))
    joined = relay.nn.conv2d(x, relay.concatenate((w1, w2), axis=0), channels=12)
    gives(
        transform.CombineParallelConv2D(2),
        group([relay.nn.conv2d(x, w1), relay.nn.conv2d(x, w2), other]),
        group([sized(joined, [0, 0], [-1, 4]), sized(joined, [0, 4], [-1, 8]), other]),
    )


def test_joined_dense_layers() -> None:
    x, w1, w2 = relay.var("x", shape=(6, 4)), relay.var("w1", shape=(3, 4)), relay.var("w2", shape=(3, 4))
    b1, b2 = relay.var("b1", shape=(3,)), relay.var("b2", shape=(3,))
    layers = group([relay.add(relay.nn.dense(x, w1), b1), relay.add(relay.nn.dense(x, w2), b2)])
    wide = relay.nn.dense(x, relay.concatenate((w1, w2), axis=0), units=6)
    wide = relay.add(wide, relay.concatenate((b1, b2), axis=-1))
    gives(
        transform.CombineParallelDense(2, to_batch=False),
        layers,
        group([sized(wide, [0, 0], [-1, 3]), sized(wide, [0, 3], [-1, 3])]),
    )
    rows = relay.nn.batch_matmul(relay.stack((x, x), 0), relay.stack((w1, w2), 0))
    biases = relay.stack((relay.expand_dims(b1, 0), relay.expand_dims(b2, 0)), 0)
    parts = relay.split(relay.add(rows, biases), 2)
    gives(
        transform.CombineParallelDense(2),
        layers,
        group([relay.squeeze(parts[0], [0]), relay.squeeze(parts[1], [0])]),
    )


def test_joined_batched_products() -> None:
    x, w1, w2 = relay.var("x", shape=(2, 6, 4)), relay.var("w1", shape=(2, 3, 4)), relay.var("w2", shape=(2, 5, 4))
    joined = relay.nn.batch_matmul(x, relay.concatenate((w1, w2), axis=1))
    gives(
        transform.CombineParallelBatchMatmul(2),
        group([relay.nn.batch_matmul(x, w1), relay.nn.batch_matmul(x, w2)]),
        group([sized(joined, [0, 0, 0], [-1, -1, 3]), sized(joined, [0, 0, 3], [-1, -1, 5])]),
    )


def kernel(params: list[relay.Var], body: relay.Expr) -> relay.Function:
    return relay.Function(params, body).with_attr("Primitive", tvm.tir.IntImm("int32", 1))


def test_marks_that_stop_fusion_are_gone_afterwards() -> None:
    x, p, q = (relay.var(n, shape=(4, 3)) for n in "xpq")
    first = relay.Call(kernel([p], relay.add(p, relay.const(1.0))), [x])
    marked = relay.annotation.stop_fusion(relay.add(x, relay.const(1.0)))
    gives(transform.FuseOps(), relay.exp(marked), relay.Call(kernel([q], relay.exp(q)), [first]))
    gives(transform.FuseOps(0), relay.annotation.stop_fusion(x), x)
    assert "Primitive=1" in str(first)


def test_constants_in_kernels() -> None:
    x, p = relay.var("x", shape=(5, 4)), relay.var("p", shape=(5, 4))
    w = relay.const(np.arange(12, dtype="float32").reshape(3, 4))
    with PassContext(opt_level=3, config={"relay.FuseOps.link_params": True}):
        dense = relay.nn.dense(x, w)
        gives(transform.FuseOps(), dense, relay.Call(kernel([p], relay.nn.dense(p, w)), [x]))
        fused = transform.FuseOps()(IRModule.from_expr(typed(dense)))
        built = [relay.build(m, "llvm") for m in (fused, IRModule.from_expr(typed(dense)))]
    data = np.random.default_rng(0).random((5, 4), "float32")
    for lib in (*built, relay.build(fused, "llvm")):
        runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        runner.run(x=data)
        np.testing.assert_allclose(runner.get_output(0).numpy(), data @ w.value.T, rtol=1e-5)


def test_padding_by_the_zero_point() -> None:
    x, w = relay.var("x", shape=(1, 3, 6, 6), dtype="int8"), relay.var("w", shape=(4, 3, 3, 3), dtype="int8")

    def conv(data: relay.Expr, **attrs: Any) -> Any:
        scales = relay.const(0.5), relay.const(0.25)
        zeros = relay.const(5), relay.const(0)
        return relay.qnn.op.conv2d(data, w, *zeros, *scales, kernel_size=(3, 3), channels=4, **attrs)

    def padded(value: int) -> Any:
        return relay.nn.pad(x, [[0, 0], [0, 0], [1, 1], [0, 2]], value)

    gives(transform.FoldExplicitPadding(), conv(padded(5)), conv(x, padding=(1, 0, 1, 2)))
    gives(transform.FoldExplicitPadding(), conv(padded(0)), conv(padded(0)))


def test_results_as_one_value() -> None:
    parts = relay.split(relay.var("x", shape=(4, 2)), 2)
    assert parts.astuple() is parts[0].tuple_value
