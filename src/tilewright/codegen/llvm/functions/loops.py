"""LLVM IR text of loops, with phis for counters and registers."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import is_literal, llvm_type
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Facts, Variables
from tilewright.codegen.llvm.memory.accesses import MemoryEmitter
from tilewright.codegen.llvm.memory.registers import Registers
from tilewright.ir import PrimExpr
from tilewright.node import nodes_of
from tilewright.tir import BufferStore, For, Var, While
from tilewright.tir.stmt_functor import used_vars

SCALAR, SCALAR_LOOPS = (
    ", !llvm.loop !0",
    """\
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.vectorize.enable", i1 false}""",
)
"""Metadata that keeps LLVM from vectorising a loop, and its definition. It is used for loops that go backwards through memory, on which
two models of the vectoriser may disagree and abort (LLVM 22)."""

VECTORS, VECTOR_LOOPS = (
    ", !llvm.loop !2",
    """\
!2 = distinct !{!2, !3, !4}
!3 = !{!"llvm.loop.unroll.disable"}
!4 = !{!"llvm.loop.vectorize.followup_vectorized", !5}
!5 = !{!"llvm.loop.isvectorized", i32 1}""",
)
"""Metadata that keeps LLVM from unrolling a loop before it vectorises it, and its definition. It is used for innermost loops that write
consecutive elements: once such a loop is unrolled, the loop around it is the innermost one, which LLVM vectorises with gathers and
scatters (a matrix product in tiles of 32 x 32 became 11 times slower)."""


LEAST_COUNT = 16
"""Shorter loops are unrolled, and vectorised as straight-line code."""

ELEMENT_BYTES = {1, 2, 4, 8}


def _writes_along(s: For) -> bool:
    """Whether the loop stores, and all of its stores are to other elements in each iteration."""
    stores = nodes_of(s.body, BufferStore)
    return bool(stores) and all([any([s.loop_var in used_vars(i) for i in store.indices]) for store in stores])


class Loops:
    """Emits loops around statements."""

    def __init__(
        self,
        frame: Frame,
        facts: Facts,
        variables: Variables,
        operands: Operands,
        expressions: ExprEmitter,
        memory: MemoryEmitter,
    ) -> None:
        self.facts, self.variables, self.operands, self.memory = facts, variables, operands, memory
        self.b, self.iptr, self.expr, self.expressions = frame.b, frame.iptr, expressions.expr, expressions
        self.steps_pointers = frame.module.steps_pointers

    def running(self, s: For, low: str, extent: str, body: Callable[[], None]) -> None:
        """Emits a loop with its extent as the number of iterations."""
        begin = self.wide(low, s.min)
        count = self.wide(extent, s.extent)
        self.note_range(s)
        self.counted(
            s.loop_var,
            begin,
            self.sum(begin, count),
            is_literal(extent),
            self.facts.use.stored.get(id(s), set()),
            body,
            is_literal(count) and int(count) >= LEAST_COUNT and _writes_along(s),
        )

    def wide(self, operand: str, e: PrimExpr) -> str:
        """An integer operand resized to the width of pointers."""
        return (
            operand
            if is_literal(operand)
            else self.operands.resize(operand, llvm_type(e.dtype), self.iptr, not e.dtype.is_uint)
        )

    def note_range(self, s: For) -> None:
        """Records the range of a loop's variable."""
        low, extent = self.expressions.bounds(s.min), self.expressions.bounds(s.extent)
        if low is not None and extent is not None:
            self.variables.ranges[s.loop_var] = (low[0], low[1] + extent[1] - 1)
        elif low is not None:
            self.variables.ranges[s.loop_var] = (low[0], (1 << 31) - 1)
        else:
            self.variables.ranges.pop(s.loop_var, None)

    def sum(self, a: str, b: str) -> str:
        if is_literal(a) and is_literal(b):
            return str(int(a) + int(b))
        return b if a == "0" else self.b.pure(f"add nsw {self.iptr} {a}, {b}", a, b)

    def counted(
        self,
        var: Var,
        begin: str,
        end: str,
        nonempty: bool,
        stored: set[Var],
        body: Callable[[], None],
        for_vectors: bool = False,
    ) -> None:
        """Emits a loop over var = begin, ..., end - 1, in the width of pointers. Registers that it writes become phis.

        for_vectors: the loop is left to the vectoriser if it is an innermost one and its accesses are to consecutive elements."""
        b, iptr = self.b, self.iptr
        parent = b.scopes[-1]
        parent.has_loops = True
        head, done = b.label("loop"), b.label("done")
        before = parent.label
        scope = b.push(head, nonempty)
        scope.changes = stored
        iv = b.define_here(b.name())
        if self.steps_pointers:
            scope.counter, scope.begin = iv, begin
        self.variables.count(var, iv)
        carried = self._carry(stored)
        body()
        inner = b.pop()
        following = b.name()
        again = b.name()
        lines = parent.lines
        pointers = b.advance(inner, iptr, before)
        if nonempty:
            lines.append(f"  br label %{head}")
        else:
            some = b.name()
            lines.append(f"  {some} = icmp slt {iptr} {begin}, {end}")
            lines.append(f"  br i1 {some}, label %{head}, label %{done}")
        lines.append(f"{head}:")
        lines.append(f"  {iv} = phi {iptr} [ {begin}, %{before} ], [ {following}, %{inner.label} ]")
        lines += pointers
        self._phis(lines, carried, before, inner.label)
        lines += inner.lines
        lines.append(f"  {following} = add nsw {iptr} {iv}, 1")
        lines.append(f"  {again} = icmp slt {iptr} {following}, {end}")
        consecutive = for_vectors and not inner.has_loops and not carried and inner.steps <= ELEMENT_BYTES
        hint = SCALAR if inner.backwards else VECTORS if consecutive else ""
        lines.append(f"  br i1 {again}, label %{head}, label %{done}{hint}")
        lines.append(f"{done}:")
        parent.label = done
        self._leave(carried, None if nonempty else before, inner.label)
        self.variables.forget(var)

    def _carry(self, stored: set[Var]) -> list[tuple[Registers, int, str, str]]:
        """(registers, slot, value before the loop, name of the phi) for each slot that the loop may write."""
        carried = []
        for var in stored:
            kept = self.variables.registers.get(var)
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
        """Sets registers to their values after a loop. If the loop may not have run, phis choose them."""
        b = self.b
        for kept, slot, value, _ in carried:
            last = kept.slots[slot]
            if skipped is not None:
                name = b.here(f"phi {llvm_type(kept.dtype)} [ {value}, %{skipped} ], [ {last}, %{latch} ]")
                kept.slots[slot] = name
            elif last[0] == "%":
                b.level_of[last] = min(b.level_of.get(last, 0), b.level)

    def repeated(self, s: While, body: Callable[[], None]) -> None:
        """Emits a loop that runs while a condition holds."""
        b = self.b
        parent = b.scopes[-1]
        head, done = b.label("while"), b.label("done")
        before = parent.label
        stored = self.facts.use.stored.get(id(s), set())
        b.push(head).changes = stored
        carried = self._carry(stored)
        self.memory.forget(None)
        cond = self.expr(s.condition)
        test = b.scopes[-1]
        exits = [(kept, slot, kept.slots[slot]) for kept, slot, _, _ in carried]
        b.push(b.label("body"))
        body()
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
        self.memory.forget(None)
