"""Attributes, type rules and references that convolutions over any number of spatial axes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tilewright import scheduling, te, topi
from tilewright.ir import IntImm, TensorType, Type
from tilewright.relay.cards.card import OUT_ELEMWISE, OpCard, constructor, need
from tilewright.relay.cards.relations import (
    Dim,
    dims,
    each,
    is_any,
    known_extent,
    may_equal,
    product,
    product_dtype,
    shape_text,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.convolution.windows import Windows, np_conv, windows_of
from tilewright.topi.nn.kernel_offsets import offsets_on_data
from tilewright.topi.transform import layout_axes, layout_shape


def relayout(x: np.ndarray, src: str, dst: str) -> np.ndarray:
    """x converted from one layout to another."""
    from tilewright.relay.op.movement.reshaping import layout_transform

    return x if src == dst else layout_transform.from_fields(src, dst).ref(x)


class ConvAttrs(OpCard):
    """The attributes of convolutions over `letters`, their spatial axes, and of adjoints of convolutions. One number stands for all
    axes."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = ""
    kernel_layout: str = ""
    out_layout: str = ""
    letters: ClassVar[str] = "W"
    filters: ClassVar[str] = "OI"
    """The axes of weights before the spatial ones, where channels come first."""
    blocked: ClassVar[bool] = False
    """Whether layouts may have blocks."""
    fuse = OUT_ELEMWISE

    @property
    def plain(self) -> tuple[str, str]:
        """The layouts of data and weights with channels first."""
        return f"NC{self.letters}", f"{self.filters}{self.letters}"

    def layouts(self) -> tuple[str, str, str]:
        """The layouts of data, weights and result. Raises TypeRuleError for a layout that is not a permutation of the axes."""
        plain, kernel = self.plain
        data = self.data_layout or plain
        weights = self.kernel_layout or (kernel if data[1] == "C" else f"{self.letters}{self.filters[::-1]}")
        result = self.out_layout or data
        named = (("data_layout", data, plain), ("kernel_layout", weights, kernel), ("out_layout", result, plain))
        for name, layout, wanted in named:
            letters = [a for a, _ in layout_axes(layout) if a.isupper()] if self.blocked else layout
            need(sorted(letters) == sorted(wanted), f"{name} must have the axes {', '.join(wanted)}", f"it is {layout}")
        return data, weights, result

    def windows(self) -> Windows:
        """Strides, dilation and padding, with a number for each axis. Raises TypeRuleError for too few or too many numbers."""
        return windows_of(self, len(self.letters))

    def size(self) -> list[int] | None:
        """The kernel's extents, or None if they are not given. Raises TypeRuleError for too few or too many numbers."""
        return None if self.kernel_size is None else each(self.kernel_size, len(self.letters), "kernel_size")

    def need_agreement(self, channels: Dim, kernel: Sequence[Dim]) -> None:
        """Refuses attributes that contradict the channels or the kernel of the weights."""
        size = self.size()
        wanted = [None if self.channels is None else [self.channels], size]
        for name, given, found in zip(("channels", "kernel_size"), wanted, ([channels], kernel), strict=True):
            need(
                given is None or all(map(may_equal, given, found)),
                f"the attribute {name} must agree with the weights",
                f"it is {getattr(self, name)} and the weights have {', '.join(map(str, found))}",
                1,
            )

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        """Derives the type of weights in plain layouts from the channels and the kernel. The type rule reports errors when all types
        are known."""
        data, weight = args
        data_layout, kernel_layout, _ = self.layouts()
        sizes = self.kernel_size or ()
        told = self.channels is not None and len(sizes) in (1, len(self.letters)) and self.groups > 0
        plain = len(data_layout + kernel_layout) == len("".join(self.plain))
        if weight is not None or not told or not plain:
            return args
        if not isinstance(data, TensorType) or len(data.shape) != len(data_layout):
            return args
        filters = self.filters_of(dims(data)[data_layout.index("C")])
        if filters is None:
            return args
        place = {**filters, **dict(zip(self.letters, self.size() or (), strict=True))}
        return [data, tensor_type(tuple([place[c] for c in kernel_layout]), data.dtype)]

    def filters_of(self, channels: Dim) -> dict[str, Dim] | None:
        """The extents O and I of weights for data with these channels; None if they cannot be derived."""
        return None


class Over1D(ConvAttrs):
    """The attributes over rows."""

    data_layout: str = "NCW"
    kernel_layout: str = "OIW"


class Over2D(ConvAttrs):
    """The attributes over images."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    letters = "HW"


class Over3D(ConvAttrs):
    """The attributes over volumes."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"
    letters = "DHW"


