"""What a kernel does, read from its lowered program: accesses of memory, arithmetic, and the loops and conditions around each."""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

from tilewright.ir import DataType, IntImm, PrimExpr, structural_equal
from tilewright.node import Visitor, on
from tilewright.tir import (
    Add,
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IterVar,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    Mul,
    PrimFunc,
    StringImm,
    Sub,
    Var,
    While,
)

SPECIAL = frozenset(
    [
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "sigmoid",
        "tanh",
        "sinh",
        "cosh",
        "sin",
        "cos",
        "tan",
    ]
    + ["asin", "acos", "atan", "atan2", "erf", "pow"]
)
"""Functions that the special function units compute, or that need them."""
_MMA_TYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
_SHAPE = re.compile(r"\.?m(\d+)n(\d+)k(\d+)")


def bits_of(dtype: DataType) -> int:
    """The bits that an element takes in memory, where a bool is a byte."""
    return (8 if dtype.is_bool else dtype.bits) * dtype.lanes


class Scope:
    """A place in a kernel: `step` is the loop, condition, binding or axis that leads into it from `parent`. condition: with `holds`."""

    __slots__ = ("holds", "parent", "step")

    def __init__(self, parent: Scope | None, step: Any, holds: bool = True) -> None:
        self.parent, self.step, self.holds = parent, step, holds

    def path(self) -> list[Scope]:
        """The scopes from the outermost to this one."""
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            if scope.step is not None:
                found.append(scope)
            scope = scope.parent
        return found[::-1]


class Access(NamedTuple):
    """A read or write of shared or global memory by each thread.

    kind: "load", "store", "atomic", "copy" (either side of an asynchronous one), "bulk" (the same of a whole block of memory), "ldmatrix",
    "wmma", "wmma store", "mma store" or "wgmma" (of all threads of a warpgroup at once); element: its type; at: the index of the first
    element, or a vector of indices; lanes: elements.
    """

    buffer: str
    memory: str
    kind: str
    element: DataType
    at: PrimExpr
    lanes: int
    scope: Scope
    extra: tuple[Any, ...] = ()
    """ldmatrix: the number of tiles. wmma: rows, columns of a row in memory, their stride. mma store: the stride. bulk, wgmma: bytes."""
    data: Any = None
    """The variable of the buffer's memory."""


class _Place(NamedTuple):
    name: str
    data: Var
    element: DataType
    at: PrimExpr


class Work(NamedTuple):
    """Arithmetic of each thread. unit: "scalar", "special" or the kind of matrix instruction; operations: of one thread."""

    unit: str
    dtype: str
    operations: float
    scope: Scope
    sums: str = ""


