"""Buffer accesses: addresses, loads, stores, masks, and small local buffers kept in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tilewright.codegen.llvm.affine import Affine, AffineForms
from tilewright.codegen.llvm.crossing import column
from tilewright.codegen.llvm.expr import ExprEmitter
from tilewright.codegen.llvm.interleave import MOST_STEP, fixed_lanes, piece, segments, stepped
from tilewright.codegen.llvm.types import is_literal, llvm_type, memory_type, splat
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import Broadcast, Buffer, BufferLoad, BufferStore, Var


class Registers:
    """A local buffer kept in SSA values: `slots` of `lanes` elements each, by element offset."""

    __slots__ = ("dtype", "lanes", "slots")

    def __init__(self, dtype: DataType, lanes: int, count: int) -> None:
        self.dtype = dtype.with_lanes(lanes)
        self.lanes = lanes
        self.slots: dict[int, str] = dict.fromkeys(range(0, count, lanes), "poison")

    def holds(self, offset: int) -> bool:
        """Whether the buffer reaches to an element. Where an unrolled loop goes further, a condition keeps it from running."""
        return 0 <= offset < len(self.slots) * self.lanes


APART = 48
"""Lines of code between two loads of vectors from which on they are kept apart, where registers are few."""
TOGETHER = 4
"""Loads from one base that LLVM brings together (X86InstrInfo::shouldScheduleLoadsNear)."""


class MemoryEmitter(ExprEmitter):
    """The part of a function's emitter that reads and writes buffers."""

    affine: AffineForms
    pointers: dict[Var, tuple[str, int]]
    """Data variable -> (pointer operand, alignment in bytes)."""
    registers: dict[Var, Registers]
    written: set[Var]
    """Data variables that anything in the function stores to or lets escape."""
    noalias: bool
    shared: frozenset[Var]
    """Data variables that may be one and the same memory."""
    in_address = False
    """Whether part of an address is being computed: it is read once for a whole loop; other scalars would take registers from it."""

    def pointer(self, var: Var) -> tuple[str, int]:
        """The address of a buffer's storage and its alignment in bytes."""
        found = self.pointers.get(var)
        return found if found is not None else (self.expr(var), 1)

    # --- addresses

    def offset_form(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Affine | None:
        """The element offset of an access as a sum; None when its lanes are no arithmetic sequence."""
        forms = self.affine
        start = forms.scalar(buffer.elem_offset)
        if start is None:
            return None
        if len(indices) == 1 and not buffer.strides and not start.terms and start.const == 0:
            return forms.scalar(indices[0])
        if not indices:
            return start
        strides = buffer.element_strides()
        if all([type(s) is IntImm for s in strides]):
            return forms.combine(indices, tuple([s.value for s in strides]), start)  # type: ignore[attr-defined]
        key = (id(buffer), *map(id, indices))
        found = self._flat.get(key)
        if found is None:
            total: Any = buffer.elem_offset
            for index, stride in zip(indices, strides, strict=True):  # type: Any, Any
                if index.dtype.lanes > 1 and stride.dtype.lanes == 1:
                    stride = Broadcast(stride, index.dtype.lanes)
                    if total.dtype.lanes == 1:
                        total = Broadcast(total.astype(index.dtype.element), index.dtype.lanes)
                total = total + index.astype("int64") * stride.astype("int64")  # type: ignore[attr-defined]
            found = self._flat[key] = total
            self._keep_indices.append(indices)
        return forms.scalar(found)

    _flat: dict[tuple[int, ...], Any]
    _keep_indices: list[Any]

    def index_leaf(self, leaf: PrimExpr) -> int | str:
        """A leaf of an affine form: a number, or an operand of pointer width."""
        if isinstance(leaf, Var):
            const = self.consts.get(leaf)
            if const is not None:
                return const
            iv = self.ivs.get(leaf)
            if iv is not None:
                return iv
        outer, self.in_address = self.in_address, True
        operand = self.expr(leaf)
        self.in_address = outer
        if is_literal(operand):
            return int(operand)
        if isinstance(leaf, Var) and leaf in self.ivs:
            return self.ivs[leaf]
        return self._resize(operand, llvm_type(leaf.dtype), self.iptr, not leaf.dtype.is_uint)

    def address(self, var: Var, form: Affine, size: int) -> tuple[str, int, int]:
        """(pointer, constant byte offset, alignment) of an element offset; `size` is bytes per element.

        Terms are added outermost loop first, each sum in the scope where its last operand is known.
        """
        pointer, align = self.pointer(var)
        const = form.const * size
        b, consts, ivs = self.b, self.consts, self.ivs
        level_of = b.level_of
        top = level_of.get(pointer, 0)
        terms: list[tuple[int, str, int]] = []
        for leaf, coefficient in form.terms:
            value: Any = consts.get(leaf)  # type: ignore[call-overload]
            if value is None:
                value = ivs.get(leaf)  # type: ignore[call-overload]
                if value is None:
                    value = self.index_leaf(leaf)
            if type(value) is int:
                const += coefficient * size * value
            else:
                level = level_of.get(value, 0)
                if level > top:
                    top = level
                terms.append((level, value, coefficient * size))
        if terms:
            # The same sum is asked for again and again where loops are unrolled.
            key = (pointer, align, *terms)
            known = b.scopes[top].addresses
            found = known.get(key)
            if found is None:
                found = known[key] = self._sum_up(pointer, align, terms)
            pointer, align = found
        if const:
            align = _common(align, const)
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
                align = _common(align, step)
                scaled = self.b.scaled(iptr, value, step)
                total = scaled if not total else pure(f"add {iptr} {total}, {scaled}", total, scaled)
                at += 1
            pointer = pure(f"getelementptr i8, ptr {pointer}, {iptr} {total}", pointer, total)
        return pointer, align

    def place(self, pointer: str, const: int, level: int = -1) -> str:
        """The operand for pointer + const, written beside its use so that it becomes an addressing mode."""
        return self.b.here(f"getelementptr i8, ptr {pointer}, {self.iptr} {const}", level) if const else pointer

    # --- loads

    def on_load(self, e: BufferLoad) -> str:
        buffer, var, dtype = e.buffer, e.buffer.data, e.dtype
        form = self.offset_form(buffer, e.indices)
        kept = self.registers.get(var)
        if kept is not None:
            if form is None:
                return self._picked(kept, e)
            offset = self._register(kept, form)
            if dtype.lanes > 1 and form.stride > 1:
                return self._crossing(kept, offset, form.stride, dtype)
            return self._part(kept, offset, dtype) if kept.holds(offset) else "poison"
        lanes = dtype.lanes // buffer.dtype.lanes
        if e.predicate is not None:
            return self._masked_load(e, form)
        if form is None:
            return self._fixed_lanes(e) or self._gather(e)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        if lanes > 1 and form.stride == 0:
            return self.broadcast(self._load_at(var, *self.address(var, form, size), buffer.dtype), dtype)
        if lanes > 1 and form.stride != 1:
            return self._strided(var, form, size, dtype)
        return self._load_at(var, *self.address(var, form, size), dtype)

    def _part(self, kept: Registers, offset: int, dtype: DataType) -> str:
        """Elements of a slot, all of them or an aligned part."""
        first = offset % kept.lanes
        if dtype.lanes > kept.lanes:
            value, lanes = kept.slots[offset], kept.lanes
            while lanes < dtype.lanes:
                more = kept.slots.get(offset + lanes, "poison")
                have, each = llvm_type(kept.dtype.with_lanes(lanes)), llvm_type(kept.dtype)
                wide = self._shuffled(more, "poison", each, [k if k < kept.lanes else None for k in range(lanes)])
                value = self._shuffled(value, more if lanes == kept.lanes else wide, have, range(lanes + kept.lanes))
                lanes += kept.lanes
            return value
        value = kept.slots[offset - first]
        if dtype.lanes == kept.lanes or value == "poison":
            return value
        if dtype.lanes == 1:
            return self.lane(value, kept.dtype, first)
        mask = ", ".join(f"i32 {first + k}" for k in range(dtype.lanes))
        t = llvm_type(kept.dtype)
        return self.b.pure(f"shufflevector {t} {value}, {t} poison, <{dtype.lanes} x i32> <{mask}>", value)

    def _crossing(self, kept: Registers, first: int, stride: int, dtype: DataType) -> str:
        """One lane of several slots, `stride` elements apart."""
        lane, lanes = first % kept.lanes, kept.lanes
        slots = range(first - lane, first - lane + dtype.lanes * stride, stride)
        rows = [kept.slots[slot] if kept.holds(slot) else "poison" for slot in slots]
        if dtype.is_bool or dtype.bits < 8 or lanes & (lanes - 1) or dtype.lanes > lanes:
            parts = ["poison" if row == "poison" else self.lane(row, kept.dtype, lane) for row in rows]
            return self.gather_lanes(parts, dtype)
        t = llvm_type(kept.dtype)

        def shuffle(a: str, b: str, mask: str) -> str:
            return self.b.pure(f"shufflevector {t} {a}, {t} {b}, {mask}", a, b)

        whole = column(rows + ["poison"] * (lanes - len(rows)), lane, dtype.bits, shuffle)
        return whole if dtype.lanes == lanes else self._shuffled(whole, "poison", t, range(dtype.lanes))

    def _picked(self, kept: Registers, e: BufferLoad) -> str:
        """Any elements of several slots: as many at once as a slot has."""
        found = fixed_lanes(e.indices[0])
        start = found and self.affine.scalar(found[0])
        assert found is not None and start is not None
        first, n = self._register(kept, start), kept.lanes
        places = [first + distance for distance in found[1]]
        if n == 1:
            return self.gather_lanes([kept.slots.get(at, "poison") for at in places], e.dtype)
        t = llvm_type(kept.dtype)
        parts = []
        for begin in range(0, len(places), n):
            part = places[begin : begin + n]
            value, done = "poison", list[int | None]([None] * n)
            for slot in dict.fromkeys([at - at % n for at in part]):
                mine = [at % n if at - at % n == slot else None for at in part]
                mine += [None] * (n - len(mine))
                lanes = [d if m is None else n + m for d, m in zip(done, mine, strict=True)]
                value = self._shuffled(value, kept.slots.get(slot, "poison"), t, lanes)
                done = [k if m is not None else d for k, (d, m) in enumerate(zip(done, mine, strict=True))]
            parts.append(value)
        return self._joined(parts, kept.dtype, e.dtype.lanes)

    def _joined(self, parts: list[str], dtype: DataType, lanes: int) -> str:
        """The first `lanes` elements of vectors of one type, one after another."""
        count = dtype.lanes
        while len(parts) > 1:
            t = llvm_type(dtype.with_lanes(count))
            parts += ["poison"] * (len(parts) % 2)
            parts = [self._shuffled(a, b, t, range(2 * count)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            count *= 2
        return (
            parts[0]
            if count == lanes
            else self._shuffled(parts[0], "poison", llvm_type(dtype.with_lanes(count)), range(lanes))
        )

    def _load_at(self, var: Var, pointer: str, const: int, align: int, dtype: DataType) -> str:
        level = self._level(var, pointer) if self.in_address and dtype.lanes == 1 else self.b.level

        def fetch() -> str:
            at = self.place(pointer, const, level)
            if dtype.lanes > 1:
                self._keep_apart()
            value = self.b.here(f"load {memory_type(dtype)}, ptr {at}, align {_bounded(align, dtype)}", level)
            return self._to_bool(value, dtype) if dtype.is_bool else value

        return self.remembered(var, f"{pointer}+{const}:{dtype}", fetch, level)

    def _level(self, var: Var, pointer: str) -> int:
        """The outermost scope in which a part of an address can be read: where it is read anyway, from memory that does not change."""
        level = self.b.level
        if not self._may_change(var):
            known = self.b.level_of.get(pointer, 0)
            while level > known and self.b.scopes[level].certain:
                level -= 1
        return level

    def _may_change(self, var: Var) -> bool:
        return var in self.written or var in self.shared or not self.noalias

    def _keep_apart(self) -> None:
        """Keeps the load of a vector that comes next where it stands: LLVM brings up to four loads from one base together, those of
        later steps of an unrolled tile too, which then have no registers."""
        scope = self.b.scopes[-1]
        if scope.loaded and len(scope.lines) - scope.loaded >= APART and self._is_crowded():
            self.b.effect('fence syncscope("singlethread") acq_rel')
        scope.loaded = len(scope.lines)

    def _is_crowded(self) -> bool:
        """Whether sums leave registers for fewer vectors than are brought together, and one to multiply them by."""
        return sum([len(kept.slots) for kept in self.registers.values()]) + TOGETHER >= self.target.cpu.vector_registers

    def remembered(self, var: Var, key: str, fetch: Callable[[], str], level: int = -1) -> str:
        """What is read of a buffer, once for as long as nothing may have changed it; `level` is the scope that `fetch` writes into."""
        scopes = self.b.scopes
        for scope in (scopes[-1],) if self._may_change(var) else reversed(scopes):
            found = scope.loads.get(var)
            if found is not None and key in found:
                return found[key]
        value = fetch()
        scopes[level].loads.setdefault(var, {})[key] = value
        return value

    def _to_bool(self, value: str, dtype: DataType) -> str:
        return self.b.pure(
            f"icmp ne {memory_type(dtype)} {value}, {splat(DataType('int8').with_lanes(dtype.lanes), '0')}", value
        )

    def _from_bool(self, value: str, dtype: DataType) -> str:
        return self.b.pure(f"zext {llvm_type(dtype)} {value} to {memory_type(dtype)}", value)

    def _register(self, kept: Registers, form: Affine) -> int:
        offset = form.const
        for leaf, coefficient in form.terms:
            value = self.index_leaf(leaf)
            assert isinstance(value, int), "a register's index must be constant"
            offset += coefficient * value
        return offset

    def _strided(self, var: Var, form: Affine, size: int, dtype: DataType) -> str:
        pointer, const, align = self.address(var, form, size)
        step = form.stride * size
        element = dtype.element
        each = _common(align, step)
        if self._is_stepped(form, dtype):
            return self._stepped(
                form.stride,
                dtype,
                lambda at, _: self._load_at(var, pointer, const + at * size, _common(align, at * size), dtype),
            )
        scalars = [self._load_at(var, pointer, const + k * step, each, element) for k in range(dtype.lanes)]
        return self.gather_lanes(scalars, dtype)

    @staticmethod
    def _is_stepped(form: Affine, dtype: DataType) -> bool:
        """Whether lanes lie near enough to each other to be taken out of whole vectors."""
        return 1 < form.stride <= MOST_STEP and dtype.lanes >= 4 and dtype.bits >= 8 and not dtype.is_bool

    def _stepped(self, step: int, dtype: DataType, fetch: Callable[[int, list[int | None]], str]) -> str:
        """Lanes `step` elements apart. fetch(start, the lane that each element is for) loads a vector."""
        starts, places = stepped(dtype.lanes, step)
        found, held = "poison", dict[int, int]()
        for number, start in enumerate(starts):
            mine = {k: at for k, (vector, at) in enumerate(places) if vector == number}
            wanted: list[int | None] = [None] * dtype.lanes
            for k, at in mine.items():
                wanted[at] = k
            value = fetch(start, wanted)
            lanes = [held.get(k, dtype.lanes + mine[k] if k in mine else None) for k in range(dtype.lanes)]
            found = self._shuffled(found, value, memory_type(dtype), lanes)
            held |= {k: k for k in mine}
        return found

    def _offset_vector(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[str, DataType]:
        """Element offsets, one per lane, as an integer vector."""
        total: Any = None
        lanes = max([index.dtype.lanes for index in indices])
        for index, stride in zip(indices, buffer.element_strides(), strict=True):
            wide = index if index.dtype.lanes == lanes else Broadcast(index, lanes)
            step = Broadcast(stride.astype(index.dtype.element), lanes)  # type: ignore[attr-defined]
            term = wide if type(stride) is IntImm and stride.value == 1 else wide * step
            total = term if total is None else total + term
        offset = buffer.elem_offset
        if not (type(offset) is IntImm and offset.value == 0):
            total = total + Broadcast(offset.astype(total.dtype.element), lanes)  # type: ignore[attr-defined]
        return self.expr(total), total.dtype

    def _lane_pointers(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[str]:
        offsets, dtype = self._offset_vector(buffer, indices)
        pointer, _ = self.pointer(buffer.data)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        result = []
        for k in range(dtype.lanes):
            lane = self._resize(self.lane(offsets, dtype, k), llvm_type(dtype.element), self.iptr, True)
            scaled = self.b.pure(f"mul {self.iptr} {lane}, {size}", lane)
            result.append(self.b.pure(f"getelementptr i8, ptr {pointer}, {self.iptr} {scaled}", pointer, scaled))
        return result

    def _gather(self, e: BufferLoad) -> str:
        element = e.buffer.dtype
        scalars = [
            self._load_at(e.buffer.data, pointer, 0, element.bytes, element)
            for pointer in self._lane_pointers(e.buffer, e.indices)
        ]
        return self.gather_lanes(scalars, e.dtype)

    def _fixed_lanes(self, e: BufferLoad) -> str | None:
        """Lanes at fixed distances, by loads of vectors or of pieces; None where they are not, or are all apart."""
        buffer, dtype = e.buffer, e.dtype
        if len(e.indices) != 1 or buffer.strides or buffer.dtype.lanes != 1 or dtype.is_bool:
            return None
        found = fixed_lanes(e.indices[0])
        start = found and self.offset_form(buffer, (found[0],))
        if found is None or start is None:
            return None
        distances, size = found[1], buffer.dtype.bytes
        pointer, const, align = self.address(buffer.data, start, size)

        def at(distance: int, lanes: int) -> str:
            part = dtype.with_lanes(lanes)
            return self._load_at(buffer.data, pointer, const + distance * size, _common(align, distance * size), part)

        runs = segments(distances)
        if runs is not None:
            length = runs[0][1]
            vectors = [at(first, length) for first, _ in runs]
            place = {first + k: i * length + k for i, (first, _) in enumerate(runs) for k in range(length)}
            while len(vectors) > 2:
                vectors = [
                    self._shuffled(a, b, memory_type(dtype.with_lanes(length)), range(2 * length))
                    for a, b in zip(vectors[::2], vectors[1::2], strict=True)
                ]
                length *= 2
            second = vectors[1] if len(vectors) > 1 else "poison"
            part = memory_type(dtype.with_lanes(length))
            return self._shuffled(vectors[0], second, part, [place[d] for d in distances])
        lanes = piece(distances, dtype.bits)
        if lanes == 1:
            return None
        if lanes == len(distances):
            return at(distances[0], lanes)
        word = DataType(f"int{lanes * dtype.bits}")
        words = []
        for first in distances[::lanes]:
            value = at(first, lanes)
            words.append(
                self.b.pure(f"bitcast {memory_type(dtype.with_lanes(lanes))} {value} to {llvm_type(word)}", value)
            )
        whole = word.with_lanes(len(words))
        joined = self.gather_lanes(words, whole)
        return self.b.pure(f"bitcast {llvm_type(whole)} {joined} to {memory_type(dtype)}", joined)

    def _shuffled(self, a: str, b: str, t: str, lanes: Iterable[int | None]) -> str:
        """These lanes of two vectors of type `t`; None for any."""
        mask = ["i32 poison" if k is None else f"i32 {k}" for k in lanes]
        return self.b.pure(f"shufflevector {t} {a}, {t} {b}, <{len(mask)} x i32> <{', '.join(mask)}>", a, b)

    def _masked_load(self, e: BufferLoad, form: Affine | None) -> str:
        dtype, var = e.dtype, e.buffer.data
        assert e.predicate is not None
        mask = self.expr(e.predicate)
        if form is not None and e.buffer.dtype.lanes == 1 and self._is_stepped(form, dtype):
            return self._masked_steps(var, form, dtype, mask)
        if form is None or form.stride != 1 or dtype.lanes == 1:
            pointers = self._pointers_of(e.buffer, e.indices, form, dtype)
            scalars = []
            zero = "zeroinitializer" if dtype.element.lanes > 1 else self._zero(dtype.element)
            for k, pointer in enumerate(pointers):
                bit = mask if dtype.lanes == 1 else self.lane(mask, e.predicate.dtype, k)
                fetch = partial(self._fresh_load, pointer, dtype.element)
                scalars.append(self.lazy(bit, fetch, lambda: zero, dtype.element))
            return scalars[0] if dtype.lanes == 1 else self.gather_lanes(scalars, dtype)
        value = self.masked_load_at(*self.address(var, form, e.buffer.dtype.bytes), dtype, mask)
        return self._to_bool(value, dtype) if dtype.is_bool else value

    def masked_load_at(
        self, pointer: str, const: int, align: int, dtype: DataType, mask: str, other: str = "zeroinitializer"
    ) -> str:
        """Neighbouring elements in the lanes of a mask, zeros or what is given in the others."""
        t, n = memory_type(dtype), dtype.lanes
        name = f"llvm.masked.load.{self._suffix_memory(dtype)}.p0"
        self.b.declare.setdefault(name, f"declare {t} @{name}(ptr, <{n} x i1>, {t})")
        at = self.place(pointer, const)
        return self.b.here(f"call {t} @{name}(ptr align {_bounded(align, dtype)} {at}, <{n} x i1> {mask}, {t} {other})")

    def _masked_steps(self, var: Var, form: Affine, dtype: DataType, mask: str) -> str:
        """Lanes that are some elements apart, where a mask is set."""
        size = dtype.bytes
        pointer, const, align = self.address(var, form, size)
        bits = DataType("bool").with_lanes(dtype.lanes)

        def fetch(at: int, wanted: list[int | None]) -> str:
            t = llvm_type(bits)
            lanes = ", ".join([f"i32 {dtype.lanes if k is None else k}" for k in wanted])
            part = self.b.pure(f"shufflevector {t} {mask}, {t} zeroinitializer, <{dtype.lanes} x i32> <{lanes}>", mask)
            return self.masked_load_at(pointer, const + at * size, _common(align, at * size), dtype, part)

        return self._stepped(form.stride, dtype, fetch)

    def _suffix_memory(self, dtype: DataType) -> str:
        if dtype.is_bool:
            return f"v{dtype.lanes}i8"
        if dtype.code == "bfloat":
            return f"v{dtype.lanes}i16"
        return self._suffix(dtype)

    def _fresh_load(self, pointer: str, dtype: DataType) -> str:
        value = self.b.here(f"load {memory_type(dtype)}, ptr {pointer}, align {dtype.bytes}")
        return self._to_bool(value, dtype) if dtype.is_bool else value

    @staticmethod
    def _zero(dtype: DataType) -> str:
        return "null" if dtype.code == "handle" else ("0.0" if dtype.code == "float" else "0")

    def _pointers_of(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], form: Affine | None, dtype: DataType
    ) -> list[str]:
        if form is None:
            return self._lane_pointers(buffer, indices)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        pointer, const, _ = self.address(buffer.data, form, size)
        step = form.stride * size
        return [self.place(pointer, const + k * step) for k in range(dtype.lanes)]

    # --- stores

    def on_store(self, s: BufferStore) -> None:
        buffer, var, dtype = s.buffer, s.buffer.data, s.value.dtype
        form = self.offset_form(buffer, s.indices)
        kept = self.registers.get(var)
        if kept is not None:
            assert form is not None
            value = self.expr(s.value)
            offset = self._register(kept, form)
            if kept.holds(offset):
                kept.slots[offset] = self._where(s.predicate, value, kept.slots[offset], kept.dtype)
            return
        value = self.expr(s.value)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        lanes = dtype.lanes // buffer.dtype.lanes
        self.forget(var)
        if s.predicate is not None:
            self._masked_store(s, form, value)
            return
        if lanes > 1 and (form is None or form.stride != 1):
            for k, pointer in enumerate(self._pointers_of(buffer, s.indices, form, dtype)):
                self._store_at(self.lane(value, dtype, k), pointer, buffer.dtype.bytes, buffer.dtype)
            return
        assert form is not None
        pointer, const, align = self.address(var, form, size)
        self._store_at(value, self.place(pointer, const), _bounded(align, dtype), dtype)

    def _where(self, predicate: PrimExpr | None, value: str, other: str, dtype: DataType) -> str:
        """A value in the lanes of a mask, and another one in the rest."""
        if predicate is None:
            return value
        mask, t = self.expr(predicate), llvm_type(dtype)
        return self.b.pure(f"select {llvm_type(predicate.dtype)} {mask}, {t} {value}, {t} {other}", mask, value, other)

    def _store_at(self, value: str, pointer: str, align: int, dtype: DataType) -> None:
        if dtype.is_bool:
            value = self._from_bool(value, dtype)
        self.b.effect(f"store {memory_type(dtype)} {value}, ptr {pointer}, align {align}")

    def _masked_store(self, s: BufferStore, form: Affine | None, value: str) -> None:
        dtype = s.value.dtype
        assert s.predicate is not None
        mask = self.expr(s.predicate)
        if form is None or form.stride != 1 or dtype.lanes == 1:
            for k, pointer in enumerate(self._pointers_of(s.buffer, s.indices, form, dtype)):
                bit = mask if dtype.lanes == 1 else self.lane(mask, s.predicate.dtype, k)
                part = value if dtype.lanes == 1 else self.lane(value, dtype, k)
                self.b.push(self.b.label("set"))
                self._store_at(part, pointer, dtype.bytes, dtype.element)
                self.b.branch(bit, self.b.pop(), None, self.b.label("next"), [])
            return
        pointer, const, align = self.address(s.buffer.data, form, s.buffer.dtype.bytes)
        if dtype.is_bool:
            value = self._from_bool(value, dtype)
        t, n = memory_type(dtype), dtype.lanes
        name = f"llvm.masked.store.{self._suffix_memory(dtype)}.p0"
        self.b.declare.setdefault(name, f"declare void @{name}({t}, ptr, <{n} x i1>)")
        at = self.place(pointer, const)
        self.b.effect(f"call void @{name}({t} {value}, ptr align {_bounded(align, dtype)} {at}, <{n} x i1> {mask})")

    def forget(self, var: Var | None) -> None:
        """Drops remembered loads that a store to `var` (or to anything) may have changed."""
        for scope in self.b.scopes:
            if var is not None and self.noalias:
                for v in self.shared if var in self.shared else (var,):
                    scope.loads.pop(v, None)
            else:
                kept = {v: known for v, known in scope.loads.items() if v not in self.written and v not in self.shared}
                scope.loads = kept if self.noalias else {}


def _common(align: int, step: int) -> int:
    """The largest power of two that divides both."""
    low = step & -step
    return min(align, low) if low else align


def _bounded(align: int, dtype: DataType) -> int:
    """An alignment no larger than the whole access, but at least a byte."""
    return max(1, min(align, 64, 1 << (dtype.bytes * dtype.lanes - 1).bit_length()))
