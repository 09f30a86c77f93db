"""Integer expressions of models as arithmetic between accumulators: which ones the accelerator computes, on packed data.

A kernel begins with packed int8 data and ends with int8 data again; between them are accumulators of 32 bits. Every accumulator has
bounds, so that multiplications of 64 bits (requantisation) can be done in steps of 32 bits, exactly, or be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import DataType, Op, TensorType
from tilewright.relay.cards.card import constructor as op
from tilewright.relay.expr import Call, Constant, Expr, Var, const
from tilewright.relay.rewriting import card_of, constant_of, is_op, static_shape, tensor_of
from tilewright.vta.top import scaling
from tilewright.vta.top.exact_floats import integral
from tilewright.vta.top.packing import Packing
from tilewright.vta.top.products import Product, product_of
from tilewright.vta.top.refusals import Refused
from tilewright.vta.top.rescaling import Scaled, fixed_point, floored_product, high_product

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
IMMEDIATE = (1 << 15) - 1
NARROW = ("int8", "uint8")


class Stored(NamedTuple):
    """Packed int8 data on the accelerator: what they stand for is the numbers + offset. shape: that of the model's tensor."""

    value: Expr
    shape: Shape
    offset: int


class Acc(NamedTuple):
    """Accumulators in a kernel, with their bounds."""

    value: Expr
    shape: Shape
    low: int
    high: int


Keep = tuple[int, int]
"""Bounds outside of which values do not matter, since they are cut off later."""
ALL: Keep = (-(1 << 62), 1 << 62)


