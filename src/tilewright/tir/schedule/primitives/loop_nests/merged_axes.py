"""merge_axes: adjacent axes of blocks become one, and with them the dimensions of buffers.

All candidates for merging are collected first: adjacent axes of a block, adjacent dimensions of a buffer. Candidates are
removed until no access would have to divide a merged axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, Visitor, on
from tilewright.tir import (
    LT,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IterVar,
    Stmt,
    Var,
)
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.schedule.primitives.rewrite import body_list, with_statements
from tilewright.tir.schedule.trace import BlockRV, primitive
from tilewright.tir.stmt_functor import used_vars

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule

MOST = (1 << 31) - 1
"""The most elements of a buffer, so that indices fit in 32 bits."""

TOLD = frozenset({"axis"})
"""Annotations of blocks that say nothing about merged axes. They are removed."""


@primitive
def merge_axes(s: Schedule, block: BlockRV | str) -> None:
    """for n, c, h, w: B[n, c, h, w] = f(A[n, c, h, w], b[c])   -->   for n, c, hw: B[n, c, hw] = f(A[n, c, hw], b[c])

    Merges the axes of the blocks directly below `block` that are adjacent in all buffers which these access, and removes
    axes of extent one. Buffers that `block` allocates get fewer dimensions. If it is the root block, parameters keep
    their shapes, and the blocks access views of them. Blocks in loops that were changed, and with annotations, keep their
    axes, as do buffers that they access. Handles of merged loops become invalid.
    """
    ref = s.block(block)
    old = ref.stmt
    parameters = (
        () if ref.parent is not None else tuple(s.state.functions[s.state.function_of(ref)].buffer_map.values())
    )
    plan = _Plan([_Nest(x) for x in body_list(old.body)], {*old.alloc_buffers, *parameters})
    if not plan.changes or old.match_buffers:
        return
    nests = [plan.rewritten(n) for n in plan.nests]
    body = with_statements(old.body, nests)
    views = [plan.buffer(b) for b in parameters if plan.buffer(b) is not b]
    for view in views:
        body = DeclBuffer(view, body)
    held = tuple([plan.buffer(b) for b in old.alloc_buffers])
    regions = {} if not views else {"reads": (), "writes": ()}
    s.state.replace(ref, old.replace(alloc_buffers=held, body=body, **regions), plan.reuse)


class _Nest:
    """One block below its own loops."""

    def __init__(self, stmt: Stmt) -> None:
        self.whole = stmt
        loops: dict[Var, For] = {}
        while isinstance(stmt, For):
            loops[stmt.loop_var] = stmt
            stmt = stmt.body
        self.block: Block | None = stmt.block if isinstance(stmt, BlockRealize) and is_plain(stmt, loops) else None
        self.loops = loops
        found = _Accesses()
        found.visit(stmt)
        self.accesses, self.elsewhere = found.places, found.elsewhere
        self.touched = found.buffers
        self.bounded = found.bounded
        self.extents = {iv.var: _int(iv.dom.extent) for iv in self.axes if iv.dom is not None}

    @property
    def axes(self) -> Sequence[IterVar]:
        return self.block.iter_vars if self.block is not None else ()


def is_plain(realize: BlockRealize, loops: Mapping[Var, For]) -> bool:
    """Whether a block has, in order, a serial loop over each axis with more than one iteration, no annotation, and no
    block inside. Axes have static extents and start at zero.
    """
    block = realize.block
    if not TOLD.issuperset(block.annotations) or block.alloc_buffers or block.match_buffers or not block.iter_vars:
        return False
    if leaves(block.body) or not isinstance(realize.predicate, IntImm):
        return False
    left = list(loops.values())
    for iv, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if iv.iter_type not in (IterVar.DataPar, IterVar.CommReduce) or iv.dom is None or _int(iv.dom.min) != 0:
            return False
        if isinstance(value, IntImm):
            if value.value != 0 or _int(iv.dom.extent) != 1:
                return False
        elif not left or value is not left[0].loop_var or not _runs_over(left.pop(0), _int(iv.dom.extent)):
            return False
    return not left


def _runs_over(loop: For, extent: int) -> bool:
    """Whether a loop is serial and runs over a domain."""
    return (
        loop.kind == ForKind.SERIAL and not loop.annotations and _int(loop.min) == 0 and _int(loop.extent) == extent > 0
    )


class _Accesses(Visitor):
    """Places where buffers are read and written, variables with uses other than indices, variables that are compared
    with a bound (the parts of a concatenation), and buffers with other uses.
    """

    def __init__(self) -> None:
        self.places: list[tuple[Buffer, Sequence[PrimExpr]]] = []
        self.buffers: dict[Buffer, bool] = {}
        self.elsewhere: set[Var] = set()
        self.bounded: set[Var] = set()

    @on(Var)
    def _var(self, v: Var) -> None:
        self.elsewhere.add(v)

    @on(LT)
    def _less(self, e: LT) -> None:
        if isinstance(e.a, Var) and isinstance(e.b, IntImm):
            self.bounded.add(e.a)
        else:
            self.visit(e.a)
            self.visit(e.b)

    @on(Buffer)
    def _buffer(self, b: Buffer) -> None:
        self.buffers[b] = False

    @on(Block)
    def _block(self, b: Block) -> None:
        for region in (*b.reads, *b.writes):
            points = all([_int(r.extent) == 1 for r in region.region])
            self.buffers[region.buffer] = points and self.buffers.get(region.buffer, True)
        for part in (b.init, b.body):
            if part is not None:
                self.visit(part)

    @on(BufferLoad)
    def _load(self, load: BufferLoad) -> None:
        self.places.append((load.buffer, load.indices))
        if load.predicate is not None:
            self.visit(load.predicate)
        for index in load.indices:
            self._inside(index)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.places.append((s.buffer, s.indices))
        self.visit(s.value)
        if s.predicate is not None:
            self.visit(s.predicate)
        for index in s.indices:
            self._inside(index)

    def _inside(self, index: PrimExpr) -> None:
        """The reads inside an index that is itself loaded from memory."""
        if not isinstance(index, Var):
            found = _Loads()
            found.visit(index)
            for load in found.loads:
                self._load(load)


class _Loads(Visitor):
    def __init__(self) -> None:
        self.loads: list[BufferLoad] = []

    @on(BufferLoad)
    def _load(self, load: BufferLoad) -> None:
        self.loads.append(load)


def _int(e: PrimExpr) -> int:
    return e.value if isinstance(e, IntImm) else -1


Pair = tuple[Var, Var]


class _Digits(NamedTuple):
    """The replacement of one or several merged axes of a block: one variable, with the extents of the axes."""

    axes: dict[Var, PrimExpr]
    wholes: dict[tuple[Any, ...], tuple[Var, list[int]]]
    analyzer: Analyzer


class _Plan:
    """The adjacent axes of blocks and dimensions of buffers to merge: all candidates, without those that an access
    forbids.
    """

    def __init__(self, nests: Sequence[_Nest], owned: set[Buffer]) -> None:
        self.nests = nests
        self.reuse: dict[Block, Block] = {}
        self.new: dict[Buffer, Buffer] = {}
        whole: dict[Buffer, bool] = {}
        for n in nests:
            for b, points in n.touched.items():
                whole[b] = whole.get(b, True) and points and n.block is not None
            for b, _ in n.accesses:
                whole.setdefault(b, n.block is not None)
        self.free = {b for b, points in whole.items() if points and b in owned and _compact(b)}
        counted = self._counted(nests)
        self.kept = {
            b: [d for d, e in enumerate(b.shape) if _int(e) != 1 or b not in self.free or (b, d) in counted]
            for b in whole
        }
        self.one = {b: set(range(len(self.kept[b]) - 1)) for b in self.free}
        """Buffer -> positions in `kept` of dimensions that are merged with the next one."""
        self.pairs: list[set[Pair]] = [self._possible(n) for n in nests]
        while self._settle():
            # The reads inside indices depend on the candidates so far.
            self.new.clear()

    @staticmethod
    def _counted(nests: Sequence[_Nest]) -> set[tuple[Buffer, int]]:
        """Dimensions that an axis with several iterations indexes, although they may have one element: a part of a
        concatenation.
        """
        return {
            (b, d) for n in nests for b, indices in n.accesses for d, e in enumerate(indices)
            if any([n.extents.get(v, 1) != 1 for v in used_vars(e)])
        }  # fmt: skip

    @staticmethod
    def _possible(nest: _Nest) -> set[Pair]:
        axes = [iv for iv in nest.axes if nest.extents[iv.var] != 1]
        return {
            (a.var, b.var) for a, b in pairwise(axes)
            if a.iter_type == b.iter_type and not {a.var, b.var} & nest.elsewhere and b.var not in nest.bounded
        }  # fmt: skip

    @property
    def changes(self) -> bool:
        steps = any([e == 1 for n in self.nests for e in n.extents.values()])
        return (
            steps
            or any(self.pairs)
            or any(self.one.values())
            or any([len(self.kept[b]) != len(b.shape) for b in self.free])
        )

    def _settle(self) -> bool:
        """Remove candidates that do not hold. Returns whether any was removed."""
        before = sum(map(len, self.pairs)) + sum(map(len, self.one.values()))
        for nest, pairs in zip(self.nests, self.pairs, strict=True):
            if nest.block is None:
                continue
            for pair in list(pairs):
                if any([self._apart(nest, b, indices, pair) for b, indices in nest.accesses]):
                    pairs.discard(pair)
            digits = None
            for b, indices in nest.accesses:
                for i in list(self.one.get(b, ())):
                    first, second = self.kept[b][i], self.kept[b][i + 1]
                    at = indices[first], indices[second]
                    axes = {v for e in at for v in used_vars(e) if nest.extents.get(v) != 1}
                    if len(axes) <= 1:
                        continue
                    good = any([axes.issuperset(p) for p in pairs])
                    if good and all([isinstance(e, Var) for e in at]):
                        good = at in pairs and _int(b.shape[second]) == nest.extents[at[1]]
                    elif good:
                        digits = digits or self._digits(nest, pairs)
                        good = len(used_vars(self._flat(b, indices, [first, second], digits))) <= 1
                    if not good:
                        self.one[b].discard(i)
        return before != sum(map(len, self.pairs)) + sum(map(len, self.one.values()))

    def _apart(self, nest: _Nest, b: Buffer, indices: Sequence[PrimExpr], pair: Pair) -> bool:
        """Whether an access would have to divide the merged axis of two axes."""
        found = [set(used_vars(i)) & set(pair) for i in indices]
        places = [d for d, f in enumerate(found) if f]
        if not places:
            return False
        if len(places) == 2 and not any([len(f) > 1 for f in found]):
            # Each axis indexes its own dimension. These must be merged, and the second must be as long as its axis.
            kept = self.kept[b]
            follow = any([[kept[i], kept[i + 1]] == places for i in self.one.get(b, ())])
            if not follow or _int(b.shape[places[1]]) != nest.extents[pair[1]] or found[places[0]] != {pair[0]}:
                return True
            if all([isinstance(indices[d], Var) for d in places]):
                return False
        digits = self._digits(nest, {pair})
        joined, _ = digits.wholes[pair]
        return any([_takes_apart(self._flat(b, indices, g, digits), joined) for g in self._groups(b)])

    def _groups(self, b: Buffer) -> list[list[int]]:
        """The dimensions of a buffer, grouped by merging."""
        out: list[list[int]] = []
        for i, d in enumerate(self.kept[b]):
            if i and i - 1 in self.one.get(b, ()):
                out[-1].append(d)
            else:
                out.append([d])
        return out

    def _digits(self, nest: _Nest, pairs: Iterable[Pair]) -> _Digits:
        """The replacements of a block's axes: digits of merged axes, and zero for axes of extent one."""
        made = _Digits({}, {}, Analyzer())
        for chain in self._chains(nest, pairs):
            extents = [nest.extents[v] for v in chain]
            if prod(extents) == 1:
                made.axes[chain[0]] = IntImm(chain[0].dtype, 0)
                continue
            one = chain[0] if len(chain) == 1 else Var(chain[0].name, chain[0].dtype)
            made.analyzer.bind(one, _range(one, prod(extents)))
            made.wholes[tuple(chain)] = one, extents
            for k, v in enumerate(chain if len(chain) > 1 else ()):
                behind = prod(extents[k + 1 :])
                digit = FloorDiv(one, IntImm(one.dtype, behind)) if behind > 1 else one
                made.axes[v] = FloorMod(digit, IntImm(one.dtype, extents[k])) if k else digit
        return made

    @staticmethod
    def _chains(nest: _Nest, pairs: Iterable[Pair]) -> list[list[Var]]:
        """The axes of a block, grouped by merging."""
        out: list[list[Var]] = []
        joined = set(pairs)
        for v in [iv.var for iv in nest.axes]:
            if nest.extents[v] == 1:
                out.append([v])
                continue
            last = next((c for c in reversed(out) if nest.extents[c[0]] != 1), None)
            if last and (last[-1], v) in joined:
                last.append(v)
            else:
                out.append([v])
        return out

    def _flat(self, b: Buffer, indices: Sequence[PrimExpr], dims: Sequence[int], digits: _Digits) -> PrimExpr:
        """The flat index in several dimensions of a buffer."""
        known = digits.wholes.get(tuple([indices[d] for d in dims]))
        if known is not None and known[1][1:] == [_int(b.shape[d]) for d in dims[1:]]:
            return known[0]
        put = _Put(self, digits)
        place = put.visit(indices[dims[0]])
        if len(dims) == 1 and place is indices[dims[0]]:
            return place
        # Parts of one type first: what a conversion hides would not be seen to be the merged axis.
        parts: list[PrimExpr] = []
        for d in dims[1:]:
            index = put.visit(indices[d])
            if index.dtype != place.dtype:
                parts.append(digits.analyzer.simplify(place))
            parts = [p * b.shape[d] for p in parts]
            place = index if index.dtype != place.dtype else place * b.shape[d] + index
        place = digits.analyzer.simplify(place)
        for part in reversed(parts):
            place = part + place
        return digits.analyzer.simplify(place) if parts else place

    def buffer(self, b: Buffer) -> Buffer:
        """The buffer with merged dimensions."""
        if b not in self.free:
            return b
        if b not in self.new:
            shape = [prod([_int(b.shape[d]) for d in g]) for g in self._groups(b)]
            same = len(shape) == len(b.shape)
            self.new[b] = b if same else b.replace(shape=tuple([IntImm(b.shape[0].dtype, e) for e in shape]))
        return self.new[b]

    def place(self, b: Buffer, indices: Sequence[PrimExpr], digits: _Digits) -> tuple[PrimExpr, ...]:
        return tuple([self._flat(b, indices, g, digits) for g in self._groups(b)])

    def rewritten(self, nest: _Nest) -> Stmt:
        """The block with merged axes, below one loop for each."""
        block = nest.block
        if block is None:
            return nest.whole
        pairs = self.pairs[self.nests.index(nest)]
        digits = self._digits(nest, pairs)
        kinds = {iv.var: iv.iter_type for iv in nest.axes}
        realize = _realize(nest.whole)
        looped = {iv.var: not isinstance(v, IntImm) for iv, v in zip(nest.axes, realize.iter_values, strict=True)}
        axes: dict[IterVar, bool] = {}
        for chain in self._needed(nest, self._chains(nest, pairs), kinds):
            var = chain[0] if len(chain) == 1 else digits.wholes[tuple(chain)][0]
            axis = IterVar(_range(var, prod([nest.extents[v] for v in chain])), var, kinds[chain[0]])
            axes[axis] = looped[chain[0]]
        put = _Put(self, digits)
        body, init = put.visit(block.body), put.visit(block.init) if block.init is not None else None
        reads, writes = [tuple([put.region(r) for r in regions]) for regions in (block.reads, block.writes)]
        inner = block.replace(iter_vars=tuple(axes), body=body, init=init, reads=reads, writes=writes, annotations={})
        self.reuse[block] = inner
        loops = {iv: Var(iv.var.name.removeprefix("v_"), iv.var.dtype) for iv, loop in axes.items() if loop}
        values = [loops.get(iv, IntImm(iv.var.dtype, 0)) for iv in axes]
        out: Stmt = realize.replace(iter_values=tuple(values), block=inner)
        for iv, v in reversed(loops.items()):
            assert iv.dom is not None
            out = For(v, iv.dom.min, iv.dom.extent, ForKind.SERIAL, out)
        return out

    @staticmethod
    def _needed(nest: _Nest, chains: list[list[Var]], kinds: dict[Var, int]) -> list[list[Var]]:
        """Axes with several iterations, and at least one of each kind: a reduction block needs a reduction axis."""
        needed = [c for c in chains if nest.extents[c[0]] != 1]
        for kind in set(kinds.values()):
            mine = [c for c in chains if kinds[c[0]] == kind]
            if not any([c in needed for c in mine]) and (kind == IterVar.CommReduce or not needed):
                needed.append(mine[-1])
        return [c for c in chains if c in needed]


