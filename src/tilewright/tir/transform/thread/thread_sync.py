"""ThreadSync: inserts barriers between accesses of shared memory by different threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Node, Visitor, any_node, on, structural_equal
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, multiply, subtract
from tilewright.tir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IterVar,
    Max,
    Min,
    Mul,
    Ramp,
    StringImm,
    Sub,
    Var,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import call_name, prim_func_pass

MOST_POINTS = 1 << 16
"""The largest number of points (threads times iterations of loops) for which the values of an index are enumerated."""


class Access:
    """One access of shared memory. `indices` is None if it may access all of it. `stages`: of software pipelines."""

    __slots__ = ("carried", "data", "indices", "second_half", "stages", "write")

    def __init__(
        self,
        data: Var,
        write: bool,
        indices: tuple[PrimExpr, ...] | None,
        second_half: bool,
        stages: Path,
    ) -> None:
        self.data, self.write, self.indices = data, write, indices
        self.second_half, self.stages = second_half, stages
        self.carried: frozenset[Var] | None = None

    def from_last_turn(self, loop: Stmt) -> Access:
        """This access in an earlier iteration of the loop."""
        out = Access(self.data, self.write, self.indices, self.second_half, self.stages)
        var = getattr(loop, "loop_var", None)
        out.carried = (self.carried or frozenset()) | (frozenset() if var is None else {var})
        return out


class _Collect(Visitor):
    """Accesses of storage of one scope below a statement."""

    def __init__(self, scope: str, second_half: bool, stages: Path) -> None:
        self.scope, self.second_half, self.stages = scope, second_half, stages
        self.found: list[Access] = []
        self.barrier = False

    def _note(self, data: Var, write: bool, indices: Any) -> None:
        if scope_of(data) == self.scope:
            self.found.append(Access(data, write, indices, self.second_half, self.stages))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._note(e.buffer.data, False, e.indices)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        # The value of a store is read before the store writes.
        self.visit(s.value)
        for i in s.indices:
            self.visit(i)
        self._note(s.buffer.data, True, s.indices)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        outer, self.stages = self.stages, _entered(s, self.stages)
        self.visit_children(s)
        self.stages = outer

    @on(Var)
    def _var(self, v: Var) -> None:
        if v.dtype.code == "handle":
            self._note(v, False, None)
            self._note(v, True, None)

    @on(Call)
    def _call(self, e: Call) -> None:
        self.barrier |= is_barrier(e, self.scope)
        name = call_name(e)
        if name == "address_of" and isinstance(e.args[0], BufferLoad):
            self._var(e.args[0].buffer.data)
        elif name == "tvm_access_ptr" and isinstance(e.args[1], Var) and isinstance(e.args[4], IntImm):
            # The mask says whether what the pointer reaches is read (1), written (2) or both.
            for bit, write in ((1, False), (2, True)):
                if e.args[4].value & bit:
                    self._note(e.args[1], write, None)
            for a in (e.args[2], e.args[3]):
                self.visit(a)
            return
        elif name == "ptx_tma_load":
            # Who reads what is copied waits for the copy's barrier.
            for a in e.args[3:]:
                self.visit(a)
            return
        elif name.startswith("ptx_wgmma"):
            # Its registers are those of the thread.
            for a in e.args:
                if not isinstance(a, Var):
                    self.visit(a)
            return
        elif name == "ptx_ldmatrix" and call_name(e.args[5]) == "address_of":
            self.visit(e.args[5].args[0])  # type: ignore[attr-defined]
            self.visit(e.args[4])
            return
        self.visit_children(e)


Path = tuple[tuple[int, int], ...]
"""(step, stage) of the software pipelines around a statement, outermost first; stage -1: in a step, but not in a stage yet."""


def _entered(s: AttrStmt, stages: Path) -> Path:
    """The path inside of an attribute."""
    if isinstance(s.value, IntImm):
        if s.attr_key == "software_pipeline_step":
            return (*stages, (s.value.value, -1))
        if s.attr_key == "software_pipeline_stage" and stages and stages[-1][1] < 0:
            return (*stages[:-1], (stages[-1][0], s.value.value))
    return stages


def _of_other_stages(a: Path, b: Path) -> bool:
    """Whether two accesses are in different stages of one step: they are to different versions of a buffer."""
    for x, y in zip(a, b, strict=False):
        if x != y:
            return x[0] == y[0]
    return False


def scope_of(data: Var) -> str:
    """The storage scope of a pointer."""
    return str(getattr(data.type_annotation, "storage_scope", "") or "global")


def _has_steps(loop: For) -> bool:
    """Whether it is known that a loop has a step."""
    return isinstance(loop.extent, IntImm) and loop.extent.value > 0


def is_barrier(e: Any, scope: str) -> bool:
    """Whether an expression is a barrier for storage of that scope."""
    return call_name(e) == "tvm_storage_sync" and getattr(e.args[0], "value", "") in (scope, "shared", "global")


class _Used(Visitor):
    """The variables of an index, and whether it reads memory."""

    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.loads = False

    @on(Var)
    def _var(self, v: Var) -> None:
        self.found.add(v)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.loads = True
        self.visit_children(e)


class _Planner:
    """Walks statements in execution order, with the accesses since the last barrier."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.threads: dict[Var, int | None] = {}
        self.inner: set[Var] = set()
        self.extents: dict[Var, int | None] = {}
        self.varying: set[Var] = set()
        self.second_half = False
        self.stages: Path = ()
        self.of_warps = False

    # --- conflicts

    def differs(self, e: Any) -> bool:
        """Whether an expression may differ between the threads of a block."""
        names = set(self.threads) | self.varying

        def varies(x: Node) -> bool:
            # Private storage of threads may differ between them.
            return x in names or (isinstance(x, BufferLoad) and scope_of(x.buffer.data) in ("local", "warp"))

        return any_node(e, varies)

    def _own_element(self, indices: tuple[PrimExpr, ...], loops: set[Var]) -> bool:
        """Whether each thread accesses separate elements: an index differs between all threads and iterations of these loops."""
        extents = self.threads | {v: self.extents.get(v) for v in loops}
        if any([n is None for n in extents.values()]):
            return False
        return any([tells_apart(e, {v: n or 1 for v, n in extents.items()}) for e in indices])

    def conflict(self, a: Access, b: Access) -> bool:
        """Whether a barrier must stand between an earlier access and a later one."""
        if a.data is not b.data or not (a.write or b.write):
            return False
        if a.carried is None and a.second_half != b.second_half:
            # A double buffer's writes go to the half that this iteration does not read.
            return False
        if a.carried is None and _of_other_stages(a.stages, b.stages):
            return False
        if a.indices is None or b.indices is None:
            return True
        same = len(a.indices) == len(b.indices) and all(
            [structural_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True)]
        )
        # Loops that advanced between the accesses may have another value.
        moved = self.inner | (a.carried or frozenset())
        used = _Used()
        for i in a.indices:
            used.visit(i)
        return not (same and not used.loads and self._own_element(a.indices, moved & used.found))

    def _before(self, s: Stmt, found: list[Access], pending: list[Access]) -> tuple[list[Stmt], list[Access]]:
        """(a barrier if the statement needs one before it, the accesses since the last barrier)."""
        if any([self.conflict(a, b) for a in pending for b in found]):
            return [barrier(self.scope)], []
        return [], pending

    def _whole(self, s: Stmt, pending: list[Access]) -> tuple[Stmt, list[Access]]:
        """A statement that gets no barrier inside."""
        walk = _Collect(self.scope, self.second_half, self.stages)
        walk.visit(s)
        if walk.barrier:
            return s, []
        first, pending = self._before(s, walk.found, pending)
        return stmt_seq(*first, s), [*pending, *walk.found]

    def _apart(self, s: Stmt, pending: list[Access], what: str) -> tuple[Stmt, list[Access]]:
        """A statement that only some threads run. Raises TVMError if it needs a barrier inside."""
        new, _ = self._children(s, [])
        if new is not s:
            raise TVMError(
                located(
                    f"ThreadSync: storage of scope {self.scope} is shared between threads inside of {what}, which differs"
                    " between the threads of a block, so that there can be no barrier; move the condition inside",
                    s,
                )
            )
        return self._whole(s, pending)

    # --- statements

    def run(self, s: Stmt, pending: list[Access]) -> tuple[Any, list[Access]]:
        """The statement with its barriers, and the accesses since the last of them."""
        if isinstance(s, IfThenElse) and self.differs(s.condition):
            return self._apart(s, pending, f"if {s.condition}")
        if isinstance(s, For) and (self.differs(s.extent) or self.differs(s.min)):
            return self._apart(s, pending, f"the loop over {s.loop_var.name}")
        if isinstance(s, While) and self.differs(s.condition):
            return self._apart(s, pending, f"while {s.condition}")
        if isinstance(s, BlockRealize) and self.differs(s.predicate):
            return self._apart(s, pending, f"the block {s.block.name_hint}")
        if isinstance(s, Evaluate) and is_barrier(s.value, self.scope):
            return s, []
        return self._children(s, pending)

    def _expr(self, e: Any, pending: list[Access]) -> tuple[list[Stmt], list[Access]]:
        """(barriers before an expression, the accesses since the last barrier)."""
        walk = _Collect(self.scope, self.second_half, self.stages)
        walk.visit(e)
        first, pending = self._before(e, walk.found, pending)
        return first, [*pending, *walk.found]

    def _children(self, s: Stmt, pending: list[Access]) -> tuple[Stmt, list[Access]]:
        if isinstance(s, SeqStmt):
            parts = []
            for item in s.seq:
                new, pending = self.run(item, pending)
                parts.append(new)
            same = all([a is b for a, b in zip(parts, s.seq, strict=True)])
            return (s if same else stmt_seq(*parts)), pending
        if isinstance(s, (For, While)):
            return self._loop(s, pending)
        if isinstance(s, IfThenElse):
            return self._choice(s, pending)
        if isinstance(s, AttrStmt):
            return self._attr(s, pending)
        if isinstance(s, LetStmt):
            first, pending = self._expr(s.value, pending)
            if self.differs(s.value):
                self.varying.add(s.var)
            return self._body(s, first, pending)
        if isinstance(s, AssertStmt):
            first, pending = self._expr(s.condition, pending)
            return self._body(s, first, pending)
        if isinstance(s, BlockRealize):
            for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
                if self.differs(value):
                    self.varying.add(axis.var)
            block, pending = self.run(s.block, pending)
            return (s if block is s.block else s.replace(block=block)), pending
        if isinstance(s, (Allocate, DeclBuffer, Block)):
            return self._body(s, [], pending)
        return self._whole(s, pending)

    def _choice(self, s: IfThenElse, pending: list[Access]) -> tuple[Stmt, list[Access]]:
        """A condition that is equal for all threads, with a barrier before it if it needs one."""
        first, pending = self._expr(s.condition, pending)
        then, left = self.run(s.then_case, [])
        other, instead = (s.else_case, []) if s.else_case is None else self.run(s.else_case, [])
        begin, divided = self._head(then)
        begin_other, divided_other = ([], False) if other is None else self._head(other)
        if any([self.conflict(a, b) for a in pending for b in (*begin, *begin_other)]):
            first, pending = [*first, barrier(self.scope)], []
        new = s if then is s.then_case and other is s.else_case else IfThenElse(s.condition, then, other, s.span)
        after = left + instead if divided and divided_other else [*pending, *left, *instead]
        return self._joined(first, new), after

    @staticmethod
    def _joined(first: list[Stmt], s: Stmt) -> Stmt:
        return stmt_seq(*first, s) if first else s

    def _body(self, s: Any, first: list[Stmt], pending: list[Access]) -> tuple[Stmt, list[Access]]:
        body, pending = self.run(s.body, pending)
        return self._joined(first, s if body is s.body else s.replace(body=body)), pending

    def _attr(self, s: AttrStmt, pending: list[Access]) -> tuple[Stmt, list[Access]]:
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar) and s.node.thread_tag.startswith("threadIdx"):
            self._thread(s.node, s.value)
            return self._body(s, [], pending)
        if s.attr_key == "double_buffer_write":
            self.second_half = True
            out = self._body(s, [], pending)
            self.second_half = False
            return out
        if s.attr_key == "async_wait_inflight_count":
            return self._waited(s, pending)
        outer, self.stages = self.stages, _entered(s, self.stages)
        out = self._body(s, [], pending)
        self.stages = outer
        return out

    def _thread(self, axis: IterVar, extent: PrimExpr) -> None:
        """Notes an axis of threads. The threads of a warp have one number along y and z if those along x make whole warps."""
        if axis.thread_tag == "threadIdx.x":
            self.of_warps = self.scope == "warp" and isinstance(extent, IntImm) and extent.value % 32 == 0
            if self.of_warps:
                self.threads.clear()
        elif self.of_warps:
            return
        self.threads[axis.var] = extent.value if isinstance(extent, IntImm) else None

    def _waited(self, s: AttrStmt, pending: list[Access]) -> tuple[Stmt, list[Access]]:
        """What reads asynchronous copies. A thread has waited for its own ones; a barrier makes those of the others known."""
        walk = _Collect(self.scope, self.second_half, self.stages)
        walk.visit(s.body)
        if not walk.found:
            return self._body(s, [], pending)
        body, left = self.run(s.body, [])
        first = body.seq[0] if isinstance(body, SeqStmt) else body
        if not (isinstance(first, Evaluate) and is_barrier(first.value, self.scope)):
            body = stmt_seq(barrier(self.scope), body)
        return s.replace(body=body), left

    def _loop(self, s: Any, pending: list[Access]) -> tuple[Stmt, list[Access]]:
        first: list[Stmt] = []
        if isinstance(s, While):
            first, pending = self._expr(s.condition, pending)
        else:
            self.inner.discard(s.loop_var)
            self.extents[s.loop_var] = s.extent.value if isinstance(s.extent, IntImm) else None
        body, left = self.run(s.body, [])
        begin, divided = self._head(body)
        if any([self.conflict(a, b) for a in pending for b in begin]):
            # A barrier before the loop runs once; inside the loop it would run in every iteration.
            first, pending = [*first, barrier(self.scope)], []
        # The accesses at the end of the body precede its begin in the next iteration.
        carried = [a.from_last_turn(s) for a in left]
        if any([self.conflict(a, b) for a in carried for b in begin]):
            body, left = self.run(s.body, carried)
            left = [a for a in left if a not in carried]
            divided = True
        if isinstance(s, For):
            self.inner.add(s.loop_var)
        after = left if divided else [*pending, *left]
        return self._joined(first, s if body is s.body else s.replace(body=body)), after

    def _head(self, s: Stmt) -> tuple[list[Access], bool]:
        """(the accesses of a statement up to its first barrier, whether all paths through it have a barrier)."""
        if isinstance(s, SeqStmt):
            out: list[Access] = []
            for item in s.seq:
                found, divided = self._head(item)
                out += found
                if divided:
                    return out, True
            return out, False
        if isinstance(s, IfThenElse):
            before, _ = self._expr_accesses(s.condition)
            then, a = self._head(s.then_case)
            other, b = self._head(s.else_case) if s.else_case is not None else ([], False)
            return [*before, *then, *other], a and b
        if isinstance(s, BlockRealize):
            return self._head(s.block)
        if isinstance(s, (For, While, AttrStmt, LetStmt, AssertStmt, Allocate, DeclBuffer, Block)):
            key = "condition" if isinstance(s, (While, AssertStmt)) else "value" if isinstance(s, LetStmt) else ""
            before, _ = self._expr_accesses(getattr(s, key)) if key else ([], False)
            outer, stages = self.second_half, self.stages
            if isinstance(s, AttrStmt):
                self.second_half |= s.attr_key == "double_buffer_write"
                self.stages = _entered(s, stages)
            found, divided = self._head(s.body)
            self.second_half, self.stages = outer, stages
            # A loop may have no iterations.
            sure = not isinstance(s, While) and not (isinstance(s, For) and not _has_steps(s))
            return [*before, *found], divided and sure
        return self._expr_accesses(s)

    def _expr_accesses(self, e: PrimExpr | Stmt) -> tuple[list[Access], bool]:
        walk = _Collect(self.scope, self.second_half, self.stages)
        walk.visit(e)
        return walk.found, walk.barrier


