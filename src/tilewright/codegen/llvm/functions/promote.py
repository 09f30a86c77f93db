"""Analysis of a function's body: which local buffers are kept in registers, and which variables the function writes."""

from __future__ import annotations

from tilewright.codegen.llvm.memory.affine import Affine, AffineForms
from tilewright.codegen.llvm.memory.interleave import fixed_lanes
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    For,
    ForKind,
    Let,
    LetStmt,
    Var,
    While,
)

MAX_REGISTER_BYTES = 16384

POINTERS = ("tir.address_of", "tir.handle_add_byte_offset", "tir.tvm_access_ptr", "tir.reinterpret")
"""Intrinsics that make a pointer of another one."""


class _Candidate:
    __slots__ = ("across", "depth", "dtype", "forms", "lanes", "ok", "parts", "size")

    def __init__(self, dtype: DataType, size: int, depth: int) -> None:
        self.dtype, self.size, self.depth = dtype, size, depth
        self.ok = True
        self.lanes = 0
        self.parts: set[int] = set()
        """Numbers of lanes of loads, which may read parts of a stored vector."""
        self.across: set[int] = set()
        """Distances of the lanes of loads that read one element from each of several slots."""
        self.forms: list[Affine] = []

    def is_whole(self) -> bool:
        """Whether all accesses are of whole slots, of aligned parts of slots, or of the same element of several slots."""
        return (
            self.ok
            and self.lanes > 0
            and all([self.lanes % n == 0 or (self.lanes > 1 and n % self.lanes == 0) for n in self.parts])
            and all([self.lanes > 1 and n % self.lanes == 0 for n in self.across])
        )


class BufferUse(Visitor):
    """Collects data variables in `visit(body)`: those `written`, those `passed_on` to calls (written too), those `promoted` (to dtype,
    lanes per slot, elements), and those `stored` to in a loop, by its id."""

    def __init__(self, forms: AffineForms) -> None:
        self.forms = forms
        self.written: set[Var] = set()
        self.passed_on: set[Var] = set()
        self.stored: dict[int, set[Var]] = {}
        self._candidates: dict[Var, _Candidate] = {}
        self._fixed: set[Var] = set()
        self._loops: list[set[Var]] = []
        self._parallel = 0

    @property
    def promoted(self) -> dict[Var, tuple[DataType, int, int]]:
        # The last slot may have lanes past the end of the buffer, which no access uses.
        return {
            v: (c.dtype, c.lanes, -(-c.size // c.lanes) * c.lanes) for v, c in self._candidates.items() if c.is_whole()
        }

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        size = 1
        for extent in s.extents:
            size = size * extent.value if type(extent) is IntImm else MAX_REGISTER_BYTES
        if size * s.dtype.bytes * s.dtype.lanes < MAX_REGISTER_BYTES and s.dtype.lanes == 1:
            self._candidates[s.buffer_var] = _Candidate(s.dtype, size, self._parallel)
        self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> None:
        fixed = (
            type(s.extent) is IntImm and type(s.min) is IntImm and (s.kind == ForKind.UNROLLED or s.extent.value == 1)
        )
        if fixed:
            self._fixed.add(s.loop_var)
        else:
            self._fixed.discard(s.loop_var)
        self.visit(s.min)
        self.visit(s.extent)
        stores: set[Var] = set()
        self.stored[id(s)] = stores
        self._loops.append(stores)
        self._parallel += s.kind == ForKind.PARALLEL
        self.visit(s.body)
        self._parallel -= s.kind == ForKind.PARALLEL
        self._loops.pop()
        if self._loops:
            self._loops[-1] |= stores

    @on(While)
    def _while(self, s: While) -> None:
        stores: set[Var] = set()
        self.stored[id(s)] = stores
        self._loops.append(stores)
        self.visit(s.condition)
        self.visit(s.body)
        self._loops.pop()
        if self._loops:
            self._loops[-1] |= stores

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.visit(s.value)
        self.visit(s.body)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        if s.var.dtype.code == "handle" and _points_into_a_buffer(s.value):
            self.passed_on.add(s.var)
            self.written.add(s.var)
        self.visit(s.body)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        # Lanes that are off in the mask may be read from registers too, since their values are not used.
        self._access(e.buffer, e.indices, False)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._access(s.buffer, s.indices, True)
        self.written.add(s.buffer.data)
        if self._loops:
            self._loops[-1].add(s.buffer.data)
        self.visit_children(s)

    @on(Var)
    def _var(self, v: Var) -> None:
        # A data variable outside of accesses escapes: calls may write to it.
        candidate = self._candidates.get(v)
        if candidate is not None:
            candidate.ok = False
        if v.dtype.code == "handle":
            self.passed_on.add(v)
            self.written.add(v)

    @on(Call)
    def _call(self, e: Call) -> None:
        name = getattr(e.op, "name", "")
        place = e.args[0].args[0] if name == "tir.prefetch" and isinstance(e.args[0], Call) else None
        if isinstance(place, BufferLoad):
            # A prefetch needs an address, so its buffer must be in memory.
            if place.buffer.data in self._candidates:
                self._candidates[place.buffer.data].ok = False
            for index in place.indices:
                self.visit(index)
            return
        if name == "tir.address_of" and isinstance(e.args[0], BufferLoad):
            var = e.args[0].buffer.data
            self._var(var)
            self.passed_on.add(var)
            self.written.add(var)
        self.visit_children(e)

    def _is_picked(self, index: PrimExpr) -> bool:
        """Whether an index is a vector of fixed distances from an element that is a constant once loops are unrolled."""
        found = fixed_lanes(index)
        start = None if found is None else self.forms.scalar(found[0])
        return start is not None and all([leaf in self._fixed for leaf, _ in start.terms])

    def _access(self, buffer: Buffer, indices: tuple[PrimExpr, ...], stores: bool) -> None:
        candidate = self._candidates.get(buffer.data)
        if candidate is None or not candidate.ok:
            return
        if candidate.depth != self._parallel or buffer.dtype != candidate.dtype or len(indices) != 1:
            candidate.ok = False
            return
        index = indices[0]
        form = self.forms.scalar(index)
        offset = buffer.elem_offset
        lanes = index.dtype.lanes
        step = 1 if lanes > 1 else 0
        plain = not buffer.strides and type(offset) is IntImm and offset.value == 0
        if plain and form is None and not stores and self._is_picked(index):
            return
        if form is None or not plain:
            candidate.ok = False
            return
        across = not stores and lanes > 1 and form.stride > 1
        if form.stride != step and not across:
            candidate.ok = False
            return
        if stores and candidate.lanes not in (0, lanes) or (form.const % lanes and not across):
            candidate.ok = False
            return
        if stores:
            candidate.lanes = lanes
        elif across:
            candidate.across.add(form.stride)
        else:
            candidate.parts.add(lanes)
        for leaf, coefficient in form.terms:
            if (coefficient % lanes and not across) or leaf not in self._fixed:
                candidate.ok = False
                return


def _points_into_a_buffer(value: PrimExpr) -> bool:
    """Whether a handle is one of a buffer's memory under another name."""
    if isinstance(value, Var):
        return True
    return isinstance(value, Call) and getattr(value.op, "name", "") in POINTERS
