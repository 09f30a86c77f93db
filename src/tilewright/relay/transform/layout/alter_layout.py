"""AlterOpLayout: converts convolutional graphs to channel blocks (NCHW16c) and dense layers to packed weights.

Each operator's `OpCard.layout_rule` decides how it runs on the layouts of its arguments. A value is converted
to another layout only if a user needs it, once for each layout. Weights are constants, so
FoldConstant packs them afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.ir import IntImm, IRModule, Op, TensorType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, LayoutChoice, OpCard, constructor
from tilewright.relay.cards.relations import known_extent
from tilewright.relay.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, const
from tilewright.relay.functor import ExprMutator
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.layers import products
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    pads_image,
    rewrite_calls,
    same_shape,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.relay.transform.layout.lone_convs import in_blocks, interleaved_convolutions, lone_convolutions
from tilewright.relay.transform.operators.legalize import once
from tilewright.scheduling.graph_plan import portable_plan
from tilewright.scheduling.instructions import MOST_COLUMNS, dot_product, tile_product, whole_steps
from tilewright.target import Target
from tilewright.tir.tensor_intrin.amx import SIDE
from tilewright.topi.transform import layout_axes

PLAIN = "NCHW"
LEAST_INNER = 8
"""The least inner dimension of products in tiles, which are filled up to 32: with 2, they took 1.7 times as long as vectors."""


def plain_layout(layout: str) -> str:
    """The layout without blocks: NCHW for NCHW16c."""
    return "".join([c for c in layout if c.isupper()])


def innermost_block(layout: str | None) -> int:
    """The channels of a layout's block; 1 without blocks."""
    return next((size for letter, size in layout_axes(layout or PLAIN) if letter == "c"), 1)


def not_full(value: Expr, layout: str) -> bool:
    """Whether a value's channels do not fill the blocks of a layout. The padding channels have any finite values, and weights of zero."""
    shape = tensor_of(value).shape
    blocks = [size for letter, size in layout_axes(layout) if letter == "c"]
    return bool(blocks) and len(shape) == 4 and isinstance(shape[1], IntImm) and shape[1].value % blocks[0] != 0


FINITE = frozenset(
    {
        "add", "subtract", "multiply", "maximum", "minimum", "clip", "negative", "abs", "sigmoid", "tanh", "erf", "nn.relu",
        "nn.leaky_relu", "nn.bias_add", "cast", "copy", "floor", "ceil", "round",
    }
)  # fmt: skip
"""Operators that keep padding channels finite: these are zeros, or results of these operators."""


def keeps_finite(call: Call) -> bool:
    """Whether an element-wise operator keeps padding channels finite. A division does if its divisor is a nonzero constant."""
    if is_op(call, "divide"):
        by = constant_of(call.args[1])
        return by is not None and by.size == 1 and bool(by.all())
    return is_op(call, *FINITE)


