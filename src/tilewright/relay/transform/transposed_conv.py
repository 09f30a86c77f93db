"""TransposedConvolutions: transposed convolutions as convolutions, one for each phase of the result.

Along an axis of stride s, place s * q + a of the uncut result is the sum over t of x[q - t] * w[a + s * t]: a convolution of x
with every s-th tap of the kernel, mirrored. The s phases become filters of one convolution, whose results are then interleaved
and cut; last phases that no tap falls to are zeros. The weights are rearranged by operators, so those that are constant are folded.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.card import constructor
from tilewright.relay.transform.rewriting import card_of, is_op, rewrite_calls, static_shape, tensor_of, typed_pass
from tilewright.topi.utils import get_pad_tuple

NAMES = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")


def _numbers(value: Any, n: int) -> list[int]:
    given = [value] if isinstance(value, int) else list(value)
    return given * n if len(given) == 1 else given


def as_convolution(call: Call) -> Expr | None:
    """A transposed convolution of known sizes and plain layouts as a convolution; None for others."""
    if not is_op(call, *NAMES):
        return None
    card: Any = card_of(call)
    data, weight = static_shape(call.args[0]), static_shape(call.args[1])
    letters = card.letters
    n = len(letters)
    plain = all(
        [layout in ("", wanted) for layout, wanted in (
            (card.data_layout, "NC" + letters), (card.kernel_layout, "IO" + letters), (card.out_layout, "NC" + letters),
        )]
    )  # fmt: skip
    if data is None or weight is None or not plain or not tensor_of(call).dtype.is_float:
        return None
    strides, dilation = _numbers(card.strides, n), _numbers(card.dilation, n)
    extra = _numbers(card.output_padding, n)
    kernel, extents = list(weight[2:]), list(data[2:])
    before, after = get_pad_tuple(card.padding, [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)], n)
    # Taps that are whole strides apart all fall to the first phase.
    woven_in = [1 if d % s == 0 else s for d, s in zip(dilation, strides, strict=True)]
    spread = [d // s if w == 1 else 1 for d, s, w in zip(dilation, strides, woven_in, strict=True)]
    # Where places are both far apart and spread, the kernel gets its zeros written out.
    zeros = [d if w > 1 else 1 for d, w in zip(dilation, woven_in, strict=True)]
    kernel = [(k - 1) * z + 1 for k, z in zip(kernel, zeros, strict=True)]
    out = list(static_shape(call) or ())[2:]
    taps = [-(-k // w) for k, w in zip(kernel, woven_in, strict=True)]
    first = [b // s for b, s in zip(before, strides, strict=True)]
    last = [(b + o - 1) // s for b, o, s in zip(before, out, strides, strict=True)]
    lead = [(t - 1) * d - f for t, d, f in zip(taps, spread, first, strict=True)]
    tail = [q - (e - 1) for q, e in zip(last, extents, strict=True)]
    if min(*lead, *tail, 0) < 0 or any([o < 1 for o in out]) or len(extra) != n:
        return None
    phases = [_phases(k, s, z) for k, s, z in zip(weight[2:], woven_in, zeros, strict=True)]
    filters = _weights(call.args[1], weight, card.groups, woven_in, zeros, taps, phases)
    conv = constructor(f"nn.conv{n}d")(
        call.args[0], filters, strides=(1,) * n, padding=(*lead, *tail), dilation=tuple(spread), groups=card.groups,
        out_dtype=card.out_dtype, span=call.span,
    )  # fmt: skip
    if all([s == 1 for s in strides]):
        return conv  # type: ignore[no-any-return]
    places = [q - f + 1 for f, q in zip(first, last, strict=True)]
    channels = weight[1] * card.groups
    split = constructor("reshape")(conv, (data[0], channels, *phases, *places))
    if phases != strides:
        empty = [(0, s - m) for s, m in zip(strides, phases, strict=True)]
        split = constructor("nn.pad")(split, pad_width=((0, 0), (0, 0), *empty, *[(0, 0)] * n))
    order = [axis for i in range(n) for axis in (2 + n + i, 2 + i)]
    woven = constructor("transpose")(split, axes=(0, 1, *order))
    whole = [p * s for p, s in zip(places, strides, strict=True)]
    joined = constructor("reshape")(woven, (data[0], channels, *whole))
    begin = [b - f * s for b, f, s in zip(before, first, strides, strict=True)]
    if begin == [0] * n and whole == out:
        return joined  # type: ignore[no-any-return]
    end = [b + o for b, o in zip(begin, out, strict=True)]
    return constructor("strided_slice")(joined, begin, end, [1] * n, axes=list(range(2, 2 + n)))  # type: ignore[no-any-return]


def _phases(taps: int, stride: int, apart: int) -> int:
    """How many of the phases are to be computed: those that taps fall to where they are the first, else all."""
    met = {t * apart % stride for t in range(taps)}
    return len(met) if met == set(range(len(met))) else stride


def _weights(
    weight: Expr, shape: tuple[int, ...], groups: int, strides: list[int], zeros: list[int], taps: list[int],
    phases: list[int],
) -> Expr:  # fmt: skip
    """(I, O / groups, kernel...) as (O * phases, I / groups, taps...): the filter of each phase has every s-th tap, mirrored."""
    inputs, per_group, *_ = shape
    n = len(strides)
    if any([z > 1 for z in zeros]):
        weight = constructor("nn.dilate")(weight, (1, 1, *zeros))
    kernel = [(k - 1) * z + 1 for k, z in zip(shape[2:], zeros, strict=True)]
    # Of one tap in each phase, those that are empty need no place.
    wide = [m if t == 1 else s for m, t, s in zip(phases, taps, strides, strict=True)]
    missing = [t * s - k for t, s, k in zip(taps, wide, kernel, strict=True)]
    if any(missing):
        weight = constructor("nn.pad")(weight, pad_width=((0, 0), (0, 0), *[(0, m) for m in missing]))
    parts = [x for t, s in zip(taps, wide, strict=True) for x in (t, s)]
    weight = constructor("reshape")(weight, (groups, inputs // groups, per_group, *parts))
    phase_axes, tap_axes = [4 + 2 * i for i in range(n)], [3 + 2 * i for i in range(n)]
    if phases != wide:
        weight = constructor("strided_slice")(weight, [0] * n, phases, [1] * n, axes=phase_axes)
    weight = constructor("transpose")(weight, axes=(0, 2, *phase_axes, 1, *tap_axes))
    weight = constructor("reshape")(weight, (groups * per_group * prod(phases), inputs // groups, *taps))
    for i, t in enumerate(taps):
        weight = constructor("reverse")(weight, axis=2 + i) if t > 1 else weight
    return weight


def TransposedConvolutions() -> Pass:
    """Transposed convolutions as convolutions, which have layouts and kernels for all sizes."""
    return typed_pass("TransposedConvolutions", 1, lambda f, mod: rewrite_calls(f, as_convolution))


__all__ = ["TransposedConvolutions", "as_convolution"]
