"""Other forms of a program that compute the same: what a primitive takes for granted of usual programs does not hold there."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.ir import IntImm, Range
from tilewright.node import Mutator, post_order_visit
from tilewright.tir import (
    LT,
    And,
    Block,
    BlockRealize,
    BufferRegion,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    SeqStmt,
    Var,
)
from tilewright.tir.stmt_functor import substitute, used_vars

REDUCE = IterVar.CommReduce


class _Swap(Mutator):
    """Puts one statement in the place of another."""

    def __init__(self, old: Any, new: Any) -> None:
        super().__init__()
        self.old, self.new = old, new

    def visit(self, node: Any) -> Any:
        return self.new if node is self.old else super().visit(node)


def _swapped(body: Any, old: Any, new: Any) -> Any:
    return _Swap(old, new).visit(body)


def _found(body: Any, kind: type) -> list[Any]:
    out: list[Any] = []
    post_order_visit(body, lambda s: out.append(s) if type(s) is kind else None)
    return out


def _shift(body: Any, rng: random.Random) -> Any:
    """block(v in n = i): S[v]   -->   block(v in (c, n + c) = i + c): S[v - c]"""
    realizes = [r for r in _found(body, BlockRealize) if r.block.iter_vars]
    if not realizes:
        return body
    realize = rng.choice(realizes)
    block, at = realize.block, rng.randrange(len(realize.block.iter_vars))
    c, iv = rng.choice([1, 2, 3, 4, -1]), block.iter_vars[at]
    new = substitute(block, {iv.var: iv.var - c})
    iters = list(block.iter_vars)
    iters[at] = IterVar(Range.from_min_extent(iv.dom.min + c, iv.dom.extent), iv.var, iv.iter_type)
    values = list(realize.iter_values)
    values[at] = values[at] + c
    return _swapped(
        body, realize, realize.replace(block=new.replace(iter_vars=tuple(iters)), iter_values=tuple(values))
    )


def _unit_axis(body: Any, rng: random.Random) -> Any:
    """block(v = i): S   -->   block(v = i, u in (c, c + 1) = c): S"""
    realizes = [r for r in _found(body, BlockRealize) if r.block.iter_vars]
    if not realizes:
        return body
    realize = rng.choice(realizes)
    c, at = rng.choice([0, 1, 3]), rng.randint(0, len(realize.iter_values))
    axis = IterVar(Range.from_min_extent(IntImm("int32", c), IntImm("int32", 1)), Var("unit", "int32"), IterVar.DataPar)
    iters, values = list(realize.block.iter_vars), list(realize.iter_values)
    iters.insert(at, axis)
    values.insert(at, IntImm("int32", c))
    return _swapped(
        body, realize, realize.replace(block=realize.block.replace(iter_vars=tuple(iters)), iter_values=tuple(values))
    )


def _nests(body: Any) -> Iterator[Any]:
    """The outermost loops of the root block."""
    for s in body.seq if type(body) is SeqStmt else (body,):
        if type(s) is For:
            yield s


def _repeat(body: Any, rng: random.Random) -> Any:
    """S   -->   for t in 2: S, somewhere outside of its reduction loops"""
    fit = []
    for nest in _nests(body):
        blocks = _found(nest, Block)
        written = {r.buffer for b in blocks for r in b.writes}
        if all([b.init is not None or all([r.buffer not in written for r in b.reads]) for b in blocks]):
            fit.append(nest)
    if not fit:
        return body
    nest = rng.choice(fit)
    realizes = _found(nest, BlockRealize)
    reduced = {
        v
        for r in realizes
        for iv, value in zip(r.block.iter_vars, r.iter_values, strict=True)
        if iv.iter_type == REDUCE
        for v in used_vars(value)
    }
    t = Var("t", "int32")
    inner = nest
    while rng.random() < 0.5 and inner.loop_var not in reduced and type(inner.body) is For:
        inner = inner.body
    return _swapped(body, inner, For(t, 0, rng.choice([2, 3]), ForKind.SERIAL, inner))


def _widen(body: Any, rng: random.Random) -> Any:
    """for i in n: S   -->   for i in n + c: where(i < n) S"""
    loops = [
        f for f in _found(body, For) if isinstance(f.extent, IntImm) and f.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    ]
    loops = [f for f in loops if isinstance(f.min, IntImm) and f.min.value == 0 and _bare(f.body)]
    if not loops:
        return body
    loop = rng.choice(loops)

    class Guard(Mutator):
        def visit(self, node: Any) -> Any:
            if type(node) is BlockRealize:
                limit = LT(loop.loop_var, loop.extent)
                whole = isinstance(node.predicate, IntImm)
                return node.replace(predicate=limit if whole else And(node.predicate, limit))
            return super().visit(node)

    wider = IntImm(loop.extent.dtype, loop.extent.value + rng.choice([1, 2, 3]))
    return _swapped(body, loop, loop.replace(extent=wider, body=Guard().visit(loop.body)))


def _bare(body: Any) -> bool:
    """Whether there are only loops down to the blocks."""
    if type(body) is SeqStmt:
        return all([_bare(s) for s in body.seq])
    return type(body) is BlockRealize or (type(body) is For and _bare(body.body))


def _mirror(body: Any, rng: random.Random) -> Any:
    """for i in n: S[i]   -->   for i in n: S[n - 1 - i], where no order is to be kept"""
    fit = []
    for loop in _found(body, For):
        blocks = _found(loop.body, Block)
        written = {r.buffer for b in blocks for r in b.writes}
        plain = all([b.init is None and all([iv.iter_type != REDUCE for iv in b.iter_vars]) for b in blocks])
        alone = len(blocks) == 1 and all([r.buffer not in written for b in blocks for r in b.reads])
        if plain and alone and _bare(loop.body) and isinstance(loop.min, IntImm) and loop.min.value == 0:
            target = blocks[0].writes
            if all([r.buffer is not q.buffer for i, r in enumerate(target) for q in target[:i]]):
                fit.append(loop)
    if not fit:
        return body
    loop = rng.choice(fit)
    return _swapped(
        body, loop, loop.replace(body=substitute(loop.body, {loop.loop_var: loop.extent - 1 - loop.loop_var}))
    )


def _wrap(body: Any, rng: random.Random) -> Any:
    """S   -->   block(): S"""
    nests = [n for n in _nests(body) if _bare(n)]
    if not nests:
        return body
    nest = rng.choice(nests)
    blocks = _found(nest, Block)

    def whole(regions: list[Any]) -> tuple[Any, ...]:
        buffers = list(dict.fromkeys([r.buffer for r in regions]))
        return tuple([BufferRegion(b, tuple([Range.from_min_extent(0, n) for n in b.shape])) for b in buffers])

    reads, writes = [r for b in blocks for r in b.reads], [r for b in blocks for r in b.writes]
    block = Block((), whole(reads), whole(writes), f"{blocks[0].name_hint}_around", nest)
    return _swapped(body, nest, BlockRealize((), IntImm("bool", 1), block))


FORMS: list[Callable[[Any, random.Random], Any]] = [_shift, _shift, _unit_axis, _repeat, _widen, _mirror, _wrap]


def disguise(func: PrimFunc, rng: random.Random, most: int = 3) -> PrimFunc:
    """The function after some of these changes, at random."""
    root = func.body
    body = root.block.body
    for _ in range(rng.randint(1, most)):
        body = rng.choice(FORMS)(body, rng)
    return func.replace(body=root.replace(block=root.block.replace(body=body)))
