"""Words of programs between te and buffers: loads, stores and realizations of tensors that computations produce."""

from __future__ import annotations

from typing import Any

from tilewright.ir import Range, as_prim_expr
from tilewright.script.parser import Scope, ScriptParser
from tilewright.tir.buffer import extent_of
from tilewright.tir.expr import ProducerLoad as Load
from tilewright.tir.parser.values import ProducerRegion, is_producer, plain
from tilewright.tir.stmt import ProducerRealize as Realize
from tilewright.tir.stmt import Stmt


class RealizeScope(Scope):
    """The bounds within which a tensor exists in what follows."""

    what = "T.ProducerRealize"

    def __init__(self, region: ProducerRegion, condition: Any, storage_scope: str) -> None:
        self.region, self.condition, self.storage_scope = region, condition, storage_scope

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        return Realize(self.region.producer, self.region.bounds, self.condition, body, self.storage_scope)


def ProducerLoad(producer: Any, indices: Any) -> Load:
    """An element of a tensor."""
    if not is_producer(producer):
        raise TypeError(f"T.ProducerLoad takes a tensor of te, but was given {type(producer).__name__}: {producer!r}")
    return Load(producer, indices)


def ProducerRealize(buffer_slice: Any, condition: Any = True, storage_scope: str = "") -> RealizeScope:
    """The bounds `tensor[a:b, c:d]` within which a tensor exists in what follows."""
    if isinstance(buffer_slice, Load):
        points = [Range.from_min_extent(i, 1) for i in buffer_slice.indices]
        buffer_slice = ProducerRegion(buffer_slice.producer, tuple(points))
    if not isinstance(buffer_slice, ProducerRegion):
        raise TypeError(
            f"T.ProducerRealize takes bounds of a tensor of te such as X[0:8], but was given {type(buffer_slice).__name__}"
        )
    holds = as_prim_expr(plain(condition), "the condition of T.ProducerRealize")
    return RealizeScope(buffer_slice, holds, storage_scope)


def producer_region(producer: Any, index: Any) -> ProducerRegion:
    """The part of a tensor that slices describe."""
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) != len(producer.shape):
        raise TypeError(
            f"tensor {producer.name} has {len(producer.shape)} dimensions, but is indexed with {len(indices)}"
        )
    bounds = []
    for i, dim in zip(indices, producer.shape, strict=True):
        if not isinstance(i, slice):
            bounds.append(Range.from_min_extent(as_prim_expr(i), 1))
            continue
        begin = as_prim_expr(0 if i.start is None else i.start)
        bounds.append(Range.from_min_extent(begin, extent_of(begin, as_prim_expr(dim if i.stop is None else i.stop))))
    return ProducerRegion(producer, tuple(bounds))
