"""Values without a kernel, which are in the memory of other values: slices that are contiguous in the tensor that they are cut from, and
concatenations whose parts are computed directly in the memory of the result. That way memory is in use longer, so a concatenation that
would raise the peak is left to a kernel."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from math import prod
from typing import TypeVar

from tilewright.ir import TensorType
from tilewright.relay.backend.byoc.external import is_external
from tilewright.relay.backend.kernels.tensor_graph import is_static, static_bytes, tensor_types
from tilewright.relay.backend.planning.memory_plan import Storage, peak
from tilewright.relay.backend.te_compiler import is_told_by_relay, without_reshapes
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.op.movement import reshaping, slicing
from tilewright.relay.rewriting import card_of, is_op
from tilewright.relay.transform.memory.device_planner import is_copy
from tilewright.relay.typing.infer_type import infer_types
from tilewright.tir.buffer import DATA_ALIGNMENT
from tilewright.topi.transform import slice_bounds

T = TypeVar("T")


class Memory:
    """The values whose memory other values share. shown: view or variable -> the value with its memory; cut: slice -> (the value that it
    is a part of, offset in bytes)."""

    def __init__(self) -> None:
        self.shown: dict[Expr, Expr] = {}
        self.cut: dict[Expr, tuple[Expr, int]] = {}

    def source(self, e: Expr) -> Expr:
        """The value with the same memory as `e`, through reshapes and elements of known tuples."""
        while True:
            if e in self.shown:
                e = self.shown[e]
            elif isinstance(e, TupleGetItem) and isinstance(of := self.source(e.tuple_value), Tuple):
                e = of.fields[e.index]
            else:
                return e

    def leaves(self, e: Expr) -> list[Expr]:
        """The values whose memory `e` uses: calls (whole ones for several results), inputs, constants."""
        e = self.source(e)
        if isinstance(e, Tuple):
            return [x for f in e.fields for x in self.leaves(f)]
        if isinstance(e, TupleGetItem):
            return self.leaves(e.tuple_value)
        return self.leaves(self.cut[e][0]) if e in self.cut else [e]

    def cut_slices(self, order: Sequence[Expr], fixed: Container[Expr], device: Callable[[Expr], int]) -> None:
        """Finds the slices that need no kernel among the calls of a program. fixed: values that have memory of their own."""
        found: dict[Expr, tuple[Expr, int]] = {}
        for node in order:
            if (
                isinstance(node, Call)
                and isinstance(node.op, Function)
                and node not in self.shown
                and node not in fixed
            ):
                offset = cut_at(node.op)
                if offset is not None and device(node.args[0]) == device(node):
                    found[node] = (node.args[0], offset)
        if not found:
            return
        most = bytes_at_once(order, self, {}, fixed)

        def fits(left: dict[Expr, tuple[Expr, int]]) -> bool:
            self.cut = left
            return bytes_at_once(order, self, {}, fixed) <= most

        self.cut = without_first(found, list(found), lambda node: node, fits)


class Joined:
    """The concatenations that need no kernel among the calls of a program, and the places of their parts.

    calls: concatenation -> its parts, each with its offset in bytes; whole: call that writes into the memory of a larger value -> (that
    value, a concatenation that is not itself a part; offset in it). Values in `fixed` have memory already. Calls on different devices share
    no memory."""

    def __init__(
        self, order: Sequence[Expr], memory: Memory, fixed: Container[Expr], device: Callable[[Expr], int]
    ) -> None:
        self.calls: dict[Expr, list[tuple[Expr, int]]] = {}
        self.whole: dict[Expr, tuple[Expr, int]] = {}
        self.memory, self.source, self.fixed, self.device = memory, memory.source, fixed, device
        # A concatenation before its parts.
        for node in reversed(order):
            parts = parts_of(node, memory.source)
            if parts:
                self.join(node, parts)
        if self.calls:
            self.keep_peak(order)

    def join(self, node: Expr, parts: list[tuple[Expr, int]]) -> None:
        """Adds a concatenation, unless more of its parts must be copied into it than are computed there."""
        found = [self.whole.get(self.source(value)) for value, _ in parts]
        if node not in self.whole and node not in self.fixed and found[0] is not None:
            # All parts may be in a larger concatenation already, like the features of a dense block up to a layer.
            whole, first = found[0]
            if found == [(whole, first + offset) for _, offset in parts] and self.device(whole) == self.device(node):
                self.whole[node] = found[0]
        whole, first = self.whole.get(node, (node, 0))
        free: dict[Expr, int] = {}
        for value, offset in parts:
            maker = self.source(value)
            if maker not in free and self.is_free(maker) and self.device(maker) == self.device(node):
                free[maker] = first + offset
        there = sum([place == (whole, first + offset) for place, (_, offset) in zip(found, parts, strict=True)])
        if there + len(free) > 0 and len(parts) - there - len(free) <= there + len(free):
            self.calls[node] = parts
            self.whole.update({maker: (whole, offset) for maker, offset in free.items()})

    def is_free(self, maker: Expr) -> bool:
        """Whether the kernel that computes a value may write it to any memory."""
        return (
            has_known_memory(maker)
            and isinstance(maker.checked_type, TensorType)
            and maker not in self.memory.cut
            and maker not in self.whole
            and maker not in self.fixed
            and is_copy(maker) is None
        )

    def keep_peak(self, order: Sequence[Expr]) -> None:
        """Leaves concatenations to kernels, the last ones first, until the peak of memory is no higher than with kernels for all."""
        most = bytes_at_once(order, self.memory, {}, self.fixed)
        owners = list({owner: None for owner, _ in self.whole.values()})
        self.whole = without_first(
            self.whole,
            owners,
            lambda node: self.whole[node][0],
            lambda whole: bytes_at_once(order, self.memory, whole, self.fixed) <= most,
        )
        kept = {owner for owner, _ in self.whole.values()}
        self.calls = {node: parts for node, parts in self.calls.items() if self.at(node)[0] in kept}

    def at(self, node: Expr) -> tuple[Expr, int]:
        """(the value into whose memory a call writes, offset in bytes): the call itself and 0 unless it is a part."""
        return self.whole.get(node, (node, 0))

    def copied(self, node: Expr) -> list[tuple[Expr, int]]:
        """The parts of a concatenation that must be copied into it, with their offsets."""
        whole, first = self.at(node)
        return [(v, offset) for v, offset in self.calls[node] if self.at(self.source(v)) != (whole, first + offset)]


def without_first(
    places: dict[Expr, T], left_out: Sequence[Expr], key: Callable[[Expr], Expr], fits: Callable[[dict[Expr, T]], bool]
) -> dict[Expr, T]:
    """`places` without those whose key is among the first n of `left_out`, for the smallest n that fits, found by bisection."""

    def without(count: int) -> dict[Expr, T]:
        gone = set(left_out[:count])
        return {node: place for node, place in places.items() if key(node) not in gone}

    low, high = 0, len(left_out)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(without(middle)) else (middle + 1, high)
    return without(high)


def bytes_at_once(
    order: Sequence[Expr], memory: Memory, whole: dict[Expr, tuple[Expr, int]], fixed: Container[Expr]
) -> int:
    """The peak of memory in bytes. whole: values in the memory of others; fixed: values that have memory already."""
    ends: dict[Expr, int] = {}
    own = [
        (i, node)
        for i, node in enumerate(order)
        if has_known_memory(node) and memory.source(node) is node and node not in memory.cut
    ]
    for i, node in enumerate(order):
        if isinstance(node, Call) and memory.source(node) is node and node not in memory.cut:
            ends[node] = i
            ends.update(dict.fromkeys([x for a in node.args for x in memory.leaves(a)], i))
    ends.update(dict.fromkeys(memory.leaves(order[-1]), len(order)))
    found: dict[Expr, Storage] = {}
    for i, node in own:
        owner, _ = whole.get(node, (node, 0))
        if owner not in fixed:
            storage = found.setdefault(owner, Storage(bytes_of(owner), i, i))
            storage.end = max(storage.end, ends[node])
    return peak(list(found.values()))


def cut_at(func: Function) -> int | None:
    """The offset in bytes of a primitive function's result in its argument, if the function is a contiguous slice at a multiple of the
    alignment. None for functions that need a kernel."""
    if is_external(func) or not is_told_by_relay(func):
        return None
    offset, e = 0, without_reshapes(func.body)
    if isinstance(e, Var):
        return None
    while is_op(e, "strided_slice"):
        (t,), (of,) = tensor_types(e.checked_type), tensor_types(e.args[0].checked_type)
        if not is_static(t) or not is_static(of):
            return None
        begin = run_in(card_of(e, slicing.strided_slice).parts(len(of.shape)), of.concrete_shape)
        if begin is None:
            return None
        offset += begin * of.dtype.bytes
        e = without_reshapes(e.args[0])
    return offset if isinstance(e, Var) and offset % DATA_ALIGNMENT == 0 else None


def run_in(parts: Sequence[tuple[int, int, int, int]], shape: Sequence[int]) -> int | None:
    """The first element of a contiguous slice of a tensor, given by (axis, begin, end, stride). None for slices that are empty or not
    contiguous."""
    first, inside = 0, True
    bounds = {axis: (stride, *slice_bounds(shape[axis], begin, end, stride)) for axis, begin, end, stride in parts}
    for axis in reversed(range(len(shape))):
        stride, begin, count = bounds.get(axis, (1, 0, shape[axis]))
        if count == 0 or (count > 1 and (stride != 1 or not inside)):
            return None
        # All axes before a cut axis must have one position.
        inside &= count == shape[axis]
        first += begin * prod(shape[axis + 1 :])
    return first


def has_known_memory(e: Expr) -> bool:
    """Whether a kernel computes a value, and its sizes are static."""
    if not isinstance(e, Call) or not isinstance(e.op, Function) or not e.op.is_primitive:
        return False
    return all([is_static(t) for t in tensor_types(e.checked_type)])


def bytes_of(e: Expr) -> int:
    """The size in bytes of all tensors of a value."""
    return sum([static_bytes(t) for t in tensor_types(e.checked_type)])


def copying(t: TensorType) -> Function:
    """A primitive function that copies a tensor."""
    p = Var("p0", t)
    func = Function([p], constructor("copy")(p), t, (), {"Primitive": 1})
    infer_types(func)
    return func


def parts_of(node: Expr, source: Callable[[Expr], Expr]) -> list[tuple[Expr, int]] | None:
    """The parts of a call of a primitive function that only concatenates them in memory, with their offsets in bytes. Empty parts are left
    out. None for other calls, and if the offset of a part is not aligned for kernels."""
    if not isinstance(node, Call) or not isinstance(node.op, Function) or not node.op.is_primitive:
        return None
    func = node.op
    body = None if is_external(func) else without_reshapes(func.body)
    if not is_op(body, "concatenate") or not is_told_by_relay(func):
        return None
    (result,) = tensor_types(body.checked_type)
    axis = card_of(body, reshaping.concatenate).axis
    if not is_static(result) or any([d != 1 for d in result.concrete_shape[: axis % len(result.shape)]]):
        return None
    given: dict[Expr, Expr] = dict(zip(func.params, node.args, strict=True))
    joined = body.args[0]
    if isinstance(joined, Var):
        joined, given = source(given[joined]), {}
    if not isinstance(joined, Tuple):
        return None
    parts: list[tuple[Expr, int]] = []
    offset = 0
    for field in joined.fields:
        value = given.get(without_reshapes(field)) if given else field
        size = bytes_of(field)
        if value is None or (size and offset % DATA_ALIGNMENT):
            return None
        if size:
            parts.append((value, offset))
        offset += size
    return parts
