"""Products in the form C[b.., m, n] += A[b.., m, k] * B[b.., k, n]: which blocks are products, and the steps that give them this form.

A convolution is one, too: its places are rows, its filters columns, and what it sums up are steps. The copy that gives its data this form
reads each place once for each step of the filter; it is inlined into the copy to shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.node import nodes_of
from tilewright.scheduling.block_views import constant_extent
from tilewright.tir import Block, BufferLoad, BufferStore, FloorDiv, IntImm, IterVar
from tilewright.tir.schedule import BlockRV, IndexMap, Schedule
from tilewright.tir.stmt_functor import used_vars

ALL, ROWS, COLUMNS, STEPS = (True, True, True), (True, True, False), (True, False, True), (False, True, True)
"""Whether C, A and B are indexed by a variable of the batch, of the rows, of the columns, of the sum."""


class Product(NamedTuple):
    """A matrix product: the numbers of a block's iteration variables by their part in C[b, m, n] += A[b, m, k] * B[b, k, n], and which of
    the block's reads A and B are."""

    b: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    places: tuple[int, int]


def extent_of_axis(block: Block, axis: int) -> int:
    """The extent of a block's iteration variable, by its number; 0 where it is not constant."""
    return constant_extent(block.iter_vars[axis])


class Staged(NamedTuple):
    """The copies that bring a product to its form: those of the operands, and that of the result."""

    operands: tuple[BlockRV, BlockRV]
    result: BlockRV


def product_of(block: Block) -> Product | None:
    """The matrix product that a block computes; None unless it is one: C[..] = C[..] + A[..] * B[..], where A and B may be cast, and each
    variable is one of the rows, of the columns, of the sum, or of the batch."""
    store = block.body
    if not isinstance(store, BufferStore):
        return None
    loads: list[Any] = [x for x in nodes_of(store.value, BufferLoad) if x.buffer is not store.buffer]
    if len(loads) != 2 or type(store.value).__name__ != "Add" or not _is_product(store.value, store, loads):
        return None
    variables = [iv.var for iv in block.iter_vars]
    accesses: tuple[Any, ...] = (store, *loads)
    used = [{v for i in x.indices for v in used_vars(i)} for x in accesses]
    parts: dict[tuple[bool, ...], list[int]] = {}
    for i, (v, iv) in enumerate(zip(variables, block.iter_vars, strict=True)):
        key = (v in used[0], v in used[1], v in used[2])
        if key[0] != (iv.iter_type == IterVar.DataPar):
            return None
        parts.setdefault(key, []).append(i)
    b, m, n, k = [parts.pop(key, []) for key in (ALL, ROWS, COLUMNS, STEPS)]
    for kind, axes in parts.items():
        # An axis of length 1 need not be in the indices.
        if any([extent_of_axis(block, i) != 1 for i in axes]):
            return None
        (m if kind[0] else k).extend(axes)
    if not (m and n and k):
        return None
    reads = [r.buffer for r in block.reads]
    if len(set(reads)) != len(reads) or loads[0].buffer is loads[1].buffer:
        return None
    return Product(tuple(b), tuple(m), tuple(n), tuple(k), (reads.index(loads[0].buffer), reads.index(loads[1].buffer)))


def _is_product(value: Any, store: Any, loads: Sequence[Any]) -> bool:
    """Whether a value is the stored element plus the product of two loads."""
    total, product = value.a, value.b
    if type(total) is not BufferLoad:
        total, product = product, total
    if type(total) is not BufferLoad or total.buffer is not store.buffer or type(product).__name__ != "Mul":
        return False
    factors = [f.value if type(f).__name__ == "Cast" else f for f in (product.a, product.b)]
    return all([f is x for f, x in zip(factors, loads, strict=True)])


LEAST_GROUP = 8
"""The least filters of a group that are worth a product."""