class Convolution(ConvAttrs):
    """A convolution of data with weights, in any plain layouts. Each output channel reads the input channels of its group."""

    out_dtype: str = ""

    def problem(self, *types: Type) -> str:
        """The name of the convolution's problem in a GraphPlan."""
        operands = [tensor(t) for t in types[:2]]
        shapes, dtypes = [dims(t) for t in operands], [str(t.dtype) for t in operands]
        told = {"strides": self.strides, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        return scheduling.graph_plan.problem_name(type(self).type_key, shapes, told, dtypes)

    def filters_of(self, channels: Dim) -> dict[str, Dim] | None:
        if not isinstance(channels, int) or self.channels is None:
            return None
        if self.kernel_layout.endswith("OI") and self.groups > 1:
            # Depthwise weights with channels last: (channels of the data, filters per channel).
            return {"O": channels, "I": self.channels // self.groups}
        return {"O": self.channels, "I": channels // self.groups}

    def kernel_of(self, weight: TensorType) -> list[Dim]:
        """The extents of weights as (O, I, spatial extents)."""
        shape: list[Dim] = layout_shape(dims(weight), self.layouts()[1], self.plain[1])
        return shape

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        data_layout, kernel_layout, out_layout = self.layouts()
        d, w = tensor(data, 0, len(layout_axes(data_layout))), tensor(weight, 1, len(layout_axes(kernel_layout)))
        dtype = product_dtype(d, w)
        n, c, *extents = layout_shape(dims(d), data_layout, self.plain[0])
        o, i, *kernel = self.kernel_of(w)
        o = self.channels_made(c, o, i)
        self.need_agreement(o, kernel)
        windows = self.windows()
        sizes = [k for k in kernel if isinstance(k, int)]
        need(len(sizes) == len(kernel), "the kernel's extents must be known", f"they are {kernel}", 1)
        out = [n, o, *windows.counts(extents, sizes)]
        return tensor_type(tuple(layout_shape(out, self.plain[0], out_layout)), self.out_dtype or dtype)

    def channels_made(self, c: Dim, o: Dim, i: Dim) -> Dim:
        """The channels of the result for data with c channels. Raises TypeRuleError if weights (O, I) do not fit them."""
        need(
            is_any(c) or may_equal(c, product([i, self.groups])),
            "the weights' input channels times groups must be the data's channels",
            f"{i} times {self.groups} is not {c}",
            1,
        )
        whole = not isinstance(o, int) or o % self.groups == 0
        need(whole, "groups must divide the output channels", f"{self.groups} and {o}", 1)
        return o

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        data_layout, kernel_layout, out_layout = self.layouts()
        known = all([isinstance(d, (int, IntImm)) for d in weight.shape])
        need(
            known,
            "the weights' extents must be known when they are compiled",
            f"they are {shape_text(weight.shape)}",
            1,
        )
        return topi.nn.conv(
            data, weight, self.strides, self.padding, self.dilation, self.groups, data_layout, kernel_layout,
            self.out_dtype or None, out_layout=out_layout,
        )  # fmt: skip

    def simplify(self, data: Expr, weight: Expr) -> Expr | None:
        """Removes the kernel offsets that read only padding, in plain layouts with channels first. Sums of one product are a
        multiplication."""
        extents, kernel = list(dims(tensor(data.checked_type)))[2:], list(dims(tensor(weight.checked_type)))[2:]
        if self.layouts()[:2] != self.plain or not all([isinstance(e, int) for e in (*extents, *kernel)]):
            return None
        strides, dilation, *padding = self.windows()
        filters, inner, *_ = dims(tensor(weight.checked_type))
        lone = {inner, *kernel, *strides} == {1} and not any([any(p) for p in padding]) and self.groups in (1, filters)
        same = not self.out_dtype and tensor(data.checked_type).dtype == tensor(weight.checked_type).dtype
        if lone and same and self.layouts()[2] == self.plain[0]:
            return constructor("multiply")(data, constructor("reshape")(weight, (-1, *[1] * len(kernel))))
        found = self.offsets_on_data([known_extent(e) for e in extents], [known_extent(e) for e in kernel])
        if found is None:
            return None
        begin, end, left, right = found
        n = len(extents)
        cut = constructor("strided_slice")(weight, begin, end, [1] * n, axes=list(range(2, 2 + n)))
        size = tuple([e - b for b, e in zip(begin, end, strict=True)])
        made = self.replace(padding=(*left, *right), kernel_size=size if self.kernel_size is not None else None)
        return Call(self.op, (data, cut), made)

    def offsets_on_data(self, extents: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], ...] | None:
        """Along each spatial axis: the first kernel offset that reads data, the one after the last, and the padding before and after for
        these. None if all offsets read data."""
        strides, dilation, *padding = self.windows()
        axes = list(zip(extents, kernel, *padding, strides, dilation, strict=True))
        found = [offsets_on_data(*axis) for axis in axes]
        if not any(found):
            return None
        parts = [f or (0, axis[1], axis[2], axis[3]) for f, axis in zip(found, axes, strict=True)]
        begin, end, before, after = ([p[i] for p in parts] for i in range(4))
        return begin, end, before, after

    def plain_weights(self, weight: np.ndarray) -> np.ndarray:
        """Weights as (O, I, spatial axes)."""
        return relayout(weight, self.layouts()[1], self.plain[1])

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        data_layout, _, out_layout = self.layouts()
        x, w = relayout(data, data_layout, self.plain[0]), self.plain_weights(weight)
        if self.out_dtype:
            x, w = x.astype(self.out_dtype), w.astype(self.out_dtype)
        if w.shape[1] * self.groups != x.shape[1]:
            # Depthwise weights: (channels, filters per channel, ...).
            w = w.reshape(-1, 1, *w.shape[2:])
        windows = self.windows()
        out = np_conv(x, w, windows.strides, windows.padding, windows.dilation, self.groups)
        return np.ascontiguousarray(relayout(out, self.plain[0], out_layout))
