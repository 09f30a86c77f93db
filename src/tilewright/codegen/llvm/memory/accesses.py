"""LLVM IR text of buffer accesses: loads, stores, masks, and metadata about memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import llvm_type, memory_type, suffix
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Facts, Variables
from tilewright.codegen.llvm.memory.addresses import Addresses, common_alignment
from tilewright.codegen.llvm.memory.affine import Affine
from tilewright.codegen.llvm.memory.interleave import MOST_STEP, fixed_lanes, piece, segments, stepped
from tilewright.codegen.llvm.memory.prefix import Place, Prefix, PrefixEmitter, prefix_of
from tilewright.codegen.llvm.memory.slots import Slots
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import Broadcast, Buffer, BufferLoad, BufferStore, Var
from tilewright.tir.arithmetic import add, cast_to, multiply

APART = 48
"""Loads of vectors with at least so many lines of code between them are kept apart if registers are few."""
TOGETHER = 4
"""The number of loads from one base that LLVM moves together (X86InstrInfo::shouldScheduleLoadsNear)."""

FENCE = 'fence syncscope("singlethread") acq_rel'
"""Keeps LLVM from moving and merging loads. It is no instruction."""


class MemoryEmitter:
    """Emits loads and stores."""

    def __init__(
        self, frame: Frame, facts: Facts, variables: Variables, operands: Operands, expressions: ExprEmitter
    ) -> None:
        self.frame, self.facts, self.variables, self.operands = frame, facts, variables, operands
        self.b, self.iptr, self.expr, self.expressions = frame.b, frame.iptr, expressions.expr, expressions
        self.addresses = Addresses(frame, variables, self.expr)
        self.slots = Slots(frame, facts, operands, self.addresses)
        self.prefix = PrefixEmitter(frame, operands, expressions)

    # --- loads

    def on_load(self, e: BufferLoad) -> str:
        buffer, var, dtype = e.buffer, e.buffer.data, e.dtype
        form = self.facts.affine.offset(buffer, e.indices)
        kept = self.variables.registers.get(var)
        if kept is not None:
            return self.slots.load(kept, e, form)
        lanes = dtype.lanes // buffer.dtype.lanes
        if e.predicate is not None:
            return self._masked_load(e, form)
        if form is None:
            return self._fixed_lanes(e) or self._gather(e)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        if lanes > 1 and form.stride == 0:
            return self.operands.broadcast(
                self.load_at(var, *self.addresses.address(var, form, size), buffer.dtype), dtype
            )
        if lanes > 1 and form.stride != 1:
            return self._strided(var, form, size, dtype)
        return self.load_at(var, *self.addresses.address(var, form, size), dtype)

    def load_at(self, var: Var, pointer: str, const: int, align: int, dtype: DataType) -> str:
        # Numbers that the function computes itself are few, such as a mean; what depends on them alone moves out of loops with them.
        moves = dtype.lanes == 1 and (self.addresses.inside or var in self.facts.written)
        level = self._level(var, pointer) if moves else self.b.level

        def fetch() -> str:
            at = self.addresses.place(pointer, const, level)
            if dtype.lanes > 1:
                self._keep_apart()
            value = self.b.here(f"load {memory_type(dtype)}, ptr {at}, align {_bounded(align, dtype)}", level)
            return self.operands.from_memory_bool(value, dtype) if dtype.is_bool else value

        key = f"{pointer}+{const}:{dtype}"
        if self.frame.target.cpu.pairs and dtype.lanes * dtype.bits > self.frame.target.cpu.pointer_bits:
            # Only the last one of several registers is remembered: others would wait in registers for a later step.
            known = self.b.scopes[-1].loads.setdefault(var, {})
            if key not in known:
                known.clear()
        return self.remembered(var, key, fetch, level)

    def _level(self, var: Var, pointer: str) -> int:
        """The outermost scope in which an element can be read: the scopes inside do not change its memory, and always run."""
        level, scopes = self.b.level, self.b.scopes
        if self.facts.is_apart(var):
            known = self.b.level_of.get(pointer, 0)
            while level > known and scopes[level].certain and var not in scopes[level].changes:
                level -= 1
        return level

    def _keep_apart(self) -> None:
        """Keeps LLVM from moving the next load of a vector. LLVM moves up to four loads from one base together, also loads of later steps
        of an unrolled tile, for which registers are then missing. Where vectors are pairs in general registers, each is loaded beside its
        use."""
        scope = self.b.scopes[-1]
        if (
            self.frame.target.cpu.pairs
            or scope.loaded
            and len(scope.lines) - scope.loaded >= APART
            and self._is_crowded()
        ):
            self.b.effect(FENCE)
        scope.loaded = len(scope.lines)

    def _is_crowded(self) -> bool:
        """Whether the sums leave too few registers for the loads that LLVM moves together and a factor to multiply them by."""
        return (
            sum([len(kept.slots) for kept in self.variables.registers.values()]) + TOGETHER
            >= self.frame.target.cpu.vector_registers
        )

    def remembered(self, var: Var, key: str, fetch: Callable[[], str], level: int = -1) -> str:
        """A value read from a buffer, fetched again only after the buffer may have changed. level: the scope that `fetch` writes to."""
        scopes = self.b.scopes
        for scope in reversed(scopes):
            found = scope.loads.get(var)
            if found is not None and key in found:
                return found[key]
            if var in scope.changes or not self.facts.is_apart(var):
                break
        value = fetch()
        scopes[level].loads.setdefault(var, {})[key] = value
        return value

    def _strided(self, var: Var, form: Affine, size: int, dtype: DataType) -> str:
        pointer, const, align = self.addresses.address(var, form, size)
        step = form.stride * size
        element = dtype.element
        each = common_alignment(align, step)
        if self._is_stepped(form, dtype):
            return self._stepped(
                form.stride,
                dtype,
                lambda at, _: self.load_at(var, pointer, const + at * size, common_alignment(align, at * size), dtype),
            )
        scalars = [self.load_at(var, pointer, const + k * step, each, element) for k in range(dtype.lanes)]
        return self.operands.gather(scalars, dtype)

    @staticmethod
    def _is_stepped(form: Affine, dtype: DataType) -> bool:
        """Whether lanes are near enough to each other to be picked from whole vectors."""
        return 1 < form.stride <= MOST_STEP and dtype.lanes >= 4 and dtype.bits >= 8 and not dtype.is_bool

    def _stepped(self, step: int, dtype: DataType, fetch: Callable[[int, list[int | None]], str]) -> str:
        """Lanes `step` elements apart. fetch(start, lanes) loads the vector at `start`; lanes: the lane for each element, or None."""
        starts, places = stepped(dtype.lanes, step)
        found, held = "poison", dict[int, int]()
        for number, start in enumerate(starts):
            mine = {k: at for k, (vector, at) in enumerate(places) if vector == number}
            wanted: list[int | None] = [None] * dtype.lanes
            for k, at in mine.items():
                wanted[at] = k
            value = fetch(start, wanted)
            lanes = [held.get(k, dtype.lanes + mine[k] if k in mine else None) for k in range(dtype.lanes)]
            found = self.operands.shuffled(found, value, memory_type(dtype), lanes)
            held |= {k: k for k in mine}
        return found

    def _offset_vector(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[str, DataType]:
        """An integer vector of the element offset of each lane."""
        lanes = max([index.dtype.lanes for index in indices])
        terms: list[PrimExpr] = []
        for index, stride in zip(indices, buffer.element_strides(), strict=True):
            wide = index if index.dtype.lanes == lanes else Broadcast(index, lanes)
            step = Broadcast(cast_to(stride, index.dtype.element), lanes)
            terms.append(wide if isinstance(stride, IntImm) and stride.value == 1 else multiply(wide, step))
        total = reduce(add, terms)
        offset = buffer.elem_offset
        if not (isinstance(offset, IntImm) and offset.value == 0):
            total = add(total, Broadcast(cast_to(offset, total.dtype.element), lanes))
        return self.expr(total), total.dtype

    def _lane_pointers(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[str]:
        offsets, dtype = self._offset_vector(buffer, indices)
        pointer, _ = self.variables.pointer(buffer.data)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        result = []
        for k in range(dtype.lanes):
            lane = self.operands.resize(
                self.operands.lane(offsets, dtype, k), llvm_type(dtype.element), self.iptr, True
            )
            scaled = self.b.pure(f"mul {self.iptr} {lane}, {size}", lane)
            result.append(self.b.pure(f"getelementptr i8, ptr {pointer}, {self.iptr} {scaled}", pointer, scaled))
        return result

    def _gather(self, e: BufferLoad) -> str:
        element = e.buffer.dtype
        scalars = [
            self.load_at(e.buffer.data, pointer, 0, element.bytes, element)
            for pointer in self._lane_pointers(e.buffer, e.indices)
        ]
        return self.operands.gather(scalars, e.dtype)

    def _fixed_lanes(self, e: BufferLoad) -> str | None:
        """Lanes at fixed distances, by loads of vectors or of contiguous pieces; None for other lanes, or if no two are adjacent."""
        buffer, dtype = e.buffer, e.dtype
        if len(e.indices) != 1 or buffer.strides or buffer.dtype.lanes != 1 or dtype.is_bool:
            return None
        found = fixed_lanes(e.indices[0])
        start = found and self.facts.affine.offset(buffer, (found[0],))
        if found is None or start is None:
            return None
        distances, size = found[1], buffer.dtype.bytes
        pointer, const, align = self.addresses.address(buffer.data, start, size)

        def at(distance: int, lanes: int) -> str:
            part = dtype.with_lanes(lanes)
            return self.load_at(
                buffer.data, pointer, const + distance * size, common_alignment(align, distance * size), part
            )

        runs = segments(distances)
        if runs is not None:
            length = runs[0][1]
            vectors = [at(first, length) for first, _ in runs]
            place = {first + k: i * length + k for i, (first, _) in enumerate(runs) for k in range(length)}
            while len(vectors) > 2:
                vectors = [
                    self.operands.shuffled(a, b, memory_type(dtype.with_lanes(length)), range(2 * length))
                    for a, b in zip(vectors[::2], vectors[1::2], strict=True)
                ]
                length *= 2
            second = vectors[1] if len(vectors) > 1 else "poison"
            part = memory_type(dtype.with_lanes(length))
            return self.operands.shuffled(vectors[0], second, part, [place[d] for d in distances])
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
        joined = self.operands.gather(words, whole)
        return self.b.pure(f"bitcast {llvm_type(whole)} {joined} to {memory_type(dtype)}", joined)

    # --- masked loads

    def _masked_load(self, e: BufferLoad, form: Affine | None) -> str:
        dtype, var = e.dtype, e.buffer.data
        assert e.predicate is not None
        first = self._first_lanes(e.buffer, form, dtype, e.predicate)
        if first is not None:
            value = self.prefix.load(*first)
            return self.operands.from_memory_bool(value, dtype) if dtype.is_bool else value
        mask = self.expr(e.predicate)
        if form is not None and e.buffer.dtype.lanes == 1 and self._is_stepped(form, dtype):
            return self._masked_steps(var, form, dtype, mask)
        if form is None and (repeated := self._masked_repeats(e, mask)) is not None:
            return repeated
        if form is None or form.stride != 1 or dtype.lanes == 1:
            pointers = self._pointers_of(e.buffer, e.indices, form, dtype)
            scalars = []
            zero = "zeroinitializer" if dtype.element.lanes > 1 else self._zero(dtype.element)
            for k, pointer in enumerate(pointers):
                bit = mask if dtype.lanes == 1 else self.operands.lane(mask, e.predicate.dtype, k)
                fetch = partial(self._fresh_load, pointer, dtype.element)
                scalars.append(self.expressions.lazy(bit, fetch, lambda: zero, dtype.element))
            return scalars[0] if dtype.lanes == 1 else self.operands.gather(scalars, dtype)
        value = self.masked_load_at(*self.addresses.address(var, form, e.buffer.dtype.bytes), dtype, mask)
        return self.operands.from_memory_bool(value, dtype) if dtype.is_bool else value

    def _masked_repeats(self, e: BufferLoad, mask: str) -> str | None:
        """The first lanes of a vector that repeats neighbouring elements in order, from one vector of these; None for other lanes."""
        buffer, dtype = e.buffer, e.dtype
        if len(e.indices) != 1 or buffer.strides or buffer.dtype.lanes != 1 or dtype.is_bool or dtype.lanes < 4:
            return None
        found = fixed_lanes(e.indices[0])
        start = found and self.facts.affine.offset(buffer, (found[0],))
        if found is None or start is None or e.predicate is None or prefix_of(e.predicate) is None:
            return None
        distances, n = found[1], dtype.lanes
        first, last = distances[0], distances[-1]
        if list(distances) != sorted(distances) or last - first >= n:
            return None
        # An element is needed where the first lane that repeats it is.
        lanes = [distances.index(first + k) if first + k in distances else n for k in range(n)]
        t = f"<{n} x i1>"
        order = ", ".join([f"i32 {k}" for k in lanes])
        needed = self.b.pure(f"shufflevector {t} {mask}, {t} zeroinitializer, <{n} x i32> <{order}>", mask)
        size = buffer.dtype.bytes
        pointer, const, align = self.addresses.address(buffer.data, start, size)
        value = self.masked_load_at(pointer, const + first * size, common_alignment(align, first * size), dtype, needed)
        memory = memory_type(dtype)
        spread = self.operands.shuffled(value, "poison", memory, [d - first for d in distances])
        return self.b.pure(f"select {t} {mask}, {memory} {spread}, {memory} zeroinitializer", mask, spread)

    def _first_lanes(
        self, buffer: Buffer, form: Affine | None, dtype: DataType, predicate: PrimExpr
    ) -> tuple[Place, int, DataType, Prefix] | None:
        """(place, alignment, type, lanes) of an access to the first lanes of a vector that is made in pieces; None for other accesses."""
        if form is None or form.stride != 1 or dtype.lanes == 1 or buffer.dtype.lanes != 1:
            return None
        lanes = self.prefix.lanes(predicate, dtype.bits)
        if lanes is None:
            return None
        pointer, const, align = self.addresses.address(buffer.data, form, buffer.dtype.bytes)
        held = DataType("int8").with_lanes(dtype.lanes) if dtype.is_bool else dtype
        return (
            lambda distance: self.addresses.place(pointer, const + distance),
            _bounded(align, buffer.dtype),
            held,
            lanes,
        )

    def masked_load_at(
        self, pointer: str, const: int, align: int, dtype: DataType, mask: str, other: str = "zeroinitializer"
    ) -> str:
        """Neighbouring elements in the lanes of a mask, and `other` (zeros by default) in the rest."""
        t, n = memory_type(dtype), dtype.lanes
        name = f"llvm.masked.load.{self._suffix_memory(dtype)}.p0"
        self.b.declare.setdefault(name, f"declare {t} @{name}(ptr, <{n} x i1>, {t})")
        at = self.addresses.place(pointer, const)
        return self.b.here(f"call {t} @{name}(ptr align {_bounded(align, dtype)} {at}, <{n} x i1> {mask}, {t} {other})")

    def _masked_steps(self, var: Var, form: Affine, dtype: DataType, mask: str) -> str:
        """Lanes a few elements apart, loaded in the lanes of a mask."""
        size = dtype.bytes
        pointer, const, align = self.addresses.address(var, form, size)
        bits = DataType("bool").with_lanes(dtype.lanes)

        def fetch(at: int, wanted: list[int | None]) -> str:
            t = llvm_type(bits)
            lanes = ", ".join([f"i32 {dtype.lanes if k is None else k}" for k in wanted])
            part = self.b.pure(f"shufflevector {t} {mask}, {t} zeroinitializer, <{dtype.lanes} x i32> <{lanes}>", mask)
            return self.masked_load_at(pointer, const + at * size, common_alignment(align, at * size), dtype, part)

        return self._stepped(form.stride, dtype, fetch)

    def _suffix_memory(self, dtype: DataType) -> str:
        if dtype.is_bool:
            return f"v{dtype.lanes}i8"
        if dtype.code == "bfloat":
            return f"v{dtype.lanes}i16"
        return suffix(dtype)

    def _fresh_load(self, pointer: str, dtype: DataType) -> str:
        value = self.b.here(f"load {memory_type(dtype)}, ptr {pointer}, align {dtype.bytes}")
        return self.operands.from_memory_bool(value, dtype) if dtype.is_bool else value

    @staticmethod
    def _zero(dtype: DataType) -> str:
        return "null" if dtype.code == "handle" else ("0.0" if dtype.code == "float" else "0")

    def _pointers_of(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], form: Affine | None, dtype: DataType
    ) -> list[str]:
        if form is None:
            return self._lane_pointers(buffer, indices)
        size = buffer.dtype.bytes * buffer.dtype.lanes
        pointer, const, _ = self.addresses.address(buffer.data, form, size)
        step = form.stride * size
        return [self.addresses.place(pointer, const + k * step) for k in range(dtype.lanes)]

    # --- stores

    def on_store(self, s: BufferStore) -> None:
        var, form = s.buffer.data, self.facts.affine.offset(s.buffer, s.indices)
        kept = self.variables.registers.get(var)
        if kept is not None:
            assert form is not None
            value = self.expr(s.value)
            offset = self.slots.offset(kept, form)
            if kept.holds(offset):
                kept.slots[offset] = self._where(s.predicate, value, kept.slots[offset], kept.dtype)
            return
        self._in_memory(s, form, self.expr(s.value))
        # Last, since the place and the mask may have been read from the same buffer.
        self.forget(var)

    def _in_memory(self, s: BufferStore, form: Affine | None, value: str) -> None:
        buffer, dtype = s.buffer, s.value.dtype
        size = buffer.dtype.bytes * buffer.dtype.lanes
        lanes = dtype.lanes // buffer.dtype.lanes
        if s.predicate is not None:
            self._masked_store(s, form, value)
            return
        if lanes > 1 and (form is None or form.stride != 1):
            for k, pointer in enumerate(self._pointers_of(buffer, s.indices, form, dtype)):
                self._store_at(self.operands.lane(value, dtype, k), pointer, buffer.dtype.bytes, buffer.dtype)
            return
        assert form is not None
        pointer, const, align = self.addresses.address(buffer.data, form, size)
        self._store_at(value, self.addresses.place(pointer, const), _bounded(align, dtype), dtype)

    def _where(self, predicate: PrimExpr | None, value: str, other: str, dtype: DataType) -> str:
        """`value` in the lanes of a mask, and `other` in the rest."""
        if predicate is None:
            return value
        mask, t = self.expr(predicate), llvm_type(dtype)
        return self.b.pure(f"select {llvm_type(predicate.dtype)} {mask}, {t} {value}, {t} {other}", mask, value, other)

    def _store_at(self, value: str, pointer: str, align: int, dtype: DataType) -> None:
        if dtype.is_bool:
            value = self.operands.to_memory_bool(value, dtype)
        self.b.effect(f"store {memory_type(dtype)} {value}, ptr {pointer}, align {align}")

    def _masked_store(self, s: BufferStore, form: Affine | None, value: str) -> None:
        dtype = s.value.dtype
        assert s.predicate is not None
        first = self._first_lanes(s.buffer, form, dtype, s.predicate)
        if first is not None:
            self.prefix.store(self.operands.to_memory_bool(value, dtype) if dtype.is_bool else value, *first)
            return
        mask = self.expr(s.predicate)
        if form is None or form.stride != 1 or dtype.lanes == 1:
            for k, pointer in enumerate(self._pointers_of(s.buffer, s.indices, form, dtype)):
                bit = mask if dtype.lanes == 1 else self.operands.lane(mask, s.predicate.dtype, k)
                part = value if dtype.lanes == 1 else self.operands.lane(value, dtype, k)
                self.b.push(self.b.label("set"))
                self._store_at(part, pointer, dtype.bytes, dtype.element)
                self.b.branch(bit, self.b.pop(), None, self.b.label("next"), [])
            return
        pointer, const, align = self.addresses.address(s.buffer.data, form, s.buffer.dtype.bytes)
        lanes, t, n = prefix_of(s.predicate), memory_type(dtype), dtype.lanes
        if lanes is not None and lanes.known == 1:
            lane = self.operands.lane(value, dtype, 0)
            self._store_at(lane, self.addresses.place(pointer, const), align, dtype.element)
            return
        if self.frame.target.cpu.avx512 and " x i" in t and (lanes is None or lanes.known is None):
            mask = self._unknown(mask, s.predicate.dtype)
        if dtype.is_bool:
            value = self.operands.to_memory_bool(value, dtype)
        name = f"llvm.masked.store.{self._suffix_memory(dtype)}.p0"
        self.b.declare.setdefault(name, f"declare void @{name}({t}, ptr, <{n} x i1>)")
        at = self.addresses.place(pointer, const)
        self.b.effect(f"call void @{name}({t} {value}, ptr align {_bounded(align, dtype)} {at}, <{n} x i1> {mask})")

    def _unknown(self, mask: str, dtype: DataType) -> str:
        """A mask that LLVM cannot find to be constant.

        With AVX-512, LLVM 22 stores a vector of narrowed integers under a mask of one lane by one store of the width that they had before:
        it writes over the elements that follow.
        """
        zero = self.b.pure('call i32 asm "", "=r,0"(i32 0)')
        always = self.operands.broadcast(self.b.pure(f"icmp eq i32 {zero}, 0", zero), dtype)
        return self.b.pure(f"and {llvm_type(dtype)} {mask}, {always}", mask, always)

    def forget(self, var: Var | None) -> None:
        """Drops remembered loads that a store to `var` (None: to any memory) may have changed."""
        groups = (self.facts.shared, self.facts.use.passed_on)
        changed = {var, *[v for group in groups if var in group for v in group]}
        for scope in self.b.scopes:
            if var is not None and self.facts.noalias:
                for v in changed:
                    scope.loads.pop(v, None)
            else:
                kept = {
                    v: known
                    for v, known in scope.loads.items()
                    if v not in self.facts.written and v not in self.facts.shared
                }
                scope.loads = kept if self.facts.noalias else {}


def _bounded(align: int, dtype: DataType) -> int:
    """An alignment in bytes, limited to the size of the access and at least 1."""
    return max(1, min(align, 64, 1 << (dtype.bytes * dtype.lanes - 1).bit_length()))
