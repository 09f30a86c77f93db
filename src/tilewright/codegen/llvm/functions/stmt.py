"""LLVM IR text of statements: loops, which are unrolled as they are written, conditionals, checks, allocations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import is_literal, llvm_type, memory_type
from tilewright.codegen.llvm.functions.builder import Scope
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.loops import Loops
from tilewright.codegen.llvm.functions.source_lines import mark_lines
from tilewright.codegen.llvm.functions.variables import Facts, Variables
from tilewright.codegen.llvm.functions.workspaces import Workspaces
from tilewright.codegen.llvm.memory.accesses import MemoryEmitter
from tilewright.codegen.llvm.memory.registers import Registers
from tilewright.codegen.operations import STATEMENTS
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.node import any_node
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
from tilewright.tir.arithmetic import cast_to, multiply

if TYPE_CHECKING:
    from tilewright.tir.stmt import DeclBuffer


TILE_REGISTERS = "amx.tile"
"""Storage scope of tile registers. Buffers in it take no memory."""
STACK_LIMIT = 256 << 10
"""The most bytes of an allocation of constant size on the stack. Larger ones come from the workspace."""
_THREADS = "a CPU has no GPU threads: the loop is bound to a thread axis"


def _accesses(body: Stmt, data: Var) -> bool:
    """Whether a statement loads or stores elements of a buffer."""
    return any_node(body, lambda x: isinstance(x, (BufferLoad, BufferStore)) and x.buffer.data is data)


class StmtEmitter:
    """Emits statements. parallel, compute: emit functions for parallel loops and for bodies of packed functions; None inside such a
    function."""

    def __init__(
        self,
        frame: Frame,
        facts: Facts,
        variables: Variables,
        operands: Operands,
        expressions: ExprEmitter,
        memory: MemoryEmitter,
        loops: Loops,
        parallel: Callable[[For, str, str], None] | None = None,
        compute: Callable[[AttrStmt], None] | None = None,
    ) -> None:
        self.frame, self.facts, self.variables, self.operands = frame, facts, variables, operands
        self.b, self.expr, self.expressions, self.memory, self.loops = (
            frame.b, expressions.expr, expressions, memory, loops,
        )  # fmt: skip
        self.workspaces = Workspaces(frame, operands, expressions)
        self._parallel, self._compute = parallel, compute
        self._rules: dict[type, Callable[[Any], None]] = {}

    def stmt(self, s: Stmt) -> None:
        rule = self._rules.get(type(s)) or STATEMENTS.rule(type(s), (self, self.memory))
        if rule is None:
            raise self.frame.error(
                f"{type(s).__name__} must be lowered before code generation (run the lowering pipeline)", s
            )
        self._rules[type(s)] = rule
        line_of = self.frame.module.line_of
        line = line_of(s) if line_of is not None else None
        if line is None:
            rule(s)
            return
        scopes = list(self.b.scopes)
        lengths = [len(scope.lines) for scope in scopes]
        rule(s)
        mark_lines(scopes, lengths, line)

    def on_sequence(self, s: SeqStmt) -> None:
        for item in s.seq:
            self.stmt(item)

    def on_hint(self, s: Prefetch) -> None:
        """Ignores a prefetch that the schedule did not turn into calls."""

    def on_evaluate(self, s: Evaluate) -> None:
        if type(s.value) is not IntImm:
            self.expr(s.value)

    def on_let_statement(self, s: LetStmt) -> None:
        if s.var.dtype.code == "handle" and isinstance(s.value, Var) and s.value in self.variables.pointers:
            self.variables.pointers[s.var] = self.variables.pointers[s.value]
        else:
            self.expressions.bind(s.var, s.value)
        self.stmt(s.body)

    def on_declaration(self, s: DeclBuffer) -> None:
        self.stmt(s.body)

    def on_attribute(self, s: AttrStmt) -> None:
        if s.attr_key == "thread_extent":
            raise self.frame.error(_THREADS, s)
        if s.attr_key == "compute_scope" and self._compute is not None:
            self._compute(s)
            return
        self.stmt(s.body)

    # --- loops

    def on_for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING:
            raise self.frame.error(_THREADS, s)
        low, extent = self.expr(s.min), self.expr(s.extent)
        constant = is_literal(extent)
        count = int(extent) if constant else -1
        if constant and count <= 0:
            return
        if is_literal(low) and constant and (count == 1 or s.kind == ForKind.UNROLLED):
            for k in range(count):
                self.variables.fix(s.loop_var, int(low) + k)
                self.stmt(s.body)
            self.variables.consts.pop(s.loop_var, None)
            return
        if count == 1:
            self.expressions.bind(s.loop_var, s.min)
            self.stmt(s.body)
            return
        if s.kind == ForKind.PARALLEL and self._parallel is not None:
            self._parallel(s, low, extent)
            return
        self.loops.running(s, low, extent, lambda: self.stmt(s.body))

    def on_while(self, s: While) -> None:
        self.loops.repeated(s, lambda: self.stmt(s.body))

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
        before = {kept_var: dict(kept.slots) for kept_var, kept in self.variables.registers.items()}
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
            kept = self.variables.registers[var]
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
        return self.b.pop(), {var: dict(kept.slots) for var, kept in self.variables.registers.items()}

    def _restore(self, saved: dict[Var, dict[int, str]]) -> None:
        for var, slots in saved.items():
            if var in self.variables.registers:
                self.variables.registers[var].slots = dict(slots)

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
                values.append(self.operands.convert(self.expr(number), number.dtype, DataType("int64")))
            message = message.args[1]
        self.frame.require(cond, kind, message.value if isinstance(message, StringImm) else str(message), *values)
        self.stmt(s.body)

    def on_allocate(self, s: Allocate) -> None:
        promoted = self.facts.use.promoted.get(s.buffer_var)
        if promoted is not None:
            dtype, lanes, count = promoted
            self.variables.registers[s.buffer_var] = Registers(dtype, lanes, count)
            self.stmt(s.body)
            del self.variables.registers[s.buffer_var]
            return
        if getattr(s.buffer_var.type_annotation, "storage_scope", "") == TILE_REGISTERS:
            if _accesses(s.body, s.buffer_var):
                raise self.frame.error(
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
            align = self.frame.target.cpu.alignment
            slot = self.b.alloca(f"alloca [{max(count, 1)} x {memory_type(s.dtype)}], align {align}")
            self.variables.pointers[s.buffer_var] = (slot, align)
            self.memory.forget(s.buffer_var)
            self.stmt(s.body)
            return
        total: PrimExpr = IntImm("int64", size)
        for extent in s.extents:
            total = multiply(total, cast_to(extent, "int64"))
        pointer = self.workspaces.allocate(self.expr(total))
        self.variables.pointers[s.buffer_var] = (pointer, self.frame.target.cpu.alignment)
        self.stmt(s.body)
        self.workspaces.free(pointer)

    def on_allocate_const(self, s: AllocateConst) -> None:
        self.variables.pointers[s.buffer_var] = (
            self.frame.module.constant(s.data, s.dtype),
            self.frame.target.cpu.alignment,
        )
        self.stmt(s.body)
