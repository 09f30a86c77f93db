"""Operators that move elements: reshape, transpose, concatenate, split, layouts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import IntImm, PrimExpr, TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, LayoutChoice, Made, OpCard, TypeRuleError, need
from tilewright.relay.cards.relations import (
    Dim,
    as_dim,
    assume,
    dims,
    is_any,
    is_static,
    known_equal,
    may_equal,
    merge_dim,
    nonnegative,
    normal_axis,
    product,
    same_dtype,
    simplest,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr, Tuple, TupleWrapper, const
from tilewright.relay.op.adjoint import derived, op
from tilewright.tir import EQ, Select
from tilewright.tir import Any as AnyDim
from tilewright.tir.op import max as larger
from tilewright.topi.transform import layout_axes, layout_shape


def plus(a: Dim, b: Dim) -> Dim:
    """a + b; Any if one of them is Any."""
    return AnyDim() if is_any(a) or is_any(b) else a + b


def tuple_fields(data: Type) -> list[TensorType]:
    """The tensor types of a tuple argument. Raises TypeRuleError for any other type."""
    if not isinstance(data, TupleType) or not data.fields:
        raise TypeRuleError("the argument must be a tuple of tensors", f"it is {data}", 0)
    return [tensor(f, 0) for f in data.fields]


def reshaped(shape: Sequence[Dim], newshape: Sequence[Dim], allowzero: bool) -> list[Dim]:
    """The shape after reshape with the codes `newshape`: 0 keeps an extent, -1 infers one, -2 keeps all remaining extents, -3
    merges two, -4 splits one. A code that is an expression stands for an extent, for 0, or (if no other code is) for -1,
    depending on its value."""
    out: list[Dim] = []
    src = 0
    unknown = None
    open_places: list[int] = []
    codes = list(newshape)
    i = 0
    while i < len(codes):
        code = codes[i]
        if is_any(code):
            out.append(code)
            src += 1
        elif not isinstance(code, int):
            # An extent of the data is never -1.
            if nonnegative(code) or any([known_equal(code, d) for d in shape]):
                out.append(code)
            else:
                open_places.append(len(out))
                copied = src < len(shape) and not allowzero and not is_any(shape[src])
                out.append(Select(EQ(code, as_dim(0)), as_dim(shape[src]), code) if copied else code)
            src += 1
        elif code > 0 or (code == 0 and allowzero):
            out.append(code)
            src += 1
        elif code == 0:
            need(
                src < len(shape),
                "0 in newshape copies the input's extent at that place",
                f"the input has only {len(shape)} axes",
                0,
            )
            out.append(shape[src])
            src += 1
        elif code == -1:
            need(unknown is None, "newshape may hold -1 once", f"it is {tuple(newshape)}", 0)
            unknown = len(out)
            out.append(-1)
            src += 1
        elif code == -2:
            out += shape[src:]
            src = len(shape)
        elif code == -3:
            need(
                src + 1 < len(shape),
                "-3 in newshape merges two axes of the input",
                f"none are left at place {src} of {list(shape)}",
                0,
            )
            out.append(product(shape[src : src + 2]))
            src += 2
        elif code == -4:
            need(i + 2 < len(codes), "-4 in newshape is followed by two extents", f"newshape is {tuple(newshape)}", 0)
            a = codes[i + 1]
            b = codes[i + 2]
            whole = shape[src]
            need(
                not (a == -1 and b == -1), "only one of -4's two extents may be -1", f"newshape is {tuple(newshape)}", 0
            )
            if a == -1 or b == -1:
                known = b if a == -1 else a
                other = whole // known if isinstance(whole, int) else AnyDim() if is_any(whole) else whole // known
                a, b = (other, b) if a == -1 else (a, other)
            out += [a, b]
            src += 1
            i += 2
        else:
            raise TypeRuleError("newshape holds extents and the codes 0, -1, -2, -3 and -4", f"it holds {code}", 0)
        i += 1
    if any([is_any(c) for c in codes]):
        # Any unknown extent may be the inferred one.
        return [AnyDim() if d == -1 and isinstance(d, int) else d for d in out]
    if open_places and unknown is None:
        return _infer_open(shape, out, open_places)
    return _infer_rest(shape, out, unknown, newshape)


def _infer_open(shape: Sequence[Dim], out: list[Dim], places: Sequence[int]) -> list[Dim]:
    """The dimensions after inference. One of those at `places` may be -1, which stands for the inferred extent."""
    if any([is_any(d) for d in (*shape, *out)]):
        return [AnyDim() if k in places else d for k, d in enumerate(out)]
    minus = as_dim(-1)
    fixed: list[Dim] = [
        Select(EQ(as_dim(d), minus), as_dim(1), as_dim(d)) if k in places else d for k, d in enumerate(out)
    ]
    rest = as_dim(product(shape)) // as_dim(product(fixed))
    return [Select(EQ(as_dim(d), minus), rest, as_dim(d)) if k in places else d for k, d in enumerate(out)]


def _infer_rest(shape: Sequence[Dim], out: list[Dim], unknown: int | None, newshape: Sequence[Dim]) -> list[Dim]:
    # Equal symbols on both sides cancel, so that one symbolic axis passes through a reshape of the others.
    left, right = list(shape), [d for k, d in enumerate(out) if k != unknown]
    for d in list(right):
        if not isinstance(d, int):
            for e in left:
                if known_equal(d, e):
                    left.remove(e)
                    right.remove(d)
                    break
    symbols = [d for d in left if not isinstance(d, int)]
    total, used = product([d for d in left if isinstance(d, int)]), product([d for d in right if isinstance(d, int)])
    assert isinstance(total, int) and isinstance(used, int)
    static = not symbols and all([isinstance(d, int) for d in right])
    if unknown is None:
        need(
            not static or total == used,
            "reshape must keep the number of elements",
            f"{list(shape)} has {total} and {tuple(newshape)} has {used}",
            0,
        )
        if not static and not any([is_any(d) for d in (*left, *right)]):
            assume(product(left), product(right))
        return out
    if static:
        need(
            total == used if used == 0 else total % used == 0,
            "the extents other than -1 must divide the number of elements",
            f"{total} elements of {list(shape)} do not fill {tuple(newshape)}",
            0,
        )
        out[unknown] = total // used if used else 0
    elif any([is_any(d) for d in (*left, *right)]) or not used:
        out[unknown] = AnyDim()
    elif all([isinstance(d, int) for d in right]) and total % used == 0:
        out[unknown] = product([*symbols, total // used] if total != used else symbols)
    else:
        whole, known = as_dim(product(left)), as_dim(product(right))
        rest = whole // known
        assume(rest * known, whole)
        out[unknown] = rest
    return out


def static(shape: Sequence[Dim]) -> list[int]:
    """The dimensions if all are known; else None."""
    return [int(d) for d in shape if isinstance(d, int)]


class reshape(OpCard, key="reshape"):
    """The same elements, in row-major order, in another shape. newshape: extents, or the codes of classic reshape."""

    newshape: tuple[int, ...]
    allowzero: bool = False
    fuse = INJECTIVE
    samples = [
        (((2, 3, 4),), {"newshape": (4, -1)}),
        (((2, 3, 4),), {"newshape": (0, -3)}),
        (((2, 12),), {"newshape": (-2, 1)}),
        (((2, 12, 3),), {"newshape": (0, -4, 3, -1, -2)}),
        (((6,),), {"newshape": (3, 2)}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        return tensor_type(tuple(reshaped(dims(t), self.newshape, self.allowzero)), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.reshape(data, reshaped(topi.utils.shape_of(data), self.newshape, self.allowzero))

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data.reshape(static(reshaped(data.shape, self.newshape, self.allowzero)))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data)]


class transpose(OpCard, key="transpose"):
    """data with its axes in another order; reversed if `axes` is None."""

    axes: tuple[int, ...] | None = None
    fuse = INJECTIVE
    samples = [(((2, 3, 4),), {"axes": (2, 0, 1)}), (((2, 3),), {})]

    def order(self, ndim: int) -> list[int]:
        """The input axis of each output axis."""
        if not self.axes:
            return list(range(ndim))[::-1]
        return [normal_axis(a, ndim, "axes") for a in self.axes]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        order = self.order(len(t.shape))
        need(
            sorted(order) == list(range(len(t.shape))),
            "axes must name every axis once",
            f"it is {self.axes} for {len(t.shape)} axes",
            0,
        )
        return tensor_type(tuple([t.shape[a] for a in order]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.transpose(data, self.order(len(data.shape)))

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data.transpose(self.order(data.ndim))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        order = self.order(len(tensor(data.checked_type).shape))
        return [op("transpose")(dy, axes=tuple([order.index(i) for i in range(len(order))]))]


class expand_dims(OpCard, key="expand_dims"):
    """data with `num_newaxis` axes of extent 1 inserted before `axis`."""

    axis: int
    num_newaxis: int = 1
    fuse = INJECTIVE
    samples = [(((2, 3),), {"axis": 1}), (((2, 3),), {"axis": -1, "num_newaxis": 2})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        at = normal_axis(self.axis, len(t.shape) + 1)
        return tensor_type((*t.shape[:at], *[1] * self.num_newaxis, *t.shape[at:]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.expand_dims(data, self.axis, self.num_newaxis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        at = normal_axis(self.axis, data.ndim + 1)
        return data.reshape(data.shape[:at] + (1,) * self.num_newaxis + data.shape[at:])

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data)]


class squeeze(OpCard, key="squeeze"):
    """data without axes of extent 1: all of them, or those in `axis`."""

    axis: tuple[int, ...] | None = None
    fuse = INJECTIVE
    samples = [(((1, 3, 1),), {}), (((1, 3, 1),), {"axis": -1})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        shape = dims(t)
        if self.axis is None:
            need(
                all([isinstance(d, int) for d in shape]),
                "axis must be given unless all dimensions are known",
                f"the data is {t}",
                0,
            )
            return tensor_type(tuple([d for d in shape if d != 1]), t.dtype)
        gone = [normal_axis(a, len(shape)) for a in self.axis]
        for a in gone:
            need(may_equal(shape[a], 1), "squeezed axes must have extent 1", f"axis {a} has {shape[a]}", 0)
        return tensor_type(tuple([d for k, d in enumerate(shape) if k not in gone]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.squeeze(data, self.axis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.squeeze(data, self.axis)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data)]


class concatenate(OpCard, key="concatenate"):
    """The tensors of a tuple, joined along `axis`."""

    axis: int = 0
    fuse = INJECTIVE
    samples = [(([(2, 3), (2, 1), (2, 4)],), {"axis": 1}), (([(2, 3), (1, 3)],), {"axis": -2})]

    def infer(self, data: TupleType) -> Type:
        fields = tuple_fields(data)
        dtype = same_dtype(*fields)
        out = dims(fields[0])
        at = normal_axis(self.axis, len(out))
        for k, f in enumerate(fields[1:], 1):
            shape = dims(f)
            need(
                len(shape) == len(out),
                "joined tensors must have the same number of axes",
                f"tensor {k} has {len(shape)}, the first {len(out)}",
                0,
            )
            for a, (x, y) in enumerate(zip(out, shape, strict=True)):
                if a == at:
                    out[a] = plus(x, y)
                else:
                    both = merge_dim(x, y)
                    if both is None:
                        found = f"axis {a} has {x} and, in tensor {k}, {y}"
                        raise TypeRuleError(f"joined tensors may differ along axis {at} only", found, 0)
                    out[a] = both
        return tensor_type(tuple(out), dtype)

    def compute(self, data: Sequence[te.Tensor]) -> te.Tensor:
        return topi.concatenate(data, self.axis)

    def ref(self, data: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(data, self.axis)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Joins blocked data along C if every part consists of whole blocks."""
        blocked = {a for a in args if a is not None}
        if len(blocked) != 1 or self.axis != 1:
            return None
        layout = blocked.pop()
        sizes = [size for letter, size in layout_axes(layout) if letter == "c"]
        fields = types[0].fields if isinstance(types[0], TupleType) else types
        for f in fields:
            shape = dims(tensor(f))
            channels = shape[1] if len(shape) == 4 else None
            if not sizes or not isinstance(channels, int) or channels % sizes[0]:
                return None
        return LayoutChoice(self, [layout] * len(args), layout)

    def grad(self, data: Tuple, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        axis = normal_axis(self.axis, len(tensor(result.checked_type).shape))
        parts: list[Expr] = []
        at: int | Expr = 0
        for field in data.fields:
            extent = tensor(field.checked_type).shape[axis]
            if isinstance(at, int) and isinstance(extent, IntImm):
                parts.append(op("strided_slice")(dy, [at], [at + extent.value], axes=[axis]))
                at += extent.value
                continue
            # The next parts begin at positions that are known only at run time.
            begin = const(np.array([at], np.int64)) if isinstance(at, int) else at
            size = op("take")(op("shape_of")(field, dtype="int64"), const(np.array([axis], np.int64)), axis=0)
            at = op("add")(begin, size)
            parts.append(op("strided_slice")(dy, begin, at, axes=[axis]))
        return [Tuple(tuple(parts))]


class stack(OpCard, key="stack"):
    """The tensors of a tuple, which have one shape, joined along a new axis."""

    axis: int = 0
    fuse = INJECTIVE
    samples = [(([(2, 3), (2, 3)],), {"axis": 1}), (([(2,), (2,)],), {"axis": -1})]

    def infer(self, data: TupleType) -> Type:
        fields = tuple_fields(data)
        dtype = same_dtype(*fields)
        shape = dims(fields[0])
        at = normal_axis(self.axis, len(shape) + 1)
        for k, f in enumerate(fields[1:], 1):
            need(
                len(f.shape) == len(shape) and all([may_equal(a, b) for a, b in zip(shape, dims(f), strict=True)]),
                "stacked tensors must have one shape",
                f"the first has {shape} and tensor {k} {dims(f)}",
                0,
            )
        return tensor_type((*shape[:at], len(fields), *shape[at:]), dtype)

    def compute(self, data: Sequence[te.Tensor]) -> te.Tensor:
        return topi.stack(data, self.axis)

    def ref(self, data: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(data, self.axis)

    def grad(self, data: Tuple, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        axis = normal_axis(self.axis, len(tensor(result.checked_type).shape))
        return [Tuple(tuple([op("take")(dy, const(i, "int32"), axis=axis) for i in range(len(data.fields))]))]


def _part(begin: Dim, end: Dim) -> Dim:
    """The number of elements between two positions."""
    if is_any(begin) or is_any(end):
        return AnyDim()
    if isinstance(begin, int) and isinstance(end, int):
        return end - begin
    size: Dim = simplest(as_dim(end) - as_dim(begin))
    if not nonnegative(size):
        assume(size, larger(as_dim(size), as_dim(0)), rule="a part of {0} elements must not be negative")
    return size


class split(OpCard, key="split"):
    """The pieces of data along `axis`. indices_or_sections: the number of equal pieces, or the positions at which to cut."""

    indices_or_sections: int | tuple[int, ...]
    axis: int = 0
    fuse = INJECTIVE
    samples = [(((6, 2),), {"indices_or_sections": 3}), (((2, 7),), {"indices_or_sections": (2, 3), "axis": 1})]

    @property
    def outputs(self) -> int:
        """The number of pieces."""
        given = self.indices_or_sections
        return given if isinstance(given, int) else len(given) + 1

    @classmethod
    def make(
        cls, data: Expr, indices_or_sections: int | Sequence[int], axis: int = 0, span: BaseSpan | None = None
    ) -> Made:
        given = (
            indices_or_sections
            if isinstance(indices_or_sections, int)
            else tuple([i if isinstance(i, PrimExpr) else int(i) for i in indices_or_sections])
        )
        attrs = {"indices_or_sections": given, "axis": axis}
        count = given if isinstance(given, int) else len(given) + 1
        return TupleWrapper(cls.call([data], attrs, span), max(1, count))

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        shape = dims(t)
        at = normal_axis(self.axis, len(shape))
        extent = shape[at]
        given = self.indices_or_sections
        if isinstance(given, int):
            need(given > 0, "the number of pieces must be positive", f"it is {given}", 0)
            need(
                not isinstance(extent, int) or extent % given == 0,
                "the pieces must be equal",
                f"{extent} does not divide by {given}",
                0,
            )
            sizes = [AnyDim() if is_any(extent) else extent // given] * given
            if not is_any(extent):
                assume(extent, extent // given * given)
        else:
            sizes = [_part(a, b) for a, b in itertools.pairwise([0, *given, extent])]
            need(
                all([not isinstance(size, int) or size >= 0 for size in sizes]),
                "positions must rise within the axis",
                f"they are {given} on {extent}",
                0,
            )
        return TupleType(tuple([tensor_type((*shape[:at], s, *shape[at + 1 :]), t.dtype) for s in sizes]))

    def compute(self, data: te.Tensor) -> list[te.Tensor]:
        return topi.split(data, self.indices_or_sections, self.axis)

    def ref(self, data: np.ndarray) -> tuple[np.ndarray, ...]:
        given = self.indices_or_sections
        if not isinstance(given, int):
            cuts = [0, *given, data.shape[self.axis]]
            if cuts != sorted(cuts):
                raise ValueError(f"positions must rise within the axis, but are {list(given)} on {cuts[-1]}")
        return tuple([np.ascontiguousarray(p) for p in np.split(data, given, self.axis)])

    def grad(self, data: Expr, result: Expr, dy: Tuple) -> Sequence[Expr | None]:
        return [op("concatenate")(dy, axis=self.axis)]


class reverse(OpCard, key="reverse"):
    """data in reverse order along `axis`."""

    axis: int
    fuse = INJECTIVE
    samples = [(((2, 3),), {"axis": 1})]

    def infer(self, data: TensorType) -> Type:
        normal_axis(self.axis, len(tensor(data, 0).shape))
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.flip(data, self.axis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.flip(data, self.axis))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reverse")(dy, axis=self.axis)]


class layout_transform(OpCard, key="layout_transform"):
    """data converted from one layout to another, for example NCHW to NCHW16c. Elements of a block past the end of its axis are
    zeros."""

    src_layout: str
    dst_layout: str
    fuse = INJECTIVE
    samples = [
        (((1, 8, 3, 2),), {"src_layout": "NCHW", "dst_layout": "NCHW4c"}),
        (((1, 2, 3, 2, 4),), {"src_layout": "NCHW4c", "dst_layout": "NCHW"}),
        (((1, 6, 3, 2),), {"src_layout": "NCHW", "dst_layout": "NCHW4c"}),
        (((8, 4, 3, 3),), {"src_layout": "OIHW", "dst_layout": "OIHW2i4o"}),
        (((1, 2, 3, 2, 4),), {"src_layout": "NCHW4c", "dst_layout": "NCHW2c"}),
        (((8, 6, 1, 3),), {"src_layout": "OIHW", "dst_layout": "OIHW2i4o4i"}),
        (((2, 1, 1, 3, 2, 4, 4),), {"src_layout": "OIHW2i4o4i", "dst_layout": "OIHW"}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        try:
            src, dst = layout_axes(self.src_layout), layout_axes(self.dst_layout)
        except ValueError as error:
            raise TypeRuleError("src_layout and dst_layout must be layouts", str(error)) from None
        need(
            len(src) == len(t.shape),
            f"data in {self.src_layout} must have {len(src)} axes",
            f"it has {len(t.shape)}",
            0,
        )
        need(
            {a.upper() for a, _ in src} == {a.upper() for a, _ in dst},
            "both layouts must have the same axes",
            f"they are {self.src_layout} and {self.dst_layout}",
        )
        return tensor_type(tuple(layout_shape(dims(t), self.src_layout, self.dst_layout)), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.layout_transform(data, self.src_layout, self.dst_layout)

    def ref(self, data: np.ndarray) -> np.ndarray:
        src, dst = layout_axes(self.src_layout), layout_axes(self.dst_layout)
        letters = [a for a, _ in src if a.isupper()]
        # First to the plain layout,
        order = [k for letter in letters for k, (a, _) in enumerate(src) if a.upper() == letter]
        sizes = [
            int(np.prod([data.shape[k] for k, (a, _) in enumerate(src) if a.upper() == letter])) for letter in letters
        ]
        plain = data.transpose(order).reshape(sizes)
        # then padded to whole blocks and cut into blocks,
        parts: list[int] = []
        places: list[int] = []
        for k, letter in enumerate(letters):
            own_places = [j for j, (a, _) in enumerate(dst) if a.upper() == letter]
            own = [dst[j] for j in own_places]
            block = int(np.prod([s for a, s in own if a.islower()]))
            outer = -(-plain.shape[k] // block)
            if outer * block != plain.shape[k]:
                plain = np.pad(plain, [(0, outer * block - d if i == k else 0) for i, d in enumerate(plain.shape)])
            parts += [outer if a.isupper() else s for a, s in own]
            places += own_places
        # then ordered like the result: a view, which the result's layout copies once.
        return plain.reshape(parts).transpose([places.index(j) for j in range(len(dst))])

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        t = tensor(data.checked_type)
        if not is_static(t) or product(dims(t)) != product(dims(tensor(result.checked_type))):
            return derived(self, [data], dy)
        return [op("layout_transform")(dy, self.dst_layout, self.src_layout)]
