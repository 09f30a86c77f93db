"""Accesses of kernels: elements, vectors of neighbours, and lanes one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.arith import Analyzer
from tilewright.codegen.source.device.expressions import DeviceExpressions
from tilewright.codegen.source.text.offsets import Lanes
from tilewright.codegen.source.text.operands import PRODUCT, SUM, UNARY, Text
from tilewright.ir import DataType, IntImm, PrimExpr, structural_equal
from tilewright.node import nodes_of
from tilewright.tir import Add, Buffer, BufferLoad, BufferStore, Call, Mul, Ramp, Sub, Var
from tilewright.tir.scalars import BINARY


class Storage(NamedTuple):
    """Memory that a variable points to. name: of the pointer or array; element: the type of its elements in the text, "" where it is
    not known; scope: where it lies; top: whether it is declared at the top of the kernel; single: whether it is one value."""

    name: str
    element: str
    scope: str
    top: bool
    single: bool = False


class DeviceMemory(DeviceExpressions):
    """Rules for reads and writes of buffers, as a part of a kernel's emitter."""

    storage: dict[Var, Storage]
    views: dict[tuple[Var, str, str], str]
    analyzer: Analyzer
    top: list[str]
    """Lines at the top of the kernel."""

    def stored(self, var: Var) -> Storage:
        """The storage of a data variable."""
        found = self.storage.get(var)
        if found is None:
            raise self.error(f"{var.name} is used, but no parameter or allocation of the kernel defines it", var)
        return found

    def base(self, buffer: Buffer) -> str:
        """A pointer to a buffer's elements that has their type."""
        element = self.dialect.stored(buffer.dtype.element)
        return self.pointer_to(buffer.data, element, buffer.name)

    def pointer_to(self, var: Var, element: str, hint: str) -> str:
        """A pointer to storage as elements of a type. hint: the name, where one must be declared."""
        storage = self.stored(var)
        if storage.element == element:
            return storage.name
        kind = self.dialect.pointer(element, storage.scope)
        if not storage.top:
            return f"(({kind}){storage.name})"
        key = var, element, hint
        if key not in self.views:
            self.views[key] = self.names.fresh(hint)
            self.top.append(f"  {kind} const {self.views[key]} = ({kind}){storage.name};")
        return self.views[key]

    def place(self, buffer: Buffer, start: Text) -> Text:
        """The address of an element."""
        base = self.base(buffer)
        return Text(base) if start == "0" else Text(f"&{base}[{start}]", UNARY)

    def moved(self, base: str, by: Text) -> Text:
        """A pointer some elements further."""
        return Text(base) if by == "0" else Text(f"&{base}[{by}]", UNARY)

    def at(self, e: BufferLoad | BufferStore) -> Lanes | None:
        """The offsets of an access. A long start gets a name."""
        self.hint, outer = f"{e.buffer.name}_at", self.hint
        found = self.offset(e.buffer, e.indices)
        self.hint = outer
        if found is None or len(found.start) <= 60:
            return found
        dtype = max([i.dtype.element for i in e.indices], key=lambda t: t.bits)
        return Lanes(self.temporary(found.start, dtype, f"{e.buffer.name}_at"), found.step)

    def is_aligned(self, buffer: Buffer, indices: tuple[PrimExpr, ...], lanes: int) -> bool:
        """Whether an access of neighbours begins at a multiple of its lanes."""
        index = indices[-1]
        if len(indices) != 1 or lanes & (lanes - 1):
            return False
        start = index.base if isinstance(index, Ramp) else index
        offset = buffer.elem_offset
        if not isinstance(offset, IntImm) or offset.value % lanes:
            return False
        if buffer.dtype.lanes > 1:
            return True
        found = self.analyzer.modular_set(start)
        return bool(found.coeff % lanes == 0 and found.base % lanes == 0)

    # --- loads

    def on_load(self, e: BufferLoad) -> Text:
        buffer, dtype = e.buffer, e.dtype
        scope = self.stored(buffer.data).scope
        if e.predicate is not None:
            raise self.error("masked loads are cut into elements first", e)
        if dtype.lanes == 1:
            return Text(self._element(e))
        at = self.at(e)
        step = "1" if at is not None and buffer.dtype.lanes > 1 else at and at.step
        if at is not None and step == "1":
            aligned = self.is_aligned(buffer, e.indices, dtype.lanes)
            whole = self.dialect.load(self.place(buffer, at.start), dtype, scope, aligned)
            if whole is not None:
                return whole
        if at is not None and step == "0":
            return self.dialect.splat(dtype, Text(f"{self.base(buffer)}[{at.start}]"))
        return self.dialect.joined(dtype, self._elements(e, dtype))

    def _elements(self, e: BufferLoad | BufferStore, dtype: DataType) -> list[Text]:
        """The elements of an access, one by one."""
        base, at = self.base(e.buffer), self.offset(e.buffer, e.indices)
        if at is None:
            lanes = self.lanes_of(self.offsets(e.buffer, e.indices))
            return [Text(f"{base}[{lane}]") for lane in lanes]
        step = "1" if e.buffer.dtype.lanes > 1 else at.step
        start = at.start if len(at.start) < 20 else self.temporary(at.start, DataType("int32"), f"{e.buffer.name}_at")
        out = []
        for k in range(dtype.lanes):
            by = str(int(step) * k) if step.lstrip("-").isdigit() else f"{Text(step, PRODUCT).at(PRODUCT)} * {k}"
            if by == "0" or k == 0:
                out.append(Text(f"{base}[{start}]"))
            elif start == "0":
                out.append(Text(f"{base}[{by}]"))
            else:
                out.append(Text(f"{base}[{start.at(SUM)} + {by}]"))
        return out

    # --- stores

    def on_store(self, s: BufferStore) -> None:
        buffer, dtype = s.buffer, s.value.dtype
        if s.predicate is not None:
            raise self.error("masked stores are cut into elements first", s)
        scope = self.stored(buffer.data).scope
        update = self._update(s)
        self._name_repeated(s if update is None else s.replace(value=update[1]))
        if dtype.lanes > 1:
            self._store_vector(s, self.value(s.value), scope)
        elif update is not None:
            by = self.value(update[1])
            self.line(f"{self._element(s)} {update[0]}= {by};")
        else:
            value = self.value(s.value)
            self.line(f"{self._element(s)} = {value};")
        self.forget()

    def _element(self, s: BufferLoad | BufferStore) -> str:
        storage = self.stored(s.buffer.data)
        if storage.single and storage.element == self.dialect.stored(s.buffer.dtype):
            return storage.name
        at = self.at(s)
        assert at is not None
        return f"{self.base(s.buffer)}[{at.start}]"

    def _name_repeated(self, s: BufferStore) -> None:
        """Names indices, and vectors in memory, that a statement has several times."""
        loads = [e for e in nodes_of(s.value, BufferLoad) if len(e.indices) == 1]
        starts = [_start(i) for i in (*s.indices[:1], *[e.indices[0] for e in loads])]
        for group in _alike([e for e in starts if not isinstance(e, (Var, IntImm))]):
            known = self.index(group[0])
            if len(known) >= 16:
                name = self.temporary(known, group[0].dtype, "at")
                for e in group:
                    self.scopes[-1].known[id(e)] = e, name
        if any([e.intrinsic == "if_then_else" for e in nodes_of(s.value, Call)]):
            return
        for same in _alike([e for e in loads if e.dtype.lanes > 1]):
            name = self.temporary(self.expr(same[0]), same[0].dtype, f"{same[0].buffer.name}_lanes")  # type: ignore[attr-defined]
            for e in same:
                self.scopes[-1].known[id(e)] = e, name

    @staticmethod
    def _update(s: BufferStore) -> tuple[str, PrimExpr] | None:
        """(sign, operand) of an element that is added to, or multiplied."""
        e = s.value
        if not isinstance(e, (Add, Sub, Mul)) or e.dtype.bits < 32:
            return None
        old = e.a
        same = isinstance(old, BufferLoad) and old.buffer.data is s.buffer.data and old.buffer.dtype == s.buffer.dtype
        if not same or not structural_equal(old.indices, s.indices, map_free_vars=False):  # type: ignore[attr-defined]
            return None
        return BINARY[type(e)].sign, e.b

    def _store_vector(self, s: BufferStore, value: Text, scope: str) -> None:
        buffer, dtype = s.buffer, s.value.dtype
        at = self.at(s)
        if at is not None and (at.step == "1" or buffer.dtype.lanes > 1):
            aligned = self.is_aligned(buffer, s.indices, dtype.lanes)
            line = self.dialect.store(self.place(buffer, at.start), value, dtype, scope, aligned)
            if line is not None:
                self.line(line)
                return
        value = self.named(value, dtype)
        for k, element in enumerate(self._elements(s, dtype)):
            self.line(f"{element} = {self.dialect.lane(value, dtype, k)};")


def _start(index: PrimExpr) -> PrimExpr:
    return index.base if isinstance(index, Ramp) else index


def _alike(nodes: Sequence[PrimExpr]) -> list[list[PrimExpr]]:
    """Groups of two or more equal expressions; loads are equal if their buffers are the same."""
    groups: list[list[PrimExpr]] = []
    for e in nodes:
        for group in groups:
            if structural_equal(e, group[0], map_free_vars=False) and _buffer(e) is _buffer(group[0]):
                group.append(e)
                break
        else:
            groups.append([e])
    return [group for group in groups if len(group) > 1]


def _buffer(e: PrimExpr) -> Buffer | None:
    return e.buffer if isinstance(e, BufferLoad) else None


__all__ = ["DeviceMemory", "Storage"]
