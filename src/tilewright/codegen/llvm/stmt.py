"""Statements to LLVM IR text: loops as phis, unrolling while printing, conditionals, allocations, parallel loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.codegen.llvm.builder import Scope
from tilewright.codegen.llvm.memory import MemoryEmitter, Registers
from tilewright.codegen.llvm.promote import BufferUse
from tilewright.codegen.llvm.types import is_literal, llvm_type, memory_type
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
)
from tilewright.tir.stmt_functor import post_order_visit

TILE_REGISTERS = "amx.tile"
"""Storage scope of what instructions on tile registers keep there: it takes no memory."""
SCALAR, SCALAR_LOOPS = (
    ", !llvm.loop !0",
    """\
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.vectorize.enable", i1 false}""",
)
"""What marks loops that LLVM makes no vectors of, and what the mark refers to: over loops that go backwards through memory two models
of its vectorizer may disagree, and abort (LLVM 22)."""
STACK_LIMIT = 256 << 10
"""Bytes up to which a constant-size allocation lives on the stack; larger ones come from the workspace."""


def _accesses(body: Stmt, data: Var) -> bool:
    """Whether a statement loads or stores elements of a buffer."""
    found: list[Any] = []
    post_order_visit(body, lambda x: found.append(x) if isinstance(x, (BufferLoad, BufferStore)) else None)
    return any([x.buffer.data is data for x in found])


