"""Patterns of oneDNN, for a code generator "dnnl" that a program registers. Only the partitioning is in this package."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import post_order
from tilewright.relay.op.contrib.partitioning import (
    anchor,
    biased,
    followed,
    of_dtypes,
    partition,
    pruned,
    rank,
    take,
)
from tilewright.relay.op.contrib.register import Table, register_pattern_table
from tilewright.relay.parameters import Params

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.conv3d_transpose")
ELEMENTWISE = ("nn.relu", "tanh", "sigmoid", "clip", "gelu", "swish", "mish")
_floats = of_dtypes("float32", "bfloat16")
SINGLE = (
    *CONVOLUTIONS,
    *("nn.dense", "nn.batch_matmul", "nn.batch_norm", "nn.softmax", "nn.layer_norm"),
    *("nn.max_pool2d", "nn.avg_pool2d", "nn.max_pool3d", "nn.avg_pool3d", "nn.global_avg_pool2d"),
    *("nn.relu", "nn.leaky_relu", "tanh", "sigmoid", "clip", "exp", "log", "sqrt", "abs", "round", "logsumexp"),
    *("add", "multiply"),
)
"""Operators that are accepted outside of patterns."""


def _taken(call: Call) -> bool:
    """Accepts floats. Operands of binary operators must have more than one element, as in oneDNN."""
    if call.operator.name in ("add", "multiply"):
        return _floats(call) and all([rank(a) == rank(call) > 0 for a in call.args])
    if (
        call.operator.name.startswith("nn.conv")
        and getattr(call.attrs, "groups", 1) > 1
        and "transpose" in call.operator.name
    ):
        return False
    return _floats(call)


def _name(parts: list[str]) -> str:
    return "dnnl." + "_".join([p.removeprefix("nn.") for p in parts])


@register_pattern_table("dnnl")
def pattern_table() -> Table:
    """Patterns of convolutions and dense layers with a bias and one operator after it, larger patterns first."""
    found: list[tuple[str, DFPattern, Callable[[Expr], bool]]] = []

    def add(op: str, made: DFPattern, after: list[str]) -> None:
        found.append((_name([op, *after]), made, lambda e: _floats(anchor(e, op))))

    anchors = [(op, is_op(op)(wildcard(), is_constant())) for op in CONVOLUTIONS]
    anchors.append(("nn.dense", is_op("nn.dense")(wildcard(), wildcard())))
    for op, call in anchors:
        biases = ("nn.bias_add", "add")
        for step in ELEMENTWISE:
            add(op, followed(biased(call, biases), step), ["bias", step])
        add(op, biased(call, biases), ["bias"])
        for step in ELEMENTWISE:
            add(op, followed(call, step), [step])
    return found


def partition_for_dnnl(
    mod: IRModule, params: Params | None = None, alter_layout: bool = True, prune_subgraphs: bool = True
) -> IRModule:
    """Moves the operators that oneDNN supports into functions for `relay.ext.dnnl`, which a program registers.

    alter_layout: first converts convolutions to NCHW and OIHW. prune_subgraphs: this compiler keeps parts without a convolution,
    product or batch norm.
    """
    from tilewright.relay import transform

    before: list[Pass] = [
        transform.CanonicalizeOps(), transform.SimplifyInference(), transform.FoldConstant(), transform.FoldScaleAxis(),
        transform.SimplifyExpr(), transform.FoldConstant(),
    ]  # fmt: skip
    if alter_layout:
        before += [transform.ConvertLayout({"nn.conv2d": ["NCHW", "OIHW"]}), transform.FoldConstant()]
    made = partition(mod, "dnnl", params, before)
    return pruned(made, "dnnl", _worth_it) if prune_subgraphs else made


def _worth_it(f: Function) -> bool:
    heavy = (*CONVOLUTIONS, "nn.dense", "nn.batch_matmul", "nn.batch_norm")
    return any([isinstance(e, Call) and getattr(e.op, "name", "") in heavy for e in post_order(f.body)])


take("dnnl", SINGLE, _taken)