class Kernel:
    """A kernel in the making. stored: gives the packed form of int8 data that the kernel reads, and whether they are on the accelerator
    already. pixels: the most that are added up, which must be on the chip at once."""

    def __init__(self, packing: Packing, stored: Callable[[Expr], tuple[Stored, bool]], pixels: int) -> None:
        self.packing, self.stored, self.pixels = packing, stored, pixels
        self.params: list[Var] = []
        self.args: list[Expr] = []
        self.holds: Callable[[Call], bool] = lambda e: False
        """Whether a pool has what it reads in the same kernel."""
        self.computed: Callable[[Product], Product] = lambda product: product
        """The product as which one is computed."""
        self.worth = False
        """Whether it has a product or a pool, or reads what is on the accelerator already."""
        self._known: dict[tuple[Expr, Keep], Acc] = {}
        self._vars: dict[Expr, Var] = {}
        self._summands: dict[Expr, tuple[Acc, Array]] = {}
        """By sum with a constant, what was added up."""
        self._maxima: dict[Expr, tuple[Acc, int]] = {}
        """By maximum with a number, what it is of."""

    # ---- results

    def root(self, e: Call) -> tuple[Expr, Shape, int]:
        """(the int8 result in packed form, its shape, its offset) of an expression of int8 or uint8. Refused where it cannot be one."""
        shape = self.shape_of(e)
        if is_op(e, "nn.max_pool2d"):
            value, offset = self._pool(e)
            return op("cast")(value, "int8"), shape, offset
        found, offset = self._narrow(e)
        return op("cast")(found, "int8"), shape, offset

    def _narrow(self, e: Call) -> tuple[Expr, int]:
        """(accumulators in the range of int8, what they are less by) of an expression of int8 or uint8."""
        mean = self._mean(e)
        offset = 128 if str(tensor_of(e).dtype) == "uint8" else 0
        if mean is not None:
            found = mean
        elif is_op(e, "cast"):
            found = self._widened(e, ALL)
        elif is_op(e, "clip", "maximum", "minimum", "nn.relu"):
            found = self._bounded(e, ALL)
        else:
            raise Refused(f"the accelerator has no {_name(e)} of {tensor_of(e).dtype}")
        if found.low < -128 + offset or found.high > 127 + offset:
            raise Refused(f"the cast to {tensor_of(e).dtype} is of values that are not cut off before")
        if found.low == found.high or not isinstance(found.value, Call):
            raise Refused("the result is constant")
        return self._add(found, -offset).value, offset

    def _pool(self, e: Call) -> tuple[Expr, int]:
        card: Any = card_of(e)
        if card.layout != "NCHW" or tuple(card.dilation) != (1, 1):
            raise Refused("max_pool2d has another layout than NCHW, or dilation")
        if isinstance(e.args[0], Call) and self.holds(e):
            sums, offset = self._narrow(e.args[0])
            return self._largest(sums, e), offset
        source = self._stored(e.args[0])
        n, c, h, w = source.shape
        out, sizes, steps = self.shape_of(e), _two(card.pool_size), _two(card.strides)
        top, left, *_ = _four(card.padding)
        bottom, right = (
            max((count - 1) * step + size - before - extent, 0)
            for count, step, size, before, extent in zip(out[2:], steps, sizes, (top, left), (h, w), strict=True)
        )
        value: Expr = self._var(source.value)
        if top or left or bottom or right:
            widths = ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0), (0, 0))
            value = op("nn.pad")(value, widths, const(-128, "int8"))
        self.worth = True
        return self._largest(self._wide(value, c), e), source.offset

    def _largest(self, value: Expr, e: Call) -> Expr:
        """The largest of each window of accumulators around which padding is already."""
        card: Any = card_of(e)
        sizes, steps = _two(card.pool_size), _two(card.strides)
        return op("nn.max_pool2d")(value, pool_size=sizes, strides=steps, layout=self.packing.result_layout)

    # ---- accumulators

    def acc(self, e: Expr, keep: Keep = ALL) -> Acc:
        """The accumulators of an integer expression. keep: what of their range matters."""
        found = self._known.get((e, keep))
        if found is None:
            found = self._known[e, keep] = self._acc(e, keep)
        return found

    def _acc(self, e: Expr, keep: Keep) -> Acc:
        dtype = str(tensor_of(e).dtype)
        if dtype in NARROW:
            return self._of_stored(e)
        if not isinstance(e, Call) or type(e.op) is not Op:
            raise Refused(f"{type(e).__name__} is not computed by operators")
        if dtype not in ("int32", "int64"):
            raise Refused(f"{e.op.name} is computed in {dtype}")
        product = product_of(e)
        if product is not None:
            found: Acc = self._product(product, e)
            return found
        rule = _RULES.get(e.op.name)
        if rule is None:
            raise Refused(f"the accelerator has no {e.op.name}")
        found = rule(self, e, keep)
        if found.low < -(1 << 31) or found.high >= 1 << 31:
            raise Refused(f"{e.op.name} may give more than 32 bits")
        return found

    def _product(self, product: Product, e: Call) -> Acc:
        packing, product = self.packing, self.computed(product)
        source = self._stored(product.data)
        image = packing.image(source.shape)
        shape = self.shape_of(e)
        assert image is not None
        w, groups = packing.weights(product.weights, product.groups)
        value: Expr = self._var(source.value)
        outside, padding = product.outside - source.offset, product.padding
        added = product.weights.sum(axis=(1, 2, 3), dtype=np.int64) * source.offset
        total: Array = added[:, None, None]
        if any(padding) and outside == -128:
            top, left, bottom, right = padding
            widths = ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0), (0, 0))
            value, padding = op("nn.pad")(value, widths, const(-128, "int8")), (0, 0, 0, 0)
        elif any(padding) and outside:
            total = total + product.border(image[2:]) * outside
        value = self._convolution(value, w, groups, product.strides, padding)
        most = int(np.abs(product.weights.astype(np.int64)).sum(axis=(1, 2, 3)).max(initial=0)) * 128
        self.worth = True
        found = Acc(value, shape, -most, most)
        if not total.any():
            return found
        total = total[:, 0, 0] if len(shape) == 2 else total
        return self.with_constant("add", found, total, found.low + int(total.min()), found.high + int(total.max()))

    def _convolution(
        self,
        value: Expr,
        w: Array,
        groups: int,
        strides: tuple[int, int] = (1, 1),
        padding: tuple[int, ...] = (0, 0, 0, 0),
    ) -> Expr:
        """Packed data by packed weights."""
        packing = self.packing
        return op("nn.conv2d")(
            value, self._constant(w), strides=strides, padding=padding, groups=groups, data_layout=packing.data_layout,
            kernel_layout=packing.kernel_layout, out_layout=packing.result_layout, out_dtype="int32",
            channels=w.shape[0] * packing.block_out, kernel_size=w.shape[2:4],
        )  # fmt: skip

    def _wide(self, value: Expr, channels: int) -> Expr:
        """Packed data as accumulators: as they are, or in other blocks by a product with the identity."""
        if self.packing.alike:
            return op("cast")(value, "int32")
        return self._convolution(value, *self.packing.identity(channels))

    def _widened(self, e: Call, keep: Keep) -> Acc:
        inner = e.args[0]
        return integral(self, inner) if str(tensor_of(inner).dtype) == "float32" else self.acc(inner, keep)

    def _of_stored(self, e: Expr) -> Acc:
        source = self._stored(e)
        image = self.packing.image(source.shape)
        assert image is not None
        return self._add(Acc(self._wide(self._var(source.value), image[1]), source.shape, -128, 127), source.offset)

    def _sum(self, e: Call, keep: Keep) -> Acc:
        floor = floored_product(e)
        if floor is not None:
            return self._scaled(floor, e, keep)
        sign = -1 if is_op(e, "subtract") else 1
        a, b = (constant_of(x) for x in e.args)
        if a is not None and b is None and sign == 1:
            return self._plus(self.acc(e.args[1], _moved(keep, a)), a, e)
        if b is not None:
            return self._plus(
                self.acc(e.args[0], _moved(keep, sign * b.astype(np.int64))), sign * b.astype(np.int64), e
            )
        x, y = self.acc(e.args[0]), self.acc(e.args[1])
        if x.shape != y.shape:
            raise Refused(f"{_name(e)} broadcasts one of its operands")
        if sign < 0:
            y = Acc(op("multiply")(y.value, const(-1)), y.shape, -y.high, -y.low)
        return Acc(op("add")(x.value, y.value), x.shape, x.low + y.low, x.high + y.high)

    def _biased(self, e: Call, keep: Keep) -> Acc:
        bias = constant_of(e.args[1])
        if bias is None:
            raise Refused("the bias is not constant")
        card: Any = card_of(e)
        axis, ndim = int(card.axis), len(self.shape_of(e))
        along = bias.astype(np.int64).reshape([-1 if n == axis % ndim else 1 for n in range(ndim)])
        return self._plus(self.acc(e.args[0], _moved(keep, along)), along, e)

    def _plus(self, x: Acc, value: Array, e: Call) -> Acc:
        self._need_same_shape(x, e)
        if not value.any():
            return x
        return self.with_constant("add", x, value, x.low + int(value.min()), x.high + int(value.max()))

    def _times(self, e: Call, keep: Keep) -> Acc:
        a, b = (constant_of(x) for x in e.args)
        if a is None and b is None:
            x, y = self.acc(e.args[0]), self.acc(e.args[1])
            if x.shape != y.shape:
                raise Refused(f"{_name(e)} broadcasts one of its operands")
            ends = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
            return Acc(op("multiply")(x.value, y.value), x.shape, min(ends), max(ends))
        factor = a if a is not None else b
        assert factor is not None
        x = self.acc(e.args[1 if a is not None else 0])
        self._need_same_shape(x, e)
        ends = [p * int(q) for p in (x.low, x.high) for q in (factor.min(), factor.max())]
        return self.with_constant("multiply", x, factor, min(ends), max(ends))

    def _shift(self, e: Call, keep: Keep) -> Acc:
        scaled = fixed_point(e)
        if scaled is not None:
            return self._scaled(scaled, e, keep)
        by = constant_of(e.args[1])
        if by is None or by.min() < 0 or by.max() > 31:
            raise Refused("the amount of a shift is not constant")
        x = self.acc(e.args[0])
        self._need_same_shape(x, e)
        ends = [v >> int(n) for v in (x.low, x.high) for n in (by.min(), by.max())]
        return self.with_constant("right_shift", x, by, min(ends), max(ends))

    def _high(self, e: Call, keep: Keep) -> Acc:
        scaled = high_product(e)
        if scaled is None:
            raise Refused("high_product of two tensors")
        return self._scaled(scaled, e, keep)

    def _sum_of_pixels(self, e: Call, keep: Keep) -> Acc:
        """The sum of all rows and columns of each channel: an image of one pixel, or a row of a matrix."""
        x, card = self.acc(e.args[0]), card_of(e)
        axes, ndim = getattr(card, "axis", None), len(x.shape)
        along = (
            sorted([int(n) % ndim for n in (axes if isinstance(axes, (tuple, list)) else [axes])])
            if axes is not None
            else []
        )
        shape = self.shape_of(e)
        if (
            getattr(card, "exclude", False)
            or ndim != 4
            or along != [2, 3]
            or self.packing.image(shape) != (*x.shape[:2], 1, 1)
        ):
            raise Refused("a sum of other axes than rows and columns, or of several pictures")
        return self._summed(x, shape)

    def _summed(self, x: Acc, shape: Shape) -> Acc:
        count = x.shape[2] * x.shape[3]
        if count > self.pixels:
            raise Refused(f"a sum of {count} pixels, of which {self.pixels} are on the chip at once")
        self.worth = True
        return Acc(
            op("sum")(x.value, axis=(2, 3), keepdims=True) if count > 1 else x.value,
            shape,
            x.low * count,
            x.high * count,
        )

    def _mean(self, e: Call) -> Acc | None:
        """The mean of all rows and columns of bytes that is computed in float32 and rounded; None for others. It is exact where no mean is
        halfway between two numbers."""
        rounded = e.args[0] if is_op(e, "cast") else None
        mean = rounded.args[0] if is_op(rounded, "round") else None
        wide = mean.args[0] if is_op(mean, "nn.global_avg_pool2d") and card_of(mean)["layout"] == "NCHW" else None
        if not (is_op(wide, "cast") and str(tensor_of(wide.args[0]).dtype) in NARROW):
            return None
        x = self._of_stored(wide.args[0])
        count, shape = x.shape[2] * x.shape[3], self.shape_of(e)
        if count % 2 == 0:
            raise Refused("a mean of an even number of pixels, whose halves are rounded to even")
        total = self._summed(x, shape)
        bits = (255 * count * count).bit_length()
        q = np.array([((1 << (bits + 1)) // count + 1) // 2])
        return self._scaled(Scaled(wide, q, np.array([bits])), e, ALL, total)._replace(low=x.low, high=x.high)

    def _left(self, e: Call, keep: Keep) -> Acc:
        by = constant_of(e.args[1])
        if by is None or by.min() < 0 or by.max() > 30:
            raise Refused("the amount of a shift is not constant")
        x = self.acc(e.args[0])
        self._need_same_shape(x, e)
        ends = [v << int(n) for v in (x.low, x.high) for n in (by.min(), by.max())]
        return self.with_constant("multiply", x, np.left_shift(np.int64(1), by.astype(np.int64)), min(ends), max(ends))

    def _bounded(self, e: Call, keep: Keep) -> Acc:
        if is_op(e, "clip"):
            card: Any = card_of(e)
            low, high = int(card.a_min), int(card.a_max)
        elif is_op(e, "nn.relu"):
            low, high = 0, 1 << 62
        else:
            bound = constant_of(e.args[1])
            if bound is None or bound.size != 1:
                raise Refused(f"{_name(e)} of two tensors")
            value = int(bound.reshape(-1)[0])
            low, high = (value, 1 << 62) if is_op(e, "maximum") else (-(1 << 62), value)
        x = self.acc(e.args[0], (max(low, keep[0]), min(high, keep[1])))
        return self.clipped(x, low, high)

    def clipped(self, x: Acc, low: int, high: int) -> Acc:
        """Accumulators between bounds."""
        below, above = x.low < low, x.high > high
        if below and above and max(abs(low), abs(high)) <= IMMEDIATE:
            return Acc(op("clip")(x.value, float(low), float(high)), x.shape, low, high)
        if below:
            x = self.with_constant("maximum", x, np.int64(low), low, max(x.high, low))
        if above:
            x = self.with_constant("minimum", x, np.int64(high), min(x.low, high), high)
        return x

    def _scaled(self, scaled: Scaled, e: Call, keep: Keep, x: Acc | None = None) -> Acc:
        """A fixed-point multiplication of accumulators, which are those of its data."""
        x = x if x is not None else self.acc(scaled.data)
        self._need_same_shape(x, e)
        if (scaled.q == np.left_shift(np.int64(1), scaled.shift)).all():
            return x
        ratio = scaled.q.astype(np.float64) / np.exp2(scaled.shift.astype(np.float64))
        least, most = float(ratio.min()), float(ratio.max())
        if least <= 0:
            raise Refused("a factor of requantisation is not positive")
        steps = scaling.steps_of(scaled.q, scaled.shift, max(abs(x.low), abs(x.high)), scaled.rounded)
        if (steps is None or len(steps.limbs) > 1) and keep[0] > -(1 << 40) and keep[1] < 1 << 40:
            # What is cut off later anyway is cut off before, where that leaves more bits for the factor.
            ends = int(np.floor((keep[0] - 2) / least)), int(np.ceil((keep[1] + 2) / least))
            less = scaling.steps_of(scaled.q, scaled.shift, max(abs(ends[0]), abs(ends[1])), scaled.rounded)
            if less is not None and (steps is None or len(less.limbs) < len(steps.limbs)):
                x, steps = self.clipped(x, *ends), less
        halves = (
            scaling.halves_of(scaled.q, scaled.shift, max(abs(x.low), abs(x.high)), scaled.rounded)
            if steps is None
            else None
        )

        def apply(name: str, a: Any, b: Any) -> Any:
            return (
                self.with_constant(name, a, b, 0, 0)
                if not isinstance(b, Acc)
                else a._replace(value=op(name)(a.value, b.value))
            )

        if steps is not None:
            made = scaling.apply(x, steps, scaled.away_from_zero, apply)
        elif halves is not None:
            made = scaling.apply_halves(x, halves, scaled.away_from_zero, apply)
        else:
            raise Refused("a factor of requantisation needs more than 32 bits")
        results = [v * r for v in (x.low, x.high) for r in (least, most)]
        return Acc(made.value, x.shape, int(np.floor(min(results))) - 1, int(np.ceil(max(results))) + 1)

    # ---- parts

    def _add(self, x: Acc, value: int) -> Acc:
        return x if value == 0 else self.with_constant("add", x, np.int64(value), x.low + value, x.high + value)

    def with_constant(self, name: str, x: Acc, value: Any, low: int, high: int) -> Acc:
        """An operation with a constant: a number in the instruction, or accumulators. Constants that are added one after the other, with
        maxima between them, are one."""
        array = np.asarray(value)
        if name == "add" and x.value in self._summands:
            x, before = self._summands[x.value]
            array = before + array.astype(np.int64)
        elif name == "add" and array.size == 1 and x.value in self._maxima:
            inner, least = self._maxima[x.value]
            by = int(array.reshape(-1)[0])
            if abs(least + by) <= IMMEDIATE and inner.low + by >= -(1 << 31) and inner.high + by < 1 << 31:
                total = self.with_constant("add", inner, array, inner.low + by, inner.high + by)
                return self.with_constant("maximum", total, np.int64(least + by), low, high)
        if np.abs(array.astype(np.int64)).max(initial=0) >= 1 << 31:
            raise Refused("a constant has more than 32 bits")
        first = int(array.reshape(-1)[0])
        if (array == first).all() and -IMMEDIATE - 1 <= first <= IMMEDIATE:
            operand: Expr = const(first, "int32")
        else:
            operand = self._constant(self.packing.constant(array.astype(np.int32), x.shape))
        made = Acc(op(name)(x.value, operand), x.shape, low, high)
        if name == "add":
            self._summands[made.value] = x, array.astype(np.int64)
        elif name == "maximum" and array.size == 1:
            self._maxima[made.value] = x, first
        return made

    def _stored(self, e: Expr) -> Stored:
        shape = static_shape(e)
        if shape is None or self.packing.image(shape) is None:
            raise Refused(f"the shape {shape} is no image or matrix of static size whose rows fill the array")
        found, on_chip = self.stored(e)
        self.worth |= on_chip
        return found

    def shape_of(self, e: Expr) -> Shape:
        """The shape of an expression. Refused where it cannot be packed."""
        found = static_shape(e)
        if found is None or self.packing.image(found) is None:
            raise Refused(f"the shape {found} is no image or matrix of static size whose rows fill the array")
        return found

    def _need_same_shape(self, x: Acc, e: Call) -> None:
        if static_shape(e) != x.shape:
            raise Refused(f"{_name(e)} broadcasts its first operand")

    def _constant(self, value: Array) -> Expr:
        return self._var(const(value))

    def _var(self, argument: Expr) -> Var:
        """The parameter of the kernel for an argument."""
        found = self._vars.get(argument)
        if found is None:
            if isinstance(argument, Constant):
                kind = TensorType(argument.value.shape, DataType(argument.value.dtype.name))
            else:
                kind = tensor_of(argument)
            found = self._vars[argument] = Var(f"p{len(self.params)}", kind)
            self.params.append(found)
            self.args.append(argument)
        return found


def _moved(keep: Keep, by: Array) -> Keep:
    return keep[0] - int(by.max()), keep[1] - int(by.min())


def _name(e: Expr) -> str:
    return e.op.name if isinstance(e, Call) and isinstance(e.op, Op) else type(e).__name__


def _two(v: Any) -> tuple[int, int]:
    found = tuple(v) if isinstance(v, (tuple, list)) else (v, v)
    return (int(found[0]), int(found[-1]))


def _four(v: Any) -> tuple[int, int, int, int]:
    found = tuple(v) if isinstance(v, (tuple, list)) else (v,)
    top, left, *rest = found * (4 // len(found)) if len(found) in (1, 2) else found
    return int(top), int(left), int(rest[0]), int(rest[1])


_RULES: dict[str, Callable[[Kernel, Call, Keep], Acc]] = {
    "cast": Kernel._widened,
    "add": Kernel._sum,
    "nn.bias_add": Kernel._biased,
    "subtract": Kernel._sum,
    "multiply": Kernel._times,
    "right_shift": Kernel._shift,
    "high_product": Kernel._high,
    "left_shift": Kernel._left,
    "sum": Kernel._sum_of_pixels,
    "clip": Kernel._bounded,
    "nn.relu": Kernel._bounded,
    "maximum": Kernel._bounded,
    "minimum": Kernel._bounded,
}

__all__ = ["Acc", "Kernel", "Refused", "Stored"]
