"""Counts of a program's parts: layers, operators, multiply-accumulates, fused functions, transposed weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import GlobalVar, IRModule, Op, TensorType
from tilewright.node import structural_hash
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import children, free_vars, post_order
from tilewright.relay.op.movement import reshaping
from tilewright.relay.rewriting import card_of, is_op, tensor_of
from tilewright.support.errors import TVMError


def count_layers(expr: Expr | IRModule, valid_ops: Sequence[str]) -> int:
    """The largest number of operators of `valid_ops` on a path from an input to the result. Raises ValueError without
    operators.
    """
    if not valid_ops:
        raise ValueError("count_layers takes the names of the operators to count, but was given none")
    root: Expr = expr["main"] if isinstance(expr, IRModule) else expr
    depth: dict[Expr, int] = {}
    for e in post_order(root):
        below = max([depth[c] for c in children(e)], default=0)
        counted = isinstance(e, Call) and type(e.op) is Op and e.op.name in valid_ops
        depth[e] = below + counted
    return depth[root]


def extract_fused_functions(mod: IRModule) -> dict[int, Function]:
    """The primitive functions of a module after FuseOps, by structural hash."""
    found: dict[int, Function] = {}
    for f in mod.functions.values():
        for e in post_order(f):
            if isinstance(e, Function) and e.is_primitive:
                found.setdefault(structural_hash(e), e)
    return found


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """A module whose main computes the result of call number `expr_id` of main, counted in post-order from 0."""
    main = mod["main"]
    calls = [e for e in post_order(main.body) if isinstance(e, Call)]
    if not 0 <= expr_id < len(calls):
        raise ValueError(f"main has {len(calls)} calls, but the number {expr_id} was asked for")
    chosen = calls[expr_id]
    used = set(free_vars(chosen))
    params = [p for p in main.params if p in used]
    rest = {g: f for g, f in mod.functions.items() if g.name_hint != "main"}
    return IRModule({**rest, GlobalVar("main"): Function(params, chosen)}, mod.type_definitions)


extract_intermediate_expr = extract_intermdeiate_expr


def multiply_accumulates(call: Call) -> int:
    """Multiply-accumulates of one call; 0 for operators that are no products."""
    name: str = call.operator.name
    if name not in _COUNTED:
        return 0
    out, x = call.checked_type, call.args[0].checked_type
    if not isinstance(out, TensorType) or not isinstance(x, TensorType):
        return 0
    try:
        size = int(np.prod(out.concrete_shape, dtype=np.int64))
        weight = tensor_of(call.args[-1])
        if name in ("nn.dense", "nn.contrib_dense_pack", "nn.contrib_dense_strassen"):
            return size * int(x.concrete_shape[-1])
        if name in ("nn.matmul", "nn.batch_matmul"):
            return size * int(x.concrete_shape[-2 if card_of(call)["transpose_a"] else -1])
        per_output = int(np.prod(weight.concrete_shape, dtype=np.int64))
    except TypeError:
        raise TVMError(f"get_total_mac_number counts programs of fixed shapes, but {name} has the type {out}") from None
    if name.endswith("_transpose"):
        # Every input element meets its kernels.
        return int(np.prod(x.concrete_shape, dtype=np.int64)) * per_output // int(weight.concrete_shape[0])
    layout = str(getattr(call.attrs, "kernel_layout", "") or "O")
    outputs = 1
    number = 0
    for i, c in enumerate(layout):
        if c.isdigit():
            number = 10 * number + int(c)
        elif c in "Oo":
            outputs *= (
                number if c.islower() else int(weight.concrete_shape[len([k for k in layout[:i] if k.isalpha()])])
            )
            number = 0
        else:
            number = 0
    return size * per_output // outputs


_COUNTED = frozenset(
    (
        "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose",
        "nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc", "nn.dense", "nn.contrib_dense_pack",
        "nn.contrib_dense_strassen", "nn.matmul", "nn.batch_matmul",
    )
)  # fmt: skip


def get_total_mac_number(expr: Expr | IRModule) -> int:
    """The number of multiply-accumulates in a typed program's convolutions and products; each call counts once. Raises
    TVMError for unknown shapes.
    """
    root: Expr = expr["main"] if isinstance(expr, IRModule) else expr
    return sum([multiply_accumulates(e) for e in post_order(root) if isinstance(e, Call) and type(e.op) is Op])


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """The number of calls of each operator between qnn.dequantize and qnn.quantize."""
    counts: dict[str, int] = {}
    for f in mod.functions.values():
        if not isinstance(f, Function):
            continue
        real: dict[Expr, bool] = {}
        for e in post_order(f):
            # Whether it is reckoned from nothing but dequantised values and constants.
            if isinstance(e, Constant):
                real[e] = True
            elif isinstance(e, (Tuple, TupleGetItem)):
                parts = e.fields if isinstance(e, Tuple) else (e.tuple_value,)
                real[e] = all([real.get(p, False) for p in parts])
            elif isinstance(e, Call) and type(e.op) is Op:
                real[e] = e.op.name == "qnn.dequantize" or all([real.get(a, False) for a in e.args])
        done: set[Expr] = set()
        for e in post_order(f):
            if not (isinstance(e, Call) and type(e.op) is Op and e.op.name == "qnn.quantize"):
                continue
            stack: list[Expr] = [e.args[0]]
            while stack:
                inner = stack.pop()
                if inner in done or not real.get(inner, False):
                    continue
                done.add(inner)
                if isinstance(inner, Call) and type(inner.op) is Op and inner.op.name != "qnn.dequantize":
                    counts[inner.op.name] = counts.get(inner.op.name, 0) + 1
                    stack += inner.args
                elif isinstance(inner, (Tuple, TupleGetItem)):
                    stack += inner.fields if isinstance(inner, Tuple) else (inner.tuple_value,)
    return counts


def search_fc_transpose(expr: Expr) -> list[str]:
    """The names of the weights that are read as nn.dense(x, transpose(weight)), for `transform.SimplifyFCTranspose`."""
    names: dict[str, None] = {}
    for e in post_order(expr):
        if is_op(e, "nn.dense") and is_op(weight := e.args[1], "transpose"):
            axes, read = card_of(weight, reshaping.transpose).axes, weight.args[0]
            if isinstance(read, Var) and (axes or (1, 0)) in ((1, 0), (-1, -2), (-1, 0)):
                names[read.name_hint] = None
    return list(names)
