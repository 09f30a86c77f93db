"""The offsets of the elements that an access takes."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.codegen.source.text.expressions import Expressions
from tilewright.codegen.source.text.operands import ATOM, PRODUCT, SUM, UNARY, Text
from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, Buffer, Mul, Ramp, Sub
from tilewright.tir.arithmetic import cast_to


class Lanes(NamedTuple):
    """Element offsets start, start + step, ...: the text of the start, and the text of the step in elements ("1" for neighbours)."""

    start: Text
    step: str


class Offsets(Expressions):
    """Texts of offsets, as a part of a function's emitter."""

    def _sequence(self, e: PrimExpr) -> tuple[list[tuple[PrimExpr, int]], PrimExpr | int] | None:
        """(terms of the start with their factors, step) if the lanes are an arithmetic sequence; otherwise None."""
        if e.dtype.lanes == 1:
            return [(e, 1)], 0
        if isinstance(e, Ramp) and e.base.dtype.lanes == 1:
            step = e.stride
            return [(e.base, 1)], step.value if isinstance(step, IntImm) else step
        if isinstance(e, Broadcast) and e.value.dtype.lanes == 1:
            return [(e.value, 1)], 0
        if isinstance(e, (Add, Sub)):
            a, b = self._sequence(e.a), self._sequence(e.b)
            if a is None or b is None or not (isinstance(a[1], int) and isinstance(b[1], int)):
                return None
            sign = 1 if isinstance(e, Add) else -1
            return [*a[0], *[(t, sign * k) for t, k in b[0]]], a[1] + sign * b[1]
        if isinstance(e, Mul) and isinstance(e.b, Broadcast) and isinstance(e.b.value, IntImm):
            a, factor = self._sequence(e.a), e.b.value.value
            if a is None or not isinstance(a[1], int):
                return None
            return [(t, k * factor) for t, k in a[0]], a[1] * factor
        return None

    def offset(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Lanes | None:
        """The element offsets of an access; None unless its lanes are an arithmetic sequence."""
        strides = buffer.element_strides() if len(indices) != 1 or buffer.strides else [IntImm("int32", 1)]
        terms: list[tuple[PrimExpr, Any]] = []
        step: Any = 0
        for index, stride in zip(indices, strides, strict=True):
            found = self._sequence(index)
            if found is None:
                return None
            by = stride.value if isinstance(stride, IntImm) else stride
            if isinstance(by, int) and isinstance(found[1], int):
                step = step + found[1] * by if isinstance(step, int) else step
            elif found[1] != 0:
                if step != 0 or (by != 1 and not isinstance(by, PrimExpr)):
                    return None
                step = found[1] if by == 1 else self._product(found[1], by)
            terms += [(t, (k, by)) for t, k in found[0]]
        terms.append((buffer.elem_offset, (1, 1)))
        start = self._sum(terms)
        lanes = buffer.dtype.lanes
        if lanes > 1:
            start = Text(f"{start.at(PRODUCT)} * {lanes}", PRODUCT) if start != "0" else start
        return Lanes(start, str(step) if isinstance(step, int) else self.index(step))

    def _product(self, a: Any, b: Any) -> Any:
        return a.astype("int64") * b.astype("int64") if not isinstance(a, int) else b * a

    def _sum(self, terms: list[tuple[PrimExpr, tuple[int, Any]]]) -> Text:
        parts: list[Text] = []
        const = 0
        for e, (k, by) in terms:
            if isinstance(e, IntImm) and isinstance(by, int):
                const += e.value * k * by
                continue
            factor = k * by if isinstance(by, int) else k
            text = self.index(e)
            if not isinstance(by, int):
                text = Text(f"{text.at(PRODUCT)} * {self.index(by).at(PRODUCT + 1)}", PRODUCT)
            if factor == 0:
                continue
            parts.append(text if factor == 1 else Text(f"{text.at(PRODUCT)} * {factor}", PRODUCT))
        if const or not parts:
            parts.append(Text(str(const), ATOM if const >= 0 else UNARY))
        if len(parts) == 1:
            return parts[0]
        whole = parts[0].at(SUM)
        for part in parts[1:]:
            negative = part.startswith("-") and part.strength >= UNARY
            whole += f" - {part[1:]}" if negative else f" + {part.at(SUM + 1)}"
        return Text(whole, SUM)

    def offsets(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """An integer vector of the element offset of each lane."""
        lanes = max([index.dtype.lanes for index in indices])
        offset = buffer.elem_offset
        whole = len(indices) == 1 and not buffer.strides
        if whole and isinstance(offset, IntImm) and offset.value == 0:
            return indices[0]
        total: Any = None
        for index, stride in zip(indices, buffer.element_strides(), strict=True):
            wide = index if index.dtype.lanes == lanes else Broadcast(index, lanes)
            step = Broadcast(cast_to(stride, index.dtype.element), lanes)
            term = wide if isinstance(stride, IntImm) and stride.value == 1 else wide * step
            total = term if total is None else total + cast_to(term, total.dtype)
        if not (isinstance(offset, IntImm) and offset.value == 0):
            total = total + Broadcast(cast_to(offset, total.dtype.element), lanes)
        found: PrimExpr = total
        return found


__all__ = ["Lanes", "Offsets"]