def tells_apart(index: PrimExpr, extents: dict[Var, int]) -> bool:
    """Whether an index has different values (for a vector, different lanes) at all points of these axes, whatever its
    other variables are.
    """
    axes = {v: n for v, n in extents.items() if n != 1}
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        lane = Var("lane", index.base.dtype)
        axes[lane] = index.lanes
        index = add(index.base, multiply(lane, index.stride))
    count = math.prod(axes.values())
    if index.dtype.lanes != 1 or count > MOST_POINTS:
        return False
    analyzer = Analyzer()
    for v, n in axes.items():
        analyzer.bind(v, Range.from_min_extent(IntImm(v.dtype, 0), IntImm(v.dtype, n)))
    origin = substitute(index, {v: IntImm(v.dtype, 0) for v in (*extents, *axes)})
    offset = analyzer.simplify(subtract(index, origin))
    used = _Used()
    used.visit(offset)
    if used.loads or not used.found <= set(axes):
        return False
    if not axes:
        return True
    grid = np.indices(tuple(axes.values())).reshape(len(axes), -1)
    try:
        values = _values(offset, dict(zip(axes, grid, strict=True)))
    except KeyError:
        return False
    return int(np.unique(np.broadcast_to(values, (count,))).size) == count


_NUMPY: dict[type, Any] = {
    Add: np.add, Sub: np.subtract, Mul: np.multiply, FloorDiv: np.floor_divide, FloorMod: np.mod, Min: np.minimum,
    Max: np.maximum,
}  # fmt: skip


def _values(e: Any, env: dict[Var, Any]) -> Any:
    """An integer expression at many points. Raises KeyError for unknown operators."""
    if isinstance(e, IntImm):
        return np.asarray(e.value, "int64")
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, Cast) and e.dtype.is_int:
        return _values(e.value, env)
    if call_name(e) == "bitwise_xor":
        return np.bitwise_xor(_values(e.args[0], env), _values(e.args[1], env))
    return _NUMPY[type(e)](_values(e.a, env), _values(e.b, env))


def barrier(scope: str) -> Stmt:
    """The statement at which the threads of a block wait for each other."""
    return Evaluate(Call("int32", "tvm_storage_sync", (StringImm(scope),)))


def ThreadSync(storage_scope: str) -> Pass:
    """Insert barriers between conflicting accesses of different threads to storage of this scope.

    Raises TVMError if a barrier would be inside a condition that differs between threads.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        body, _ = _Planner(storage_scope).run(func.body, [])
        return func.replace(body=body)

    made: Pass = prim_func_pass(run, name="tir.ThreadSync")
    return made
