"""The matrices of Winograd's form as tensors."""

from __future__ import annotations

from tilewright import te
from tilewright.topi.nn import winograd


def winograd_transform_matrices(
    tile_size: int, kernel_size: int, out_dtype: str
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """(A, B, G): a tile d of tile_size + kernel_size - 1 elements and weights g give A^T ((G g) * (B^T d))."""
    a, b, g = winograd.winograd_transform_matrices(tile_size, kernel_size)
    return (
        winograd.constant_matrix(a, out_dtype, "A"),
        winograd.constant_matrix(b, out_dtype, "B"),
        winograd.constant_matrix(g, out_dtype, "G"),
    )
