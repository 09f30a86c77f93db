"""The PTX instructions ldmatrix and mma for interpreted programs: the threads of a warp give their registers, and all get their results.

Each function takes the arguments of all 32 threads. Uses that hardware does not allow raise InterpError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tilewright.codegen.interp.values import Array, InterpError, Pointer, Races, note, np_type
from tilewright.ir import DataType

WARP = 32
ROW_BYTES = 16
"""Bytes of a row of a matrix of ldmatrix."""
TYPES = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "tf32": "float32", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}  # fmt: skip
"""Element types of ptx_mma that have another name as types of data."""
TF32_BITS = np.uint32(0xFFFFE000)
"""The bits of a float32 that a matrix unit reads of it as tf32."""


def ldmatrix(lanes: Sequence[tuple[Any, ...]], first: int, races: Races) -> None:
    """Loads matrices of 8 x 8 elements of 16 bits. lanes: (transposed, number of matrices, registers, row in shared memory) of each
    thread; thread 8 * m + r names row r of matrix m. first: the number of the first thread."""
    trans, count, *_ = lanes[0]
    for m in range(int(count)):
        matrix = np.stack([_row(lanes[8 * m + r][3], first + 8 * m + r, races) for r in range(8)])
        if trans:
            matrix = matrix.T
        for k, (_, _, to, _) in enumerate(lanes):
            registers(to.moved(4 * m), np.dtype(np.uint16), 2, written=True)[:] = matrix[
                k // 4, k % 4 * 2 : k % 4 * 2 + 2
            ]


def _row(pointer: Pointer, lane: int, races: Races) -> Array:
    storage, at = pointer.storage, pointer.offset
    size = storage.data.itemsize
    if at % ROW_BYTES:
        raise InterpError(
            f"a row of ldmatrix begins at a multiple of {ROW_BYTES} bytes, but byte {at} of {storage.name} was given"
        )
    if at < 0 or at + ROW_BYTES > storage.data.nbytes:
        raise InterpError(
            f"a row of ldmatrix at byte {at} is outside of {storage.name}, which has {storage.data.nbytes}"
        )
    if storage.ready is not None and size != 1 and not storage.ready[at // size : (at + ROW_BYTES) // size].all():
        raise InterpError(f"uninitialised read: the row of ldmatrix at byte {at} of {storage.name} was not all written")
    if races.on:
        outer, races.iteration = races.iteration, lane
        for k in range(at, at + ROW_BYTES, min(size, 2)):
            note(races, storage, k, False, storage.name)
        races.iteration = outer
    found: Array = storage.data.view(np.uint8)[at : at + ROW_BYTES].view(np.uint16)
    return found


def registers(pointer: Pointer, kind: np.dtype[Any], count: int, written: bool = False) -> Array:
    """Elements of a thread's registers."""
    storage, at, size = pointer.storage, pointer.offset, count * kind.itemsize
    if at < 0 or at + size > storage.data.nbytes or at % 4:
        raise InterpError(
            f"registers {storage.name} of {storage.data.nbytes} bytes have no {size} bytes at byte {at}, which must be a multiple of 4"
        )
    if storage.ready is not None:
        first, last = at // storage.data.itemsize, (at + size) // storage.data.itemsize
        if written:
            storage.ready[first:last] = True
        elif not storage.ready[first:last].all():
            raise InterpError(f"uninitialised read: registers {storage.name} from byte {at} on were not written")
    found: Array = storage.data.view(np.uint8)[at : at + size].view(kind)
    return found


@cache
def _places(shape: str, bits: int) -> tuple[Array, Array, Array]:
    """Where the registers of all lanes are in the tiles a (m, k), b (k, n) and c (m, n): arrays (rows or columns, lanes, elements)."""
    found = re.fullmatch(r"m(\d+)n8k(\d+)", shape)
    if found is None or (int(found[1]), int(found[2])) == (8, 4) and bits == 16:
        raise InterpError(f"the interpreter has no mma of shape {shape} on elements of {bits} bits")
    m, k = int(found[1]), int(found[2])
    per = max(32 // bits, 1)
    lane = np.arange(WARP)[:, None]
    group, thread = lane // 4, lane % 4
    e = np.arange(m * k // WARP)[None, :]
    register = e // per
    rows = m // 8
    a = np.stack([group + 8 * (register % rows), register // rows * 4 * per + thread * per + e % per])
    e = np.arange(k * 8 // WARP)[None, :]
    b = np.stack([e // per * 4 * per + thread * per + e % per, group + 0 * e])
    e = np.arange(m * 8 // WARP)[None, :]
    c = np.stack([group + e // 2 * 8, thread * 2 + e % 2])
    return a, b, c


def mma(lanes: Sequence[tuple[Any, ...]], first: int, races: Races) -> None:
    """c += a * b on the tiles in the registers of all lanes. lanes: (shape, type of a, b and c, registers of a, b and c) of each thread.
    Floats are summed in 32 bits at least; integers wrap."""
    shape, *names = lanes[0][:4]
    kinds = [np_type(DataType(TYPES.get(name, name))) for name in names]
    places = _places(shape, kinds[0].itemsize * 8)
    tiles = []
    for operand, (kind, (rows, columns)) in enumerate(zip(kinds, places, strict=True)):
        tile = np.zeros((rows.max() + 1, columns.max() + 1), kind)
        held = np.stack([registers(args[4 + operand], kind, rows.shape[1]) for args in lanes])
        if names[operand] == "tf32":
            held = (held.view(np.uint32) & TF32_BITS).view(np.float32)
        tile[rows, columns] = held
        tiles.append(tile)
    a, b, c = tiles
    wide: Any = np.int64 if np.issubdtype(kinds[2], np.integer) else np.result_type(kinds[2], np.float32)
    with np.errstate(all="ignore"):
        total = (c.astype(wide) + a.astype(wide) @ b.astype(wide)).astype(kinds[2])
    rows, columns = places[2]
    for k, args in enumerate(lanes):
        registers(args[6], kinds[2], rows.shape[1], written=True)[:] = total[rows[k], columns[k]]


def fill_registers(pointer: Pointer, kind: np.dtype[Any], count: int) -> None:
    """Zeros in so many elements of a thread's registers."""
    registers(pointer, kind, int(count), written=True)[:] = 0


def store_registers(to: Pointer, source: Pointer, stride: int, kind: np.dtype[Any], lane: int, races: Races) -> None:
    """Stores a thread's 8 elements of a tile of 16 x 16 sums, whose rows are `stride` elements apart in memory."""
    values, storage = registers(source, kind, 8), to.storage
    data = storage.data.view(kind)
    for i in range(8):
        at = (
            to.offset // kind.itemsize
            + (i % 4 // 2 * 8 + lane % WARP // 4) * int(stride)
            + i // 4 * 8
            + lane % 4 * 2
            + i % 2
        )
        if not 0 <= at < data.size:
            raise InterpError(f"mma_store writes element {at} of {storage.name}, which has {data.size}")
        if races.on and races.iteration >= 0:
            note(races, storage, at * kind.itemsize, True, storage.name)
        data[at] = values[i]
        if storage.ready is not None and storage.data.itemsize == kind.itemsize:
            storage.ready[at] = True


INSTRUCTIONS = {"ldmatrix": ldmatrix, "mma": mma}

__all__ = ["INSTRUCTIONS", "TYPES", "fill_registers", "ldmatrix", "mma", "store_registers"]
