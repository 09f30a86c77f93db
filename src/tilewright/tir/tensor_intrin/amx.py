"""Tiles of Intel's AMX: products of up to 2 x 2 tiles of 16 x 16 sums that stay in tile registers through a whole reduction.

Three intrinsics work together on sums in scope "amx.tile", a buffer that is never in memory:

    fill    C = 0          the registers are configured, which sets them to zero
    dot     C += A * B     a step of the reduction: A and B are loaded into registers, and one to four instructions multiply them
    store   D = C          the sums go to memory, and the registers are released

C lies in registers 0 to 3, A in 4 and 5, B in 6 and 7. Rows are in one or two registers of up to 16, columns too. B comes packed in
groups along the reduction (scheduling/cpu/dot_products.py). Two forms: matrices,

    C[rows, columns] += A[rows, steps * group] * B[steps, columns, group]

and, for convolutions on channel blocks, several lines of an image and several panels of columns,

    C[panels, lines, rows, columns] += A[lines * y, rows * x, steps * group] * B[panels, 1, 1, 1, steps, columns, group]

where y and x are the convolution's strides, and the axes of one element B's chunks of channels and kernel offsets. Names say it all, so
that schedules ask for what they need: amx_bf16_dot_32x32x16, amx_u8s8_fill_16x16x16_2x1s1x1 (panels x lines, strides y x x).
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import DataType, IntImm, PointerType, PrimType, Range
from tilewright.tir import (
    AllocateConst,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    cast_to,
    const,
    decl_buffer,
)
from tilewright.tir.op import address_of, call_llvm_intrin
from tilewright.tir.schedule import TensorIntrin

SCOPE = "amx.tile"
"""Storage scope of sums in tile registers."""
SIDE = 16
"""Rows of a tile, and columns of 32 bits."""
ROW_BYTES = 64
FILL, DOT, STORE, STORE_LOCAL = PARTS = ("fill", "dot", "store", "store_local")
"""The operation of an intrinsic; sums are stored to memory of scope "global" or "local"."""
KERNEL_OFFSETS = (1, 1, 1)
"""The axes of packed weights between panels and groups of channels: chunks of channels, and the kernel's height and width."""
_A, _B = 4, 6
"""The first register of each operand; sums have those before."""


class Kind(NamedTuple):
    """The operands of an instruction: types of A, B and C, and the number of pairs that each sum takes at once."""

    dtypes: tuple[str, str, str]
    group: int
    instruction: str


KINDS = {
    "bf16": Kind(("bfloat16", "bfloat16", "float32"), 2, "llvm.x86.tdpbf16ps"),
    "u8s8": Kind(("uint8", "int8", "int32"), 4, "llvm.x86.tdpbusd"),
    "s8s8": Kind(("int8", "int8", "int32"), 4, "llvm.x86.tdpbssd"),
}


class Tile(NamedTuple):
    """The sums that one sequence of instructions computes; `steps` groups at a time. `panels` and `lines` are 0 for matrices; the steps are
    the distances of lines and rows in A."""

    kind: str
    rows: int
    columns: int
    steps: int
    panels: int = 0
    lines: int = 0
    line_step: int = 1
    row_step: int = 1

    def name(self, part: str) -> str:
        """The intrinsic's name."""
        form = f"_{self.panels}x{self.lines}s{self.line_step}x{self.row_step}" if self.panels else ""
        return f"amx_{self.kind}_{part}_{self.rows}x{self.columns}x{self.steps}{form}"

    @property
    def row_tiles(self) -> list[tuple[int, int, int]]:
        """(line, first row, rows) of each register of rows."""
        return _pieces(max(self.lines, 1), self.rows)

    @property
    def column_tiles(self) -> list[tuple[int, int, int]]:
        """(panel, first column, columns) of each register of columns."""
        return _pieces(max(self.panels, 1), self.columns)

    @property
    def fits(self) -> bool:
        """Whether two registers hold the rows, two the columns, and one the steps."""
        sizes = self.rows, self.columns, self.steps, self.line_step, self.row_step
        fits = len(self.row_tiles) <= 2 and len(self.column_tiles) <= 2 and self.steps <= SIDE
        return fits and min(sizes) > 0 and (self.panels > 0) == (self.lines > 0)


def _pieces(outer: int, size: int) -> list[tuple[int, int, int]]:
    return [(o, at, min(SIDE, size - at)) for o in range(outer) for at in range(0, size, SIDE)]