def divide_groups(sch: Schedule, block: BlockRV) -> None:
    """Gives a grouped convolution, whose filters f read the channels of group f // c, one axis for groups and one for filters of a group:
    a batch of products. Other blocks stay as they are."""
    made: Any = sch.get(block)
    if made.init is None or product_of(made) is not None or not isinstance(made.body, BufferStore):
        return
    axes = {iv.var: i for i, iv in enumerate(made.iter_vars) if iv.iter_type == IterVar.DataPar}
    found = {
        (axes[e.a], e.b.value)
        for load in nodes_of(made.body.value, BufferLoad)
        for index in load.indices
        for e in nodes_of(index, FloorDiv)
        if e.a in axes and isinstance(e.b, IntImm)
    }
    if len(found) != 1:
        return
    ((axis, size),) = found
    extent = made.iter_vars[axis].dom.extent
    if size < LEAST_GROUP or not isinstance(extent, IntImm) or extent.value % size:
        return

    def layout(*v: Any) -> list[Any]:
        return [*v[:axis], v[axis] // size, v[axis] % size, *v[axis + 1 :]]

    sch.transform_block_layout(block, IndexMap.from_func(layout, len(made.iter_vars)))


def runs_along(block: Block, place: int, axes: Sequence[int]) -> bool:
    """Whether neighbouring elements of a read are along one of these axes alone: the last index is the variable plus what does not depend
    on axes."""
    last = block.reads[place].region[-1].min
    used = used_vars(last)
    return any([block.iter_vars[i].var in used for i in axes]) and len(used) == 1


def as_product(
    sch: Schedule,
    block: BlockRV,
    product: Product,
    trans_a: bool = False,
    trans_b: bool = False,
    with_epilogue: bool = False,
) -> Staged:
    """Stages the operands and the result of a block in buffers of the form of a product, and gives the block one variable for each of its
    sides, after those of the batch. trans_a, trans_b: the buffers are (k, m) and (n, k). with_epilogue: what reads the result element by
    element is computed where it is copied to its place."""
    made: Any = sch.get(block)
    extents = [int(iv.dom.extent.value) for iv in made.iter_vars]
    first, second = product.places
    regions = (made.reads[first], made.reads[second], made.writes[0])
    # A staged buffer has the block's variables that it depends on as dimensions, in their order.
    held = [
        [i for i, iv in enumerate(made.iter_vars) if any([iv.var in used_vars(x.min) for x in r.region])]
        for r in regions
    ]
    operands = (sch.reindex(block, ("read", first)), sch.reindex(block, ("read", second)))
    result = sch.reindex(block, ("write", 0))
    if with_epilogue:
        inline_epilogue(sch, result)
    m, n, k = product.m, product.n, product.k
    left, right = (k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)

    def merged(*v: Any) -> list[Any]:
        sides = [_flat([v[i] for i in side], [extents[i] for i in side]) for side in (m, n, k)]
        return [*[v[i] for i in product.b], *sides]

    sch.transform_block_layout(block, IndexMap.from_func(merged, len(extents)))
    for copy, buffer, pair, own in zip(
        (*operands, result), (("read", first), ("read", second), ("write", 0)), (left, right, (m, n)), held, strict=True
    ):
        layout = _merging(product.b, pair, extents, own)
        sch.transform_block_layout(copy, layout)
        sch.transform_layout(block, buffer, layout)
    return Staged(operands, result)


def _merging(
    batch: Sequence[int], pair: Sequence[Sequence[int]], extents: Sequence[int], held: Sequence[int]
) -> IndexMap:
    """From the variables of a staged buffer, which are `held`, to (batch.., pair)."""

    def mapping(*v: Any) -> list[Any]:
        at = dict(zip(held, v, strict=True))
        flat = [_flat([at.get(i, 0) for i in side], [extents[i] for i in side]) for side in pair]
        return [*[at[i] for i in batch], *flat]

    return IndexMap.from_func(mapping, len(held))


def inline_into(sch: Schedule, copy: BlockRV) -> None:
    """Computes what an operand is made of, element by element, where it is copied."""
    for producer in sch.get_producers(copy):
        with sch.tried("the producer of an operand computed where it is copied") as step:
            sch.compute_inline(producer)
        if not step.refused:
            inline_into(sch, copy)
            return


def inline_epilogue(sch: Schedule, result: BlockRV) -> None:
    """Computes what reads a result element by element where the result is copied to its place."""
    while True:
        consumers = sch.get_consumers(result)
        made: Any = [sch.get(c) for c in consumers]
        if len(consumers) != 1 or any([axis.iter_type != IterVar.DataPar for axis in made[0].iter_vars]):
            return
        with sch.tried("the consumer of a product computed where the product is stored") as step:
            sch.reverse_compute_inline(consumers[0])
        if step.refused:
            return


def _flat(variables: Sequence[Any], extents: Sequence[int]) -> Any:
    """One index of several axes."""
    found: Any = None
    pairs = list(zip(variables, extents, strict=True))
    for v, extent in [(v, extent) for v, extent in pairs if extent != 1] or pairs[-1:]:
        found = v if found is None else found * extent + v
    return found


def padded(sch: Schedule, block: BlockRV, staged: Staged, sizes: tuple[int, int, int]) -> Staged:
    """Rounds the sides m, n and k of a product in its form up to multiples, with zeros. Returns the copies that do it."""
    extents = [
        loop.extent.value if isinstance(loop.extent, IntImm) else 1 for loop in map(sch.get, sch.get_loops(block))
    ]
    if not any([extent % size for extent, size in zip(extents[-3:], sizes, strict=True)]):
        return staged
    sch.pad_einsum(block, [*[1] * (len(extents) - 3), *sizes])
    operands = []
    for copy in staged.operands:
        (reader,) = sch.get_consumers(copy)
        if sch.get(reader) is not sch.get(block):
            sch.compute_inline(copy)
        operands.append(reader if sch.get(reader) is not sch.get(block) else copy)
    (reader,) = sch.get_consumers(block)
    if sch.get(reader) is not sch.get(staged.result):
        sch.reverse_compute_inline(staged.result)
    return Staged((operands[0], operands[1]), reader)


__all__ = [
    "Product",
    "Staged",
    "as_product",
    "divide_groups",
    "extent_of_axis",
    "inline_epilogue",
    "inline_into",
    "padded",
    "product_of",
    "runs_along",
]
