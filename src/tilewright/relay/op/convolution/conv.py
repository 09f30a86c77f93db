"""Convolutions in plain layouts and on channel blocks, and the choice of the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import scheduling, te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import LayoutChoice, any_bytes
from tilewright.relay.cards.relations import Dim, dims, is_static, tensor
from tilewright.relay.op.convolution.attributes import Convolution, Over2D
from tilewright.target import Target
from tilewright.target.core import Core, core
from tilewright.tir import Any as AnyDim
from tilewright.topi.transform import layout_axes
from tilewright.topi.utils import ceil_div


def vector_lanes() -> int:
    """The number of float32 lanes of the current target's vectors, which is the widest useful channel block. 16 if there is no
    target."""
    target = Target.current(True)
    return 16 if target is None else min(max(target.cpu.lanes(32), 4), 16)


def current_core() -> Core:
    """The description of the current target's cores; without a target, that of a generic processor."""
    target = Target.current(True)
    return core("portable", 16) if target is None else target.cpu.core


def channel_block(channels: int, widest: int) -> int:
    """The largest power of two up to `widest` that divides the channels. If that is below 4: the largest divisor up to `widest`."""
    block = widest
    while channels % block:
        block //= 2
    if block >= min(4, widest):
        return block
    return max(d for d in range(1, widest + 1) if channels % d == 0)


