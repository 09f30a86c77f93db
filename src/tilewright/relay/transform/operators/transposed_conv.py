"""TransposedConvolutions: converts transposed convolutions to convolutions, one for each phase of the result.

Along an axis of stride s and dilation d, an element of the uncropped result is the sum of x[q] * w[t] over all (q, t) where s * q + d * t
is its position. Kernel offsets n apart, with n = s / gcd(s, d), reach positions whole strides apart. So
element r of phase i, at position s * r + d * i, is the sum over j of x[r - j * d * n / s] * w[i + n * j]: a convolution of x. The
phases become filters of one convolution, and are then interleaved. Positions that no kernel offset reaches are zeros. Operators
rearrange the weights, so constant weights are folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.convolution.conv_nd import ConvTranspose
from tilewright.relay.rewriting import card_of, is_op, rewrite_calls, static_shape, typed_pass
from tilewright.topi.utils import get_pad_tuple

NAMES = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")


class _Axis(NamedTuple):
    """One axis of a transposed convolution. `begin`: elements cut off before the result; `out`: elements of the result."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    out: int

    @property
    def period(self) -> int:
        """The distance between adjacent kernel offsets of a phase, in kernel offsets."""
        return self.stride // gcd(self.stride, self.dilation)

    @property
    def phases(self) -> int:
        return min(self.kernel, self.period)

    @property
    def kernel_offsets(self) -> int:
        """The number of kernel offsets of each phase."""
        return -(-self.kernel // self.period)

    @property
    def apart(self) -> int:
        """The distance between adjacent kernel offsets of a phase, in elements of the data."""
        return self.dilation // gcd(self.stride, self.dilation)

    @property
    def places(self) -> tuple[int, int]:
        """The first and the last computed element of the phases: those that depend on data and are not cut off.
        The first window must not begin inside the data, and the last one must not end before the data's end. There is at
        least one element."""
        last_phase = self.dilation * (self.phases - 1)
        first = -((last_phase - self.begin) // self.stride)
        last = (self.begin + self.out - 1) // self.stride
        reach = (self.kernel_offsets - 1) * self.apart
        first = min(max(first, 0), reach)
        return first, max(min(last, self.extent - 1 + reach), self.extent - 1, first)


def _numbers(value: Sequence[int], n: int) -> list[int]:
    given = list(value)
    return given * n if len(given) == 1 else given


def as_convolution(call: Call) -> Expr | None:
    """A transposed convolution of known sizes and plain layouts, as a convolution; None for others."""
    if not is_op(call, *NAMES):
        return None
    card = card_of(call, ConvTranspose)
    data, weight, result = static_shape(call.args[0]), static_shape(call.args[1]), static_shape(call)
    letters = card.letters
    n = len(letters)
    plain = all(
        [layout in ("", wanted) for layout, wanted in (
            (card.data_layout, "NC" + letters), (card.kernel_layout, "IO" + letters), (card.out_layout, "NC" + letters),
        )]
    )  # fmt: skip
    if data is None or weight is None or result is None or not plain or 0 in (*data, *weight, *result):
        return None
    strides, dilation = _numbers(card.strides, n), _numbers(card.dilation, n)
    reach = [(k - 1) * d + 1 for k, d in zip(weight[2:], dilation, strict=True)]
    before, _ = get_pad_tuple(card.padding, reach, n)
    if min([*before, *result]) < 0:
        return None
    axes = [_Axis(*one) for one in zip(data[2:], weight[2:], strides, dilation, before, result[2:], strict=True)]
    lead = [(a.kernel_offsets - 1) * a.apart - a.places[0] for a in axes]
    tail = [a.places[1] - (a.extent - 1) for a in axes]
    conv = constructor(f"nn.conv{n}d")(
        call.args[0], _weights(call.args[1], weight, card.groups, axes), strides=(1,) * n, padding=(*lead, *tail),
        dilation=tuple([a.apart for a in axes]), groups=card.groups, out_dtype=card.out_dtype, span=call.span,
    )  # fmt: skip
    if all([a.stride == 1 and a.places == (a.begin, a.begin + a.out - 1) for a in axes]):
        return conv
    offset = tuple([a.begin - a.stride * a.places[0] for a in axes])
    phases = tuple([a.phases for a in axes])
    interleave = constructor("nn.contrib_interleave_phases")
    return interleave(conv, tuple(strides), tuple(dilation), phases, offset, tuple(result[2:]))


def _weights(weight: Expr, shape: tuple[int, ...], groups: int, axes: list[_Axis]) -> Expr:
    """(I, O / groups, kernel...) as (O * phases, I / groups, offsets...): a phase's filter has its kernel offsets in reverse order."""
    inputs, per_group, *_ = shape
    missing = [a.kernel_offsets * a.phases - a.kernel for a in axes]
    if any(missing):
        weight = constructor("nn.pad")(weight, pad_width=((0, 0), (0, 0), *[(0, m) for m in missing]))
    parts = [x for a in axes for x in (a.kernel_offsets, a.phases)]
    weight = constructor("reshape")(weight, (groups, inputs // groups, per_group, *parts))
    n = len(axes)
    phase_axes, kernel_offset_axes = [4 + 2 * i for i in range(n)], [3 + 2 * i for i in range(n)]
    weight = constructor("transpose")(weight, axes=(0, 2, *phase_axes, 1, *kernel_offset_axes))
    filters = groups * per_group * prod([a.phases for a in axes])
    weight = constructor("reshape")(weight, (filters, inputs // groups, *[a.kernel_offsets for a in axes]))
    for i, a in enumerate(axes):
        weight = constructor("reverse")(weight, axis=2 + i) if a.kernel_offsets > 1 else weight
    return weight


def TransposedConvolutions() -> Pass:
    """Replace transposed convolutions by plain ones, for which there are layouts and kernels of all sizes."""
    return typed_pass("TransposedConvolutions", 1, lambda f, mod: rewrite_calls(f, as_convolution))


__all__ = ["TransposedConvolutions", "as_convolution"]
