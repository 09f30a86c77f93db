"""Where buffers are accessed: the innermost loop or block that holds all accesses of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm
from tilewright.node import Visitor, any_node, on
from tilewright.tir.analysis.flow import Accesses
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, LetStmt, MatchBufferRegion, Stmt
from tilewright.tir.stmt_functor import used_vars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.ir import PrimExpr


INDEPENDENT = (ForKind.PARALLEL, ForKind.THREAD_BINDING)
"""Loops whose steps cannot hand values on."""


class Place:
    """A loop or block on the way from the root; `node` is None at the function itself."""

    __slots__ = ("depth", "node", "parent")

    def __init__(self, node: Stmt | None, parent: Place | None) -> None:
        self.node, self.parent = node, parent
        self.depth: int = 0 if parent is None else parent.depth + 1


def common(a: Place, b: Place) -> Place:
    """The innermost place above both."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


class _Accesses(Visitor):
    def __init__(self) -> None:
        self.here = Place(None, None)
        self.found: dict[Buffer, Place] = {}
        self.safe: dict[Buffer, Place] = {}
        self.declared: dict[Buffer, Place] = {}
        self.by_data: dict[Var, list[Buffer]] = {}
        self.loops: dict[Var, Place] = {}
        self.env: dict[Var, set[Var]] = {}
        self.carried: dict[Buffer, Place] = {}
        self.indices: dict[Buffer, list[Sequence[PrimExpr]]] = {}
        """Where each buffer of unknown size is accessed."""
        self.data: set[Var] = set()
        """Variables whose values are loaded."""

    def loop_vars(self, value: PrimExpr) -> set[Var]:
        """Loop variables that a value depends on, through the block variables above it."""
        found: set[Var] = set()
        for v in used_vars(value):
            found.update(self.env.get(v, (v,)))
        return found

    def is_long(self, index: PrimExpr, around: set[Place]) -> bool:
        """Whether an index takes a number of values that is unknown where all loops but those around it have run."""
        if any_node(index, lambda n: isinstance(n, BufferLoad) or n in self.data):
            return True
        loops = [self.loops[v] for v in self.loop_vars(index) if v in self.loops]
        return any(
            [p not in around and not isinstance(p.node.extent, IntImm) for p in loops if isinstance(p.node, For)]
        )

    def note(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
        self.touch(buffer)
        if not all([isinstance(extent, IntImm) for extent in buffer.shape]):
            self.indices.setdefault(buffer, []).append(indices)

    def touch(self, buffer: Buffer, whole: bool = False) -> None:
        """Notes an access here. whole: it is a block's, whose view is made before the block."""
        at = self.here
        carried = self.carried.get(buffer)
        if carried is not None:
            at = carried
        old = self.found.get(buffer)
        self.found[buffer] = at if old is None else common(old, at)
        # Serial loops of a block's own body may carry values from step to step.
        while (
            not whole
            and carried is None
            and isinstance(at.node, For)
            and at.node.kind not in INDEPENDENT
            and at.parent is not None
        ):
            at = at.parent
        old = self.safe.get(buffer)
        self.safe[buffer] = at if old is None else common(old, at)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.note(e.buffer, e.indices)
        for i in e.indices:
            self.visit(i)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.note(s.buffer, s.indices)
        self.visit(s.value)
        for i in s.indices:
            self.visit(i)

    @on(MatchBufferRegion)
    def _match(self, m: MatchBufferRegion) -> None:
        self.touch(m.source.buffer, whole=True)

    @on(Var)
    def _var(self, v: Var) -> None:
        for buffer in self.by_data.get(v, ()):
            self.touch(buffer)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self.visit(s.value)
        self.env[s.var] = self.loop_vars(s.value)
        if any_node(s.value, lambda n: isinstance(n, BufferLoad) or n in self.data):
            self.data.add(s.var)
        self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        outer = self.here
        self.here = Place(s, outer)
        self.loops[s.loop_var] = self.here
        self.visit(s.body)
        self.here = outer

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        self.visit(s.predicate)
        for value in s.iter_values:
            self.visit(value)
        block = s.block
        ordered: Place | None = None
        for axis, value in zip(block.iter_vars, s.iter_values, strict=True):
            uses = self.loop_vars(value)
            self.env[axis.var] = uses
            if axis.iter_type != IterVar.DataPar:
                for v in uses:
                    loop = self.loops.get(v)
                    if loop is not None and loop.parent is not None:
                        ordered = loop.parent if ordered is None or loop.parent.depth < ordered.depth else ordered
        saved = self.carried
        if ordered is not None:
            # What such a block writes carries values from step to step: it lives outside of those loops.
            self.carried = dict(saved)
            for region in block.writes:
                old = saved.get(region.buffer)
                self.carried[region.buffer] = ordered if old is None or ordered.depth < old.depth else old
        self.visit(block)
        self.carried = saved

    @on(Block)
    def _block(self, block: Block) -> None:
        outer = self.here
        # Views are made before what the block allocates.
        for m in block.match_buffers:
            self.visit(m)
        self.here = Place(block, outer)
        for buffer in block.alloc_buffers:
            self.declared[buffer] = self.here
            self.by_data.setdefault(buffer.data, []).append(buffer)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.here = outer


def _outside_of_carrying(place: Place, declared: Place, buffer: Buffer, settled: Any) -> Place:
    """The innermost place from here on outwards where no value in the buffer goes from step to step of a loop around it.

    `settled` proves that; steps of some kinds of loops are independent without a proof.
    """
    at = place
    while at is not declared:
        loops, up = [], at
        while up is not declared and up.parent is not None:
            loops += [up.node] if isinstance(up.node, For) else []
            up = up.parent
        if all([lp.kind in INDEPENDENT for lp in loops]) or settled(buffer, at.node):
            return at
        while at is not declared and not isinstance(at.node, For):
            assert at.parent is not None
            at = at.parent
        if at is not declared:
            assert at.parent is not None
            at = at.parent
    return declared


def _above(place: Place, declared: Place) -> Iterator[Place]:
    """The places from one outwards, up to that of the declaration, without it."""
    while place is not declared:
        yield place
        assert place.parent is not None
        place = place.parent


def _outside_of_threads(place: Place, declared: Place, buffer: Buffer, walk: _Accesses) -> Place:
    """A place where the memory can be taken: a thread of a device has none of unknown size.

    An index that runs through a loop of unknown extent, or is data, keeps an axis of unknown size as long as it is.
    """
    launches = [p for p in _above(place, declared) if isinstance(p.node, For) and p.node.kind == ForKind.THREAD_BINDING]
    if not launches or buffer.scope() != "global" or buffer not in walk.indices:
        return place
    around: set[Place] = set()
    above: Place | None = place
    while above is not None:
        around.add(above)
        above = above.parent
    unknown = [k for k, extent in enumerate(buffer.shape) if not isinstance(extent, IntImm)]
    if not any([walk.is_long(indices[k], around) for indices in walk.indices[buffer] for k in unknown]):
        return place
    assert launches[-1].parent is not None
    return launches[-1].parent


def find_places(func: PrimFunc) -> dict[Buffer, Place]:
    """For each buffer that a block allocates and that is used: the place where its allocation belongs."""
    walk = _Accesses()
    walk.visit(func.body)
    out: dict[Buffer, Place] = {}
    accesses: Accesses | None = None

    def settled(buffer: Buffer, node: Stmt) -> bool:
        nonlocal accesses
        accesses = accesses or Accesses(func)
        return accesses.settled(buffer, node)

    for buffer, declared in walk.declared.items():
        place = walk.safe.get(buffer)
        if place is None:
            continue
        if place.depth < declared.depth:
            place = declared
        place = _outside_of_carrying(place, declared, buffer, settled)
        place = _outside_of_threads(place, declared, buffer, walk)
        # Lanes of a vector loop would share what is allocated inside of it.
        above: Place | None = place
        while above is not None and above is not declared:
            if isinstance(above.node, For) and above.node.kind == ForKind.VECTORIZED:
                assert above.parent is not None
                place = above.parent
            above = above.parent
        if place.node is None:
            continue
        out[buffer] = place
    return out


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """Each accessed buffer -> the innermost For or Block that holds all accesses; None: only the function does."""
    walk = _Accesses()
    walk.visit(func.body)
    return {buffer: place.node for buffer, place in walk.found.items()}