def filled_block(channels: int, widest: int, least: float) -> int:
    """The channel block that uses most lanes: a divisor of the channels, or a whole vector, where the last block is padded.
    least: the smallest share of the elements of all blocks that must be channels."""
    block = channel_block(channels, widest)
    full = channels / (-(-channels // widest) * widest)
    in_vectors = block & (block - 1) == 0
    return widest if full >= least and (full > block / widest or not in_vectors) else block


def fewest_block(channels: int, widest: int) -> int:
    """The channel block of 4, 8, .. `widest` sums that needs the fewest dot-product instructions; of several, the narrowest."""
    blocks = [b for b in (4, 8, 16) if b <= widest]
    return min(blocks, key=lambda b: (-(-channels // b), b))


def too_narrow(block: int, lanes: int) -> bool:
    """Whether blocks are shorter than a vector, or fill so little of one that vectors along rows of pixels are better."""
    return 2 * block < lanes or block & (block - 1) != 0


class Conv2D(Over2D, Convolution):
    """Base of convolutions over images. Their layouts may have blocks."""

    blocked = True

    def in_rows(self, kernel: Dim) -> int | None:
        """The kernel's width, if weights with this number of columns are padded with zeros to whole groups along rows; else None."""
        size = self.size()
        if "w" not in self.kernel_layout or size is None or not isinstance(kernel, int):
            return None
        return size[1] if 0 <= kernel - size[1] < layout_axes(self.kernel_layout)[-1][1] else None

    def kernel_of(self, weight: TensorType) -> list[Dim]:
        *shape, width = super().kernel_of(weight)
        given = self.in_rows(width)
        return [*shape, width if given is None else given]

    def channels_made(self, c: Dim, o: Dim, i: Dim) -> Dim:
        """The channels of the result. Depthwise weights may be (channels, multiplier, kh, kw), which dynamic channels do not show."""
        if self.groups > 1 and o == self.groups and isinstance(o, int) and isinstance(i, int) and i > 1:
            if c == o:
                return o * i
            if not isinstance(c, int):
                return AnyDim()
        return super().channels_made(c, o, i)

    def plain_weights(self, weight: np.ndarray) -> np.ndarray:
        w = super().plain_weights(weight)
        return w[..., : self.in_rows(w.shape[3])]


class conv2d(Conv2D, key="nn.conv2d"):
    """Convolution of data (N, C, H, W) with weight (O, C / groups, KH, KW). padding: one number, (v, h) or (top, left, bottom, right)."""

    samples = [
        (((1, 3, 6, 7), (4, 3, 3, 3)), {"padding": (1, 1)}),
        (((2, 4, 7, 7), (6, 2, 3, 3)), {"strides": (2, 2), "padding": (1, 0, 0, 1), "groups": 2}),
        (((1, 4, 6, 6), (4, 1, 3, 3)), {"padding": (1,), "groups": 4}),
        (((1, 4, 6, 6), (4, 2, 3, 3)), {"padding": (1,), "groups": 4}),
        (((1, 6, 6, 4), (3, 3, 4, 2)), {"groups": 4, "channels": 8, "data_layout": "NHWC", "kernel_layout": "HWOI"}),
        (((1, 3, 6, 7), (4, 3, 3, 3)), {"kernel_size": (3,), "channels": 4}),
        (((1, 3, 9, 9), (2, 3, 3, 2)), {"dilation": (2, 3)}),
        (((1, 6, 6, 3), (3, 3, 3, 4)), {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
    ]

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Uses channel blocks as long as a vector, with weights blocked to match."""
        return self.on_vectors(args, types, current_core().filled_block)

    def lone_layout(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Like `layout_rule`, for a single convolution and if the cost model prefers it. Blocks of filters may be half empty."""
        return self.on_vectors(args, types, current_core().filled_lone_block)

    def on_vectors(self, args: Sequence[str | None], types: Sequence[Type], least: float) -> LayoutChoice | None:
        """Channels in blocks of whole vectors. Filters must fill at least the share `least` of their blocks."""
        if (
            self.data_layout != "NCHW"
            or self.kernel_layout != "OIHW"
            or self.out_layout not in ("", "NCHW")
            or not is_static(types[1])
        ):
            return None
        channels = dims(tensor(types[0]))[1]
        o, i, _, _ = dims(tensor(types[1]))
        if not isinstance(channels, int) or not isinstance(o, int) or not isinstance(i, int):
            return None
        found = self.in_groups(args[0], types, channels, o, i)
        if found is not None:
            return found
        lanes, full = vector_lanes(), current_core().filled_block
        if self.groups == channels and i == 1:
            if o != channels:
                return None
            block = block_of(args[0]) or self.decided_block(types, filled_block(channels, lanes, full))
            if too_narrow(block, lanes):
                return None
            layout = f"NCHW{block}c"
            attributes = self._blocked(o, types[1], layout, f"OIHW1i{block}o", layout)
            attributes["groups"] = attributes["channels"]
            depthwise = depthwise_conv2d_NCHWc(**attributes)
            return LayoutChoice(depthwise, [layout, f"OIHW1i{block}o"], layout)
        if self.groups == 1:
            block_in = block_of(args[0]) or filled_block(channels, lanes, full)
            block_out = self.decided_block(types, filled_block(o, lanes, least))
            if too_narrow(block_out, lanes):
                return None
            if args[0] is None and channels < lanes:
                # The first layer of an image reads its few channels without blocks.
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
        """The channel block of the result: the plan's if there is one, else `model`."""
        plan = scheduling.graph_plan.graph_plan()
        return model if plan is None else plan.forms.block(self.problem(*types), model, vector_lanes(), divides)

    def in_groups(
        self, layout: str | None, types: Sequence[Type], channels: int, o: int, i: int
    ) -> LayoutChoice | None:
        """The layouts for dot-product instructions on narrow integers: channels in groups that one instruction sums. None without such an
        instruction. Channels are padded with zeros to whole groups, and to a whole last block if that needs fewer instructions."""
        from tilewright.scheduling.instructions import dot_product

        data, weight = (str(tensor(t).dtype) for t in types)
        tiled = self.in_tiles(layout, types, o, i)
        if tiled is not None:
            return tiled
        fills = self.groups == 1
        block = 1
        if fills and data == "bfloat16":
            block = filled_block(o, vector_lanes(), current_core().filled_block)
        elif fills:
            block = fewest_block(o, vector_lanes())
        columns = -(-o // block) * block // self.groups
        found = dot_product(Target.current(True), data, weight, self.out_dtype or data, columns)
        if found is None:
            return None
        group, block_in = found.group, block_of(layout)
        if layout is None and i < group * 2 and i % group and self.groups == 1 and self.windows().dilation[1] == 1:
            # The first layer of an image has few channels, so its groups run along rows.
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
        """The layouts for tile registers, which hold many channels. None if the target has none, if dimensions are dynamic, or
        if there are too few channels or a single line of results."""
        from tilewright.scheduling.instructions import tile_product
        from tilewright.tir.tensor_intrin.amx import SIDE

        data, weight = (str(tensor(t).dtype) for t in types)
        found = tile_product(Target.current(True), data, weight, self.out_dtype or data)
        if found is None or not is_static(types[0]):
            return None
        kernel = [k for k in dims(tensor(types[1]))[2:] if isinstance(k, int)]
        if self.windows().counts(dims(tensor(types[0]))[2:], kernel)[0] == 1:
            return None  # tiles have lines of pixels, and indices of a single line do not tell of it
        group, block_in = found.group, block_of(layout)
        least, fills = current_core().tile_groups * group, self.groups == 1
        if fills and o >= SIDE * current_core().tile_filled:
            o = ceil_div(o, SIDE) * SIDE
        if (o // self.groups) % SIDE:
            return None
        if block_in is None or block_in % least or (i % block_in and not fills):
            blocks = [b for b in (SIDE * group, SIDE * group // 2, SIDE * group // 4) if b >= least and i % b == 0]
            if not blocks and not (fills and i > SIDE * group):
                return None
            block_in = blocks[0] if blocks else SIDE * group
        # The next layer finds as many channels together as a register holds.
        widths = sorted({SIDE * group, 2 * SIDE, SIDE}, reverse=True)
        fits = [b for b in widths if (o // self.groups) % b == 0]
        plan = scheduling.graph_plan.graph_plan()
        block_out = fits[0] if plan is None else plan.forms.tile_block(self.problem(*types), fits)
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
            "kernel_size": tuple(dims(tensor(weight))[2:]),
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
    """The product for weights of three columns in groups of two. The padding of the last group is zero."""
    w = rng.standard_normal((2, 3, 3, 2, 8, 2), np.float32)
    w[:, :, :, 1, :, 1] = 0
    return w


class conv2d_NCHWc(Conv2D, key="nn.contrib_conv2d_NCHWc"):
    """conv2d on blocks: data (N, C/b, H, W, b), weight (O/bo, I/bi, KH, KW, bi, bo), or (.., bi/g, bo, g) for instructions that add
    up g products (OIHW4i16o4i). Data of a few channels may be plain, NCHW; then the g products are adjacent in a row
    (OIHW16o2w)."""

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
            size = self.size()
            assert size is not None
            return topi.nn.conv2d_rows_NCHWc(
                data,
                weight,
                size[1],
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