class _AlterLayout(ExprMutator):
    """`self.layouts`: value -> its layout, if it is not plain; `self.alone`: convolutions without others that use channel
    blocks beside them; `self.interleaved`: convolutions with results that are needed in the plain layout."""

    def __init__(self, alone: set[Call], interleaved: set[Call]) -> None:
        super().__init__()
        self.alone, self.interleaved = alone, interleaved
        self.layouts: dict[Expr, str] = {}
        self.brought: dict[tuple[Expr, str], Expr] = {}

    def bring(self, e: Expr, layout: str | None, original: Expr) -> Expr:
        """A rewritten value converted to a layout (None: plain). `original`: the value before the pass."""
        have = self.layouts.get(e)
        if have == layout:
            return e
        if isinstance(e, Tuple) and isinstance(original, Tuple):
            fields = [self.bring(f, layout, o) for f, o in zip(e.fields, original.fields, strict=True)]
            return typed(Tuple(tuple(fields), e.span))
        source = have or plain_layout(layout or "")
        target = layout or plain_layout(source)
        if source == target:
            return e
        if have and layout and not_full(original, have):
            return self.bring(self.bring(e, None, original), layout, original)
        key = (e, target)
        found = self.brought.get(key)
        if found is None and layout is not None and pads_image(e) and isinstance(original, Call):
            # Channels are brought together before the border is there: rows then follow each other, so that all vectors are whole.
            inner = self.bring(e.args[0], layout, original.args[0])
            width = (*card_of(e)["pad_width"], (0, 0))
            found = self.brought[key] = typed(constructor("nn.pad")(inner, width, e.args[1], span=e.span))
            self.layouts[found] = layout
        if found is None:
            found = typed(constructor("layout_transform")(e, source, target))
            if layout is None and not_full(original, source):
                # The last block also has padding channels.
                channels = known_extent(tensor_of(original).shape[1])
                found = typed(constructor("strided_slice")(found, [0], [channels], [1], axes=[1]))
            self.brought[key] = found
            if layout is not None:
                self.layouts[found] = layout
        return found

    def plain(self, e: Expr, original: Expr) -> Expr:
        return self.bring(e, None, original) if e in self.layouts else e

    def visit_call(self, call: Call) -> Expr:
        args = [self.visit(a) for a in call.args]
        if type(call.op) is Op:
            found = self.choose(call, args)
            if found is not None:
                choice, new_args = found
                new = typed(Call(choice.card.op, tuple(new_args), choice.card, (), call.span))
                if choice.result is not None:
                    self.layouts[new] = choice.result
                return new
        plain = tuple([self.plain_deep(a, o) for a, o in zip(args, call.args, strict=True)])
        op = call.op if type(call.op) is Op else self.visit(call.op)
        if op is call.op and all([a is b for a, b in zip(plain, call.args, strict=True)]):
            return call
        return typed(Call(op, plain, call.attrs, call.given_types, call.span))

    def plain_deep(self, e: Expr, original: Expr) -> Expr:
        """The value, or every element of a tuple, in its plain layout."""
        if isinstance(e, Tuple) and isinstance(original, Tuple):
            fields = tuple([self.plain_deep(f, o) for f, o in zip(e.fields, original.fields, strict=True)])
            if all([a is b for a, b in zip(fields, original.fields, strict=True)]):
                return original
            return typed(Tuple(fields, e.span))
        return self.plain(e, original)

    def choose(self, call: Call, args: Sequence[Expr]) -> tuple[LayoutChoice, list[Expr]] | None:
        """The operator's own rule, or the common rule of element-wise operators; None: all values stay plain."""
        card = card_of(call)
        new, old = (args[0], call.args[0]) if len(args) == 1 else (None, None)
        joined = isinstance(new, Tuple)
        parts = new.fields if isinstance(new, Tuple) else args
        originals = old.fields if isinstance(old, Tuple) else call.args
        layouts = [self.layouts.get(p) for p in parts]
        if type(card).layout_rule is OpCard.layout_rule:
            return self.elementwise(call, card, args, layouts) if card.fuse <= BROADCAST and not joined else None
        lone, types = call in self.alone, [o.checked_type for o in originals]
        rule = card_of(call, conv.conv2d).lone_layout if lone else card.layout_rule
        choice = rule(layouts, types)
        if choice is None or (len(parts) > 1 and not joined and not self.weights_known(choice, call)):
            return None
        if is_op(call, "nn.conv2d") and choice.result is not None:
            block_in, block_out = (innermost_block(layout) for layout in (choice.args[0], choice.result))
            if not in_blocks(call, block_in, block_out, layouts[0] is not None, lone or call in self.interleaved):
                return None
        brought = [self.bring(p, want, o) for p, want, o in zip(parts, choice.args, originals, strict=True)]
        return choice, [typed(Tuple(tuple(brought), new.span))] if isinstance(new, Tuple) else brought

    def weights_known(self, choice: LayoutChoice, call: Call) -> bool:
        """Whether the weight is a constant, which can be packed at compile time. An operator with a computed weight stays plain."""
        return all(
            [
                want is None or plain_layout(want) == PLAIN or constant_of(a) is not None
                for want, a in zip(choice.args, call.args, strict=True)
            ]
        )

    def elementwise(
        self, call: Call, card: OpCard, args: Sequence[Expr], layouts: Sequence[str | None]
    ) -> tuple[LayoutChoice, list[Expr]] | None:
        """The layout rule of element-wise operators. The blocked operand decides; other operands of full shape are converted to its layout.
        Smaller operands that vary along the channels are converted, too; others get axes of extent 1."""
        if len(tensor_of(call).shape) != 4 or hasattr(card, "axis"):
            return None
        full = [layout for layout, a in zip(layouts, call.args, strict=True) if layout and same_shape(a, call)]
        if not full:
            return None
        layout = full[0]
        if not_full(call, layout) and not keeps_finite(call):
            return None
        brought: list[Expr] = []
        for new, old in zip(args, call.args, strict=True):
            if same_shape(old, call):
                brought.append(self.bring(new, layout, old))
                continue
            shape = static_shape(old)
            if shape is None or len(shape) > 4:
                return None
            brought.append(self.broadcast_operand(new, old, (1,) * (4 - len(shape)) + shape, layout))
        return LayoutChoice(card, [], layout), brought

    def broadcast_operand(self, new: Expr, old: Expr, shape: tuple[int, ...], layout: str) -> Expr:
        """An operand of a blocked element-wise operator. `shape`: its plain shape with four axes."""
        if not static_shape(old):
            return new
        if shape[1] == 1:
            return typed(constructor("reshape")(self.plain(new, old), (*shape, 1)))
        if len(static_shape(old) or ()) != 4:
            new = typed(constructor("reshape")(new, shape))
        return self.bring(new, layout, old)

    def visit_tuple(self, tup: Tuple) -> Expr:
        fields = tuple([self.visit(f) for f in tup.fields])
        return tup if all([a is b for a, b in zip(fields, tup.fields, strict=True)]) else Tuple(fields, tup.span)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        value = self.plain_deep(self.visit(op.tuple_value), op.tuple_value)
        return op if value is op.tuple_value else typed(TupleGetItem(value, op.index, op.span))

    def visit_function(self, fn: Function) -> Expr:
        if fn.is_primitive:
            return fn
        return fn.replace(body=self.plain_deep(self.visit(fn.body), fn.body))

    def visit_if(self, ite: If) -> Expr:
        cond, a, b = (self.plain_deep(self.visit(e), e) for e in (ite.cond, ite.true_branch, ite.false_branch))
        return ite.replace(cond=cond, true_branch=a, false_branch=b)

    def visit_let(self, let: Let) -> Expr:
        # Inside lets all values stay plain: a variable has one declared type.
        return let