class _Builder:
    """Description and implementation of the parts of one tile."""

    def __init__(self, tile: Tile, part: str) -> None:
        self.tile, self.part = tile, part
        self.kind = KINDS[tile.kind]
        self.group = self.kind.group
        lead = (tile.panels, tile.lines) if tile.panels else ()
        self.sums = (*lead, tile.rows, tile.columns)

    def buffers(self) -> dict[str, Buffer]:
        """The buffers that a part takes, by name."""
        tile, (a, b, c) = self.tile, self.kind.dtypes
        lines = ((tile.lines - 1) * tile.line_step + 1,) if tile.panels else ()
        panels = (tile.panels, *KERNEL_OFFSETS) if tile.panels else ()
        rows = (tile.rows - 1) * tile.row_step + 1
        found = {"C": _tensor("C", self.sums, c, 1, SCOPE)}
        if self.part == DOT:
            found["A"] = _tensor("A", (*lines, rows, tile.steps * self.group), a, 1)
            found["B"] = _tensor("B", (*panels, tile.steps, tile.columns, self.group), b, 2)
        elif self.part != FILL:
            found["D"] = _tensor("D", self.sums, c, 1, "local" if self.part == STORE_LOCAL else "global")
        return found

    def description(self) -> PrimFunc:
        """The computation of the part, in plain loops."""
        buffers = self.buffers()
        names = [f"i{k}" for k in range(len(self.sums))]
        extents = [*self.sums, *((self.tile.steps, self.group) if self.part == DOT else ())]
        names += ["k", "g"] if self.part == DOT else []
        loops = [Var(n, "int32") for n in names]
        spatial = len(self.sums)
        axes = [
            IterVar(Range(0, e), Var("v" + n, "int32"), IterVar.DataPar if i < spatial else IterVar.CommReduce)
            for i, (n, e) in enumerate(zip(names, extents, strict=True))
        ]
        at = [v.var for v in axes]
        total = BufferLoad(buffers["C"], tuple(at[:spatial]))
        reads: list[BufferLoad] = []
        if self.part == FILL:
            store = BufferStore(buffers["C"], const(0, self.kind.dtypes[2]), tuple(at))
        elif self.part == DOT:
            *lead, row, column, step, place = at
            panel = (lead[0], *[IntImm("int32", 0)] * len(KERNEL_OFFSETS)) if lead else ()
            line = (lead[1] * self.tile.line_step,) if lead else ()
            left = BufferLoad(buffers["A"], (*line, row * self.tile.row_step, step * self.group + place))
            right = BufferLoad(buffers["B"], (*panel, step, column, place))
            product = cast_to(left, self.kind.dtypes[2]) * cast_to(right, self.kind.dtypes[2])
            store = BufferStore(buffers["C"], total + product, tuple(at[:spatial]))
            reads = [total, left, right]
        else:
            store = BufferStore(buffers["D"], total, tuple(at))
            reads = [total]
        write = BufferRegion(store.buffer, tuple([Range.from_min_extent(e, 1) for e in store.indices]))
        regions = tuple(
            [BufferRegion(x.buffer, tuple([Range.from_min_extent(e, 1) for e in x.indices])) for x in reads]
        )
        # Where a copy is brought under a loop, it gets no loops of one iteration.
        bare = [self.part in (STORE, STORE_LOCAL) and e == 1 for e in extents]
        values = tuple([IntImm("int32", 0) if b else v for v, b in zip(loops, bare, strict=True)])
        body: Stmt = BlockRealize(values, const(True, "bool"), Block(tuple(axes), regions, (write,), "tile", store))
        for v, e, b in reversed(list(zip(loops, extents, bare, strict=True))):
            body = body if b else For(v, 0, e, ForKind.SERIAL, body)
        return self._function(buffers, body)

    def implementation(self) -> PrimFunc:
        """The instructions."""
        buffers = self.buffers()
        body = {FILL: self._fill, DOT: self._dot}.get(self.part, self._store)(buffers)
        return self._function(buffers, body)

    def _function(self, buffers: dict[str, Buffer], body: Stmt) -> PrimFunc:
        written = buffers.get("D", buffers["C"])
        read = [b for b in buffers.values() if b is not written or self.part == DOT]
        root = Block((), tuple([_whole(b) for b in read]), (_whole(written),), "root", body)
        return PrimFunc(tuple(buffers.values()), BlockRealize((), const(True, "bool"), root))

    def _sums(self) -> list[tuple[int, tuple[int, int, int], tuple[int, int, int]]]:
        """(register, rows, columns) of each tile of sums."""
        columns = self.tile.column_tiles
        return [(i * len(columns) + j, r, c) for i, r in enumerate(self.tile.row_tiles) for j, c in enumerate(columns)]

    def _fill(self, buffers: dict[str, Buffer]) -> Stmt:
        registers = {n: (r[2], 4 * c[2]) for n, r, c in self._sums()}
        registers.update({_A + i: (r[2], 4 * self.tile.steps) for i, r in enumerate(self.tile.row_tiles)})
        registers.update({_B + j: (self.tile.steps, 4 * c[2]) for j, c in enumerate(self.tile.column_tiles)})
        data = Var("configuration", PointerType(PrimType(DataType("uint8")), "global"))
        bytes_ = decl_buffer((64,), "uint8", "configuration", data=data)
        load = _call("llvm.x86.ldtilecfg", address_of(BufferLoad(bytes_, (IntImm("int32", 0),))))
        return AllocateConst(data, DataType("uint8"), (IntImm("int32", 64),), configuration(registers), load)

    def _dot(self, buffers: dict[str, Buffer]) -> Stmt:
        a, b = buffers["A"], buffers["B"]
        blocked = self.tile.panels > 0
        calls: list[Stmt] = []
        rows, columns = len(self.tile.row_tiles), len(self.tile.column_tiles)
        for j, (panel, first, _) in enumerate(self.tile.column_tiles):
            at = (*((panel, *[0] * len(KERNEL_OFFSETS)) if blocked else ()), 0, first, 0)
            calls.append(self._load(_B + j, b, at, b.strides[-3]))
            if j == 0:
                for i, (line, row, _) in enumerate(self.tile.row_tiles):
                    place = (*((line * self.tile.line_step,) if blocked else ()), row * self.tile.row_step, 0)
                    calls.append(self._load(_A + i, a, place, a.strides[-2] * self.tile.row_step))
        for j in range(columns):
            for i in range(rows):
                calls.append(_call(self.kind.instruction, *map(_register, (i * columns + j, _A + i, _B + j))))
        return SeqStmt(tuple(calls))

    def _store(self, buffers: dict[str, Buffer]) -> Stmt:
        d = buffers["D"]
        calls: list[Stmt] = []
        for n, (line, row, _), (panel, column, _) in self._sums():
            at = (*((panel, line) if self.tile.panels else ()), row, column)
            calls.append(_call("llvm.x86.tilestored64", _register(n), _place(d, at), _distance(d, d.strides[-2])))
        return SeqStmt((*calls, _call("llvm.x86.tilerelease")))

    def _load(self, register: int, buffer: Buffer, at: tuple[int, ...], stride: PrimExpr) -> Stmt:
        place, distance = _place(buffer, at), _distance(buffer, stride)
        return _call("llvm.x86.tileloadd64", _register(register), place, distance)


