"""Descriptions of matrix products and convolutions for planners: sizes, and the order of operands in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.utils import get_const_int, shape_of, window_extent

if TYPE_CHECKING:
    pass


Left = Callable[[Sequence[Any], Any, Any], Any]
"""left(leading indices, row, k) is an element of the first matrix."""
Right = Callable[[Sequence[Any], Any, Any], Any]
"""right(leading indices, k, column) is an element of the second matrix."""


class Matrices(NamedTuple):
    """A matrix product: m x k by k x n, for all leading indices `lead`. left_along_k, right_along_k: whether the operand is
    contiguous along the reduction (else along its other axis)."""

    left: Left
    right: Right
    lead: Sequence[Any]
    m: int
    n: int
    k: int
    left_along_k: bool
    right_along_k: bool
    dtype: str

    def swapped(self) -> Matrices:
        """The transposed product: n x k by k x m."""
        left, right = self.left, self.right
        return Matrices(
            lambda i, row, k: right(i, k, row),
            lambda i, k, column: left(i, column, k),
            self.lead,
            self.n,
            self.m,
            self.k,
            self.right_along_k,
            self.left_along_k,
            self.dtype,
        )


class Windows(NamedTuple):
    """A convolution: its data, its weights, and the movement of its windows, with one number for each spatial axis."""

    data: te.Tensor
    kernel: te.Tensor
    strides: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    dilations: Sequence[int]
    groups: int
    dtype: str

    @property
    def extents(self) -> list[int]:
        return shape_of(self.data)[2:]

    @property
    def window(self) -> list[int]:
        return [get_const_int(d) for d in self.kernel.shape[2:]]

    @property
    def out(self) -> list[int]:
        """The extents of the result."""
        each = zip(self.extents, self.window, self.before, self.after, self.strides, self.dilations, strict=True)
        return [window_extent(*one) for one in each]

    @property
    def filters(self) -> int:
        """The number of filters of each group; weights are (filters of all groups, channels of one, window...)."""
        return int(get_const_int(self.kernel.shape[0]) // self.groups)

    @property
    def per_group(self) -> int:
        """The number of channels of each group."""
        return int(get_const_int(self.kernel.shape[1]))

    @property
    def over(self) -> list[int]:
        """The number of strides that a window reaches beyond its first element, along each axis."""
        return [(k - 1) * d // s for k, d, s in zip(self.window, self.dilations, self.strides, strict=True)]

    @property
    def phases(self) -> list[int]:
        """The number of phases that windows read along each axis."""
        each = zip(self.window, self.dilations, self.strides, strict=True)
        return [max([t * d % s for t in range(min(k, s))]) + 1 for k, d, s in each]

    @property
    def is_product(self) -> bool:
        """Whether windows have one element and are adjacent, so that the convolution is a matrix product."""
        return {*self.window, *self.strides} == {1} and not any([*self.before, *self.after])

    def kernel_offset(self, k: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The phase of a kernel offset, and its distance in strides."""
        at = [t if d == 1 else t * d for t, d in zip(k, self.dilations, strict=True)]
        phase = [tir.floormod(a, s) if s > 1 else 0 for a, s in zip(at, self.strides, strict=True)]
        return phase, [tir.floordiv(a, s) if s > 1 else a for a, s in zip(at, self.strides, strict=True)]

    @property
    def row_steps(self) -> list[int]:
        """The distance of neighbours along each axis of a flat image, whose rows include the elements that windows read beyond
        them."""
        _, *inner = [o + v for o, v in zip(self.out, self.over, strict=True)]
        return [prod(inner[i:]) for i in range(len(inner) + 1)]

    @property
    def flat_places(self) -> int:
        """The number of elements of a flat image, from the first to the last one of the result."""
        return sum([(o - 1) * s for o, s in zip(self.out, self.row_steps, strict=True)]) + 1
