"""TransposedConvolutions: converts transposed convolutions to convolutions, one for each phase of the result.

Along an axis of stride s and dilation d, an element of the uncropped result is the sum of x[q] * w[t] over all (q, t) where s * q + d * t
is its position. Kernel offsets n apart, with n = s / gcd(s, d), reach positions whole strides apart. So
element r of phase i, at position s * r + d * i, is the sum over j of x[r - j * d * n / s] * w[i + n * j]: a convolution of x. The
phases become filters of one convolution, and are then interleaved. Positions that no kernel offset reaches are zeros. Operators
rearrange the weights, so constant weights are folded.

Where windows reach far beyond the data, or many channels become few, most of what phases read is padding, or is read from far away.
Then all kernel offsets are one product of each element of the data, and the windows that it gives are added where they overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from tilewright import te
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.convolution.conv_nd import ConvTranspose
from tilewright.relay.rewriting import card_of, constant_of, is_op, rewrite_calls, static_shape, tensor_of, typed_pass
from tilewright.scheduling.graph_plan import graph_plan, problem_name
from tilewright.scheduling.transposed import Transposed
from tilewright.topi.problems import Windows
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
    def met(self) -> tuple[int, int]:
        """The first kernel offset, and the one after the last, that meet the result: at some place of the data."""
        met = [
            t
            for t in range(self.kernel)
            if max(-(-(self.begin - t * self.dilation) // self.stride), 0)
            <= min((self.begin + self.out - 1 - t * self.dilation) // self.stride, self.extent - 1)
        ]
        return (met[0], met[-1] + 1) if met else (0, self.kernel)

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
    parts = [a.met for a in axes]
    source = call.args[1]
    if any([part != (0, a.kernel) for a, part in zip(axes, parts, strict=True)]):
        begin, end = ([part[i] for part in parts] for i in (0, 1))
        source = constructor("strided_slice")(source, begin, end, [1] * n, axes=list(range(2, 2 + n)))
        weight = (*weight[:2], *[e - b for b, e in parts])
        axes = [a._replace(kernel=e - b, begin=a.begin - b * a.dilation) for a, (b, e) in zip(axes, parts, strict=True)]
    lead = [(a.kernel_offsets - 1) * a.apart - a.places[0] for a in axes]
    tail = [a.places[1] - (a.extent - 1) for a in axes]
    form = _form(call, card, weight, axes, lead, tail)
    if form != "phases":
        return _product(call, source, weight, axes, form == "rows")
    conv = constructor(f"nn.conv{n}d")(
        call.args[0], _weights(source, weight, card.groups, axes), strides=(1,) * n, padding=(*lead, *tail),
        dilation=tuple([a.apart for a in axes]), groups=card.groups, out_dtype=card.out_dtype, span=call.span,
    )  # fmt: skip
    if all([a.stride == 1 and a.places == (a.begin, a.begin + a.out - 1) for a in axes]):
        return conv
    offset = tuple([a.begin - a.stride * a.places[0] for a in axes])
    phases = tuple([a.phases for a in axes])
    interleave = constructor("nn.contrib_interleave_phases")
    return interleave(conv, tuple(strides), tuple(dilation), phases, offset, tuple(result[2:]))


def _form(
    call: Call,
    card: ConvTranspose,
    shape: Sequence[int],
    axes: Sequence[_Axis],
    lead: Sequence[int],
    tail: Sequence[int],
) -> str:
    """phases; or planes or rows, of a product by all kernel offsets whose windows are then added. shape: that of the weights, without
    kernel offsets that do not meet the result."""
    (data, weight), plan = [tensor_of(a) for a in call.args], graph_plan()
    types, (inputs, per_group, *kernel) = {str(t.dtype) for t in (data, weight, tensor_of(call))}, shape
    if types != {"float32"} or constant_of(call.args[1]) is None or plan is None or prod(kernel) == 1:
        return "phases"
    n, filters, offsets = len(axes), card.groups * per_group, [a.kernel_offsets for a in axes]
    source, ones, none = te.placeholder(data.concrete_shape, "float32"), (1,) * n, (0,) * n
    each = inputs // card.groups

    def windows(
        filters: int, window: Sequence[int], before: Sequence[int], after: Sequence[int], apart: Sequence[int]
    ) -> Windows:
        weights = te.placeholder((filters, each, *window), "float32")
        return Windows(source, weights, ones, before, after, apart, card.groups, "float32")

    by_phases = windows(filters * prod([a.phases for a in axes]), offsets, lead, tail, [a.apart for a in axes])
    by_offsets = windows(filters * prod(kernel), ones, none, none, ones)
    strides, out = [a.stride for a in axes], [a.out for a in axes]
    told = {"strides": strides, "padding": card.padding, "dilation": card.dilation, "groups": card.groups}
    shapes = [data.concrete_shape, weight.concrete_shape, [a.out for a in axes]]
    name = problem_name(call.operator.name, shapes, told, ["float32"])
    return plan.forms.transposed_form(name, Transposed(by_phases, by_offsets, kernel, strides, out))


def _product(call: Call, weight: Expr, shape: Sequence[int], axes: Sequence[_Axis], in_rows: bool) -> Expr:
    """A transposed convolution as the product of each place of the data by all weights, and the sum of these windows."""
    make, data, groups = constructor, call.args[0], card_of(call, ConvTranspose).groups
    (batch, channels, *places), (inputs, per_group, *kernel) = static_shape(data) or (), shape
    n, offsets, filters = len(axes), prod(kernel), groups * per_group
    names = {"strides": "stride", "dilation": "dilation", "begin": "begin", "kernel": "kernel", "shape": "out"}
    attributes = {name: tuple([getattr(a, field) for a in axes]) for name, field in names.items()}
    add = make("nn.contrib_add_windows")
    if not in_rows:
        weight = make("reshape")(weight, (groups, inputs // groups, per_group * offsets))
        weight = make("transpose")(weight, axes=(0, 2, 1))
        weight = make("reshape")(weight, (filters * offsets, inputs // groups, *[1] * n))
        conv = make(f"nn.conv{n}d")(data, weight, strides=(1,) * n, padding=(0,) * n, groups=groups, span=call.span)
        return add(conv, **attributes)
    weight = make("reshape")(weight, (inputs, per_group, offsets))
    weight = make("reshape")(make("transpose")(weight, axes=(2, 1, 0)), (offsets * per_group, inputs))
    rows = make("reshape")(data, (batch, channels, prod(places)))
    rows = make("reshape")(make("transpose")(rows, axes=(0, 2, 1)), (batch * prod(places), channels))
    product = make("nn.dense")(rows, weight, span=call.span)
    sums = add(make("reshape")(product, (batch, *places, offsets * per_group)), **attributes, channels_last=True)
    return make("transpose")(sums, axes=(0, n + 1, *range(1, n + 1)))


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
    """Replace transposed convolutions by plain ones, for which there are layouts and kernels of all sizes, or by products whose windows are
    added."""
    return typed_pass("TransposedConvolutions", 1, lambda f, mod: rewrite_calls(f, as_convolution))


__all__ = ["TransposedConvolutions", "as_convolution"]