def configuration(registers: dict[int, tuple[int, int]]) -> np.ndarray[Any, Any]:
    """The 64 bytes that ldtilecfg takes, for (rows, bytes of a row) of each register: palette 1, bytes of rows from byte 16 on in 16
    bits each, rows from byte 48 on (Intel's manual, volume 1, chapter 18)."""
    found = np.zeros(64, np.uint8)
    found[0] = 1
    for n, (rows, width) in registers.items():
        found[16 + 2 * n], found[48 + n] = width, rows
    return found


def _tensor(name: str, shape: tuple[int, ...], dtype: str, inner: int, scope: str = "global") -> Buffer:
    """A buffer whose last `inner` axes are compact, and the others as far apart as it is asked for."""
    compact = [prod(shape[len(shape) - k :]) for k in range(inner - 1, -1, -1)]
    strides = [*[Var(f"s{name}{k}", "int32") for k in range(len(shape) - inner)], *compact]
    return decl_buffer(shape, dtype, name, strides=strides, offset_factor=1, scope=scope)


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range.from_min_extent(0, n) for n in buffer.shape]))


def _register(n: int) -> IntImm:
    return IntImm("int8", n)


def _place(buffer: Buffer, at: tuple[int, ...]) -> PrimExpr:
    return address_of(BufferLoad(buffer, tuple([IntImm("int32", i) for i in at])))


def _distance(buffer: Buffer, stride: PrimExpr) -> PrimExpr:
    """Bytes from one row to the next."""
    return cast_to(stride, "int64") * const(buffer.dtype.bytes, "int64")


def _call(name: str, *args: PrimExpr) -> Stmt:
    return Evaluate(call_llvm_intrin("void", name, *args))


_NAME = re.compile(r"amx_([a-z0-9]+)_(fill|dot|store|store_local)_(\d+)x(\d+)x(\d+)(?:_(\d+)x(\d+)s(\d+)x(\d+))?")


def intrinsic(name: str) -> TensorIntrin | None:
    """The tensor intrinsic of a name as `Tile.name` writes it; None where it names no tile that registers hold."""
    found = _NAME.fullmatch(name)
    if found is None or found[1] not in KINDS:
        return None
    rows, columns, steps = (int(found[k]) for k in (3, 4, 5))
    tile = Tile(found[1], rows, columns, steps)
    if found[6]:
        tile = Tile(found[1], rows, columns, steps, *(int(found[k]) for k in (6, 7, 8, 9)))
    if not tile.fits:
        return None
    builder = _Builder(tile, found[2])
    return TensorIntrin(builder.description(), builder.implementation())


TensorIntrin.register_family("amx_", intrinsic)
