"""Convolutions, plain and on channel blocks, and the rule that chooses the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import scheduling, te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.expr import Expr
from tilewright.relay.op.card import OUT_ELEMWISE, LayoutChoice, OpCard, any_bytes, need
from tilewright.relay.op.convolution.kernel_offsets import without_padded_offsets
from tilewright.relay.op.relations import (
    dims,
    each,
    is_any,
    is_static,
    may_equal,
    need_count,
    product_dtype,
    tensor,
    tensor_type,
)
from tilewright.target import Target
from tilewright.tir import Any as AnyDim
from tilewright.topi.transform import layout_axes, layout_shape
from tilewright.topi.utils import get_pad_tuple, window_extent


def vector_lanes() -> int:
    """float32 lanes of the current target's vectors: the widest useful channel block. 16 where no target is set."""
    target = Target.current(True)
    return 16 if target is None else min(max(target.cpu.lanes(32), 4), 16)


def channel_block(channels: int, widest: int) -> int:
    """The largest power of two up to `widest` that divides the channels; failing 4, any divisor up to it."""
    block = widest
    while channels % block:
        block //= 2
    if block >= min(4, widest):
        return block
    return max(d for d in range(1, widest + 1) if channels % d == 0)


def filled_block(channels: int, widest: int, least: float | None = None) -> int:
    """The channel block that keeps most lanes busy: a divisor of the channels, or a whole vector of which the last is not full. `least`:
    share of whole blocks that must be channels, FULL unless it is given."""
    block = channel_block(channels, widest)
    full = channels / (-(-channels // widest) * widest)
    in_vectors = block & (block - 1) == 0
    return widest if full >= (FULL if least is None else least) and (full > block / widest or not in_vectors) else block


FULL = 0.6
"""Share of whole blocks that must be channels: below it, rows of pixels as vectors keep more lanes busy."""


HALF = 0.5
"""The same where a convolution stands alone, and both forms are compared."""


def fewest_block(channels: int, widest: int) -> int:
    """The channel block of the fewest instructions of 4, 8, .. `widest` sums that add up products: the narrowest one of those."""
    blocks = [b for b in (4, 8, 16) if b <= widest]
    return min(blocks, key=lambda b: (-(-channels // b), b))


def too_narrow(block: int, lanes: int) -> bool:
    """Whether blocks are not vectors, or fill so little of one that plain rows of pixels fill more."""
    return 2 * block < lanes or block & (block - 1) != 0


def window(d: Any, kernel: int, before: int, after: int, stride: int, dilation: int, ceil_mode: bool = False) -> Any:
    """Number of windows along an axis; Any of Any. Raises TypeRuleError when none fits."""
    need(
        not any([isinstance(v, int) and v <= 0 for v in (stride, dilation)]),
        "strides and dilations must be positive",
        f"a stride is {stride}, a dilation {dilation}",
    )
    if is_any(d):
        return AnyDim()
    count = window_extent(d, kernel, before, after, stride, dilation, ceil_mode)
    need(
        not isinstance(count, int) or count > 0,
        "the kernel must fit into the padded data",
        f"a kernel of {kernel} (dilation {dilation}) meets {d} elements with padding {before} and {after}",
        0,
    )
    return count


def pads(padding: Sequence[int], ndim: int = 2) -> tuple[list[int], list[int]]:
    """(before, after) of classic padding. Raises TypeRuleError where it has too few or too many numbers."""
    need_count("padding", padding, sorted({1, ndim, 2 * ndim}))
    return get_pad_tuple(list(padding), [1] * ndim, ndim)


def need_steps_of_one(card: Any, count: int) -> None:
    """Refuse a convolution over `count` axes by other steps, or with gaps in its kernel."""
    alone = {*each(card.strides, count, "strides"), *each(card.dilation, count, "dilation")} == {1}
    need(alone, "strides and dilation must be 1", f"they are {card.strides} and {card.dilation}")


def np_conv(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: tuple[Sequence[int], Sequence[int]],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Convolution over any number of spatial axes: data (N, I, ...), weight (O, I / groups, ...). One product per kernel place."""
    before, after = padding
    n = data.ndim - 2
    padded = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    out_shape = [
        (padded.shape[2 + a] - (weight.shape[2 + a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in range(n)
    ]
    o, per_in = weight.shape[:2]
    per_out = o // groups
    batch = data.shape[0]
    size = int(np.prod(out_shape))
    out = np.zeros((batch, groups, per_out, size), np.result_type(data, weight))
    for place in np.ndindex(*weight.shape[2:]):
        index = tuple(
            [
                slice(k * d, k * d + (m - 1) * s + 1, s)
                for k, d, m, s in zip(place, dilation, out_shape, strides, strict=True)
            ]
        )
        part = padded[(slice(None), slice(None), *index)].reshape(batch, groups, per_in, size)
        w = weight[(slice(None), slice(None), *place)].reshape(1, groups, per_out, per_in)
        out += w * part if per_in == 1 and per_out == 1 else np.matmul(w, part)
    return out.reshape(batch, o, *out_shape)


def weights_of(card: Any, args: Sequence[Any], data_layout: str, kernel_layout: str, letters: str) -> Sequence[Any]:
    """The types of data and weights, where those of weights follow from the attributes: plain layouts only."""
    data, weight = args
    plain = sorted(kernel_layout) == sorted("OI" + letters) and sorted(data_layout) == sorted("NC" + letters)
    if weight is not None or not plain or card.channels is None or card.kernel_size is None:
        return args
    if not isinstance(data, TensorType) or len(data.shape) != len(data_layout) or card.groups < 1:
        return args
    channels: Any = dims(data)[data_layout.index("C")]
    kernel = list(card.kernel_size) * len(letters) if len(card.kernel_size) == 1 else list(card.kernel_size)
    if not isinstance(channels, int) or len(kernel) != len(letters):
        # What is wrong, the rule itself finds when all types are known.
        return args
    place = dict(zip(letters, kernel, strict=True))
    if kernel_layout.endswith("OI") and card.groups > 1:
        # Depthwise weights of channels last: those of the data, then how many filters each has.
        place.update(O=channels, I=card.channels // card.groups)
    else:
        place.update(O=card.channels, I=channels // card.groups)
    return [data, tensor_type(tuple([place[c] for c in kernel_layout]), data.dtype)]


class Conv2D(OpCard):
    """The attributes of every two-dimensional convolution."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = ""
    fuse = OUT_ELEMWISE

    def complete(self, args: Sequence[Any]) -> Sequence[Any]:
        return weights_of(self, args, self.data_layout, self.kernel_layout, "HW")

    def problem(self, *types: Type) -> str:
        """What the convolution's decisions in a GraphPlan are named by."""
        operands = [tensor(t) for t in types[:2]]
        shapes, dtypes = [dims(t) for t in operands], [str(t.dtype) for t in operands]
        told = {"strides": self.strides, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        return scheduling.graph_plan.problem_name(type(self).type_key, shapes, told, dtypes)

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = (
            tensor(data, 0, len(layout_axes(self.data_layout))),
            tensor(weight, 1, len(layout_axes(self.kernel_layout))),
        )
        dtype = product_dtype(d, w)
        n, c, h, wd = layout_shape(dims(d), self.data_layout, "NCHW")
        o, i, kh, kw = layout_shape(dims(w), self.kernel_layout, "OIHW")
        size = tuple(each(self.kernel_size, 2, "kernel_size")) if self.kernel_size is not None else None
        if (
            "w" in self.kernel_layout
            and size is not None
            and isinstance(kw, int)
            and 0 <= kw - size[1] < layout_axes(self.kernel_layout)[-1][1]
        ):
            # Filled up with zeros to whole groups.
            kw = size[1]
        for name, given, found in (("channels", self.channels, o), ("kernel_size", size, (kh, kw))):
            if given is not None:
                pairs: Any = [(given, found)] if isinstance(given, int) else zip(given, found, strict=True)
                need(
                    all([may_equal(a, b) for a, b in pairs]),
                    f"the attribute {name} must agree with the weights",
                    f"it is {given} and the weights have {found}",
                    1,
                )
        multiple = (
            self.groups > 1
            and isinstance(o, int)
            and isinstance(i, int)
            and o == self.groups
            and i > 1
            and c == self.groups
        )
        if multiple:
            # Depthwise weights may come as (channels, multiplier, kh, kw).
            o = o * i
        else:
            expected = c if is_any(c) or self.groups == 1 else c // self.groups
            need(
                may_equal(expected, i) and (not isinstance(c, int) or c % self.groups == 0),
                "the weights' input channels times groups must be the data's channels",
                f"{i} times {self.groups} is not {c}",
                1,
            )
            need(
                not isinstance(o, int) or o % self.groups == 0,
                "groups must divide the output channels",
                f"{self.groups} and {o}",
                1,
            )
        (sh, sw), (dh, dw) = each(self.strides, 2, "strides"), each(self.dilation, 2, "dilation")
        before, after = pads(self.padding)
        need(
            isinstance(kh, int) and isinstance(kw, int),
            "the kernel's extents must be known",
            f"they are {kh} and {kw}",
            1,
        )
        plain = [n, o, window(h, kh, before[0], after[0], sh, dh), window(wd, kw, before[1], after[1], sw, dw)]
        return tensor_type(
            tuple(layout_shape(plain, "NCHW", self.out_layout or self.data_layout)), self.out_dtype or dtype
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        x, w = relayout(data, self.data_layout, "NCHW"), relayout(weight, self.kernel_layout, "OIHW")
        if "w" in self.kernel_layout and self.kernel_size is not None:
            w = w[..., : each(self.kernel_size, 2, "kernel_size")[1]]
        if self.out_dtype:
            x, w = x.astype(self.out_dtype), w.astype(self.out_dtype)
        if w.shape[1] * self.groups != x.shape[1]:
            w = w.reshape(-1, 1, *w.shape[2:])
        out = np_conv(
            x, w, each(self.strides, 2, "strides"), pads(self.padding), each(self.dilation, 2, "dilation"), self.groups
        )
        return relayout(out, "NCHW", self.out_layout or self.data_layout)


def relayout(x: np.ndarray, src: str, dst: str) -> np.ndarray:
    """x brought from one layout to another."""
    from tilewright.relay.op.movement.reshaping import layout_transform

    return x if src == dst else layout_transform.from_fields(src, dst).ref(x)


class conv2d(Conv2D, key="nn.conv2d"):
    """Convolution of data (N, C, H, W) with weight (O, C / groups, KH, KW). padding: one number, (v, h) or (top, left, bottom, right)."""

    samples = [
        (((1, 3, 6, 7), (4, 3, 3, 3)), {"padding": (1, 1)}),
        (((2, 4, 7, 7), (6, 2, 3, 3)), {"strides": (2, 2), "padding": (1, 0, 0, 1), "groups": 2}),
        (((1, 4, 6, 6), (4, 1, 3, 3)), {"padding": (1,), "groups": 4}),
        (((1, 3, 6, 7), (4, 3, 3, 3)), {"kernel_size": (3,), "channels": 4}),
        (((1, 3, 9, 9), (2, 3, 3, 2)), {"dilation": (2, 3)}),
        (((1, 6, 6, 3), (3, 3, 3, 4)), {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
    ]

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d(
            data,
            weight,
            self.strides,
            self.padding,
            self.dilation,
            self.data_layout,
            self.kernel_layout,
            self.out_dtype or None,
            self.groups,
        )

    def simplify(self, data: Expr, weight: Expr) -> Expr | None:
        """Without the kernel offsets that only meet padding."""
        if (self.data_layout, self.kernel_layout) != ("NCHW", "OIHW"):
            return None
        return without_padded_offsets(
            self, data, weight, each(self.strides, 2, "strides"), each(self.dilation, 2, "dilation"), pads(self.padding)
        )

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Channel blocks as wide as a vector, and weights blocked to match."""
        return self.on_vectors(args, types, FULL)

    def lone_layout(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """The same where what it costs decides: blocks of filters may be half empty."""
        return self.on_vectors(args, types, HALF)

    def on_vectors(self, args: Sequence[str | None], types: Sequence[Type], least: float) -> LayoutChoice | None:
        """Channels in blocks of vectors, of which filters fill `least`."""
        if (
            self.data_layout != "NCHW"
            or self.kernel_layout != "OIHW"
            or self.out_layout not in ("", "NCHW")
            or not is_static(types[1])
        ):
            return None
        channels = dims(types[0])[1]  # type: ignore[arg-type]
        o, i, _, _ = dims(types[1])  # type: ignore[arg-type]
        if not isinstance(channels, int) or not isinstance(o, int) or not isinstance(i, int):
            return None
        found = self.in_groups(args[0], types, channels, o, i)
        if found is not None:
            return found
        lanes = vector_lanes()
        if self.groups == channels and i == 1:
            if o != channels:
                return None
            block = block_of(args[0]) or self.decided_block(types, filled_block(channels, lanes))
            if too_narrow(block, lanes):
                return None
            layout = f"NCHW{block}c"
            attributes = self._blocked(o, types[1], layout, f"OIHW1i{block}o", layout)
            attributes["groups"] = attributes["channels"]
            depthwise = depthwise_conv2d_NCHWc(**attributes)
            return LayoutChoice(depthwise, [layout, f"OIHW1i{block}o"], layout)
        if self.groups == 1:
            block_in = block_of(args[0]) or filled_block(channels, lanes)
            block_out = self.decided_block(types, filled_block(o, lanes, least))
            if too_narrow(block_out, lanes):
                return None
            if args[0] is None and channels < lanes:
                # The first layer of an image: its few channels are read as they come.
                weights, result = f"OIHW{block_out}o", f"NCHW{block_out}c"
                card = conv2d_NCHWc(**self._blocked(o, types[1], "NCHW", weights, result))
                return LayoutChoice(card, [None, weights], result)
            return self.on_blocks(types[1], o, block_in, f"{block_in}i{block_out}o", block_out)
        block_in = block_of(args[0]) or channel_block(channels, lanes)
        if i % block_in or (o // self.groups) % channel_block(o // self.groups, lanes):
            block_in = channel_block(i, lanes)
        block_out = self.decided_block(types, channel_block(o // self.groups, lanes), o // self.groups)
        if too_narrow(block_out, lanes) or block_out < 4:
            return None
        return self.on_blocks(types[1], o, block_in, f"{block_in}i{block_out}o", block_out)

    def decided_block(self, types: Sequence[Type], model: int, divides: int | None = None) -> int:
        """The channel block of the result: the model's, unless a plan says another."""
        plan = scheduling.graph_plan.graph_plan()
        return model if plan is None else plan.block(self.problem(*types), model, vector_lanes(), divides)

    def in_groups(
        self, layout: str | None, types: Sequence[Type], channels: int, o: int, i: int
    ) -> LayoutChoice | None:
        """Narrow numbers in groups of channels that one instruction multiplies and adds up; None where the target has none.
        Channels that fill no group are filled up with zeros, and so is the last block where that takes fewer instructions."""
        from tilewright.scheduling.instructions import dot_product

        data, weight = (str(t.dtype) for t in types)  # type: ignore[attr-defined]
        tiled = self.in_tiles(layout, types, o, i)
        if tiled is not None:
            return tiled
        fills = self.groups == 1
        rule = filled_block if data == "bfloat16" else fewest_block
        block = rule(o, vector_lanes()) if fills else 1
        columns = -(-o // block) * block // self.groups
        found = dot_product(Target.current(True), data, weight, self.out_dtype or data, columns)
        if found is None:
            return None
        group, block_in = found.group, block_of(layout)
        if (
            layout is None
            and i < group * 2
            and i % group
            and self.groups == 1
            and each(self.dilation, 2, "dilation")[1] == 1
        ):
            # The first layer of an image: its few channels stay apart, and groups run along its rows.
            weights = f"OIHW{found.lanes}o{group}w"
            result = f"NCHW{found.lanes}c"
            card = conv2d_NCHWc(**self._blocked(o, types[1], "NCHW", weights, result))
            return LayoutChoice(card, [None, weights], result)
        if block_in is None or block_in % group or (i % block_in and not fills):
            block_in = next((b for b in (16, 8, group) if b % group == 0 and i % b == 0), group)
        if self.groups > 1 and i % block_in:
            return None
        weights = f"{block_in // group}i{found.lanes}o{group}i"
        return self.on_blocks(types[1], o, block_in, weights, found.lanes)

    def in_tiles(self, layout: str | None, types: Sequence[Type], o: int, i: int) -> LayoutChoice | None:
        """The same for registers of whole tiles, which take many channels at once; None where the target has none, where dimensions are
        dynamic, or where there are too few channels."""
        from tilewright.scheduling.instructions import LEAST_STEPS, tile_product
        from tilewright.tir.tensor_intrin.amx import SIDE

        data, weight = (str(t.dtype) for t in types)  # type: ignore[attr-defined]
        found = tile_product(Target.current(True), data, weight, self.out_dtype or data)
        if found is None or not is_static(types[0]) or (o // self.groups) % SIDE:
            return None
        group, block_in = found.group, block_of(layout)
        least = LEAST_STEPS * group
        if block_in is None or block_in % least or i % block_in:
            blocks = [b for b in (SIDE * group, SIDE * group // 2, SIDE * group // 4) if b >= least and i % b == 0]
            if not blocks:
                return None
            block_in = blocks[0]
        # The next layer finds as many channels together as a register holds.
        block_out = next(b for b in (SIDE * group, 2 * SIDE, SIDE) if (o // self.groups) % b == 0)
        return self.on_blocks(types[1], o, block_in, f"{block_in // group}i{block_out}o{group}i", block_out)

    def on_blocks(self, weight: Type, filters: int, block_in: int, weights: str, block_out: int) -> LayoutChoice:
        """The convolution with channels in blocks: of the data, of the weights (after OIHW), and of the result."""
        source, result = f"NCHW{block_in}c", f"NCHW{block_out}c"
        card = conv2d_NCHWc(**self._blocked(filters, weight, source, f"OIHW{weights}", result))
        return LayoutChoice(card, [source, f"OIHW{weights}"], result)

    def _blocked(
        self, channels: int, weight: Type, data_layout: str, kernel_layout: str, out_layout: str
    ) -> dict[str, Any]:
        block = block_of(out_layout) or 1
        return {
            "strides": self.strides,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "channels": -(-channels // block) * block,
            "kernel_size": tuple(dims(weight)[2:]),  # type: ignore[arg-type]
            "data_layout": data_layout,
            "kernel_layout": kernel_layout,
            "out_layout": out_layout,
            "out_dtype": self.out_dtype,
        }


def block_of(layout: str | None) -> int | None:
    """The channel block of a blocked layout."""
    if layout is None:
        return None
    return next((size for letter, size in layout_axes(layout) if letter == "c"), None)


def _filled_up(rng: np.random.Generator) -> np.ndarray:
    """Weights of three columns in groups of two: what fills up the last group is zero."""
    w = rng.standard_normal((2, 3, 3, 2, 8, 2), np.float32)
    w[:, :, :, 1, :, 1] = 0
    return w


class conv2d_NCHWc(Conv2D, key="nn.contrib_conv2d_NCHWc"):
    """conv2d on blocks: data (N, C/b, H, W, b), weight (O/bo, I/bi, KH, KW, bi, bo), or (.., bi/g, bo, g) for instructions that add
    up g products at once (OIHW4i16o4i). Data of a few channels may be plain, NCHW, and g products then those of neighbours along its
    rows (OIHW16o2w)."""

    samples = [
        (
            ((1, 2, 6, 6, 4), (2, 2, 3, 3, 4, 8)),
            {"padding": (1, 1), "data_layout": "NCHW4c", "kernel_layout": "OIHW4i8o", "out_layout": "NCHW8c"},
        ),
        (
            ((1, 4, 6, 6, 2), (2, 2, 3, 3, 2, 4)),
            {
                "strides": (2, 2),
                "groups": 2,
                "data_layout": "NCHW2c",
                "kernel_layout": "OIHW2i4o",
                "out_layout": "NCHW4c",
            },
        ),
        (
            (any_bytes((1, 2, 5, 6, 8), "uint8"), any_bytes((1, 2, 3, 3, 2, 16, 4))),
            {
                "padding": (1, 1),
                "data_layout": "NCHW8c",
                "kernel_layout": "OIHW2i16o4i",
                "out_layout": "NCHW16c",
                "out_dtype": "int32",
            },
        ),
        (
            ((1, 3, 7, 8), _filled_up),
            {
                "padding": (1, 1),
                "strides": (2, 2),
                "kernel_size": (3, 3),
                "data_layout": "NCHW",
                "kernel_layout": "OIHW8o2w",
                "out_layout": "NCHW8c",
            },
        ),
        (
            ((1, 3, 7, 8), (2, 3, 3, 2, 8)),
            {
                "padding": (1, 1),
                "strides": (2, 2),
                "data_layout": "NCHW",
                "kernel_layout": "OIHW8o",
                "out_layout": "NCHW8c",
            },
        ),
    ]

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        if "w" in self.kernel_layout:
            assert self.kernel_size is not None
            return topi.nn.conv2d_rows_NCHWc(
                data,
                weight,
                each(self.kernel_size, 2, "kernel_size")[1],
                self.strides,
                self.padding,
                self.dilation,
                self.out_dtype or None,
            )
        if self.data_layout == "NCHW":
            return topi.nn.conv2d_plain_NCHWc(
                data, weight, self.strides, self.padding, self.dilation, self.out_dtype or None
            )
        return topi.nn.conv2d_NCHWc(
            data,
            weight,
            self.strides,
            self.padding,
            self.dilation,
            self.data_layout,
            self.out_layout,
            self.out_dtype or None,
            self.groups,
        )


class depthwise_conv2d_NCHWc(Conv2D, key="nn.contrib_depthwise_conv2d_NCHWc"):
    """Depthwise conv2d on blocks: data (N, C/b, H, W, b), weight (C/b, 1, KH, KW, 1, b)."""

    samples = [
        (
            ((1, 2, 6, 6, 4), (2, 1, 3, 3, 1, 4)),
            {
                "padding": (1, 1),
                "groups": 8,
                "data_layout": "NCHW4c",
                "kernel_layout": "OIHW1i4o",
                "out_layout": "NCHW4c",
            },
        ),
    ]

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.depthwise_conv2d_NCHWc(
            data,
            weight,
            self.strides,
            self.padding,
            self.dilation,
            self.data_layout,
            self.out_layout,
            self.out_dtype or None,
        )