class StmtEmitter(MemoryEmitter):
    """The part of a function's emitter that turns statements into text."""

    use: BufferUse
    _stmts: ClassVar[dict[type, Callable[..., None]]] = {}

    def stmt(self, s: Stmt) -> None:
        method = self._stmts.get(type(s))
        if method is None:
            raise self.error(
                f"{type(s).__name__} must be lowered before code generation (run the lowering pipeline)", s
            )
        method(self, s)

    def on_sequence(self, s: SeqStmt) -> None:
        for item in s.seq:
            self.stmt(item)

    def on_hint(self, s: Prefetch) -> None:
        """Hints that no schedule has made calls of change nothing."""

    def on_evaluate(self, s: Evaluate) -> None:
        if type(s.value) is not IntImm:
            self.expr(s.value)

    def on_let_statement(self, s: LetStmt) -> None:
        if s.var.dtype.code == "handle" and isinstance(s.value, Var) and s.value in self.pointers:
            self.pointers[s.var] = self.pointers[s.value]
        else:
            self.bind(s.var, s.value)
        self.stmt(s.body)

    def on_declaration(self, s: Any) -> None:
        self.stmt(s.body)

    def on_attribute(self, s: AttrStmt) -> None:
        if s.attr_key == "thread_extent":
            raise self.error("a CPU has no GPU threads: the loop is bound to a thread axis", s)
        self.stmt(s.body)

    # --- loops

    def on_for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING:
            raise self.error("a CPU has no GPU threads: the loop is bound to a thread axis", s)
        low, extent = self.expr(s.min), self.expr(s.extent)
        constant = is_literal(extent)
        count = int(extent) if constant else -1
        if constant and count <= 0:
            return
        if is_literal(low) and constant and (count == 1 or s.kind == ForKind.UNROLLED):
            for k in range(count):
                self._bind_const(s.loop_var, int(low) + k)
                self.stmt(s.body)
            self.consts.pop(s.loop_var, None)
            return
        if count == 1:
            self.bind(s.loop_var, s.min)
            self.stmt(s.body)
            return
        if s.kind == ForKind.PARALLEL and not self.inside_parallel:
            self.parallel(s, low, extent)
            return
        self._loop(s, low, extent)

    def _bind_const(self, var: Var, value: int) -> None:
        self.values.pop(var, None)
        self.ivs.pop(var, None)
        self.consts[var] = value

    def wide(self, operand: str, e: PrimExpr) -> str:
        """An integer operand in pointer width."""
        return (
            operand
            if is_literal(operand)
            else self._resize(operand, llvm_type(e.dtype), self.iptr, not e.dtype.is_uint)
        )

    def _loop(self, s: For, low: str, extent: str) -> None:
        begin = self.wide(low, s.min)
        count = self.wide(extent, s.extent)
        self.note_range(s)
        self.counted(
            s.loop_var,
            begin,
            self.sum(begin, count),
            is_literal(extent),
            self.use.stored.get(id(s), set()),
            lambda: self.stmt(s.body),
        )

    def note_range(self, s: For) -> None:
        """Remembers what values the loop variable takes."""
        low, extent = self.bounds(s.min), self.bounds(s.extent)
        if low is not None and extent is not None:
            self.ranges[s.loop_var] = (low[0], low[1] + extent[1] - 1)
        elif low is not None:
            self.ranges[s.loop_var] = (low[0], (1 << 31) - 1)
        else:
            self.ranges.pop(s.loop_var, None)

    def sum(self, a: str, b: str) -> str:
        if is_literal(a) and is_literal(b):
            return str(int(a) + int(b))
        return b if a == "0" else self.b.pure(f"add nsw {self.iptr} {a}, {b}", a, b)

    def counted(
        self, var: Var, begin: str, end: str, nonempty: bool, stored: set[Var], body: Callable[[], None]
    ) -> None:
        """A loop for var = begin .. end - 1 (pointer width); registers that it writes become phis."""
        b, iptr = self.b, self.iptr
        parent = b.scopes[-1]
        head, done = b.label("loop"), b.label("done")
        before = parent.label
        b.push(head, nonempty)
        iv = b.define_here(b.name())
        self.consts.pop(var, None)
        self.values.pop(var, None)
        self.ivs[var] = iv
        carried = self._carry(stored)
        body()
        inner = b.pop()
        following = b.name()
        again = b.name()
        lines = parent.lines
        if nonempty:
            lines.append(f"  br label %{head}")
        else:
            some = b.name()
            lines.append(f"  {some} = icmp slt {iptr} {begin}, {end}")
            lines.append(f"  br i1 {some}, label %{head}, label %{done}")
        lines.append(f"{head}:")
        lines.append(f"  {iv} = phi {iptr} [ {begin}, %{before} ], [ {following}, %{inner.label} ]")
        self._phis(lines, carried, before, inner.label)
        lines += inner.lines
        lines.append(f"  {following} = add nsw {iptr} {iv}, 1")
        lines.append(f"  {again} = icmp slt {iptr} {following}, {end}")
        lines.append(f"  br i1 {again}, label %{head}, label %{done}{SCALAR if inner.backwards else ''}")
        lines.append(f"{done}:")
        parent.label = done
        self._leave(carried, None if nonempty else before, inner.label)
        del self.ivs[var]
        self.values.pop(var, None)

    def _carry(self, stored: set[Var]) -> list[tuple[Registers, int, str, str]]:
        """(registers, slot, value before, phi name) of the registers that a loop may write."""
        carried = []
        for var in stored:
            kept = self.registers.get(var)
            if kept is None:
                continue
            for slot, value in kept.slots.items():
                name = self.b.define_here(self.b.name())
                carried.append((kept, slot, value, name))
                kept.slots[slot] = name
        return carried

    def _phis(self, lines: list[str], carried: list[tuple[Registers, int, str, str]], before: str, latch: str) -> None:
        for kept, slot, value, name in carried:
            lines.append(
                f"  {name} = phi {llvm_type(kept.dtype)} [ {value}, %{before} ], [ {kept.slots[slot]}, %{latch} ]"
            )

    def _leave(self, carried: list[tuple[Registers, int, str, str]], skipped: str | None, latch: str) -> None:
        """After a loop its registers hold the last values; when it may not have run, a phi tells which."""
        b = self.b
        for kept, slot, value, _ in carried:
            last = kept.slots[slot]
            if skipped is not None:
                name = b.here(f"phi {llvm_type(kept.dtype)} [ {value}, %{skipped} ], [ {last}, %{latch} ]")
                kept.slots[slot] = name
            elif last[0] == "%":
                b.level_of[last] = min(b.level_of.get(last, 0), b.level)

    def on_while(self, s: While) -> None:
        b = self.b
        parent = b.scopes[-1]
        head, done = b.label("while"), b.label("done")
        before = parent.label
        b.push(head)
        carried = self._carry(self.use.stored.get(id(s), set()))
        self.forget(None)
        cond = self.expr(s.condition)
        test = b.scopes[-1]
        exits = [(kept, slot, kept.slots[slot]) for kept, slot, _, _ in carried]
        b.push(b.label("body"))
        self.stmt(s.body)
        inner = b.pop()
        b.pop()
        lines = parent.lines
        lines.append(f"  br label %{head}")
        lines.append(f"{head}:")
        self._phis(lines, carried, before, inner.label)
        lines += test.lines
        lines.append(f"  br i1 {cond}, label %{inner.first}, label %{done}")
        lines.append(f"{inner.first}:")
        lines += inner.lines
        lines.append(f"  br label %{head}{SCALAR if test.backwards or inner.backwards else ''}")
        lines.append(f"{done}:")
        parent.label = done
        for kept, slot, value in exits:
            kept.slots[slot] = value
            if value[0] == "%":
                b.level_of[value] = min(b.level_of.get(value, 0), b.level)
        self.forget(None)

    # --- conditionals

    def on_if(self, s: IfThenElse) -> None:
        cond = self.expr(s.condition)
        if is_literal(cond):
            if cond != "0":
                self.stmt(s.then_case)
            elif s.else_case is not None:
                self.stmt(s.else_case)
            return
        b = self.b
        before = {kept_var: dict(kept.slots) for kept_var, kept in self.registers.items()}
        then, then_slots = self._arm(s.then_case)
        entry = b.scopes[-1].label
        other: Scope | None = None
        other_slots = before
        if s.else_case is not None:
            self._restore(before)
            other, other_slots = self._arm(s.else_case)
        join = b.label("join")
        phis = []
        from_other = other.label if other is not None else entry
        merged: list[tuple[Registers, int, str]] = []
        for var, slots in then_slots.items():
            kept = self.registers[var]
            for slot, value in slots.items():
                rest = other_slots[var][slot]
                if value != rest:
                    name = b.name()
                    phis.append(
                        f"{name} = phi {llvm_type(kept.dtype)} [ {value}, %{then.label} ], [ {rest}, %{from_other} ]"
                    )
                    merged.append((kept, slot, name))
        self._restore(other_slots)
        b.branch(cond, then, other, join, phis)
        for kept, slot, name in merged:
            kept.slots[slot] = b.define_here(name)

    def _arm(self, body: Stmt) -> tuple[Scope, dict[Var, dict[int, str]]]:
        self.b.push(self.b.label("arm"))
        self.stmt(body)
        return self.b.pop(), {var: dict(kept.slots) for var, kept in self.registers.items()}

    def _restore(self, saved: dict[Var, dict[int, str]]) -> None:
        for var, slots in saved.items():
            if var in self.registers:
                self.registers[var].slots = dict(slots)

    def on_assert(self, s: AssertStmt) -> None:
        cond = self.expr(s.condition)
        if cond == "1":
            self.stmt(s.body)
            return
        kind, message = "AssertionError", s.message
        values: list[str] = []
        if isinstance(message, Call) and getattr(message.op, "name", "") == "tir.tvm_tuple":
            # (kind of the error, text, numbers): the last number follows the text
            if isinstance(message.args[0], StringImm):
                kind = message.args[0].value
            for number in message.args[2:]:
                values.append(self.convert(self.expr(number), number.dtype, DataType("int64")))
            message = message.args[1]
        self.require(cond, kind, message.value if isinstance(message, StringImm) else str(message), *values)
        self.stmt(s.body)

    # --- storage

    def on_allocate(self, s: Allocate) -> None:
        promoted = self.use.promoted.get(s.buffer_var)
        if promoted is not None:
            dtype, lanes, count = promoted
            self.registers[s.buffer_var] = Registers(dtype, lanes, count)
            self.stmt(s.body)
            del self.registers[s.buffer_var]
            return
        if getattr(s.buffer_var.type_annotation, "storage_scope", "") == TILE_REGISTERS:
            if _accesses(s.body, s.buffer_var):
                raise self.error(
                    f"buffer {s.buffer_var.name} in scope {TILE_REGISTERS!r} is in registers, but is read or written in memory;"
                    " tensorize every block that uses it",
                    s,
                )
            self.stmt(s.body)
            return
        count, constant = 1, True
        for extent in s.extents:
            if type(extent) is IntImm:
                count *= extent.value
            else:
                constant = False
        size = s.dtype.bytes * s.dtype.lanes
        if constant and count * size <= STACK_LIMIT:
            slot = self.b.alloca(f"alloca [{max(count, 1)} x {memory_type(s.dtype)}], align 64")
            self.pointers[s.buffer_var] = (slot, 64)
            self.forget(s.buffer_var)
            self.stmt(s.body)
            return
        total: Any = IntImm("int64", size)
        for extent in s.extents:
            total = total * extent.astype("int64")  # type: ignore[attr-defined]
        pointer = self.workspace(self.expr(total))
        self.pointers[s.buffer_var] = (pointer, 64)
        self.stmt(s.body)
        self.free_workspace(pointer)

    def on_allocate_const(self, s: AllocateConst) -> None:
        self.pointers[s.buffer_var] = (self.module_constant(s.data, s.dtype), 64)
        self.stmt(s.body)

    # --- given by the function emitter

    inside_parallel: bool

    def parallel(self, s: For, low: str, extent: str) -> None:
        raise self.error("parallel loops are emitted by the function", s)

    def require(self, cond: str, kind: str, message: str, *values: str) -> None:
        raise self.error("checks are emitted by the function", None)

    def workspace(self, size: str) -> str:
        raise self.error("workspaces are emitted by the function", None)

    def free_workspace(self, pointer: str) -> None:
        raise self.error("workspaces are emitted by the function", None)

    def module_constant(self, data: Any, dtype: Any) -> str:
        raise self.error("constants are emitted by the module", None)
