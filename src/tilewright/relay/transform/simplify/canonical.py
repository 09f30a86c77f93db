"""Small rewrites to canonical forms: CanonicalizeCast, FlattenAtrousConv, FoldExplicitPadding, DivToMul,
SimplifyFCTranspose, SimplifyExprPostAlterOp,
LazyGradientInit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import Op, TensorType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, constructor
from tilewright.relay.expr import Call, Expr, Function, Var, const
from tilewright.relay.functor import ExprMutator
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.op.layers import padding
from tilewright.relay.op.layers.pool import Pool
from tilewright.relay.op.movement import reshaping, space
from tilewright.relay.op.quantization import quantized_products
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    keep_type,
    rewrite_calls,
    scalar_of,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
    use_counts,
)
from tilewright.relay.transform.simplify.simplify_expr import four_sides, layout_round_trip


class _CastToUsers(ExprMutator):
    """Gives each user of a shared widening cast a separate cast, so that each is fused with its user."""

    def __init__(self, func: Function) -> None:
        super().__init__()
        self.counts = use_counts(func)

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if type(call.op) is not Op or card_of(call).fuse > BROADCAST or is_op(call, "cast"):
            return new
        args = [self.own(a, n) for a, n in zip(call.args, new.args, strict=True)]
        if all([a is b for a, b in zip(args, new.args, strict=True)]):
            return new
        copy = Call(new.op, tuple(args), new.attrs, new.given_types, new.span)
        keep_type(copy, new)
        return typed(copy)

    def own(self, old: Expr, new: Expr) -> Expr:
        shared = is_op(old, "cast") and is_op(new, "cast") and self.counts.get(old, 1) > 1
        if not shared or not isinstance(new, Call) or tensor_of(new.args[0]).dtype.bits >= tensor_of(new).dtype.bits:
            return new
        return typed(Call(new.op, new.args, new.attrs, (), new.span))


def CanonicalizeCast() -> Pass:
    """Replace a widening cast that several element-wise operators read by one cast for each, so that kernels pass the
    narrow values on.
    """
    return typed_pass("CanonicalizeCast", 3, lambda f, mod: _CastToUsers(f).rewritten_function(f))


def _atrous(call: Call) -> Expr | None:
    """batch_to_space_nd(conv2d(space_to_batch_nd(x))) -> conv2d(x) with dilation."""
    if not is_op(call, "nn.batch_to_space_nd") or not is_op(made := call.args[0], "nn.conv2d"):
        return None
    spread = made.args[0]
    if not is_op(spread, "nn.space_to_batch_nd"):
        return None
    outer, inner = card_of(call, space.batch_to_space_nd), card_of(spread, space.space_to_batch_nd)
    card = card_of(made, conv.conv2d)
    layout = card.data_layout
    if layout not in ("NHWC", "NCHW") or (layout == "NCHW" and len(outer.block_shape) != 2):
        return None
    block = tuple(outer.block_shape)
    if block != tuple(inner.block_shape) or len(block) != 2 or tuple(card.strides) not in ((1, 1), (1,)):
        return None
    if layout == "NCHW" or tuple(card.dilation) not in ((1, 1), (1,)) or inner.pad_value != 0:
        return None
    top, left, bottom, right = four_sides(tuple(card.padding))
    before = [int(p[0]) for p in inner.paddings]
    after = [int(p[1]) for p in inner.paddings]
    crop_before = [int(c[0]) for c in outer.crops]
    crop_after = [int(c[1]) for c in outer.crops]
    # Padding of the small images counts block-wise in the large one; cropping removes excess padding.
    start = [b + p * n - c for b, p, n, c in zip(before, (top, left), block, crop_before, strict=True)]
    stop = [a + p * n - c for a, p, n, c in zip(after, (bottom, right), block, crop_after, strict=True)]
    if min(*start, *stop) < 0:
        return None
    padding = (start[0], start[1], stop[0], stop[1])
    new = Call(made.op, (spread.args[0], made.args[1]), card.replace(dilation=block, padding=padding), (), call.span)
    return new if static_shape(typed(new)) == static_shape(call) else None


def FlattenAtrousConv() -> Pass:
    """Replace space_to_batch_nd, conv2d, batch_to_space_nd (TensorFlow's form of a dilated convolution) by conv2d with
    dilation.
    """
    return typed_pass("FlattenAtrousConv", 3, lambda f, mod: rewrite_calls(f, _atrous))


PADDED: dict[str, float | None] = {
    "nn.conv1d": 0.0, "nn.conv2d": 0.0, "nn.conv3d": 0.0,
    "nn.max_pool1d": -np.inf, "nn.max_pool2d": -np.inf, "nn.max_pool3d": -np.inf,
    "nn.avg_pool1d": 0.0, "nn.avg_pool2d": 0.0, "nn.avg_pool3d": 0.0,
    "qnn.conv2d": None,
}  # fmt: skip
"""Operators with a padding attribute -> the value of their padding; None: the zero point of the data."""


def _lowest(value: float, call: Call) -> bool:
    dtype = tensor_of(call).dtype
    if dtype.is_float:
        return value == -np.inf or value <= float(np.finfo(np.float32).min)
    return value == np.iinfo(str(dtype)).min


def _explicit_padding(call: Call) -> Expr | None:
    """A padding operator after a pad -> the operator with more padding."""
    key, pad = call.operator.name, call.args[0]
    if key not in PADDED or not is_op(pad, "nn.pad"):
        return None
    card, attrs = card_of(call), card_of(pad, padding.pad)
    assert isinstance(card, (Convolution, Pool, quantized_products.conv2d))
    layout = card.layout if isinstance(card, Pool) else card.data_layout
    widths = [tuple([int(n) for n in w]) for w in attrs.pad_width]
    value = scalar_of(pad.args[1])
    if not layout.isalpha() or attrs.pad_mode != "constant" or value is None or len(layout) != len(widths):
        return None
    own = PADDED[key]
    if own is None:
        if value != scalar_of(call.args[2]):
            return None
    elif not (_lowest(value, call) if own else value == 0):
        return None
    spatial = [i for i, letter in enumerate(layout) if letter in "DHW"]
    if any([widths[i] != (0, 0) for i in range(len(layout)) if i not in spatial]) or min(map(min, widths)) < 0:
        return None
    before, after = _sides(tuple(card.padding), len(spatial))
    if "avg" in key and not card["count_include_pad"] and any([sum(widths[i]) for i in spatial]):
        # Padding by nn.pad counts as elements in the means.
        if any([*before, *after]):
            return None
        card = card.replace(count_include_pad=True)
    if isinstance(card, Pool) and card.ceil_mode:
        return None
    begins = [b + widths[i][0] for b, i in zip(before, spatial, strict=True)]
    ends = [a + widths[i][1] for a, i in zip(after, spatial, strict=True)]
    new = Call(call.op, (pad.args[0], *call.args[1:]), card.replace(padding=(*begins, *ends)), (), call.span)
    return new if static_shape(typed(new)) == static_shape(call) else None


def _sides(padding: tuple[int, ...], ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(before, after) for each axis, from one number, one per axis, or both sides."""
    if len(padding) == 1:
        return padding * ndim, padding * ndim
    if len(padding) == ndim:
        return padding, padding
    return padding[:ndim], padding[ndim:]


def FoldExplicitPadding() -> Pass:
    """Fold a pad before a convolution or pooling into its padding attribute, if both pad with the same value."""
    return typed_pass("FoldExplicitPadding", 0, lambda f, mod: rewrite_calls(f, _explicit_padding))


def _reciprocal(call: Call) -> Expr | None:
    if not is_op(call, "divide") or not tensor_of(call).dtype.is_float:
        return None
    divisor = constant_of(call.args[1])
    if divisor is None or divisor.size == 0 or not bool(np.all(divisor != 0)):
        return None
    with np.errstate(over="ignore"):
        factor = (1 / divisor).astype(divisor.dtype)
    if not bool(np.all(np.isfinite(factor.astype("float32")))):
        return None
    return constructor("multiply")(call.args[0], const(factor))


def DivToMul() -> Pass:
    """Replace division by a constant by multiplication with its reciprocal. The last digit can differ."""
    return typed_pass("DivToMul", 0, lambda f, mod: rewrite_calls(f, _reciprocal))


class _TransposedWeights(ExprMutator):
    def __init__(self, func: Function, names: Sequence[str]) -> None:
        super().__init__()
        self.table: dict[Var, Var] = {}
        for p in func.params:
            if p.name_hint in names:
                t = p.checked_type
                assert isinstance(t, TensorType)
                self.table[p] = Var(f"{p.name_hint}.T", TensorType(tuple(reversed(t.shape)), t.dtype), p.span)

    def visit_call(self, call: Call) -> Expr:
        if is_op(call, "transpose") and call.args[0] in self.table:
            return self.table[call.args[0]]
        return super().visit_call(call)

    def visit_function(self, fn: Function) -> Expr:
        if not any([p in self.table for p in fn.params]):
            return super().visit_function(fn)
        params = tuple([self.table.get(p, p) for p in fn.params])
        return fn.replace(params=params, body=self.visit(fn.body))


def SimplifyFCTranspose(target_weight_name: Sequence[str]) -> Pass:
    """Replace parameters with these names (of `relay.analysis.search_fc_transpose`) that are read as nn.dense(y,
    transpose(w)) by parameters NAME.T. Pass these transposed; the model then transposes nothing at run time.
    """
    names = [str(n) for n in target_weight_name]
    return typed_pass("SimplifyFCTranspose", 0, lambda f, mod: _TransposedWeights(f, names).rewritten_function(f))


def _post_alter(call: Call) -> Expr | None:
    """layout_transform of layout_transform -> a single one, or none."""
    if not is_op(call, "layout_transform"):
        return None
    found, x = layout_round_trip(call), call.args[0]
    if found is not None or not is_op(x, "layout_transform"):
        return found
    inner, outer = card_of(x, reshaping.layout_transform), card_of(call, reshaping.layout_transform)
    if inner.dst_layout != outer.src_layout:
        return None
    new = constructor("layout_transform")(x.args[0], inner.src_layout, outer.dst_layout)
    return new if static_shape(typed(new)) == static_shape(call) else None


def SimplifyExprPostAlterOp() -> Pass:
    """Join consecutive layout_transforms that AlterOpLayout and ConvertLayout leave into one, or none."""
    return typed_pass("SimplifyExprPostAlterOp", 0, lambda f, mod: rewrite_calls(f, _post_alter))


OF_ZEROS = (
    "broadcast_to", "broadcast_to_like", "cast", "collapse_sum_like", "collapse_sum_to", "expand_dims", "negative", "reshape",
    "reshape_like", "squeeze", "sum", "transpose",
)  # fmt: skip
"""Operators whose results are zeros if their operands are."""


def _uniform(e: Expr) -> float | None:
    """0 or 1 if `e` is a tensor of only zeros or ones, made by an operator or a constant; else None."""
    if is_op(e, "zeros", "zeros_like"):
        return 0.0
    if is_op(e, "ones", "ones_like"):
        return 1.0
    value = constant_of(e)
    if value is None or value.size == 0 or value.size > 4096:
        return None
    first = value.reshape(-1)[0].item()
    return float(first) if first in (0, 1) and bool(np.all(value == first)) else None


def _lazy(call: Call) -> Expr | None:
    """x + 0 -> x, x * 1 -> x, x * 0 -> 0, a reshape, transpose, negation or sum of zeros -> zeros, if the shape does not change."""
    out = static_shape(call)
    if out is None:
        return None
    dtype = str(tensor_of(call).dtype)
    if is_op(call, "add", "subtract", "multiply"):
        for side in (0, 1):
            value, other = _uniform(call.args[side]), call.args[1 - side]
            if value is None or (is_op(call, "subtract") and side == 0):
                continue
            if is_op(call, "multiply") and value == 0:
                return constructor("zeros")(out, dtype)
            neutral = value == (1 if is_op(call, "multiply") else 0)
            if neutral and static_shape(other) == out and str(tensor_of(other).dtype) == dtype:
                return other
        return None
    return constructor("zeros")(out, dtype) if is_op(call, *OF_ZEROS) and _uniform(call.args[0]) == 0 else None


def LazyGradientInit() -> Pass:
    """Remove the tensors of zeros or ones with which adjoints of `gradient` begin, where sums and products do not need
    them.
    """
    return typed_pass("LazyGradientInit", 0, lambda f, mod: rewrite_calls(f, _lazy))


__all__ = [
    "CanonicalizeCast",
    "DivToMul",
    "FlattenAtrousConv",
    "FoldExplicitPadding",
    "LazyGradientInit",
    "SimplifyExprPostAlterOp",
    "SimplifyFCTranspose",
]
