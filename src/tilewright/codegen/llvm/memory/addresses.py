"""LLVM IR text of addresses: a pointer, a sum over loop counters in the scopes that know them, and a constant beside the access."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.llvm.expressions.types import is_literal, llvm_type, resized
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Variables
from tilewright.codegen.llvm.memory.affine import Affine
from tilewright.ir import PrimExpr
from tilewright.tir import Mul, Var
from tilewright.tir.analysis.value_range import value_range


def common_alignment(align: int, step: int) -> int:
    """The largest power of two that divides both."""
    low = step & -step
    return min(align, low) if low else align


class Addresses:
    """Emits addresses. expr: function that gives the operand of an expression."""

    def __init__(self, frame: Frame, variables: Variables, expr: Callable[[PrimExpr], str]) -> None:
        self.b, self.iptr, self.variables, self.expr = frame.b, frame.iptr, variables, expr
        self.inside = False
        """Whether a part of an address is being computed. Such a part is read once for a whole loop; other scalars would take registers."""
        self.below: set[str] = set()
        """Pointers that may lie before the memory that they lead to. WebAssembly does not let an access add to those."""
        self.carries = frame.target.cpu.arch == "wasm"

    def index_leaf(self, leaf: PrimExpr) -> int | str:
        """A leaf of an affine form: a number, or an operand in the width of pointers."""
        const = self.variables.consts.get(leaf)
        if const is not None:
            return const
        iv = self.variables.ivs.get(leaf)
        if iv is not None:
            return iv
        if type(leaf) is Mul and leaf.dtype.is_int and int(self.iptr[1:]) > leaf.dtype.bits:
            # Which is the same, as the product has no more bits, and loops need not convert it.
            a, b = [self.index_leaf(factor) for factor in (leaf.a, leaf.b)]
            return (
                a * b
                if isinstance(a, int) and isinstance(b, int)
                else self.b.pure(f"mul {self.iptr} {a}, {b}", *map(str, (a, b)))
            )
        outer, self.inside = self.inside, True
        operand = self.expr(leaf)
        self.inside = outer
        if is_literal(operand):
            return int(operand)
        return resized(self.b, operand, llvm_type(leaf.dtype), self.iptr, not leaf.dtype.is_uint)

    def address(self, var: Var, form: Affine, size: int) -> tuple[str, int, int]:
        """(pointer, constant offset in bytes, alignment) of an element. size: bytes of an element.

        Terms are added outermost loop first, each sum in the scope where its last operand is known.
        """
        pointer, align = self.variables.pointer(var)
        const = form.const * size
        b, consts, ivs = self.b, self.variables.consts, self.variables.ivs
        level_of = b.level_of
        top = level_of.get(pointer, 0)
        terms: list[tuple[int, str, int]] = []
        for leaf, coefficient in form.terms:
            value: int | str | None = consts.get(leaf)
            if value is None:
                value = ivs.get(leaf)
                if value is None:
                    value = self.index_leaf(leaf)
            if isinstance(value, int):
                const += coefficient * size * value
            else:
                level = level_of.get(value, 0)
                if level > top:
                    top = level
                terms.append((level, value, coefficient * size))
        if terms:
            # Unrolled loops need the same sum many times.
            key = (pointer, align, *terms)
            known = b.scopes[top].addresses
            found = known.get(key)
            if found is None:
                found = known[key] = self._sum_up(pointer, align, terms)
                if self.carries and not self._rises(form):
                    self.below.add(found[0])
            pointer, align = found
        if const:
            align = common_alignment(align, const)
        return pointer, const, align

    def _sum_up(self, pointer: str, align: int, terms: list[tuple[int, str, int]]) -> tuple[str, int]:
        """pointer + the sum of value * step over terms (level, value, step), and its alignment."""
        pure, iptr = self.b.pure, self.iptr
        terms.sort(key=lambda term: term[0])
        at = 0
        while at < len(terms):
            level = terms[at][0]
            total = ""
            while at < len(terms) and terms[at][0] == level:
                _, value, step = terms[at]
                align = common_alignment(align, step)
                at += 1
                if (ahead := self.b.advanced(pointer, value, step)) is not None:
                    pointer = ahead
                    continue
                scaled = self.b.scaled(iptr, value, step)
                total = scaled if not total else pure(f"add {iptr} {total}, {scaled}", total, scaled)
            if total:
                pointer = pure(f"getelementptr i8, ptr {pointer}, {iptr} {total}", pointer, total)
        return pointer, align

    def _rises(self, form: Affine) -> bool:
        """Whether no term of a sum is negative, as far as is known."""
        for leaf, coefficient in form.terms:
            known = value_range(leaf, self.variables.known, wraps=False)
            if coefficient < 0 or known is None or known[0] < 0:
                return False
        return True

    def place(self, pointer: str, const: int, level: int = -1) -> str:
        """The operand for pointer + const, written beside its use so that it becomes an addressing mode."""
        if not const:
            return pointer
        fact = " nuw" if self.carries and const > 0 and pointer not in self.below else ""
        return self.b.here(f"getelementptr{fact} i8, ptr {pointer}, {self.iptr} {const}", level)