def AlterOpLayout() -> Pass:
    """Run convolutions, and the operators between them, on channel blocks as wide as the vectors of the current target."""

    def by_program(call: Call) -> Expr | None:
        """The result of the alteration that a program registered for the operator (`relay.op.register_alter_op_layout`)."""
        alter = call.operator.get_attr("FTVMAlterOpLayout")
        if alter is None:
            return None
        made: Expr = alter(call.attrs, list(call.args), [a.checked_type for a in call.args], call.checked_type)
        return made

    def run(func: Function, mod: IRModule) -> Function:
        altered = rewrite_calls(func, once(by_program))
        return _AlterLayout(lone_convolutions(altered), interleaved_convolutions(altered)).rewritten_function(altered)

    return typed_pass("AlterOpLayout", 2, run, (), ("layouts",))


def pack_dense(call: Call) -> Expr | None:
    """dense or matmul by a constant weight -> its packed form. Incomplete panels are padded with zero columns, which are cut off again."""
    if not is_op(call, "nn.dense", "nn.matmul"):
        return None
    card = card_of(call)
    weight = constant_of(call.args[1])
    if weight is None or weight.ndim != 2 or len(call.args) != 2:
        return None
    if getattr(card, "transpose_a", False):
        rows = _with_rows(call)
        return None if rows is None else pack_dense(rows)
    result = str(tensor_of(call).dtype)
    transposed = is_op(call, "nn.dense") or card_of(call, products.matmul).transpose_b
    by_columns = weight.T if transposed else weight
    if result == weight.dtype.name == "float32":
        if _panel(call.args[0], by_columns, Target.current(True) is not None) == 0:
            # Few columns need no panels if the weights are stored along the reduction.
            along = const(np.ascontiguousarray(by_columns.T))
            return None if transposed else constructor("nn.dense")(call.args[0], along, span=call.span)
        return packed_product(call, call.args[0], by_columns, 1)
    types = str(tensor_of(call.args[0]).dtype), weight.dtype.name, result
    target = Target.current(True)
    tiles = tile_product(target, *types)
    several = len(static_shape(call.args[0]) or ()) > 1
    if target is not None and tiles is not None and several and by_columns.shape[0] >= LEAST_INNER:
        inner = whole_steps(-(-by_columns.shape[0] // tiles.group), target.cpu.core) * tiles.group
        panel = MOST_COLUMNS if by_columns.shape[1] > SIDE else SIDE
        return packed_product(call, *filled_up(call.args[0], by_columns, inner), tiles.group, panel)
    found = dot_product(Target.current(True), *types)
    if found is None:
        # Bytes minus their zero point may not fit in a byte, so no instruction sums groups of them; columns still form vectors.
        return packed_product(call, call.args[0], by_columns, 1) if types[1:] == ("int16", "int32") else None
    return packed_product(call, *filled_up(call.args[0], by_columns, found.group), found.group)


def _with_rows(call: Call) -> Call | None:
    """matmul of data (.., K, M) -> that of a copy (.., M, K). None where the copy would move more than half of the elements that packing
    the weights (K, N) in each call does, and for unknown shapes.
    """
    data, weight = call.args
    shape, card = static_shape(data), card_of(call, products.matmul)
    if shape is None or 2 * prod(shape) > prod(tensor_of(weight).concrete_shape):
        return None
    rows = typed(products.swapped(data, len(shape)))
    return typed(Call(call.op, (rows, weight), card.replace(transpose_a=False), (), call.span))


def filled_up(data: Expr, weight: np.ndarray, group: int) -> tuple[Expr, np.ndarray]:
    """Data (.., K) and weights (K, N) with K padded by zeros to a multiple of `group`."""
    more = -weight.shape[0] % group
    if not more:
        return data, weight
    dtype, ndim = tensor_of(data).dtype, len(tensor_of(data).shape)
    width = [(0, 0)] * (ndim - 1) + [(0, more)]
    return typed(constructor("nn.pad")(data, width, const(0, dtype))), np.pad(weight, ((0, more), (0, 0)))


def packed_product(call: Call, data: Expr, by_columns: np.ndarray, group: int, nr: int = 0) -> Expr:
    """The product of data (.., K) and weights (K, N). The weights are packed in panels (of `nr` columns, if it is known) and in groups
    along K."""
    card = card_of(call)
    inner, columns = by_columns.shape
    nr = nr or _panel(data, by_columns, False)
    panels = -(-columns // nr)
    if panels * nr != columns:
        filled = np.zeros((inner, panels * nr), by_columns.dtype)
        filled[:, :columns] = by_columns
        by_columns = filled
    # Without padding it is a view: the values move once, when the constants are laid out.
    packed = by_columns.reshape(inner // group, group, panels, nr).transpose(2, 0, 3, 1)
    layout = f"NK{nr}n{group}k"
    if group == 1:
        packed, layout = packed[..., 0], f"NK{nr}n"
    make = constructor("nn.contrib_dense_pack")
    units = columns if panels * nr != columns else None
    return make(data, const(packed), weight_layout=layout, units=units, out_dtype=card["out_dtype"], span=call.span)


def _panel(data: Expr, by_columns: np.ndarray, along: bool) -> int:
    """The number of columns in a panel of weights (K, N). 0: no panels, but weights along the reduction, if `along` allows it."""
    shape = static_shape(data)
    rows = None if shape is None else prod(shape[:-1])
    inner, columns = by_columns.shape
    plan = portable_plan()
    return plan.forms.panel(rows, inner, columns, by_columns.itemsize, along)


def PackDense() -> Pass:
    """Pack the constant weights of dense layers into panels."""
    return typed_pass("PackDense", 2, lambda f, mod: rewrite_calls(f, pack_dense), (), ("packed_weights",))


__all__ = ["AlterOpLayout", "PackDense", "TensorType", "pack_dense"]
