"""SliceSplits: replaces the parts of a split by slices, if their readers can fuse them, or if they need no kernel.

    q, k, v = split(x); transpose(q) ..  ->  transpose(strided_slice(x)) ..

A split is a kernel that writes all parts. A slice is read in place by its reader's kernel, or by any kernel if it is contiguous.
Channels of images stay in their blocks as slices, too.
"""

from __future__ import annotations

from typing import TypeGuard

from tilewright.ir import Op
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, INJECTIVE, constructor
from tilewright.relay.expr import Call, Expr, Function, Tuple, TupleGetItem
from tilewright.relay.functor import rewrite, users
from tilewright.relay.op.movement import reshaping
from tilewright.relay.rewriting import card_of, is_op, static_shape, typed, typed_pass


def slice_splits(func: Function) -> Function:
    """The function with slices in place of such splits."""
    used = users([func])

    def sliced(call: Call) -> bool:
        pieces = used[call]
        readers = [reader for piece in pieces for reader in used.get(piece, ())]
        return all([type(p) is TupleGetItem for p in pieces]) and (
            _cuts_channels(call) or all([_takes(r) for r in readers])
        )

    splits = {e for e in used if is_op(e, "split") and static_shape(e.args[0]) is not None and sliced(e)}

    def change(old: Expr, new: Expr) -> Expr | None:
        return (
            _slice(new)
            if type(new) is TupleGetItem and type(old) is TupleGetItem and old.tuple_value in splits
            else None
        )

    return rewrite(func, change) if splits else func


def _slice(piece: TupleGetItem) -> Expr:
    """A part of a split as a slice."""
    split = piece.tuple_value
    assert isinstance(split, Call)
    card, shape = card_of(split, reshaping.split), static_shape(split.args[0])
    assert shape is not None
    axis, given = card.axis % len(shape), card.indices_or_sections
    cuts = [shape[axis] // given * i for i in range(given)] if isinstance(given, int) else [0, *given]
    begin, end = cuts[piece.index], [*cuts[1:], shape[axis]][piece.index]
    return typed(constructor("strided_slice")(split.args[0], [begin], [end], axes=[axis], span=split.span))


def _cuts_channels(split: Call) -> bool:
    """Whether the parts are contiguous, or contain whole channels, which are contiguous in each image."""
    shape = static_shape(split.args[0]) or ()
    axis = card_of(split, reshaping.split).axis % len(shape)
    return all([d == 1 for d in shape[:axis]]) or (len(shape) == 4 and axis == 1)


def _takes(reader: Expr) -> TypeGuard[Call]:
    """Whether the reader's kernel can include a slice."""
    return (
        type(reader) is Call
        and type(reader.op) is Op
        and card_of(reader).fuse <= INJECTIVE
        and not is_op(reader, "split")
    )


VIEWS = ("reshape", "squeeze", "expand_dims")


def read_in_place(value: Expr, used: dict[Expr, list[Expr]]) -> bool:
    """Whether all readers of a value are kernels that move elements (transposes, concatenations), which exist whether or not the value is
    a slice. Element-wise readers do not count: they would be an epilogue of the value's producer.
    `used`: value -> its readers."""
    readers = used.get(value, [])
    return bool(readers) and all([_moves(r, used) for r in readers])


def _moves(reader: Expr, used: dict[Expr, list[Expr]]) -> bool:
    if type(reader) is Tuple or (type(reader) is Call and is_op(reader, *VIEWS)):
        return read_in_place(reader, used)
    return _takes(reader) and card_of(reader).fuse > BROADCAST


def SliceSplits() -> Pass:
    """Replace the parts of a split by slices, which the kernels of their readers can fuse."""
    return typed_pass("SliceSplits", 2, lambda f, mod: slice_splits(f))
