"""What the variables of a function stand for; a part of a function takes over what it needs of those around it."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.types import int_literal, is_literal, llvm_type, resized
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.promote import BufferUse
from tilewright.codegen.llvm.memory.affine import AffineForms
from tilewright.codegen.llvm.memory.registers import Registers
from tilewright.ir import PrimExpr
from tilewright.tir import Var
from tilewright.tir.scalars import wrap_int


class Facts:
    """What is known of the memory that a function and its parts use."""

    def __init__(self) -> None:
        self.affine = AffineForms()
        self.use = BufferUse(self.affine)
        self.noalias = True
        self.shared: frozenset[Var] = frozenset()
        """Data variables that may be one and the same memory."""

    @property
    def written(self) -> set[Var]:
        """Data variables that anything in the function stores to or lets escape."""
        return self.use.written

    def may_change(self, var: Var) -> bool:
        """Whether memory may change while the function runs."""
        return var in self.use.written or var in self.shared or not self.noalias


class Variables:
    """Variables by what they stand for: a known number, a loop's counter (of pointer width), an operand, a pointer, registers."""

    def __init__(self, frame: Frame, facts: Facts, parent: Variables | None = None) -> None:
        self.frame, self.facts, self.parent = frame, facts, parent
        self.consts: dict[PrimExpr, int] = {}
        self.ivs: dict[PrimExpr, str] = {}
        self.values: dict[Var, str] = {}
        self.pointers: dict[Var, tuple[str, int]] = {}
        """Data variable -> (pointer operand, alignment in bytes)."""
        self.registers: dict[Var, Registers] = {}
        self.ranges: dict[Var, tuple[int, int]] = dict(parent.ranges) if parent else {}
        self.params: list[str] = []
        self.captures: list[tuple[str, str, str]] = []
        """(type, operand around, name here) of what a part of a function takes."""

    def on_var(self, var: Var) -> str:
        """The operand that holds a variable."""
        const = self.consts.get(var)
        if const is not None:
            return int_literal(const, var.dtype)
        value = self.values.get(var)
        if value is None:
            iv = self.ivs.get(var)
            if iv is None:
                return self._from_around(var)
            value = self.values[var] = resized(self.frame.b, iv, self.frame.iptr, llvm_type(var.dtype), True)
        return value

    def known(self, var: Var) -> tuple[int, int] | None:
        """The range that a variable is known to lie in."""
        const = self.consts.get(var)
        return (const, const) if const is not None else self.ranges.get(var)

    def _from_around(self, var: Var) -> str:
        pointer = self.pointers.get(var)
        if pointer is not None:
            return pointer[0]
        if self.parent is None:
            raise self.frame.error(f"variable {var.name} is used but never defined", var)
        outer = self.parent.on_var(var)
        if is_literal(outer):
            self.consts[var] = wrap_int(int(outer), var.dtype)
            return outer
        name = self.values[var] = self._capture(llvm_type(var.dtype), "", outer)
        return name

    def pointer(self, var: Var) -> tuple[str, int]:
        """The address of a buffer's storage and its alignment in bytes."""
        found = self.pointers.get(var)
        if found is None:
            if self.parent is None or var in self.values:
                return self.on_var(var), 1
            outer, align = self.parent.pointer(var)
            noalias = "noalias " if self.facts.noalias and var not in self.facts.shared else ""
            name = self._capture("ptr", f"{noalias}align {align} ", outer)
            found = self.pointers[var] = (name, align)
        return found

    def _capture(self, kind: str, attributes: str, outer: str) -> str:
        name = f"%c{len(self.captures)}"
        self.captures.append((kind, outer, name))
        self.params.append(f"{kind} {attributes}{name}")
        return name

    # --- definitions

    def define(self, var: Var, operand: str, known: tuple[int, int] | None) -> None:
        """Makes a variable stand for an operand from here on; `known`: the range that it lies in."""
        if is_literal(operand) and not var.dtype.is_float and var.dtype.code != "handle":
            self.consts[var] = wrap_int(int(operand), var.dtype)
            return
        self.consts.pop(var, None)
        self.values[var] = operand
        if known is not None:
            self.ranges[var] = known

    def fix(self, var: Var, value: int) -> None:
        """Makes the variable of an unrolled loop stand for a number."""
        self.values.pop(var, None)
        self.ivs.pop(var, None)
        self.consts[var] = value

    def count(self, var: Var, iv: str) -> None:
        """Makes a loop's variable stand for its counter."""
        self.consts.pop(var, None)
        self.values.pop(var, None)
        self.ivs[var] = iv

    def forget(self, var: Var) -> None:
        """Ends what `count` began."""
        del self.ivs[var]
        self.values.pop(var, None)
