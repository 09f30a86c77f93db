"""C text of buffer accesses: elements, vectors of neighbouring elements, strided vectors, gathers, masks."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.codegen.source.c.expr import ExprEmitter
from tilewright.codegen.source.c.names import ATOM, CHOICE, PRODUCT, SUM, UNARY, Text, ctype, kept, scalar
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, Buffer, BufferLoad, BufferStore, Mul, Ramp, Sub, Var
from tilewright.tir.arithmetic import cast_to


class Lanes(NamedTuple):
    """Element offsets start, start + step, ...: the text of the start, and the text of the step in elements ("1" for neighbours)."""

    start: Text
    step: str


class MemoryEmitter(ExprEmitter):
    """Rules for reads and writes of buffers, as a part of a function's emitter."""

    elements: dict[Var, str]
    """Data variable -> the C element type of its pointer or array; "" for void."""

    def pointer(self, var: Var) -> Text:
        """The operand of a handle or of a buffer's data variable."""
        return self.expr(var)

    def _base(self, buffer: Buffer) -> str:
        """A pointer to a buffer's elements that has their type."""
        element = kept(buffer.dtype.element)
        text = self.pointer(buffer.data)
        if self.elements.get(buffer.data, "") == ctype(element):
            return text.at(ATOM)
        return f"(({scalar(element)}_any*){text.at(UNARY)})"

    # --- offsets

    def _index(self, e: PrimExpr) -> Text:
        outer, self.in_index = self.in_index, True
        text = self.expr(e)
        self.in_index = outer
        return text

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
        return Lanes(start, str(step) if isinstance(step, int) else self._index(step))

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
            text = self._index(e)
            if not isinstance(by, int):
                text = Text(f"{text.at(PRODUCT)} * {self._index(by).at(PRODUCT + 1)}", PRODUCT)
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

    def element(self, buffer: Buffer, start: Text) -> str:
        return f"{self._base(buffer)}[{start}]"

    def place(self, buffer: Buffer, start: Text) -> Text:
        """The address of an element."""
        base = self._base(buffer)
        return Text(base) if start == "0" else Text(f"&{base}[{start}]", UNARY)

    def _offsets(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
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

    # --- loads

    def on_load(self, e: BufferLoad) -> Text:
        buffer, dtype, mask = e.buffer, e.dtype, e.predicate
        lanes = dtype.lanes // buffer.dtype.lanes
        at = self.offset(buffer, e.indices)
        if buffer.dtype.lanes > 1 and lanes > 1:
            return self._load_vectors(buffer, e.indices, lanes, dtype, mask)
        if dtype.lanes == 1:
            assert at is not None
            text = Text(self.element(buffer, at.start))
            if mask is None:
                return text
            return Text(f"{self.expr(mask).at(CHOICE + 1)} ? {text} : 0", CHOICE)
        element = ctype(buffer.dtype.element)
        if at is None:
            index = self._offsets(buffer, e.indices)
            name = self.module.gathered(dtype, index.dtype)
            if mask is not None:
                return self.lanes(dtype, f"gather_if_{name}", self.expr(mask), self._base(buffer), self._index(index))
            return self.lanes(dtype, f"gather_{name}", self._base(buffer), self._index(index))
        step = "1" if buffer.dtype.lanes > 1 else at.step
        place = self.place(buffer, at.start)
        if mask is not None:
            return self.lanes(dtype, "load_if", self.expr(mask), f"(const {element}*){place.at(UNARY)}", step)
        if step == "0":
            return self.broadcast(Text(self.element(buffer, at.start)), dtype)
        if step == "1":
            return self.lanes(dtype, "load", place)
        return self.lanes(dtype, "load_step", f"(const {element}*){place.at(UNARY)}", step)

    def _pieces(self, buffer: Buffer, indices: tuple[PrimExpr, ...], lanes: int) -> list[Text]:
        """The addresses of the vectors in an access of several vectors."""
        offsets = self.temporary(self._index(self._offsets(buffer, indices)), self._offsets(buffer, indices).dtype)
        dtype = self._offsets(buffer, indices).dtype
        return [
            self.place(buffer, Text(f"{self.lane(offsets, dtype, k)} * {buffer.dtype.lanes}", PRODUCT))
            for k in range(lanes)
        ]

    def _load_vectors(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], lanes: int, dtype: DataType, mask: PrimExpr | None
    ) -> Text:
        if mask is not None:
            raise self.error("masks go with buffers of scalars", buffer)
        each = buffer.dtype
        parts = [(self.lanes(each, "load", p), each) for p in self._pieces(buffer, indices, lanes)]
        return self.joined(parts, dtype)

    # --- stores

    def on_store(self, s: BufferStore) -> None:
        buffer, dtype, mask = s.buffer, s.value.dtype, s.predicate
        lanes = dtype.lanes // buffer.dtype.lanes
        value = self.expr(s.value)
        at = self.offset(buffer, s.indices)
        element = ctype(buffer.dtype.element)
        if buffer.dtype.lanes > 1 and lanes > 1:
            self._store_vectors(s, lanes, value)
        elif dtype.lanes == 1:
            assert at is not None
            text = f"{self.element(buffer, at.start)} = {value};"
            self.line(text if mask is None else f"if ({self.expr(mask)}) {text}")
        elif at is None:
            index = self._offsets(buffer, s.indices)
            name = self.module.gathered(dtype, index.dtype)
            given = [self._base(buffer), self._index(index), value]
            how = f"scatter_{name}" if mask is None else f"scatter_if_{name}"
            self.line(self.lanes(dtype, how, *([] if mask is None else [self.expr(mask)]), *given) + ";")
        else:
            step = "1" if buffer.dtype.lanes > 1 else at.step
            place = self.place(buffer, at.start)
            if mask is not None:
                given = [self.expr(mask), f"({element}*){place.at(UNARY)}", step, value]
                self.line(self.lanes(dtype, "store_if", *given) + ";")
            elif step == "1":
                self.line(self.lanes(dtype, "store", place, value) + ";")
            else:
                self.line(self.lanes(dtype, "store_step", f"({element}*){place.at(UNARY)}", step, value) + ";")
        self.forget()

    def _store_vectors(self, s: BufferStore, lanes: int, value: Text) -> None:
        if s.predicate is not None:
            raise self.error("masks go with buffers of scalars", s)
        each, whole = s.buffer.dtype, s.value.dtype
        held = self.array(each, whole.lanes)
        self.line(self.lanes(whole, "store", held, value) + ";")
        for k, place in enumerate(self._pieces(s.buffer, s.indices, lanes)):
            part = self.lanes(each, "load", f"{held} + {k * each.lanes}")
            self.line(self.lanes(each, "store", place, part) + ";")
