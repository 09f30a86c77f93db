"""What a program does, by its statements that store: the loops around each, what it reads and writes, and what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    While,
)
from tilewright.tir.expr import HANDLE, Cast
from tilewright.tuning.features.arithmetic import KINDS, Counts, operations
from tilewright.tuning.features.conditions import share_of
from tilewright.tuning.features.linear import Digit, Indices, Linear

UNROLL_STEPS = ("pragma_auto_unroll_max_step", "auto_unroll_max_step")


class Loop:
    """A loop around a statement: its number of iterations (at most), its kind (`ForKind`), and the body size up to which it is unrolled."""

    __slots__ = ("extent", "kind", "unroll_step")

    def __init__(self, extent: int, kind: int, unroll_step: int) -> None:
        self.extent, self.kind, self.unroll_step = extent, kind, unroll_step


class Access:
    """A load or a store: the index of each dimension, and elements from there on (`box`, 1 each unless an intrinsic takes a region)."""

    __slots__ = ("box", "buffer", "index", "write")

    def __init__(self, buffer: Buffer, index: list[Linear], write: bool, box: tuple[int, ...] = ()) -> None:
        self.buffer, self.index, self.write, self.box = buffer, index, write, box


class Allocation:
    """A buffer of the program: its bytes, and how often the loops around its allocation run."""

    __slots__ = ("outer", "size")

    def __init__(self, size: int, outer: int) -> None:
        self.size, self.outer = size, outer


class Store:
    """A statement that stores.

    loops: around it, the outermost first; the lanes of a vector are the innermost. share: of the iterations, those whose conditions hold.
    counts: operations of an iteration by kind (arithmetic.KINDS); bits: of an element. starts_inside: whether the first value of a sum is
    stored in the same innermost loop, so that each iteration tests whether it is the first.
    """

    __slots__ = (
        "accesses",
        "allocation",
        "bits",
        "counts",
        "is_constant",
        "lanes",
        "loops",
        "place",
        "share",
        "starts_inside",
    )

    def __init__(self, loops: list[Loop], share: float, accesses: list[Access], counts: Counts, bits: int) -> None:
        self.loops, self.share, self.accesses, self.counts, self.bits = loops, share, accesses, counts, bits
        self.allocation: Allocation | None = None
        self.is_constant = self.starts_inside = False
        self.lanes = 1
        self.place: tuple[int, ...] = ()


class _Walk:
    def __init__(self) -> None:
        self.indices = Indices()
        self.loops: list[Loop] = []
        self.share = 1.0
        self.unroll_step = 0
        self.stores: list[Store] = []
        self.allocations: dict[Var, Allocation] = {}
        self.views: dict[Buffer, tuple[Buffer, list[Linear]]] = {}
        self.lets: list[PrimExpr] = []
        self.path: list[int] = []
        self.loops_seen = 0

    def visit(self, s: Stmt) -> None:
        _VISITS.get(type(s), _other)(self, s)

    def outer(self) -> int:
        count = 1
        for loop in self.loops:
            count *= loop.extent
        return count

    def under(self, condition: PrimExpr | None, s: Stmt, negated: bool = False) -> None:
        before = self.share
        if condition is not None:
            share = share_of(condition, self.indices)
            self.share *= 1 - share if negated else share
        self.visit(s)
        self.share = before

    def index_of(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, list[Linear]]:
        index = [self.indices.read(i) for i in indices]
        while buffer in self.views:
            source, base = self.views[buffer]
            extra = len(base) - len(index)
            moved = [self.add(b, i) for b, i in zip(base[extra:], index, strict=True)]
            buffer, index = source, [*base[:extra], *moved]
        return buffer, index

    @staticmethod
    def add(a: Linear, b: Linear) -> Linear:
        terms = dict(a[1])
        for digit, factor in b[1].items():
            terms[digit] = terms.get(digit, 0) + factor
        return a[0] + b[0], terms

    def emit(self, accesses: list[Access], counts: Counts, dtype: DataType, lanes: int) -> Store:
        loops = list(self.loops)
        if lanes > 1:
            loops.append(Loop(lanes, ForKind.VECTORIZED, 0))
        made = Store(loops, self.share, accesses, counts, dtype.bits)
        made.lanes = lanes
        made.place = tuple(self.path)
        written = next((a.buffer for a in accesses if a.write), None)
        made.allocation = self.allocations.get(written.data) if written is not None else None
        self.stores.append(made)
        return made


def _for(w: _Walk, s: For) -> None:
    extent = s.extent.value if type(s.extent) is IntImm else max(w.indices.range(s.extent)[1], 1)
    step, before = 0, w.unroll_step
    for key, value in s.annotations.items():
        if key in UNROLL_STEPS:
            w.unroll_step = int(getattr(value, "value", value))
    step = w.unroll_step
    base = w.indices.read(s.min)
    digit = Digit(len(w.loops), extent)
    w.indices.values[s.loop_var] = (base[0], {**base[1], digit: 1})
    w.loops.append(Loop(extent, s.kind, step))
    w.path.append(w.loops_seen)
    w.loops_seen += 1
    w.visit(s.body)
    w.path.pop()
    w.loops.pop()
    w.unroll_step = before


def _realize(w: _Walk, s: BlockRealize) -> None:
    values = w.indices.values
    for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
        values[axis.var] = w.indices.read(value)
    predicate = s.predicate
    w.under(None if type(predicate) is IntImm and predicate.value else predicate, s.block)


def _block(w: _Walk, s: Block) -> None:
    before = w.unroll_step
    for key, value in s.annotations.items():
        if key in UNROLL_STEPS:
            w.unroll_step = int(getattr(value, "value", value))
    if s.alloc_buffers:
        outer = w.outer()
        for buffer in s.alloc_buffers:
            w.allocations[buffer.data] = Allocation(_bytes(buffer.shape, buffer.dtype), outer)
    for match in s.match_buffers:
        base = [w.indices.read(r.min) for r in match.source.region]
        w.views[match.buffer] = match.source.buffer, base
    if s.init is not None:
        w.visit(s.init)
    known = len(w.stores)
    w.visit(s.body)
    if len(w.stores) == known and s.writes:
        _intrinsic(w, s)
    w.unroll_step = before


def _intrinsic(w: _Walk, s: Block) -> None:
    """A block whose body is a call: what it accesses are its regions, and it is taken to do a multiply-add for each pair of elements of
    its largest region that meet."""
    accesses, most = [], 1
    for regions, write in ((s.writes, True), (s.reads, False)):
        for region in regions:
            box = tuple([max(w.indices.range(r.extent)[1], 1) for r in region.region])
            buffer, index = w.index_of(region.buffer, tuple([r.min for r in region.region]))
            box = (1,) * (len(index) - len(box)) + box
            accesses.append(Access(buffer, index, write, box))
            size = 1
            for n in box:
                size *= n
            most = max(most, size)
    kind = "mad" if len(s.reads) > 1 else "otherfunc"
    dtype = s.writes[0].buffer.dtype
    name = f"{'float' if dtype.is_float else 'int'}_{kind}"
    counts = [0.0] * len(KINDS)
    counts[KINDS.index(name)] = float(most)
    w.emit(accesses, tuple(counts), dtype, 1)


def _store(w: _Walk, s: BufferStore) -> None:
    lanes = s.value.dtype.lanes
    w.indices.lanes, w.indices.lane_depth = {}, len(w.loops)
    value: Any = s.value
    counts, loads = operations(value)
    for let in w.lets:
        more, read = operations(let)
        counts = tuple([a + b for a, b in zip(counts, more, strict=True)])
        loads = (*loads, *read)
    w.lets = []
    if lanes > 1:
        # Counts are of an iteration, and lanes are iterations.
        counts = tuple([c / lanes for c in counts])
    buffer, index = w.index_of(s.buffer, s.indices)
    accesses = [Access(buffer, index, True)]
    for load in loads:
        buffer, index = w.index_of(load.buffer, load.indices)
        accesses.append(Access(buffer, index, False))
    made = w.emit(accesses, counts, s.buffer.dtype, lanes)
    while type(value) is Cast or (lanes > 1 and type(value).__name__ == "Broadcast"):
        value = value.value
    made.is_constant = type(value) in (IntImm, FloatImm)


def _seq(w: _Walk, s: SeqStmt) -> None:
    for inner in s.seq:
        w.visit(inner)


def _if(w: _Walk, s: IfThenElse) -> None:
    w.under(s.condition, s.then_case)
    if s.else_case is not None:
        w.under(s.condition, s.else_case, negated=True)


def _let(w: _Walk, s: LetStmt) -> None:
    w.indices.values[s.var] = w.indices.read(s.value)
    if s.value.dtype is not HANDLE:
        w.lets.append(s.value)
    w.visit(s.body)


def _attr(w: _Walk, s: AttrStmt) -> None:
    before = w.unroll_step
    if s.attr_key in UNROLL_STEPS and type(s.value) is IntImm:
        w.unroll_step = s.value.value
    w.visit(s.body)
    w.unroll_step = before


def _allocate(w: _Walk, s: Allocate) -> None:
    w.allocations[s.buffer_var] = Allocation(_bytes(s.extents, s.dtype), w.outer())
    w.visit(s.body)


def _inner(w: _Walk, s: Any) -> None:
    w.visit(s.body)


def _other(w: _Walk, s: Stmt) -> None:
    body = getattr(s, "body", None)
    if isinstance(body, Stmt):
        w.visit(body)


_VISITS: dict[type, Callable[[_Walk, Any], None]] = {
    For: _for,
    BlockRealize: _realize,
    Block: _block,
    BufferStore: _store,
    SeqStmt: _seq,
    IfThenElse: _if,
    LetStmt: _let,
    AttrStmt: _attr,
    Allocate: _allocate,
    AllocateConst: _inner,
    DeclBuffer: _inner,
    AssertStmt: _inner,
    While: _inner,
    Evaluate: lambda w, s: None,
}


def _bytes(extents: tuple[PrimExpr, ...], dtype: DataType) -> int:
    size: int = dtype.bytes * dtype.lanes
    for e in extents:
        size *= e.value if type(e) is IntImm else 1
    return size


def stores_of(func: PrimFunc) -> list[Store]:
    """The statements of a function that store something else than a constant, in order; if there are none, those that store constants."""
    walk = _Walk()
    walk.visit(func.body)
    starts = {(s.accesses[0].buffer, s.place) for s in walk.stores if s.is_constant and s.loops}
    found = [s for s in walk.stores if not s.is_constant]
    for s in found:
        s.starts_inside = (s.accesses[0].buffer, s.place) in starts
    return found or walk.stores