def _realize(stmt: Stmt) -> BlockRealize:
    while isinstance(stmt, For):
        stmt = stmt.body
    assert isinstance(stmt, BlockRealize)
    return stmt


def _range(var: Var, extent: int) -> Range:
    return Range(IntImm(var.dtype, 0), IntImm(var.dtype, extent))


def _compact(b: Buffer) -> bool:
    if b.strides or b.axis_separators or not b.shape or not all([_int(e) > 0 for e in b.shape]):
        return False
    return prod([_int(e) for e in b.shape]) <= MOST


def _takes_apart(e: PrimExpr, joined: Var) -> bool:
    """Whether an index divides a merged axis."""
    found = _Divided()
    found.visit(e)
    return any([joined in used_vars(d) for d in found.divided])


class _Divided(Visitor):
    def __init__(self) -> None:
        self.divided: list[PrimExpr] = []

    @on(FloorDiv, FloorMod)
    def _divide(self, e: FloorDiv | FloorMod) -> None:
        self.divided.append(e)


class _Put(Mutator):
    """Rewrites accesses to the new buffers and axes."""

    def __init__(self, plan: _Plan, digits: _Digits) -> None:
        self.plan, self.digits = plan, digits

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.digits.axes.get(v, v)

    @on(LT)
    def _less(self, e: LT) -> PrimExpr:
        """Compare the merged axis: v // n < bound   -->   v < bound * n"""
        a, b = self.visit(e.a), self.visit(e.b)
        if a is not e.a and isinstance(a, FloorDiv) and isinstance(a.b, IntImm) and isinstance(b, IntImm):
            return LT(a.a, IntImm(b.dtype, b.value * a.b.value))
        return e if a is e.a and b is e.b else LT(a, b)

    @on(BufferLoad)
    def _load(self, load: BufferLoad) -> BufferLoad:
        places = self.plan.place(load.buffer, load.indices, self.digits)
        predicate = None if load.predicate is None else self.visit(load.predicate)
        return load.replace(buffer=self.plan.buffer(load.buffer), indices=places, predicate=predicate)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> BufferStore:
        places = self.plan.place(s.buffer, s.indices, self.digits)
        predicate = None if s.predicate is None else self.visit(s.predicate)
        buffer = self.plan.buffer(s.buffer)
        return s.replace(buffer=buffer, indices=places, value=self.visit(s.value), predicate=predicate)

    def region(self, r: BufferRegion) -> BufferRegion:
        if r.buffer not in self.plan.free:
            return r.replace(region=tuple([d.replace(min=self.visit(d.min)) for d in r.region]))
        places = self.plan.place(r.buffer, [d.min for d in r.region], self.digits)
        region = tuple([Range.from_min_extent(p, IntImm(p.dtype, 1)) for p in places])
        return r.replace(buffer=self.plan.buffer(r.buffer), region=region)
