"""CombineParallelConv2D, CombineParallelDense, CombineParallelBatchMatmul, CombineSmallConvolutions, CombineSmallProducts: join operators
that read the same data.

    conv2d(x, w1), conv2d(x, w2), conv2d(x, w3)  ->  y = conv2d(x, concatenate(w1, w2, w3)), and the slices of y

Operators that follow all branches alike (a bias, an activation) are joined, too. Constant weights are joined at
compile time. The first three passes run only on request and join as much as possible. The last two are part of every build, and
join operators that are faster together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from tilewright.ir import IRModule, Op, TensorType
from tilewright.ir.transform import Pass, Sequential
from tilewright.relay.cards.card import BROADCAST, as_expr, constructor
from tilewright.relay.cards.relations import tensor
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, const
from tilewright.relay.functor import ExprMutator, post_order, users
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.op.layers import products
from tilewright.relay.rewriting import card_of, constant_of, is_op, static_shape, tensor_of, typed, typed_pass
from tilewright.relay.transform.fusion.slice_splits import read_in_place
from tilewright.relay.transform.simplify.common_subexpr import attrs_key
from tilewright.relay.typing.open_types import type_of
from tilewright.scheduling.graph_plan import portable_plan
from tilewright.target import Target
from tilewright.tir.buffer import DATA_ALIGNMENT

Branch = list[Call]
"""An operator that can be joined, and the operators after it that are alike in all branches."""

Users = dict[Expr, list[Expr]]
"""Value -> its readers."""


class Joiner:
    """The rules for joining one kind of operator. `axis`: the axis of a result along which the branches are concatenated."""

    ops: tuple[str, ...]

    def __init__(self, least: int) -> None:
        self.least = least

    def candidates(self, calls: Sequence[Call], used: Users) -> list[Call]:
        """The calls that are worth joining with each other."""
        return list(calls)

    def pays(self, calls: Sequence[Call], ends: Sequence[Call], used: Users) -> bool:
        """Whether joining branches, from `calls` to their `ends`, saves time. `used` has the readers of each value."""
        return True

    def key(self, call: Call) -> Hashable:
        """The properties that joined calls must share; None for a call that cannot be joined."""
        raise AssertionError

    def join(self, calls: Sequence[Call]) -> Expr:
        """The call that replaces all of them."""
        raise AssertionError

    def axis(self, call: Call) -> int:
        """The axis of a result along which branches are concatenated."""
        raise AssertionError

    def extra(self, args: Sequence[Expr], chain: Sequence[Call], axis: int) -> Expr | None:
        """One operand of the following operator, from the operands of all branches; None if they cannot be combined."""
        shapes = [static_shape(a) for a in args]
        ndim = len(static_shape(chain[0]) or ())
        if any([s is None for s in shapes]):
            return None
        here = axis - ndim
        if all([a is args[0] for a in args]) and (len(shapes[0] or ()) < -here or (shapes[0] or ())[here] == 1):
            return args[0]
        wanted = [(static_shape(c) or ())[axis] for c in chain]
        for shape, size in zip(shapes, wanted, strict=True):
            assert shape is not None
            if len(shape) < -here or shape[here] != size or len(shape) != len(shapes[0] or ()):
                return None
            if (*shape[:here], *shape[len(shape) + here + 1 :]) != (
                *(shapes[0] or ())[:here],
                *(shapes[0] or ())[len(shape) + here + 1 :],
            ):
                return None
        return _concatenate(args, here)

    def parts(self, joined: Expr, chain: Sequence[Call], axis: int) -> list[Expr]:
        """The results of the branches, as slices of the joined result: whole along the axes before `axis`."""
        out: list[Expr] = []
        start = 0
        for call in chain:
            size = (static_shape(call) or ())[axis]
            begin, sizes = [0] * axis + [start], [-1] * axis + [size]
            steps = [1] * len(begin)
            piece = constructor("strided_slice")(joined, begin, sizes, steps, slice_mode="size", span=call.span)
            out.append(typed(piece))
            start += size
        return out


def _concatenate(args: Sequence[Expr], axis: int) -> Expr:
    values = [v for v in [constant_of(a) for a in args] if v is not None]
    if len(values) == len(args):
        return typed(const(np.concatenate(values, axis)))
    return typed(constructor("concatenate")(typed(Tuple(tuple(args))), axis=axis))


class _Conv2D(Joiner):
    ops = ("nn.conv2d",)

    def key(self, call: Call) -> Hashable:
        card = card_of(call, Convolution)
        shape = static_shape(call.args[1])
        if card.groups != 1 or shape is None or not _plain(card.kernel_layout) or not _plain(card.data_layout):
            return None
        o = card.kernel_layout.index("O")
        return (
            attrs_key(card.replace(channels=None)),
            shape[:o],
            shape[o + 1 :],
            tensor(call.args[1].checked_type).dtype,
        )

    def join(self, calls: Sequence[Call]) -> Expr:
        card = card_of(calls[0], Convolution)
        weight = _concatenate([c.args[1] for c in calls], card.kernel_layout.index("O"))
        channels = sum([(static_shape(c) or ())[self.axis(c)] for c in calls])
        return Call(calls[0].op, (calls[0].args[0], weight), card.replace(channels=channels), (), calls[0].span)

    def axis(self, call: Call) -> int:
        card = card_of(call, Convolution)
        return (card.out_layout or card.data_layout).index("C")


def _plain(layout: str) -> bool:
    return layout.isalpha()


class _Dense(Joiner):
    """Joins dense layers along their units."""

    ops: tuple[str, ...] = ("nn.dense",)

    def key(self, call: Call) -> Hashable:
        card = card_of(call, products.dense)
        shape = static_shape(call.args[1])
        if shape is None or static_shape(call) is None:
            return None
        return attrs_key(card.replace(units=None)), shape[1:], tensor(call.args[1].checked_type).dtype

    def join(self, calls: Sequence[Call]) -> Expr:
        card = card_of(calls[0], products.dense)
        weight = _concatenate([c.args[1] for c in calls], 0)
        units = sum([(static_shape(c.args[1]) or ())[0] for c in calls])
        return Call(calls[0].op, (calls[0].args[0], weight), card.replace(units=units), (), calls[0].span)

    def axis(self, call: Call) -> int:
        return len(static_shape(call) or ()) - 1


class _DenseBatch(_Dense):
    """Joins dense layers to one batch_matmul: a copy of the data for each branch, along a new first axis."""

    def key(self, call: Call) -> Hashable:
        shape = static_shape(call)
        # All branches have one shape, and the data has no batch axis.
        return None if shape is None or len(shape) != 2 else (super().key(call), shape)

    def join(self, calls: Sequence[Call]) -> Expr:
        card = card_of(calls[0], products.dense)
        data = typed(constructor("stack")(typed(Tuple(tuple([c.args[0] for c in calls]))), axis=0))
        weights = typed(constructor("stack")(typed(Tuple(tuple([c.args[1] for c in calls]))), axis=0))
        make = constructor("nn.batch_matmul")
        return make(data, weights, out_dtype=card.out_dtype, transpose_a=False, transpose_b=True)

    def extra(self, args: Sequence[Expr], chain: Sequence[Call], axis: int) -> Expr | None:
        shapes = [static_shape(a) for a in args]
        if any([s is None or s != shapes[0] for s in shapes]):
            return None
        if all([a is args[0] for a in args]):
            return args[0]
        missing = 2 - len(shapes[0] or ())
        if missing:
            # (branches, 1, units): each bias is added to all rows of its branch.
            args = [typed(constructor("expand_dims")(a, 0, missing)) for a in args]
        return typed(constructor("stack")(typed(Tuple(tuple(args))), axis=0))

    def parts(self, joined: Expr, chain: Sequence[Call], axis: int) -> list[Expr]:
        pieces = typed(as_expr(constructor("split")(joined, len(chain), 0)))
        return [typed(constructor("squeeze")(typed(TupleGetItem(pieces, i)), [0])) for i in range(len(chain))]


class _BatchMatmul(Joiner):
    ops = ("nn.batch_matmul",)

    def key(self, call: Call) -> Hashable:
        card = card_of(call, products.batch_matmul)
        shape = static_shape(call.args[1])
        if shape is None or static_shape(call) is None:
            return None
        joined = 1 if card.transpose_b else 2
        rest = (*shape[:joined], *shape[joined + 1 :])
        # A batch of 1 is broadcast, and stays as it is.
        return attrs_key(card), rest, tensor(call.args[1].checked_type).dtype

    def join(self, calls: Sequence[Call]) -> Expr:
        card = card_of(calls[0], products.batch_matmul)
        weight = _concatenate([c.args[1] for c in calls], 1 if card.transpose_b else 2)
        return Call(calls[0].op, (calls[0].args[0], weight), card, (), calls[0].span)

    def axis(self, call: Call) -> int:
        return 2


class _SmallProducts(_Dense):
    """Products by constant weights that take about as long as a start of threads. Joined they need one start instead of several."""

    ops = ("nn.dense", "nn.matmul")

    def key(self, call: Call) -> Hashable:
        card = card_of(call)
        shape, weight = static_shape(call), constant_of(call.args[1])
        if shape is None or weight is None or weight.ndim != 2 or getattr(card, "transpose_a", False):
            return None
        return call.op, attrs_key(card.replace(units=None)), weight.shape[1 - self.along(call)], weight.dtype

    def candidates(self, calls: Sequence[Call], used: Users) -> list[Call]:
        plan = portable_plan()

        def is_joined(call: Call) -> bool:
            *lead, columns = static_shape(call) or ()
            weight = constant_of(call.args[1])
            assert weight is not None
            return plan.forms.joins_product(
                prod(lead), weight.shape[1 - self.along(call)], columns, 8 * weight.dtype.itemsize
            )

        return [c for c in calls if is_joined(c)]

    def along(self, call: Call) -> int:
        """The axis of the weight with the columns of the result."""
        return 0 if is_op(call, "nn.dense") or card_of(call, products.matmul).transpose_b else 1

    def join(self, calls: Sequence[Call]) -> Expr:
        card = card_of(calls[0])
        weight = _concatenate([c.args[1] for c in calls], self.along(calls[0]))
        return Call(calls[0].op, (calls[0].args[0], weight), card.replace(units=None), (), calls[0].span)

    def pays(self, calls: Sequence[Call], ends: Sequence[Call], used: Users) -> bool:
        """Whether fewer kernels remain: a slice that its readers cannot read in place needs a copy by a separate kernel."""
        return sum([not read_in_place(e, used) for e in ends]) < len(ends) - 1


class _SmallConvolutions(_Conv2D):
    """Convolutions of one image by constant filters. The channels of one image are contiguous, so readers of a branch
    read a part of the joined result in place."""

    def key(self, call: Call) -> Hashable:
        shape, data, target = static_shape(call), static_shape(call.args[0]), Target.current(True)
        if target is None or "cpu" not in target.keys or constant_of(call.args[1]) is None:
            return None
        if shape is None or data is None or shape[0] != 1 or self.axis(call) != 1:
            return None
        return super().key(call)

    def candidates(self, calls: Sequence[Call], used: Users) -> list[Call]:
        """The calls whose results are not concatenated: concatenated ones are written in place, and a slice would have to be copied."""
        return [c for c in calls if not _is_joined(c, used)]

    def pays(self, calls: Sequence[Call], ends: Sequence[Call], used: Users) -> bool:
        shapes = [static_shape(e) or () for e in ends]
        offsets = accumulate([prod(shape) * tensor_of(e).dtype.bytes for shape, e in zip(shapes, ends, strict=True)])
        own = any([_is_epilogue(r, e) for e in ends for r in used.get(e, [])])
        if own or any([offset % DATA_ALIGNMENT for offset in offsets]):
            # An operator after only one branch would become a kernel, and so would the copy of an unaligned part.
            return False
        first = card_of(calls[0], Convolution)
        sums = prod((static_shape(calls[0].args[1]) or ())[1:])
        problem = first.problem(*[a.checked_type for a in calls[0].args])
        return portable_plan().forms.joins_convolutions(
            problem, [s[1] for s in shapes], [prod(s) * sums for s in shapes]
        )


def _is_joined(call: Call, used: Users) -> bool:
    """Whether a concatenation reads the result of a convolution with its epilogue."""
    e: Expr = call
    while len(readers := used.get(e, [])) == 1 and _is_epilogue(readers[0], e):
        e = readers[0]
    tuples = [r for r in readers if type(r) is Tuple]
    return any([is_op(user, "concatenate") for t in tuples for user in used.get(t, [])])


def _is_epilogue(reader: Expr, of: Expr) -> bool:
    if type(reader) is not Call or type(reader.op) is not Op or card_of(reader).fuse > BROADCAST:
        return False
    return static_shape(reader) == static_shape(of)


class _Replaced(ExprMutator):
    """Replaces calls by others, also in the operands of the others."""

    def __init__(self, table: dict[Expr, Expr]) -> None:
        super().__init__()
        self.table = table

    def visit_call(self, call: Call) -> Expr:
        found = self.table.get(call)
        return typed(super().visit_call(call) if found is None else self.visit(found))


class _Combiner:
    """Joins calls of one function in rounds."""

    def __init__(self, joiner: Joiner) -> None:
        self.joiner = joiner
        self.refused: set[Expr] = set()

    def run(self, func: Function) -> Function:
        while table := self.round(func):
            func = _Replaced(table).rewritten_function(func)
        return func

    def round(self, func: Function) -> dict[Expr, Expr]:
        """The replacements of branches by slices: of all groups with only constants besides their data, which do not depend on
        each other, or else of one other group, on which the next may depend."""
        groups: dict[Hashable, list[Call]] = {}
        for e in post_order(func.body, skip=lambda e: type(e) in (Function, If, Let)):
            if is_op(e, *self.joiner.ops) and e not in self.refused:
                key = self.joiner.key(e)
                if key is not None:
                    groups.setdefault((e.args[0], key), []).append(e)
        table: dict[Expr, Expr] = {}
        used: Users | None = None
        for calls in groups.values():
            independent: list[Call] = []
            if len(calls) >= self.joiner.least:
                used = used or users([func])
                independent = _independent(self.joiner.candidates(calls, used), lambda c: c.args[1:])
            if used is not None and len(independent) >= self.joiner.least:
                found, alone = self.joined(independent, used)
                if not table.keys() & found.keys():
                    if found and not alone:
                        return table or found
                    table |= found
                if found:
                    continue
            self.refused.update(calls)
        return table

    def joined(self, calls: Sequence[Call], used: Users) -> tuple[dict[Expr, Expr], bool]:
        """(the replacements of the branches, or {} if they stay separate; whether the joined call has only constants besides its data)."""
        axis = self.joiner.axis(calls[0])
        result = typed(self.joiner.join(calls))
        chain: list[Call] = list(calls)
        alone = all([type(a) is Constant for c in calls for a in c.args[1:]])
        while True:
            further = self.further(chain, used, axis, result)
            if further is None:
                break
            following, result = further
            alone &= all([type(a) is Constant for c in following for a in c.args if a not in chain])
            chain = following
        if not self.joiner.pays(calls, chain, used):
            return {}, alone
        return dict(zip(chain, self.joiner.parts(result, chain, axis), strict=True)), alone

    def further(self, chain: Sequence[Call], used: Users, axis: int, result: Expr) -> tuple[list[Call], Expr] | None:
        """(the operator that follows all branches alike, its joined form); None if they differ."""
        following: list[Call] = []
        for call in chain:
            by = used.get(call, [])
            if len(by) != 1 or type(by[0]) is not Call or type(by[0].op) is not Op:
                return None
            following.append(by[0])
        first = following[0]
        at = first.args.index(chain[0])
        if card_of(first).fuse > BROADCAST or not card_of(first).pure or len(set(following)) < len(following):
            return None
        for call, before in zip(following, chain, strict=True):
            alike = call.op is first.op and attrs_key(call.attrs) == attrs_key(first.attrs)
            if not alike or len(call.args) != len(first.args) or call.args.index(before) != at:
                return None
            if type_of(call) is None or not isinstance(call.checked_type, TensorType) or hasattr(card_of(call), "axis"):
                return None
            if static_shape(call) is None or static_shape(call) != static_shape(before):
                return None
        if len(_independent(following, lambda c: c.args)) < len(following):
            return None
        args: list[Expr] = []
        for i in range(len(first.args)):
            if i == at:
                args.append(result)
                continue
            extra = self.joiner.extra([c.args[i] for c in following], following, axis)
            if extra is None:
                return None
            args.append(extra)
        joined = typed(Call(first.op, tuple(args), first.attrs, first.given_types, first.span))
        return following, joined


def _independent(calls: Sequence[Call], operands: Callable[[Call], Sequence[Expr]]) -> list[Call]:
    """The calls with operands that depend on none of the other calls, since joined calls run at one time."""
    others = set(calls)
    return [c for c in calls if not any([e in others and e is not c for a in operands(c) for e in post_order(a)])]


def _pass(name: str, joiner: Joiner, level: int = 4) -> Pass:
    def run(func: Function, mod: IRModule) -> Function:
        return _Combiner(joiner).run(func)

    return typed_pass(name, level, run)


def CombineParallelConv2D(min_num_branches: int = 3) -> Pass:
    """Join at least `min_num_branches` convolutions of the same data, with the same kernel size and stride, into one
    with all channels.
    """
    return _pass("CombineParallelConv2D", _Conv2D(min_num_branches))


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> Pass:
    """Join dense layers of the same data into one batch_matmul (layers of one shape only). With `to_batch` false, join
    them into one wider layer.
    """
    joiner = _DenseBatch(min_num_branches) if to_batch else _Dense(min_num_branches)
    return _pass("CombineParallelDense", joiner)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> Pass:
    """Join at least `min_num_branches` batched products with the same left side into one with all columns."""
    return _pass("CombineParallelBatchMatmul", _BatchMatmul(min_num_branches))


def CombineSmallProducts() -> Pass:
    """Join products of the same data by constant weights whose time is close to that of starting threads. Readers take
    slices of the result without a copy.
    """
    return _pass("CombineSmallProducts", _SmallProducts(2), 2)


def CombineSmallConvolutions() -> Pass:
    """Join convolutions of one image that have few filters, or whose time is close to that of starting threads. Readers
    take parts of the result.
    """
    return _pass("CombineSmallConvolutions", _SmallConvolutions(2), 2)


def BatchingOps() -> Pass:
    """Join parallel convolutions, dense layers and batched products: the three CombineParallel passes one after the
    other.
    """
    return Sequential(
        [CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul()], opt_level=4, name="BatchingOps"
    )


__all__ = [
    "BatchingOps",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "CombineSmallConvolutions",
    "CombineSmallProducts",
]
