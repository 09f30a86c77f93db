"""SimplifyExpr: merges chains of reshapes, transposes and casts, and removes operators without effect."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.ir import DataType, TensorType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Tuple, const
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.layers import padding, products
from tilewright.relay.op.movement import reshaping, slicing
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    same_type,
    scalar_of,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.relay.transform.simplify import filled_operands as filled_operands
from tilewright.relay.transform.simplify.rules import operand, rule, rules_of
from tilewright.topi.transform import slice_bounds

RESHAPES = ("reshape", "squeeze", "expand_dims", "nn.batch_flatten", "contrib_reverse_reshape", "reshape_like")


@rule(*RESHAPES)
def reshape_chain(call: Call) -> Expr | None:
    """reshape(reshape(x)) -> reshape(x); a reshape to the same shape -> x; any other reshaping operator -> reshape."""
    out, x = static_shape(call), call.args[0]
    if out is None:
        return None
    inner = x
    while is_op(inner, *RESHAPES) and static_shape(inner.args[0]) is not None:
        inner = inner.args[0]
    if static_shape(inner) == out:
        return inner
    if inner is x and is_op(call, "reshape"):
        return None if card_of(call, reshaping.reshape).newshape == out else _reshape(x, out)
    return None if static_shape(inner) is None else _reshape(inner, out)


def _reshape(x: Expr, shape: tuple[int, ...]) -> Expr | None:
    # In relay's reshape 0 copies a dimension, so empty tensors keep their own form.
    return constructor("reshape")(x, shape) if 0 not in shape else None


def permutation(call: Call) -> tuple[int, ...]:
    """The axes of a transpose as non-negative numbers; reversed by default."""
    return tuple(card_of(call, reshaping.transpose).order(len(tensor_of(call.args[0]).shape)))


@rule("transpose")
def transpose_chain(call: Call) -> Expr | None:
    """transpose(transpose(x)) -> a single transpose; the identity -> x; moving only axes of extent 1 -> reshape."""
    axes, x = permutation(call), call.args[0]
    if axes == tuple(range(len(axes))):
        return x
    if is_op(x, "transpose"):
        first = permutation(operand(call))
        return constructor("transpose")(operand(call).args[0], [first[a] for a in axes])
    shape = static_shape(x)
    if shape is not None:
        moved = [a for a in axes if shape[a] != 1]
        if moved == sorted(moved):
            return _reshape(x, tuple([shape[a] for a in axes]))
    return None


def _moved_axes(call: Expr) -> tuple[int, ...] | None:
    """The axes of a transpose, or of a layout_transform that only moves axes; None for other expressions."""
    if is_op(call, "transpose"):
        return permutation(call)
    if is_op(call, "layout_transform"):
        card = card_of(call, reshaping.layout_transform)
        src, dst = card.src_layout, card.dst_layout
        if src.isalpha() and src.isupper() and len({*src}) == len(src) and sorted(src) == sorted(dst):
            return tuple([src.index(letter) for letter in dst])
    return None


@rule("transpose", "layout_transform")
def moves_of_axes(call: Call) -> Expr | None:
    """transpose(layout_transform(x)), or the other way round, or two layout_transforms of whole axes -> a single transpose, or x."""
    last, x = _moved_axes(call), call.args[0]
    first = _moved_axes(x)
    if last is None or first is None or (is_op(call, "transpose") and is_op(x, "transpose")):
        return None
    axes = [first[a] for a in last]
    source = operand(call).args[0]
    return source if axes == sorted(axes) else constructor("transpose")(source, axes)


@rule(*RESHAPES)
def transpose_of_groups(call: Call) -> Expr | None:
    """reshape(transpose(reshape(x))) -> transpose(x), if the first reshape merges adjacent axes, which move together, and the
    last one separates them again."""
    out, moved = static_shape(call), call.args[0]
    if out is None or 0 in out or not is_op(moved, "transpose") or not is_op(operand(call).args[0], *RESHAPES):
        return None
    joined = operand(operand(call))
    shape = static_shape(joined.args[0])
    groups = None if shape is None else _groups(shape, static_shape(joined) or ())
    if shape is None or groups is None:
        return None
    axes = [axis for group in permutation(operand(call)) for axis in groups[group]]
    return constructor("transpose")(joined.args[0], axes) if tuple([shape[a] for a in axes]) == out else None


def _groups(shape: tuple[int, ...], joined: tuple[int, ...]) -> list[list[int]] | None:
    """For each axis of `joined`, the adjacent axes of `shape` that it merges; None if it is no such merge."""
    groups: list[list[int]] = []
    at = 0
    for extent in joined:
        group, size = [at], shape[at] if at < len(shape) else 0
        at += 1
        while size < extent and at < len(shape):
            group.append(at)
            size *= shape[at]
            at += 1
        if size != extent:
            return None
        groups.append(group)
    return groups if at == len(shape) else None


def _is_number(e: Expr) -> bool:
    """Whether an expression is one constant number that does not change the shape of a matrix."""
    return scalar_of(e) is not None and len(tensor_of(e).shape) <= 2


@rule("nn.batch_matmul")
def transposed_factor(call: Call) -> Expr | None:
    """A factor with its last two axes swapped is read in place. A number that multiplies it moves to the smaller factor."""
    card = card_of(call, products.batch_matmul)
    for side, flag in ((0, "transpose_a"), (1, "transpose_b")):
        factor, scale = call.args[side], None
        if is_op(factor, "multiply"):
            numbers = [i for i in (0, 1) if constant_of(operand(call, side).args[i]) is not None]
            scale = operand(call, side).args[numbers[0]] if len(numbers) == 1 else None
            if scale is None or not _is_number(scale) or not tensor_of(call).dtype.is_float:
                continue
            factor = operand(call, side).args[1 - numbers[0]]
        if not is_op(factor, "transpose"):
            continue
        axes = permutation(factor)
        if len(axes) < 2 or axes != (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2):
            continue
        factors = [call.args[0], call.args[1]]
        factors[side] = factor.args[0]
        if scale is not None:
            sizes = [static_shape(f) for f in factors]
            on = 1 if None not in sizes and prod(sizes[1] or ()) < prod(sizes[0] or ()) else 0
            scaled = typed(constructor("multiply")(factors[on], scale))
            assert isinstance(scaled, Call)
            factors[on] = constants_together(scaled) or scaled
        flags = {"transpose_a": card.transpose_a, "transpose_b": card.transpose_b, flag: not getattr(card, flag)}
        return constructor("nn.batch_matmul")(*factors, out_dtype=card.out_dtype, **flags)
    return None


@rule("nn.batch_matmul")
def factor_of_all(call: Call) -> Expr | None:
    """A second factor that all batches share is a matrix: the rows of all batches are multiplied by it at once."""
    card = card_of(call, products.batch_matmul)
    first, second = static_shape(call.args[0]), static_shape(call.args[1])
    if card.transpose_a or first is None or second is None or not 3 <= len(second) <= len(first):
        return None
    if prod(second[:-2]) != 1 or (prod(first[:-2]) == 1 and constant_of(call.args[1]) is None):
        return None
    matrix = _reshape(call.args[1], second[-2:])
    return constructor("nn.matmul")(call.args[0], matrix, out_dtype=card.out_dtype, transpose_b=card.transpose_b)


@rule("cast", "cast_like")
def cast_chain(call: Call) -> Expr | None:
    """cast to the same type -> x; cast(cast(x)) -> a single cast if the inner one is exact."""
    x, to = call.args[0], tensor_of(call).dtype
    source = tensor_of(x).dtype
    if source == to:
        return x
    if is_op(x, "cast") and widens(tensor_of(operand(call).args[0]).dtype, source):
        return constructor("cast")(operand(call).args[0], str(to))
    return None


def widens(a: DataType, b: DataType) -> bool:
    """Whether every value of the type `a` is exact in `b`."""
    if a.is_bool:
        return not b.is_bool
    if a.code == b.code:
        return a.bits <= b.bits
    if b.code == "float":
        mantissa = {16: 11, 32: 24, 64: 53}[b.bits]
        return (a.is_int or a.is_uint) and a.bits <= mantissa or (a.code == "bfloat" and b.bits >= 32)
    return a.is_uint and b.is_int and a.bits < b.bits


def _neutral(call: Call, side: int, value: float) -> Expr | None:
    """The other operand, if all elements of the constant operand `side` are `value` and the shape does not change."""
    c = constant_of(call.args[side])
    # Most large constants are seen to be others by their first element.
    if c is None or c.size == 0 or c.flat[0] != value or not bool(np.all(c == value)):
        return None
    other = call.args[1 - side]
    return other if same_type(typed(call).checked_type, typed(other).checked_type) else None


@rule("add")
def add_zero(call: Call) -> Expr | None:
    return _neutral(call, 1, 0) or _neutral(call, 0, 0)


@rule("subtract")
def subtract_zero(call: Call) -> Expr | None:
    return _neutral(call, 1, 0)


@rule("multiply")
def multiply_one(call: Call) -> Expr | None:
    return _neutral(call, 1, 1) or _neutral(call, 0, 1)


@rule("divide")
def divide_one(call: Call) -> Expr | None:
    return _neutral(call, 1, 1)


@rule("where")
def chosen_everywhere(call: Call) -> Expr | None:
    """where(true everywhere, x, y) -> x, where(false everywhere, x, y) -> y, if the shape does not change."""
    condition = constant_of(call.args[0])
    if condition is None or condition.size == 0:
        return None
    holds = bool(condition.flat[0])
    chosen = call.args[1 if holds else 2]
    everywhere = bool(np.all(condition.astype(bool) == holds))
    return chosen if everywhere and same_type(typed(call).checked_type, typed(chosen).checked_type) else None


@rule("power")
def simple_power(call: Call) -> Expr | None:
    """x ** 2 -> x * x, x ** 0.5 -> sqrt(x), x ** 1 -> x."""
    exponent, x = scalar_of(call.args[1]), call.args[0]
    if exponent is None or not same_type(typed(call).checked_type, typed(x).checked_type):
        return None
    if exponent == 1:
        return x
    if exponent == 2:
        return constructor("multiply")(x, x)
    if exponent == 0.5 and tensor_of(x).dtype.is_float:
        return constructor("sqrt")(x)
    return None


@rule("add", "multiply")
def constants_together(call: Call) -> Expr | None:
    """(x op c1) op c2 -> x op (c1 op c2), for floats, if the combined constant is no larger."""
    key = call.operator.name
    for i in (0, 1):
        c2, inner = constant_of(call.args[i]), call.args[1 - i]
        if c2 is None or not is_op(inner, key) or not tensor_of(call).dtype.is_float:
            continue
        for j in (0, 1):
            c1 = constant_of(operand(call, 1 - i).args[j])
            if c1 is None:
                continue
            joined = c1 + c2 if key == "add" else c1 * c2
            if joined.size <= max(c1.size, c2.size):
                return constructor(key)(operand(call, 1 - i).args[1 - j], const(joined.astype(c2.dtype, copy=False)))
    return None


def _fields(call: Call) -> Sequence[Expr]:
    """What a concatenation joins, where that is written out."""
    joined = call.args[0]
    return joined.fields if isinstance(joined, Tuple) else ()


@rule("concatenate")
def single_concatenate(call: Call) -> Expr | None:
    fields = _fields(call)
    return fields[0] if len(fields) == 1 else None


@rule("concatenate")
def neighbouring_slices(call: Call) -> Expr | None:
    """concatenate(x[:a], x[a:b], y) -> concatenate(x[:b], y)."""
    fields = _fields(call)
    if static_shape(call) is None:
        return None
    axis = card_of(call, reshaping.concatenate).axis % len(tensor_of(call).shape)
    joined: list[Expr] = []
    for field in fields:
        before, here = _slice_along(joined[-1], axis) if joined else None, _slice_along(field, axis)
        if before is None or here is None or before[0] is not here[0] or before[2] != here[1]:
            joined.append(field)
        else:
            make, (x, _, end) = constructor("strided_slice"), here
            whole = (before[1], end) == (0, (static_shape(x) or ())[axis])
            joined[-1] = x if whole else typed(make(x, [before[1]], [end], [1], axes=[axis], span=call.span))
    return constructor("concatenate")(typed(Tuple(tuple(joined))), axis=axis) if len(joined) < len(fields) else None


def _slice_along(e: Expr, axis: int) -> tuple[Expr, int, int] | None:
    """(the source of a slice, its bounds), if it cuts only `axis`, with step 1."""
    if not is_op(e, "strided_slice") or (shape := static_shape(e.args[0])) is None:
        return None
    begin, end = 0, shape[axis]
    for a, first, last, stride in card_of(e, slicing.strided_slice).parts(len(shape)):
        first, count = slice_bounds(shape[a], first, last, stride)
        if a == axis and stride == 1 and count:
            begin, end = first, first + count
        elif (count, stride) != (shape[a], 1):
            return None
    return e.args[0], begin, end


@rule("layout_transform")
def layout_round_trip(call: Call) -> Expr | None:
    """layout_transform back to the original layout -> the data; to the same layout -> x."""
    x, last = call.args[0], card_of(call, reshaping.layout_transform)
    if last.src_layout == last.dst_layout:
        return x
    if is_op(x, "layout_transform"):
        first, source = card_of(x, reshaping.layout_transform), x.args[0]
        if (first.src_layout, first.dst_layout) == (last.dst_layout, last.src_layout):
            return source if same_type(typed(call).checked_type, typed(source).checked_type) else None
    return None


@rule("strided_slice", "clip", "nn.relu", "broadcast_to", "nn.pad", "tile", "copy", "annotation.stop_fusion")
def does_nothing(call: Call) -> Expr | None:
    """relu(relu(x)) -> relu(x); slices, broadcasts, pads and tiles without effect -> x."""
    key, x = call.operator.name, call.args[0]
    if key == "copy":
        return x
    if key == "nn.relu":
        return x if is_op(x, "nn.relu") else None
    if key in ("broadcast_to", "tile", "nn.pad", "strided_slice"):
        shape = static_shape(call)
        if shape is None or shape != static_shape(x):
            return None
        if key == "strided_slice" and any([s < 0 for s in card_of(call, slicing.strided_slice).strides or ()]):
            return None
        if key == "nn.pad" and np.any(np.asarray(card_of(call, padding.pad).pad_width)):
            return None
        return x
    return None


@rule("nn.conv2d")
def pad_into_conv(call: Call) -> Expr | None:
    """conv2d(pad(x, 0)) -> conv2d(x) with that padding."""
    pad, card = call.args[0], card_of(call, conv.conv2d)
    if not is_op(pad, "nn.pad") or card.data_layout != "NCHW":
        return None
    attrs = card_of(pad, padding.pad)
    widths = [tuple(w) for w in attrs.pad_width]
    # A dynamic dimension may be padded or cropped.
    pads_only = all([isinstance(v, (int, np.integer)) and v >= 0 for w in widths for v in w])
    if attrs.pad_mode != "constant" or scalar_of(pad.args[1]) != 0 or not pads_only or widths[:2] != [(0, 0), (0, 0)]:
        return None
    top, left, bottom, right = four_sides(card.padding)
    (t, b), (le, r) = widths[2], widths[3]
    whole = (top + t, left + le, bottom + b, right + r)
    return Call(call.op, (pad.args[0], call.args[1]), card.replace(padding=whole), (), call.span)


def four_sides(padding: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) from one, two or four numbers, as classic conv2d reads them."""
    if len(padding) == 1:
        return (padding[0], padding[0], padding[0], padding[0])
    if len(padding) == 2:
        return (padding[0], padding[1], padding[0], padding[1])
    top, left, bottom, right = list(padding)
    return top, left, bottom, right


def simplify_call(call: Call) -> Expr | None:
    """The first simpler form that a rule or the operator's card finds; None if there is none."""
    for f in rules_of(call.operator.name):
        found = f(call)
        if found is not None:
            return found
    return card_of(call).simplify(*call.args)


def SimplifyExpr() -> Pass:
    """Apply the simplification rules until none holds."""
    return typed_pass("SimplifyExpr", 0, lambda f, mod: rewrite_calls(f, simplify_call))


__all__ = ["SimplifyExpr", "TensorType", "four_sides", "permutation", "simplify_call"]
