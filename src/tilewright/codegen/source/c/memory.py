"""C text of buffer accesses: elements, vectors of neighbouring elements, strided vectors, gathers, masks."""

from __future__ import annotations

from tilewright.codegen.source.c.expr import ExprEmitter
from tilewright.codegen.source.c.names import ctype, kept, scalar
from tilewright.codegen.source.text.operands import ATOM, CHOICE, PRODUCT, UNARY, Text
from tilewright.ir import DataType, PrimExpr
from tilewright.tir import Buffer, BufferLoad, BufferStore, Call, Var


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

    def element(self, buffer: Buffer, start: Text) -> str:
        return f"{self._base(buffer)}[{start}]"

    def place(self, buffer: Buffer, start: Text) -> Text:
        """The address of an element."""
        base = self._base(buffer)
        return Text(base) if start == "0" else Text(f"&{base}[{start}]", UNARY)

    def neighbours(self, e: PrimExpr) -> Text | None:
        """The address of the vector of neighbouring elements that an expression loads; None for other expressions."""
        if not isinstance(e, BufferLoad) or e.predicate is not None or e.buffer.dtype.lanes > 1 or e.dtype.lanes == 1:
            return None
        at = self.offset(e.buffer, e.indices)
        return self.place(e.buffer, at.start) if at is not None and at.step == "1" else None

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
            index = self.offsets(buffer, e.indices)
            name = self.module.gathered(dtype, index.dtype)
            if mask is not None:
                return self.lanes(dtype, f"gather_if_{name}", self.expr(mask), self._base(buffer), self.index(index))
            return self.lanes(dtype, f"gather_{name}", self._base(buffer), self.index(index))
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
        offsets = self.temporary(self.index(self.offsets(buffer, indices)), self.offsets(buffer, indices).dtype)
        dtype = self.offsets(buffer, indices).dtype
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
        at = self.offset(buffer, s.indices)
        word = _word(s.value)
        if word is not None and mask is None and buffer.dtype.lanes == 1 and at is not None and at.step == "1":
            value = self.expr(word)
            self.line(f"{self.function(f'tw_write_{scalar(word.dtype)}', self.place(buffer, at.start), value)};")
            self.forget()
            return
        value = self.expr(s.value)
        element = ctype(buffer.dtype.element)
        if buffer.dtype.lanes > 1 and lanes > 1:
            self._store_vectors(s, lanes, value)
        elif dtype.lanes == 1:
            assert at is not None
            text = f"{self.element(buffer, at.start)} = {value};"
            self.line(text if mask is None else f"if ({self.expr(mask)}) {text}")
        elif at is None:
            index = self.offsets(buffer, s.indices)
            name = self.module.gathered(dtype, index.dtype)
            given = [self._base(buffer), self.index(index), value]
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


def _word(e: PrimExpr) -> PrimExpr | None:
    """The integer whose bytes a vector consists of; None for vectors that are made otherwise."""
    if not isinstance(e, Call) or e.intrinsic != "reinterpret" or e.dtype.lanes == 1:
        return None
    value = e.args[0]
    return value if value.dtype.lanes == 1 and value.dtype.bits >= 32 and not value.dtype.is_float else None
