"""Facts about a kernel from its unscheduled tensors: operations, bytes to move, and inputs that it may overwrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from tilewright import te, tir
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Visitor, on, structural_equal
from tilewright.tir.expr import BinaryOpExpr, IterVar, ProducerLoad, Reduce


class KernelFacts(NamedTuple):
    """Facts about a kernel. flops: arithmetic operations of one call; products: the element types of factors and sums, if it sums
    products; traffic: bytes of each input and output that one call must move; flops and traffic are 0 and empty for dynamic sizes;
    in_place: inputs that the output may overwrite, since each element is read before it is written; multiply_adds: the operations of sums
    of products of two tensors, which no schedule avoids; overlaps: inputs over which the output may lie, and how many bytes before them."""

    flops: int = 0
    products: Sequence[str] = ()
    traffic: Sequence[int] = ()
    in_place: Sequence[int] = ()
    multiply_adds: int = 0
    overlaps: Sequence[Sequence[int]] = ()

    @property
    def shared(self) -> tuple[int, ...]:
        """The inputs whose memory the output may use."""
        return tuple(sorted({*self.in_place, *[k for k, _ in self.overlaps]}))


def compute_ops(outputs: Sequence[te.Tensor]) -> list[te.ComputeOp]:
    """The compute operations that produce `outputs`, producers first."""
    order: list[te.ComputeOp] = []
    seen: set[te.Operation] = set()
    stack: list[tuple[te.Operation, bool]] = [(t.op, False) for t in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if ready:
            if isinstance(op, te.ComputeOp):
                order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack += [(t.op, False) for t in op.input_tensors]
    return order


class _Arithmetic(Visitor):
    """Counts the floating point operations and multiply-accumulates of one element, and collects its loads, with those in indices."""

    def __init__(self) -> None:
        self.count = 0
        self.loads: list[ProducerLoad] = []

    @on(tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Max, tir.Min)
    def _binary(self, e: BinaryOpExpr) -> None:
        self.count += e.dtype.is_float
        self.visit_children(e)

    @on(tir.Call)
    def _call(self, e: tir.Call) -> None:
        self.count += e.dtype.is_float
        self.visit_children(e)

    @on(ProducerLoad)
    def _load(self, e: ProducerLoad) -> None:
        # Indices may have loads too, but their arithmetic is not counted.
        self.loads.append(e)
        count = self.count
        self.visit_children(e)
        self.count = count

    @on(Reduce)
    def _reduce(self, e: Reduce) -> None:
        self.count += len(e.source)
        for s in e.source:
            # Summed products of integers are counted too.
            self.count += isinstance(s, tir.Mul) and not s.dtype.is_float
            self.visit(s)


def flops_of(ops: Sequence[te.ComputeOp]) -> int:
    """The arithmetic operations of one call, summed over the elements of all stages. A multiply-accumulate counts as two."""
    return sum([_operations(op) for op in ops])


def _operations(op: te.ComputeOp) -> int:
    counter = _Arithmetic()
    for e in op.body:
        counter.visit(e)
    return prod(_extents(op).values()) * counter.count


def products_of(ops: Sequence[te.ComputeOp]) -> tuple[str, ...]:
    """The element types of both factors and of the sum in the costliest sum of products; empty without such sums."""
    found = [(_operations(op), source) for op in ops for source in _summed(op) if isinstance(source, tir.Mul)]
    if not found:
        return ()
    _, product = max(found, key=lambda item: item[0])
    factors = [e.value if isinstance(e, tir.Cast) else e for e in (product.a, product.b)]
    return str(factors[0].dtype), str(factors[1].dtype), str(product.dtype)


def multiply_adds_of(ops: Sequence[te.ComputeOp]) -> int:
    """The operations of sums of products whose factors are both read. Products with constants, as in the transforms of Winograd's form, are
    additions of some elements to others, however they are written."""

    def is_read(e: PrimExpr) -> bool:
        counter = _Arithmetic()
        counter.visit(e)
        return bool(counter.loads)

    products = [
        op for op in ops if any([isinstance(s, tir.Mul) and is_read(s.a) and is_read(s.b) for s in _summed(op)])
    ]
    return sum([_operations(op) for op in products])


def _summed(op: te.ComputeOp) -> tuple[PrimExpr, ...]:
    first = op.body[0]
    return first.source if isinstance(first, Reduce) else ()


def _extents(op: te.ComputeOp) -> dict[tir.Var, int]:
    """The extents of an operation's axes; 0 for dynamic ones."""
    extents = {axis.var: axis.dom.extent for axis in op.loop_axes if axis.dom is not None}
    return {var: e.value if isinstance(e, IntImm) else 0 for var, e in extents.items()}


