"""Where the elements of tiles are in the registers of a warp, as the PTX instructions mma and ldmatrix define it.

A register has 32 bits: E = 32 / bits elements that are neighbours along the summed axis. Lane 4 * g + t of a warp has row g of every
8 rows, and the neighbours E * t .. E * t + E - 1 of every 4 * E. (PTX ISA, "Matrix Fragments for mma".)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import DataType

Place = tuple[Any, Any]
Layout = Callable[[Any, Any], Place]
"""From the row and column of an element in a tile of memory to (lane, element of that lane)."""
WARP_SIZE, M_DIM, N_DIM = 32, 16, 16
K_DIMS = {32: 8, 16: 16, 8: 32}
"""Bits of an element -> the elements along k that one instruction mma takes."""


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> Place:
    """A tile of 16 x 16 elements of 16 bits, or of sums: element -> (lane, one of 8)."""
    return 4 * (i % 8) + (j % 8) // 2, 4 * (j // 8) + (i // 8) * 2 + j % 2


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> Place:
    """The inverse of shared_16x16_to_ldmatrix_32x8_layout."""
    return 8 * (local_id % 4 // 2) + thread_id // 4, 8 * (local_id // 4) + thread_id % 4 * 2 + local_id % 2


def shared_16x32_to_ldmatrix_32x16_layout(i: Any, j: Any) -> Place:
    """A tile of bytes whose rows run along k: 16 rows of a first operand, or of a transposed second one -> (lane, one of 16)."""
    return 4 * (i % 8) + (j % 16) // 4, 8 * (j // 16) + (i // 8) * 4 + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: Any, j: Any) -> Place:
    """A tile of bytes (k, n) of a second operand -> (lane, one of 16)."""
    return (i % 16) // 4 + 4 * (j % 8), 8 * (j // 8) + (i // 16) * 4 + i % 4


def shared_16x8_to_ldmatrix_32x4_layout(i: Any, j: Any) -> Place:
    """A tile of elements of 32 bits whose rows run along k -> (lane, one of 4)."""
    return 4 * (i % 8) + j % 4, 2 * (j // 4) + i // 8


def shared_8x16_to_ldmatrix_32x4_layout(i: Any, j: Any) -> Place:
    """A tile of elements of 32 bits (k, n) of a second operand -> (lane, one of 4)."""
    return 4 * (j % 8) + i % 4, 2 * (j // 8) + i // 4


def index_map_shared_16x16_to_ldmatrix_32x8_layout(*ind: Any) -> list[Any]:
    """The layout 16 x 16 for the last two of several indices, as an index map of `transform_layout`."""
    *lead, i, j = ind
    return [*lead, *shared_16x16_to_ldmatrix_32x8_layout(i, j)]


def operand_layout(k_dim: int, matrix_name: str, transposed: bool) -> Layout:
    """The layout of an operand's tile in memory. matrix_name: "A", (m, k), or "B", (k, n); transposed: in reverse order.

    Tiles of 16 x 16 have one layout, whatever they are: of (k, n) and of transposed tiles it names the elements by their places in
    memory. Which register has which of them is up to ldmatrix and mma, which agree.
    """
    if k_dim == 16:
        return shared_16x16_to_ldmatrix_32x8_layout
    along_k = shared_16x32_to_ldmatrix_32x16_layout if k_dim == 32 else shared_16x8_to_ldmatrix_32x4_layout
    if matrix_name == "A":
        return (lambda i, j: along_k(j, i)) if transposed else along_k
    if transposed:
        return along_k
    return shared_32x16_to_ldmatrix_32x16_layout if k_dim == 32 else shared_8x16_to_ldmatrix_32x4_layout


def operand_shape(k_dim: int, matrix_name: str, transposed: bool) -> tuple[int, int]:
    """Rows and columns of an operand's tile in memory."""
    shape = (M_DIM, k_dim) if matrix_name == "A" else (k_dim, N_DIM)
    return (shape[1], shape[0]) if transposed else shape


def loads_whole(dtype: str, matrix_name: str, transposed: bool) -> bool:
    """Whether ldmatrix loads a tile: one whose rows run along k, or whose elements have 16 bits, which it can transpose."""
    return DataType(dtype).bits == 16 or transposed == (matrix_name == "B")


def row_address(k_dim: int, dtype: str, matrix_name: str, transposed: bool, lane: Any) -> Place:
    """(row, column) in the tile of the 16 bytes that a lane names to an ldmatrix of four matrices of 8 x 8."""
    chunk = 128 // DataType(dtype).bits
    low, high = lane % 16 // 8 * 8, lane // 16
    if matrix_name == "A":
        # Matrices in the order of registers: rows 0 and 8 of the first half of k, and of the second.
        return (lane % 8 + high * 8, low) if transposed else (lane % 8 + low, high * chunk)
    # Both halves of k of the first eight columns, then of the others.
    return (lane % 8 + high * 8, low // 8 * chunk) if transposed else (lane % 8 + low, high * 8)


__all__ = [
    "K_DIMS",
    "M_DIM",
    "N_DIM",
    "WARP_SIZE",
    "index_map_shared_16x16_to_ldmatrix_32x8_layout",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "loads_whole",
    "operand_layout",
    "operand_shape",
    "row_address",
    "shared_8x16_to_ldmatrix_32x4_layout",
    "shared_16x8_to_ldmatrix_32x4_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x32_to_ldmatrix_32x16_layout",
    "shared_32x16_to_ldmatrix_32x16_layout",
]
