"""Tiles of products: how blocks and warps divide them, and which division is fast."""

from __future__ import annotations

from typing import NamedTuple


class ProductTile(NamedTuple):
    """The part of a product that a block computes in a step, m x n x k, that of a warp, and how many steps are in shared memory."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    stages: int