def bytes_read(
    inputs: Sequence[te.Tensor], outputs: Sequence[te.Tensor], ops: Sequence[te.ComputeOp]
) -> tuple[int, ...]:
    """The bytes of each input that one call must read. Each element counts once; of an input that is gathered or sliced, at most as many
    elements as the axes in its indices have values. ops: all compute operations that produce `outputs`. Shapes must be static."""
    loads: dict[te.Tensor, int] = dict.fromkeys(inputs, 0)
    for op in ops:
        finder, extents = _Arithmetic(), _extents(op)
        for e in op.body:
            finder.visit(e)
        for load in finder.loads:
            if load.producer in loads:
                loads[load.producer] += _places(load, extents)
    # Operations without expressions may read anything, so their inputs count as a whole.
    whole = {t for op in _other_operations(outputs) for t in op.input_tensors}
    return tuple([_size(t) if t in whole else min(_size(t), n * t.dtype.bytes) for t, n in loads.items()])


def _size(t: te.Tensor) -> int:
    return prod([d.value for d in t.shape if isinstance(d, IntImm)]) * int(t.dtype.bytes)


def loads_of(op: te.ComputeOp) -> list[ProducerLoad]:
    """What an operation reads."""
    finder = _Arithmetic()
    for e in op.body:
        finder.visit(e)
    return finder.loads


def _places(load: ProducerLoad, extents: Mapping[tir.Var, int]) -> int:
    """The most elements that a load reads: one for each value of the axes in its indices."""
    finder = _Variables()
    for index in load.indices:
        finder.visit(index)
    return prod([n for var, n in extents.items() if var in finder.found or finder.found - extents.keys()])


class _Variables(Visitor):
    """Collects the variables in expressions."""

    def __init__(self) -> None:
        self.found: set[tir.Var] = set()

    @on(tir.Var)
    def _var(self, e: tir.Var) -> None:
        self.found.add(e)


def in_place_inputs(
    inputs: Sequence[te.Tensor], outputs: Sequence[te.Tensor], ops: Sequence[te.ComputeOp]
) -> tuple[int, ...]:
    """The inputs whose storage the single output may take: those of its shape and dtype of which each element is read only where the same
    element of the output is computed, once. So an epilogue may overwrite the tensor that it adds to a convolution."""
    if len(outputs) != 1:
        return ()
    out = outputs[0]
    # Tensors that are read element by element where the output is computed, and tensors that are read in other ways.
    along: set[te.Tensor] = {out}
    wrong: set[te.Tensor] = set()
    # Consumers come first.
    for op in reversed(ops):
        finder = _Arithmetic()
        for e in op.body:
            finder.visit(e)
        clean = not op.reduce_axis and all([t in along and t not in wrong for t in op.outputs])
        for load in finder.loads:
            (along if clean and _same(load.indices, op.axis) else wrong).add(load.producer)
    fitting = {t for t in along - wrong if t.dtype == out.dtype and same_shape(t.shape, out.shape)}
    if fitting.isdisjoint(inputs) or _other_operations(outputs):
        return ()
    return tuple([i for i, t in enumerate(inputs) if t in fitting])


def _other_operations(outputs: Sequence[te.Tensor]) -> list[te.Operation]:
    """Operations whose reads are not known: those written as statements, and external ones."""
    found, stack = [], [t.op for t in outputs]
    seen = set(stack)
    while stack:
        op = stack.pop()
        if not isinstance(op, (te.ComputeOp, te.PlaceholderOp)):
            found.append(op)
        for t in op.input_tensors:
            if t.op not in seen:
                seen.add(t.op)
                stack.append(t.op)
    return found


def same_shape(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(a) == len(b) and all([structural_equal(x, y) for x, y in zip(a, b, strict=True)])


def _same(indices: Sequence[PrimExpr], axes: Sequence[IterVar]) -> bool:
    return len(indices) == len(axes) and all([i is a.var for i, a in zip(indices, axes, strict=True)])