class Program(Visitor):
    """Collects accesses, work, threads and storage of a kernel (a PrimFunc that is launched)."""

    def __init__(self, func: PrimFunc) -> None:
        self.accesses: list[Access] = []
        self.work: list[Work] = []
        self.axes: dict[str, PrimExpr] = {}
        self.storage: list[tuple[str, str, int]] = []
        """(name, scope, bytes) of allocations with a constant size."""
        self.factors: dict[str, None] = {}
        """Types of factors that are cast to a wider one before they are multiplied."""
        self.barriers = 0
        self.unbounded = False
        """Whether there are loops whose number of steps depends on data."""
        self.hidden = False
        """Whether shared or global memory is passed to calls whose accesses are not known."""
        self._scope = Scope(None, None)
        self._memory: dict[Var, str] = {}
        self._fragments: dict[Var, tuple[int, int, int]] = {}
        self._types: dict[Var, str] = {}
        self._sizes: dict[Var, int] = {}
        self._values = True
        self._read: list[tuple[Var, PrimExpr]] = []
        for param in func.params:
            if param.dtype.code == "handle":
                self._memory[param] = "global"
        self._maps = {func.params[int(m[0])]: m for m in func.attrs.get("tir.tensor_maps", ())}
        self.visit(func.body)

    # --- statements

    def _inside(self, step: Any, body: Any, holds: bool = True) -> None:
        outer = self._scope
        self._scope = Scope(outer, step, holds)
        self.visit(body)
        self._scope = outer

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar):
            self.axes.setdefault(s.node.thread_tag, s.value)
            self._inside(s, s.body)
            return
        if s.attr_key == "fragment_shape" and isinstance(s.value, StringImm) and isinstance(s.node, Var):
            m, n, k = [int(x) for x in s.value.value.split(",")]
            self._fragments[s.node] = m, n, k
        self.visit(s.body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        scope = str(getattr(s.buffer_var.type_annotation, "storage_scope", "") or "global")
        self._memory[s.buffer_var] = scope.split(".")[0] if scope in ("shared", "shared.dyn", "global") else scope
        self._types[s.buffer_var] = str(s.dtype.element)
        size = bits_of(s.dtype)
        for extent in s.extents:
            size *= extent.value if isinstance(extent, IntImm) else 0
        self._sizes[s.buffer_var] = size // 8
        self.storage.append((s.buffer_var.name, scope, size // 8))
        self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> None:
        self._inside(s, s.body)

    @on(While)
    def _while(self, s: While) -> None:
        self.unbounded = True
        self.visit(s.condition)
        self.visit(s.body)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        # What is bound to a name as an integer is a part of indices.
        (self.visit if s.value.dtype.is_float else self._index)(s.value)
        self._inside(s, s.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self._index(s.condition)
        self._inside(s.condition, s.then_case)
        if s.else_case is not None:
            self._inside(s.condition, s.else_case, False)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._read.clear()
        self._index(*s.indices)
        self.visit(s.value)
        self._access(s, "store", s.value.dtype.lanes)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        self._read.clear()
        self.visit(s.value)

    # --- expressions

    def _index(self, *indices: PrimExpr) -> None:
        """Reads in indices count, their arithmetic does not."""
        outer, self._values = self._values, False
        for index in indices:
            self.visit(index)
        self._values = outer

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._index(*e.indices)
        # Compilers read once what a statement reads several times.
        index = e.indices[0]
        if not any(
            [data is e.buffer.data and structural_equal(index, at, map_free_vars=False) for data, at in self._read]
        ):
            self._read.append((e.buffer.data, index))
            self._access(e, "load", e.dtype.lanes)

    def _access(self, e: BufferLoad | BufferStore, kind: str, lanes: int) -> None:
        buffer = e.buffer
        if len(e.indices) == 1:
            offset, index = buffer.elem_offset, e.indices[0]
            moved = index if isinstance(offset, IntImm) and offset.value == 0 else index + offset
            size = bits_of(buffer.dtype)
            for extent in buffer.shape:
                size *= extent.value if isinstance(extent, IntImm) else 0
            self._sizes.setdefault(buffer.data, size // 8)
            self._add(_Place(buffer.name, buffer.data, buffer.dtype, moved), kind, max(lanes // buffer.dtype.lanes, 1))

    def _add(self, place: _Place, kind: str, lanes: int, extra: tuple[Any, ...] = ()) -> None:
        memory = self._memory.get(place.data, "")
        if memory in ("shared", "global"):
            self.accesses.append(
                Access(place.name, memory, kind, place.element, place.at, lanes, self._scope, extra, place.data)
            )

    def _at(self, e: Any, told: DataType | None = None) -> _Place | None:
        """(name, variable, type of elements, index) of an address; None where it is none of memory that is known. told: the type, where a
        call says it."""
        if isinstance(e, Var):
            return _Place(e.name, e, told or DataType(self._types.get(e, "uint8")), IntImm("int32", 0))
        if isinstance(e, Call) and e.intrinsic == "address_of" and isinstance(e.args[0], BufferLoad):
            load = e.args[0]
            if len(load.indices) != 1:
                return None
            return _Place(load.buffer.name, load.buffer.data, load.buffer.dtype, load.indices[0])
        if isinstance(e, Call) and e.intrinsic == "tvm_access_ptr" and isinstance(e.args[1], Var):
            return _Place(e.args[1].name, e.args[1], e.args[0].dtype, e.args[2])
        return None

    @on(Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
    def _binary(self, e: Add) -> None:
        if isinstance(e, Mul) and self._values and isinstance(e.a, Cast) and isinstance(e.b, Cast):
            narrow = e.a.value.dtype
            if narrow.element == e.b.value.dtype.element and narrow.bits < e.dtype.bits:
                self.factors[str(narrow.element)] = None
        self._count("scalar", str(e.dtype.element), e.dtype.lanes)
        self.visit(e.a)
        self.visit(e.b)

    def _count(self, unit: str, dtype: str, operations: float, sums: str = "") -> None:
        if self._values:
            self.work.append(Work(unit, dtype, operations, self._scope, sums))

    @on(Call)
    def _call(self, e: Call) -> None:
        name = str(e.intrinsic or "")
        rule = getattr(self, f"_{name}", None) if name in _RULES else None
        if rule is not None:
            rule(e)
            return
        if name in SPECIAL:
            self._count("special", str(e.dtype.element), e.dtype.lanes)
        elif name == "fma":
            self._count("scalar", str(e.dtype.element), 2 * e.dtype.lanes)
        elif name == "dp4a":
            self._count("scalar", "int8", 8)
        elif name == "tvm_storage_sync":
            self.barriers += 1
        elif name.startswith("atomic_") and (place := self._at(e.args[0])) is not None:
            self._index(place.at)
            self._add(place, "atomic", 1)
            self.visit(e.args[1])
            return
        self._matrix(e, name)
        if name.startswith(("ptx_", "mma_", "tvm_")):
            # Numbers of instructions are offsets.
            self._index(*e.args)
            return
        for arg in e.args:
            self.visit(arg)

    def _if_then_else(self, e: Call) -> None:
        condition, first, second = e.args
        self._index(condition)
        self._inside(condition, first)
        self._inside(condition, second, False)

    def _address_of(self, e: Call) -> None:
        """An address that goes to a call of which nothing is known."""
        place = self._at(e)
        if place is not None:
            self.hidden |= self._memory.get(place.data, "") in ("shared", "global")
            self._index(place.at)

    _tvm_access_ptr = _address_of

    # --- instructions of warps

    def _matrix(self, e: Call, name: str) -> None:
        """Counts matrix instructions that say their shape, as "m16n8k16"."""
        words = [a.value for a in e.args if isinstance(a, StringImm)]
        shape = next((found for w in words if (found := _SHAPE.fullmatch(w))), None)
        if shape is None or not ("mma" in name or "tcgen05" in name):
            return
        m, n, k = map(int, shape.groups())
        types = [
            _MMA_TYPES.get(w, w) for w in words if w in _MMA_TYPES or re.fullmatch(r"u?int\d+|b?float\d+\w*|tf32", w)
        ]
        threads = 128 if "wgmma" in name else 32
        unit = next((u for u in ("wgmma", "tcgen05") if u in name), "mma")
        self._count(unit, types[0] if types else "float16", 2 * m * n * k / threads, types[2] if len(types) > 2 else "")

    def _tvm_mma_sync(self, e: Call) -> None:
        sums, factor = e.args[0], e.args[2]
        if isinstance(sums, Var) and sums in self._fragments:
            m, n, k = self._fragments[sums]
            dtype = self._types.get(factor, "float16") if isinstance(factor, Var) else "float16"
            self._count("wmma", dtype, 2 * m * n * k / 32, self._types.get(sums, ""))

    def _tvm_load_matrix_sync(self, e: Call, kind: str = "wmma") -> None:
        fragment, place, stride = e.args[0], self._at(e.args[5]), e.args[6]
        if place is None or not isinstance(fragment, Var) or fragment not in self._fragments:
            return
        m, n, k = self._fragments[fragment]
        rows, columns = {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n)}.get(self._memory.get(fragment, ""), (m, n))
        if isinstance(e.args[7], StringImm) and e.args[7].value == "col_major":
            rows, columns = columns, rows
        self._index(place.at)
        self._add(place, kind, 1, (rows, columns, stride))

    def _tvm_store_matrix_sync(self, e: Call) -> None:
        self._tvm_load_matrix_sync(e, "wmma store")

    def _mma_store(self, e: Call) -> None:
        place = self._at(e.args[2], e.dtype.element)
        if place is None:
            self.hidden = True
            return
        self._index(place.at)
        self._add(place, "mma store", 1, (e.args[5],))

    def _ptx_ldmatrix(self, e: Call) -> None:
        self._pointer(e, 5, "ldmatrix", 16, (getattr(e.args[1], "value", 1),))

    def _ptx_cp_async(self, e: Call) -> None:
        size = getattr(e.args[4], "value", 16)
        outer = self._scope
        if len(e.args) > 5:
            self._index(e.args[5])
            self._scope = Scope(outer, e.args[5])
        self._pointer(e, 2, "copy", size)
        self._scope = outer
        self._pointer(e, 0, "copy", size)

    def _ptx_cp_async_bulk(self, e: Call) -> None:
        size = getattr(e.args[4], "value", 0)
        self._pointer(e, 2, "bulk", size, (size,))
        self._pointer(e, 0, "bulk", size, (size,))

    def _ptx_tma_load(self, e: Call) -> None:
        """A copy of a box of a tensor map."""
        to, tensor, _, *coordinates = e.args
        found, place = self._maps.get(tensor), self._at(to)  # type: ignore[call-overload]
        if found is None or place is None or not isinstance(tensor, Var):
            self.hidden = True
            return
        element = DataType(str(found[1]))
        size = element.bytes * prod([int(n) for n in found[5]])
        at: PrimExpr = IntImm("int32", 0)
        for coordinate, step in zip(coordinates, [*found[4], 1], strict=True):
            at = at + coordinate * int(step)
        self._sizes.setdefault(tensor, element.bytes * prod([int(n) for n in found[3]]))
        self._index(at, place.at)
        self._add(_Place(tensor.name, tensor, element, at), "bulk", size // element.bytes, (size,))
        self._add(place, "bulk", size // element.bytes, (size,))

    def _ptx_wgmma(self, e: Call) -> None:
        """A product of a warpgroup, with operands in shared memory; the first one may be in registers."""
        self._matrix(e, e.intrinsic)
        shape = _SHAPE.fullmatch(str(getattr(e.args[0], "value", "")))
        rest = 6 if e.intrinsic == "ptx_wgmma_rs" else 9
        operands = [(e.args[rest], int(shape[2]))] if shape else []
        if shape and rest == 9:
            operands.append((e.args[4], 64))
        for pointer, rows in operands:
            place = self._at(pointer)
            if place is None:
                self.hidden = True
                continue
            self._index(place.at)
            size = 32 * rows
            self._add(place, "wgmma", max(8 * size // place.element.bits, 1), (size,))

    _ptx_wgmma_rs = _ptx_wgmma

    def _pointer(self, e: Call, at: int, kind: str, size: int, extra: tuple[Any, ...] = ()) -> None:
        """An access of so many bytes at an address and an offset in elements, which are arguments of a call."""
        told = e.dtype.element if e.dtype.code not in ("void", "handle", "") else None
        place = self._at(e.args[at], told)
        if place is None:
            self.hidden = True
            return
        place = place._replace(at=place.at + e.args[at + 1])
        self._index(place.at)
        self._add(place, kind, max(8 * size // bits_of(place.element), 1), extra)

    def size(self, access: Access) -> int:
        """Bytes of the memory of an access; 0 where they are not known."""
        return self._sizes.get(access.data, 0)


_RULES = frozenset(
    ["if_then_else", "address_of", "tvm_access_ptr", "tvm_mma_sync", "tvm_load_matrix_sync", "tvm_store_matrix_sync"]
    + ["mma_store", "ptx_ldmatrix", "ptx_cp_async", "ptx_cp_async_bulk", "ptx_tma_load", "ptx_wgmma", "ptx_wgmma_rs"]
)
"""Intrinsics that a method `_<name>` takes."""

__all__ = ["Access", "Program", "Scope", "Work", "bits_of"]
