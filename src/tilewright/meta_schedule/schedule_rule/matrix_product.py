"""Which blocks, and which tensor intrinsics, are matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from tilewright.meta_schedule.blocks import only_store
from tilewright.node import nodes_of
from tilewright.support.errors import ScheduleError
from tilewright.tir import Block, BufferLoad
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.schedule.facts.leaves import DATA_PAR, leaves
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


class Unit(NamedTuple):
    """What an intrinsic computes. sizes: m, n and k. dtypes: of A, B and C. transposed: B is (n, k)."""

    sizes: tuple[int, int, int]
    dtypes: list[str]
    transposed: bool


def unit_of(name: str) -> Unit:
    """Raises ScheduleError for an intrinsic that is missing, or is no matrix product."""
    import_module("tilewright.tir.tensor_intrin.cuda")  # registers its instructions
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    a, b, c = [intrin.desc.buffer_map[p] for p in intrin.desc.params]
    (leaf,) = leaves(intrin.desc.body.block.body)  # type: ignore[attr-defined]
    product = product_of(leaf.block)
    if product is None or [len(axes) for axes in product[:4]] != [0, 1, 1, 1]:
        raise ScheduleError(f"the tensor intrinsic {name!r} is no matrix product")
    m, n, k = [int(leaf.block.iter_vars[axes[0]].dom.extent) for axes in product[1:4]]
    right = leaf.block.reads[product.places[1]].region
    transposed = right[0].min is leaf.block.iter_vars[product.n[0]].var
    return Unit((m, n, k), [str(x.dtype) for x in (a, b, c)], transposed)


def product_of(block: Block) -> Product | None:
    """The matrix product that a block computes; None unless it is one: C[..] = C[..] + A[..] * B[..], where A and B may be cast, and each
    variable is one of the rows, of the columns, of the sum, or of the batch."""
    store = only_store(block)
    if store is None:
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
        if key[0] != (iv.iter_type == DATA_PAR):
            return None
        parts.setdefault(key, []).append(i)
    b, m, n, k = [tuple(parts.pop(key, ())) for key in (ALL, ROWS, COLUMNS, STEPS)]
    # An axis of length 1 may be in none of them.
    if parts or not (m and n and k):
        return None
    reads = [r.buffer for r in block.reads]
    if len(set(reads)) != len(reads) or loads[0].buffer is loads[1].buffer:
        return None
    return Product(b, m, n, k, (reads.index(loads[0].buffer), reads.index(loads[1].buffer)))


def _is_product(value: Any, store: Any, loads: Sequence[Any]) -> bool:
    """Whether a value is the stored element plus the product of two loads."""
    total, product = value.a, value.b
    if type(total) is not BufferLoad:
        total, product = product, total
    if type(total) is not BufferLoad or total.buffer is not store.buffer or type(product).__name__ != "Mul":
        return False
    factors = [f.value if type(f).__name__ == "Cast" else f for f in (product.a, product.b)]
    return all([f is x for f, x in zip(factors, loads, strict=True)])
