"""Values of a function's variables. A part of a function captures the values that it needs from the function around it."""

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
    """Facts about the memory that a function and its parts use."""

    def __init__(self) -> None:
        self.affine = AffineForms()
        self.use = BufferUse(self.affine)
        self.noalias = True
        self.shared: frozenset[Var] = frozenset()
        """Data variables that may share one memory."""

    @property
    def written(self) -> set[Var]:
        """Data variables that the function stores to or passes on."""
        return self.use.written

    def is_apart(self, var: Var) -> bool:
        """Whether only stores to a data variable change its memory."""
        return self.noalias and var not in self.shared and var not in self.use.passed_on


class Variables:
    """Variables with their values: a known number, a loop's counter (in the width of pointers), an operand, a pointer, or registers."""

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
        """(type, operand outside, name here) of each value that a part of a function captures."""

    def on_var(self, var: Var) -> str:
        """The operand that holds a variable. Raises TVMError if the variable is not defined."""
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
        """The range of a variable; None if it is not known."""
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
        """Binds a variable to an operand from here on. known: its range."""
        if is_literal(operand) and not var.dtype.is_float and var.dtype.code != "handle":
            self.consts[var] = wrap_int(int(operand), var.dtype)
            return
        self.consts.pop(var, None)
        self.values[var] = operand
        if known is not None:
            self.ranges[var] = known

    def fix(self, var: Var, value: int) -> None:
        """Binds the variable of an unrolled loop to a number."""
        self.values.pop(var, None)
        self.ivs.pop(var, None)
        self.consts[var] = value

    def count(self, var: Var, iv: str) -> None:
        """Binds a loop's variable to its counter."""
        self.consts.pop(var, None)
        self.values.pop(var, None)
        self.ivs[var] = iv

    def forget(self, var: Var) -> None:
        """Removes the binding of `count`."""
        del self.ivs[var]
        self.values.pop(var, None)
