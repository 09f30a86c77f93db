"""The phases of transposed convolutions, interleaved into one result.

Consider an axis of stride s, and a kernel whose offsets are d apart. Element r of phase i is element s * r + d * i of the result.
So each element of the result belongs to one phase, or is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import planner
from tilewright.topi.stages import INTERLEAVED, MATERIALIZE
from tilewright.topi.utils import ceil_div, get_const_int, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.arithmetic import EqualOp
    from tilewright.tir.expr import Var


class Axis(NamedTuple):
    """Element p of the result is element r of phase i if p + offset = stride * r + apart * i and 0 <= r < places."""

    stride: int
    apart: int
    phases: int
    places: int
    offset: int
    out: int

    @property
    def common(self) -> int:
        """The greatest common divisor of `stride` and `apart`. Only every common-th element of the result belongs to a phase."""
        return gcd(self.stride, self.apart)

    def find(self, place: Any, steps: Any) -> tuple[Any, Any, list[Any]]:
        """(phase, element of the phase, conditions under which there is one) for element place + stride * steps of the result."""
        begin, common = self.offset % self.stride, self.common
        at = place + begin if begin else place
        within = tir.floormod(at, self.stride) if self.stride > 1 else 0
        conditions = [tir.floormod(within, common) == 0] if common > 1 else []
        period = self.stride // common
        phase = tir.floordiv(within, common) if common > 1 else within
        by = pow(self.apart // common, -1, period) if period > 1 else 1
        if by > 1:
            phase = tir.floormod(phase * by, period)
        if self.phases < period:
            conditions.append(phase < self.phases)
            phase = tir.min(phase, self.phases - 1)
        r = steps + (tir.floordiv(at, self.stride) if self.stride > 1 else at)
        r = r + self.offset // self.stride if self.offset // self.stride else r
        if (self.phases - 1) * self.apart >= self.stride:
            r = r - tir.floordiv(phase * self.apart, self.stride)
        return phase, r, conditions

    def bounds(self, out: int) -> tuple[int, int]:
        """The first and last element of a phase that the first `out` elements of the result read."""
        most = (self.phases - 1) * self.apart // self.stride
        return self.offset // self.stride - most, (out - 1 + self.offset) // self.stride

    def inside(self, r: Any, out: int) -> list[PrimExpr]:
        """The conditions under which an element of a phase exists."""
        first, last = self.bounds(out)
        return [*([r >= 0] if first < 0 else []), *([r < self.places] if last >= self.places else [])]


def interleave_phases(data: te.Tensor, axes: Sequence[Axis]) -> te.Tensor:
    """Interleaves the phases: data (N, C * phases of all axes, spatial...) -> (N, C, out...)."""
    batch, channels, *_ = shape_of(data)
    filters = get_const_int(channels) // prod([a.phases for a in axes])
    shape = [batch, filters, *[a.out for a in axes]]

    def read(nn: Var, ff: Var, found: Sequence[tuple[Any, Any, list[Any]]], outs: Sequence[int]) -> Any:
        channel = ff
        conditions: list[PrimExpr | EqualOp] = []
        for a, (phase, r, when), out in zip(axes, found, outs, strict=True):
            channel = channel * a.phases + phase if a.phases > 1 else channel
            conditions += [*when, *a.inside(r, out)]
        value = data(nn, channel, *[r for _, r, _ in found])
        return tir.if_then_else(tir.all(*conditions), value, tir.const(0, data.dtype)) if conditions else value

    *lead, last = axes
    length = planner().phase_vector(last.stride, last.out, str(data.dtype))
    if length < 2:
        return compute(
            shape, lambda nn, ff, *at: read(nn, ff, [a.find(p, 0) for a, p in zip(axes, at, strict=True)], shape[2:]),
            name="T_interleave", tag="injective",
        )  # fmt: skip
    blocks = ceil_div(last.out, length * last.stride)

    def phase_vectors(nn: Any, ff: Any, *i: PrimExpr) -> Any:
        *at, block, phase, lane = i
        found = [a.find(p, 0) for a, p in zip(lead, at, strict=True)]
        found.append(last.find(phase, block * length + lane))
        return read(nn, ff, found, [*shape[2:-1], blocks * length * last.stride])

    parts = compute(
        [*shape[:-1], blocks, last.stride, length], phase_vectors, name="T_phases", tag="injective",
        attrs={MATERIALIZE: 1, INTERLEAVED: lead[-1].stride if lead else 1},
    )  # fmt: skip
    wide = length * last.stride

    def interleaved(*i: PrimExpr) -> PrimExpr:
        *at, x = i
        return parts(
            *at, tir.floordiv(x, wide), tir.floormod(x, last.stride), tir.floordiv(tir.floormod(x, wide), last.stride)
        )

    return compute(shape, interleaved, name="T_interleave", tag="injective")


__all__ = ["Axis", "interleave_phases"]
