"""InjectDoubleBuffer: fills the buffer of the next iteration while the current one is used."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.tir.arithmetic import add, floormod, multiply, subtract
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import any_stmt, substitute
from tilewright.tir.transform.base import prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa

SCOPE, WRITE = "double_buffer_scope", "double_buffer_write"


class AccessedVars(Visitor):
    """The data variables that a statement reads and writes. A buffer that is passed as a pointer counts as both."""

    def __init__(self) -> None:
        self.reads: set[Var] = set()
        self.writes: set[Var] = set()
        self.calls = False

    @on(Var)
    def _var(self, v: Var) -> None:
        if v.dtype.code == "handle":
            self.reads.add(v)
            self.writes.add(v)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.reads.add(e.buffer.data)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.writes.add(s.buffer.data)
        self.visit_children(s)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        # Attributes of storage are not uses.
        self.visit(s.value)
        self.visit(s.body)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        self.calls = True
        self.visit_children(s)


def touches(s: Stmt) -> AccessedVars:
    """Collect the data variables that a statement reads and writes."""
    walk = AccessedVars()
    walk.visit(s)
    return walk


def count_uses(s: Stmt) -> dict[Var, int]:
    """The number of loads and stores of each data variable."""
    found: dict[Var, int] = {}

    class Uses(Visitor):
        @on(BufferLoad, BufferStore)
        def _access(self, a: BufferLoad | BufferStore) -> None:
            found[a.buffer.data] = found.get(a.buffer.data, 0) + 1
            self.visit_children(a)

    Uses().visit(s)
    return found


class _Halves(Mutator):
    """Redirects accesses of some storage to its half number `half`."""

    def __init__(self, data: Var, half: PrimExpr, made: dict[Buffer, Buffer]) -> None:
        self.data, self.half, self.made = data, half, made

    @on(Buffer)
    def _buffer(self, b: Buffer) -> Buffer:
        if b.data is not self.data:
            return b
        if b not in self.made:
            self.made[b] = b.replace(shape=(multiply(b.shape[0], IntImm(b.shape[0].dtype, 2)),))
        return self.made[b]

    def _index(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        at = mutate_tuple(self.visit, indices)[0]
        scalar = at.dtype.element
        by = multiply(self.half.astype(scalar), b.shape[0].astype(scalar))
        if isinstance(at, Ramp):
            return (Ramp(add(at.base, by), at.stride, at.lanes),)
        return (add(at, by),)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer.data is not self.data:
            return self.rebuild(e)
        return BufferLoad(self._buffer(e.buffer), self._index(e.buffer, e.indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer.data is not self.data:
            return self.rebuild(s)
        return BufferStore(
            self._buffer(s.buffer), self.visit(s.value), self._index(s.buffer, s.indices), s.predicate, s.span
        )


class _Fits(Visitor):
    """Whether every use of some storage is a plain access by one index (a scalar or a ramp)."""

    def __init__(self, data: Var) -> None:
        self.data, self.ok = data, True

    @on(Var)
    def _var(self, v: Var) -> None:
        self.ok &= v is not self.data

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.visit(s.value)
        self.visit(s.body)

    @on(BufferLoad, BufferStore)
    def _access(self, a: BufferLoad | BufferStore) -> None:
        if a.buffer.data is self.data:
            self.ok &= len(a.indices) == 1 and (isinstance(a.indices[0], Ramp) or a.indices[0].dtype.lanes == 1)
        self.visit_children(a)


class _DoubleBuffer(Mutator):
    """On the way up, each loop moves the double-buffered storage of its body out, and fills it one iteration ahead."""

    def __init__(self, uses: dict[Var, int], split: int = 1) -> None:
        self.uses, self.split = uses, split
        self.doubled: set[Var] = set()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        new = self.rebuild(s)
        if s.buffer_var in self.doubled:
            self.doubled.discard(s.buffer_var)
            return _twice(new)
        return new

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return self.rebuild(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        if new.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return new
        ahead: list[Stmt] = []
        storage: list[Allocate] = []
        done = self._one_ahead(new)
        while isinstance(done, tuple):
            first, new, own = done
            ahead.append(first)
            storage += own
            done = self._one_ahead(new)
        if done is not None:
            return done
        out = stmt_seq(*ahead, self._split(new) if ahead else new)
        for s2 in reversed(storage):
            out = _twice(s2.replace(body=out))
        return out

    def _one_ahead(self, new: For) -> tuple[Stmt, For, list[Allocate]] | Stmt | None:
        """Fills one more storage of the loop ahead. Returns (the first fill, the loop, the allocations outside of it)."""
        chain: list[Stmt] = []
        body: Any = new.body
        while type(body) in (Allocate, AttrStmt, DeclBuffer) and not _is_scope(body):
            chain.append(body)
            body = body.body
        parts = list(body.seq) if type(body) is SeqStmt else [body]
        if len(parts) == 1 and _is_scope(body) and not chain:
            # The loop only fills the storage, so the mark moves around the loop.
            return body.replace(body=new.replace(body=body.body))  # type: ignore[no-any-return]
        for k, part in enumerate(parts):
            if _is_scope(part):
                done = self._ahead(new, chain, parts, k)
                if done is not None:
                    return done
        return None

    def _split(self, s: For) -> Stmt:
        """The loop unrolled by the option "split_loop", so each copy uses a fixed half."""
        n = self.split
        if n < 2 or not isinstance(s.extent, IntImm) or s.extent.value < n:
            return s
        dtype = s.loop_var.dtype
        whole = s.extent.value // n

        def turn(at: PrimExpr) -> Stmt:
            out: Stmt = substitute(s.body, {s.loop_var: add(s.min, at)})
            return out

        var = Var(f"{s.loop_var.name}_outer", dtype)
        steps = [turn(add(multiply(var, IntImm(dtype, n)), IntImm(dtype, k))) for k in range(n)]
        rest = [turn(IntImm(dtype, k)) for k in range(whole * n, s.extent.value)]
        return stmt_seq(For(var, 0, whole, s.kind, stmt_seq(*steps), None, s.annotations, s.span), *rest)

    def _ahead(
        self, loop: For, chain: list[Stmt], parts: list[Stmt], k: int
    ) -> tuple[Stmt, For, list[Allocate]] | None:
        """The loop with part k, which fills its storage, one iteration ahead; None if that would change the results."""
        attr: Any = parts[k]
        data: Var = getattr(attr.node, "data", attr.node)
        inside = [c for c in chain if type(c) is Allocate and c.buffer_var is data]
        kept = [c for c in chain if c not in inside]
        fill, rest = attr.body, stmt_seq(*parts[:k], *parts[k + 1 :])
        by_fill, by_rest = touches(fill), touches(rest)
        fits = _Fits(data)
        fits.visit(stmt_seq(*parts))
        moved = by_fill.writes <= {data} and data not in by_rest.writes and not by_fill.reads & by_rest.writes
        local = {c.buffer_var for c in chain if type(c) is Allocate} - {data}
        if not fits.ok or not moved or by_fill.calls or (by_fill.reads | by_fill.writes) & local:
            return None
        if data not in by_rest.reads or not (inside or count_uses(stmt_seq(*parts)).get(data) == self.uses.get(data)):
            return None
        if any([data in touches(p).reads for p in parts[:k]]) or data in by_fill.reads:
            return None
        if any([type(c) is AttrStmt and c.attr_key != WRITE for c in kept]):
            return None
        made: dict[Buffer, Buffer] = {}
        one, two = IntImm(loop.loop_var.dtype, 1), IntImm(loop.loop_var.dtype, 2)
        here = floormod(subtract(loop.loop_var, loop.min), two)
        following = floormod(add(subtract(loop.loop_var, loop.min), one), two)

        def filled(at: PrimExpr, half: PrimExpr) -> Stmt:
            out: Stmt = substitute(_Halves(data, half, made).visit(fill), {loop.loop_var: at})
            return out

        next_turn = add(loop.loop_var, one)
        write: Stmt = AttrStmt(data, WRITE, IntImm("int32", 1), filled(next_turn, _moved(following, loop)))
        write = IfThenElse(next_turn < add(loop.min, loop.extent), write)
        use = _Halves(data, here, made)
        body: Stmt = stmt_seq(*[use.visit(p) for p in parts[:k]], write, *[use.visit(p) for p in parts[k + 1 :]])
        for c in reversed(kept):
            body = use.visit(c).replace(body=body) if type(c) is DeclBuffer else c.replace(body=body)
        first = filled(loop.min, IntImm(loop.loop_var.dtype, 0))
        if not (isinstance(loop.extent, IntImm) and loop.extent.value > 0):
            first = IfThenElse(loop.extent > 0, first)
        if not inside:
            self.doubled.add(data)
        return first, loop.replace(body=body), inside[:1]


def _moved(half: PrimExpr, loop: For) -> PrimExpr:
    """An expression of the current iteration's variable, in which the next iteration's variable can be substituted."""
    out: PrimExpr = substitute(half, {loop.loop_var: subtract(loop.loop_var, IntImm(loop.loop_var.dtype, 1))})
    return out


def _is_scope(s: Stmt) -> bool:
    return type(s) is AttrStmt and s.attr_key == SCOPE


def _twice(s: Allocate) -> Allocate:
    size: PrimExpr = IntImm("int32", 2)
    for e in s.extents:
        size = multiply(size, e)
    return s.replace(extents=(size,))


class _Drop(Mutator):
    """Removes the marks of storage that was not doubled."""

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return self.visit(s.body) if _is_scope(s) else self.rebuild(s)


def InjectDoubleBuffer() -> Pass:
    """Double the storage that is marked double_buffer_scope, and fill it for the next iteration of the loop during the
    current one.

    Storage stays single if the fill depends on results of the loop. Needs flat buffers. Option
    "tir.InjectDoubleBuffer": {"split_loop": the number of iterations to unroll into one}.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if not any_stmt(func.body, lambda s: isinstance(s, AttrStmt) and _is_scope(s)):
            return func
        split = int((ctx.config.get("tir.InjectDoubleBuffer") or {}).get("split_loop", 1))
        walk = _DoubleBuffer(count_uses(func.body), split)
        return convert_ssa(func.replace(body=_Drop().visit(walk.visit(func.body))))

    made: Pass = prim_func_pass(
        run, name="tir.InjectDoubleBuffer", needs=("flat_buffers",), gives=("no_double_buffers",)
    )
    return made
