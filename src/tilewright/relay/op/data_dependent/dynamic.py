"""Operators with attributes that are arguments: their values, and with them the shapes of results, are known only at run time.

Each corresponds to an operator with static attributes, and becomes it when the values are known: as numbers
(`transform.DynamicToStatic`, constant folding), as expressions over sizes (the same pass, for the shape computations that exporters
write), or as registers of the virtual machine, which reads the values from tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright.ir import PrimExpr, TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import DYNAMIC, OPAQUE, OpCard, Operand, TypeRuleError, argument_names, as_expr, need
from tilewright.relay.cards.relations import as_dim, dims, is_any, tensor, tensor_type
from tilewright.relay.expr import Call, Expr, ExprWithOp, const
from tilewright.relay.op.adjoint import field, moved_back, op, summed_like
from tilewright.relay.op.arithmetic import binary, ordering
from tilewright.relay.op.images import resize
from tilewright.relay.op.layers import padding
from tilewright.relay.op.movement import create, indexing, repeating, reshaping, slicing
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import LT, Select
from tilewright.tir import Any as AnyDim

Value = int | float | PrimExpr
"""A known element of an argument: a number, or an expression over sizes."""


Read = Mapping[int, Sequence[Value]]
"""The elements that are read, by the number of their argument."""

UNKNOWN = "its attributes are not known yet. Run relay.transform.DynamicToStatic() before gradient"


class Dynamic(OpCard):
    """Base of operators that read the values of some arguments: those with the names of attributes of the operator `of`."""

    of: ClassVar[type[OpCard]]
    """The static operator that replaces this one when the values are known."""
    constant: ClassVar[tuple[str, ...]] = ()
    """Arguments that must become constants, since they select the computation instead of only its size."""
    fuse = OPAQUE

    @classmethod
    def reads(cls) -> list[int]:
        """The indices of the arguments whose values are read."""
        attributes = {f.name for f in cls.of._fields}
        return [i for i, name in enumerate(argument_names(cls)[0]) if name in attributes]

    @classmethod
    def kept(cls) -> list[int]:
        """The indices of the other arguments."""
        read = cls.reads()
        return [i for i in range(len(argument_names(cls)[0])) if i not in read]

    @classmethod
    def call_of(cls, inputs: Sequence[Operand], attrs: Mapping[str, Any], span: BaseSpan | None) -> Call:
        """The call that replaces a call of `of` with expressions as attributes."""
        rest = list(inputs)
        own = {f.name for f in cls._fields}
        values = dict(attrs)
        args: list[Operand] = []
        for name in argument_names(cls)[0]:
            if name not in {f.name for f in cls.of._fields}:
                args.append(rest.pop(0))
            elif values.get(name) is not None:
                args.append(as_vector(values.pop(name)))
        return cls.call(args, {k: v for k, v in values.items() if k in own}, span)

    def attribute(self, name: str, values: list[Value]) -> Any:
        """The attribute made from the elements of an argument; a scalar has one element."""
        field = next(f for f in self.of._fields if f.name == name)
        return tuple(values) if field.annotation.startswith("tuple") else values[0]

    def static(self, values: Read) -> OpCard:
        """The static operator, with the elements of the arguments at `reads()` as attributes. It takes the arguments at `kept()`."""
        names = argument_names(type(self))[0]
        own = {f.name for f in self.of._fields}
        attrs = {f.name: getattr(self, f.name) for f in self._fields if f.name in own and f.name != "span"}
        for place, elements in values.items():
            attrs[names[place]] = self.attribute(names[place], list(elements))
        return self.of(**attrs)

    def settled(self, values: Read, args: Sequence[Type]) -> Read:
        """The elements of the arguments, with codes such as 0 and -1 replaced by their meaning for these types."""
        return values

    def needs(self, values: Read) -> list[tuple[PrimExpr, str, PrimExpr]]:
        """A condition on the values at run time: the expression, the rule in words, and the number that it checks."""
        return []

    def infer(self, *args: Any, **kwargs: Any) -> Type:
        """The result type for unknown values."""
        return self.inferred(args)

    def inferred(self, args: Sequence[TensorType]) -> Type:
        """The result type from the types of the arguments."""
        names = argument_names(type(self))[0]
        values = {}
        for place in self.reads():
            if place >= len(args):
                continue
            t = tensor(args[place], place)
            need(len(t.shape) <= 2, f"{names[place]} must be a scalar or a vector", f"it is {t}", place)
            known = [d for d in dims(t) if isinstance(d, int)]
            need(
                len(known) == len(t.shape),
                f"the number of elements of {names[place]} must be known, since it decides how many axes there are",
                f"it is {t}",
                place,
            )
            values[place] = [AnyDim()] * math.prod(known)
        static = self.static(values)
        return static.infer(*[args[i] for i in self.kept() if i < len(args)])

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        raise OpNotImplemented(
            f"{self.type_key} has no kernel of its own, since the values of {', '.join(self._read_names())} decide its shape."
            " Make them constants or shapes of inputs, so that relay.transform.DynamicToStatic() finds them, or compile for the"
            ' virtual machine (relay.vm.compile, create_executor("vm")), which reads them when it runs'
        )

    def _read_names(self) -> list[str]:
        names = argument_names(type(self))[0]
        return [names[i] for i in self.reads()]

    def on_arrays(self, args: Sequence[np.ndarray]) -> tuple[OpCard, list[np.ndarray]]:
        """The static operator for arguments that are arrays, and the arguments that it takes."""
        values = {i: np.asarray(args[i]).reshape(-1).tolist() for i in self.reads() if i < len(args)}
        return self.static(values), [args[i] for i in self.kept() if i < len(args)]

    def ref(self, *args: np.ndarray, **kwargs: Any) -> Any:
        static, kept = self.on_arrays(args)
        return static.ref(*kept)


def as_vector(value: Operand) -> Expr:
    """Integers and expressions of integers as one tensor."""
    if isinstance(value, (list, tuple)):
        if not any([isinstance(v, (Expr, list, tuple)) for v in value]):
            return as_expr(np.array(value, np.int64 if all([isinstance(v, int) for v in value]) else np.float32))
        if any([isinstance(v, (list, tuple)) for v in value]):
            return op("stack")([as_vector(v) for v in value], axis=0)
        return op("concatenate")([op("reshape")(op("cast")(as_expr(v), "int64"), (1,)) for v in value], axis=0)
    return as_expr(value)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _scalar(value: float, dtype: str = "int32") -> np.ndarray:
    return np.array(value, dtype)


class dyn_reshape(Dynamic, key="dyn.reshape"):
    """reshape to the elements of `newshape`: extents, 0 (keep the extent) or -1 (infer it)."""

    of = reshaping.reshape
    allowzero: bool = False
    samples = [(((2, 3, 4), _ints(4, 6)), {}), (((2, 3, 4), _ints(-1, 3, 2)), {}), (((2, 3, 4), _ints(0, -1)), {})]

    def infer(self, data: TensorType, newshape: TensorType) -> Type:
        return self.inferred([data, newshape])

    def grad(self, data: Expr, newshape: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data), None]


class dyn_tile(Dynamic, key="dyn.tile"):
    """data repeated `reps` times along each axis."""

    of = repeating.tile
    samples = [(((2, 3), _ints(2, 1, 3)), {})]

    def infer(self, data: TensorType, reps: TensorType) -> Type:
        return self.inferred([data, reps])

    def grad(self, data: Expr, reps: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        """The sum over the copies of each element: the data's axes are split into copies and elements."""
        ndim, given = len(tensor(data.checked_type).shape), tensor(reps.checked_type).concrete_shape
        n = max(ndim, given[0] if given else 1)
        lead = n - ndim
        sizes = op("concatenate")([op("ones")((lead,), "int64"), op("shape_of")(data, dtype="int64")], axis=0)
        short = n - given[0]
        times = op("concatenate")([op("ones")((short,), "int64"), op("cast")(reps, "int64")], axis=0)
        shape = op("reshape")(op("stack")([times, sizes], axis=1), (-1,))
        parts = dyn_reshape.call([dy, shape], {})
        return [op("reshape_like")(op("sum")(parts, axis=tuple(range(0, 2 * n, 2))), data), None]


class dyn_broadcast_to(Dynamic, key="dyn.broadcast_to"):
    """data repeated to `shape`."""

    of = binary.broadcast_to
    samples = [(((3, 1), _ints(2, 3, 4)), {})]

    def infer(self, data: TensorType, shape: TensorType) -> Type:
        return self.inferred([data, shape])

    def grad(self, data: Expr, shape: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [summed_like(dy, data), None]


class dyn_full(Dynamic, key="dyn.full"):
    """A tensor of `shape`, filled with `fill_value`."""

    of = create.full
    dtype: str = ""
    samples = [((_scalar(2.5, "float32"), _ints(2, 3)), {"dtype": "float32"})]

    def infer(self, fill_value: TensorType, shape: TensorType) -> Type:
        return self.inferred([fill_value, shape])

    def grad(self, fill_value: Expr, shape: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("cast")(op("sum")(dy), str(tensor(fill_value.checked_type).dtype)), None]


class dyn_zeros(Dynamic, key="dyn.zeros"):
    """Zeros of `shape`."""

    of = create.zeros
    dtype: str = "float32"
    flat = True
    samples = [((_ints(2, 3),), {"dtype": "int32"})]

    def infer(self, shape: TensorType) -> Type:
        return self.inferred([shape])


class dyn_ones(Dynamic, key="dyn.ones"):
    """Ones of `shape`."""

    of = create.ones
    dtype: str = "float32"
    flat = True
    samples = [((_ints(2, 3),), {})]

    def infer(self, shape: TensorType) -> Type:
        return self.inferred([shape])


class dyn_one_hot(Dynamic, key="dyn.one_hot"):
    """one_hot with `depth` as a tensor."""

    of = indexing.one_hot
    axis: int = -1
    dtype: str = "float32"
    undifferentiable = UNKNOWN
    samples = [
        ((indexing.picks(4, 2, 3), _scalar(1, "float32"), _scalar(0, "float32"), _scalar(4)), {}),
    ]

    def infer(self, indices: TensorType, on_value: TensorType, off_value: TensorType, depth: TensorType) -> Type:
        return self.inferred([indices, on_value, off_value, depth])


class dyn_topk(Dynamic, key="dyn.topk"):
    """topk with `k` as a tensor."""

    of = ordering.topk
    axis: int = -1
    ret_type: str = "both"
    is_ascend: bool = False
    dtype: str = "int32"
    samples = [(((3, 6), _scalar(2)), {}), (((5, 2), _scalar(3, "int64")), {"axis": 0, "ret_type": "values"})]

    @property
    def outputs(self) -> int:
        """The number of results: two if both values and indices are requested, else one."""
        return 2 if self.ret_type == "both" else 1

    def infer(self, data: TensorType, k: TensorType) -> Type:
        return self.inferred([data, k])

    def settled(self, values: Read, args: Sequence[Type]) -> Read:
        """Replaces k < 1 by the extent, since it means all elements."""
        (k,) = values[1]
        if not isinstance(k, PrimExpr):
            return values
        extent = dims(tensor(args[0], 0))[self.axis]
        need(not is_any(extent), "for k < 1 the extent must be known", f"it is {args[0]}", 0)
        return {1: [Select(LT(k, as_dim(1)), as_dim(extent), k)]}

    def grad(self, data: Expr, k: Expr, result: Expr, dy: ExprWithOp) -> Sequence[Expr | None]:
        if self.ret_type == "indices":
            return [None, None]
        attrs = {"axis": self.axis, "ret_type": "indices", "is_ascend": self.is_ascend}
        places = dyn_topk.call([data, k], attrs)
        parts = dy if self.ret_type == "values" else field(dy, 0)
        return [op("scatter_elements")(op("zeros_like")(data), places, parts, axis=self.axis), None]


class dyn_strided_slice(Dynamic, key="dyn.strided_slice"):
    """data[begin:end:strides] along the leading axes. With slice_mode "size", `end` holds numbers of elements. `strides` must be
    known at compile time."""

    of = slicing.strided_slice
    constant = ("strides",)
    slice_mode: str = "end"
    axes: tuple[int, ...] | None = None
    samples = [
        (((5, 6), _ints(1, 0), _ints(4, -1), _ints(2, 1)), {}),
        (((5, 6), _ints(1, 2), _ints(2, -1)), {"slice_mode": "size"}),
    ]

    def infer(self, data: TensorType, begin: TensorType, end: TensorType, strides: TensorType | None = None) -> Type:
        return self.inferred([data, begin, end, *([strides] if strides is not None else [])])

    def inferred(self, args: Sequence[TensorType]) -> Type:
        if len(args) < 4:
            return super().inferred(args)
        # With strides, the number of elements is unknown.
        shape = dims(tensor(args[0], 0))
        count = dims(tensor(args[1], 1, 1))[0]
        if not isinstance(count, int):
            raise TypeRuleError("the number of bounds must be known", f"begin is {args[1]}", 1)
        for a in self.axes if self.axes is not None else range(count):
            shape[a] = AnyDim()
        return tensor_type(tuple(shape), args[0].dtype)

    def grad(self, data: Expr, begin: Expr, *rest: Expr) -> Sequence[Expr | None]:
        *bounds, _, dy = (begin, *rest)
        attrs = {"slice_mode": self.slice_mode, "axes": self.axes}
        back = moved_back(data, lambda x: dyn_strided_slice.call([x, *bounds], attrs), dy)
        return [back, *[None] * len(bounds)]


class dyn_squeeze(Dynamic, key="dyn.squeeze"):
    """data without the axes in `axis`, which have extent 1. `axis` must be known at compile time."""

    of = reshaping.squeeze
    constant = ("axis",)
    samples = [(((1, 3, 1), _ints(0, 2)), {})]

    def infer(self, data: TensorType, axis: TensorType) -> Type:
        t, count = tensor(data, 0), tensor(axis, 1).concrete_shape
        return tensor_type(tuple([AnyDim()] * (len(t.shape) - int(np.prod(count)))), t.dtype)

    def static(self, values: Read) -> OpCard:
        for v in values[1]:
            need(isinstance(v, int), "the axes to squeeze must be constant", f"one is {v}", 1)
        return super().static(values)

    def grad(self, data: Expr, axis: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data), None]


class dyn_expand_dims(Dynamic, key="dyn.expand_dims"):
    """data with `num_newaxis` axes of extent 1 inserted before `axis`, which must be known at compile time."""

    of = reshaping.expand_dims
    constant = ("axis",)
    num_newaxis: int = 1
    samples = [(((2, 3), _scalar(1)), {})]

    def infer(self, data: TensorType, axis: TensorType) -> Type:
        t = tensor(data, 0)
        tensor(axis, 1)
        return tensor_type(tuple([AnyDim()] * (len(t.shape) + self.num_newaxis)), t.dtype)

    def static(self, values: Read) -> OpCard:
        need(isinstance(values[1][0], int), "the axis must be constant", f"it is {values[1][0]}", 1)
        return super().static(values)

    def grad(self, data: Expr, axis: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data), None]


class dyn_pad(Dynamic, key="dyn.nn.pad"):
    """nn.pad with `pad_width` as a tensor: (before, after) for each axis."""

    of = padding.pad
    pad_mode: str = "constant"
    undifferentiable = UNKNOWN
    samples = [(((2, 3), np.array([[0, 1], [2, 0]], np.int64), _scalar(1.5, "float32")), {})]

    def infer(self, data: TensorType, pad_width: TensorType, pad_value: TensorType) -> Type:
        return self.inferred([data, pad_width, pad_value])

    def attribute(self, name: str, values: list[Value]) -> Any:
        return tuple([tuple(values[k : k + 2]) for k in range(0, len(values), 2)])

    def static(self, values: Read) -> OpCard:
        need(
            self.pad_mode == "constant" or all([isinstance(v, int) for v in values[1]]),
            'pad_width must be constant unless pad_mode is "constant"',
            f"pad_mode is {self.pad_mode!r}",
        )
        return super().static(values)


class dyn_resize2d(Dynamic, key="dyn.image.resize2d"):
    """image.resize2d with `size` as a tensor. `roi` must be known at compile time."""

    of = resize.resize2d
    constant = ("roi",)
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str | None = None
    tolerance = 1e-4
    undifferentiable = UNKNOWN
    samples = [
        (((1, 2, 3, 4), _ints(5, 9), np.array([0, 0, 1, 1], np.float32)), {}),
        (((1, 2, 3, 4), _ints(6, 5)), {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"}),
        (
            ((1, 2, 3, 4), _ints(4, 3), np.array([0.1, -0.2, 0.8, 1.1], np.float32)),
            {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -1.5},
        ),
    ]

    def infer(self, data: TensorType, size: TensorType, roi: TensorType | None = None) -> Type:
        return self.inferred([data, size])

    def attribute(self, name: str, values: list[Value]) -> Any:
        if name != "roi":
            return tuple(values)
        if self.coordinate_transformation_mode != "tf_crop_and_resize":
            # Only tf_crop_and_resize reads it.
            return None
        known = [float(v) for v in values if isinstance(v, (int, float))]
        need(len(known) == len(values), "roi must be constant", "its values are not known", 2)
        return tuple(known)


class dyn_upsampling(Dynamic, key="dyn.nn.upsampling"):
    """nn.upsampling by `scale_h` and `scale_w`, which must be known at compile time."""

    of = resize.upsampling
    constant = ("scale_h", "scale_w")
    layout: str = "NCHW"
    method: str = "nearest_neighbor"
    align_corners: bool = False
    tolerance = 1e-4
    undifferentiable = UNKNOWN
    samples = [(((1, 2, 3, 4), _scalar(2, "float32"), _scalar(1.5, "float32")), {})]

    def infer(self, data: TensorType, scale_h: TensorType, scale_w: TensorType) -> Type:
        return _scaled(data, self.layout, "HW")

    def static(self, values: Read) -> OpCard:
        return super().static(_known_scales(values))


class dyn_upsampling3d(Dynamic, key="dyn.nn.upsampling3d"):
    """nn.upsampling3d by `scale_d`, `scale_h` and `scale_w`, which must be known at compile time."""

    of = resize.upsampling3d
    constant = ("scale_d", "scale_h", "scale_w")
    layout: str = "NCDHW"
    method: str = "nearest_neighbor"
    coordinate_transformation_mode: str = "half_pixel"
    tolerance = 1e-4
    undifferentiable = UNKNOWN
    samples = [
        (((1, 1, 2, 3, 2), _scalar(2, "float32"), _scalar(1, "float32"), _scalar(2, "float32")), {}),
    ]

    def infer(self, data: TensorType, scale_d: TensorType, scale_h: TensorType, scale_w: TensorType) -> Type:
        return _scaled(data, self.layout, "DHW")

    def static(self, values: Read) -> OpCard:
        return super().static(_known_scales(values))


def _scaled(data: TensorType, layout: str, letters: str) -> Type:
    t = tensor(data, 0, len(layout))
    return tensor_type(tuple([AnyDim() if c in letters else d for c, d in zip(layout, t.shape, strict=True)]), t.dtype)


def _known_scales(values: Read) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for place, (v,) in values.items():
        if not isinstance(v, (int, float)):
            raise TypeRuleError("the scales must be constant", f"one is {v}", place)
        found[place] = [float(v)]
    return found


class dyn_arange(Dynamic, key="dyn.arange"):
    """start, start + step, ... below stop, from scalars. Floats are computed by other operators."""

    of = create.arange
    dtype: str = "float32"
    expand_in = "SimplifyInference"
    samples = [
        ((_scalar(1), _scalar(9), _scalar(3)), {"dtype": "int32"}),
        ((_scalar(5), _scalar(1), _scalar(3)), {"dtype": "int32"}),
        ((_scalar(9, "int64"), _scalar(1, "int64"), _scalar(-3, "int64")), {"dtype": "int64"}),
        ((_scalar(1, "float32"), _scalar(5, "float32"), _scalar(1.5, "float32")), {}),
    ]

    def infer(self, start: TensorType, stop: TensorType, step: TensorType) -> Type:
        for k, t in enumerate((start, stop, step)):
            need(len(tensor(t, k).shape) <= 1, "the bounds must be scalars", f"this is {t}", k)
        return tensor_type((AnyDim(),), self.dtype)

    def expand(self, start: Expr, stop: Expr, step: Expr) -> Expr:
        """Computes the number of elements, then scales as many integers."""
        types = [tensor(e.checked_type) for e in (start, stop, step)]
        whole = not any([t.dtype.is_float for t in types])
        bounds = [op("reshape")(e, ()) if t.shape else e for e, t in zip((start, stop, step), types, strict=True)]
        first, last, by = [op("cast")(e, "int64" if whole else "float64") for e in bounds]
        if whole:
            count = op("negative")(op("floor_divide")(op("negative")(last - first), by))
        else:
            count = op("cast")(op("ceil")((last - first) / by), "int64")
        places = iota.call([op("maximum")(count, op_const(0))], {"dtype": self.dtype})
        made: Expr = places * op("cast")(bounds[2], self.dtype) + op("cast")(bounds[0], self.dtype)
        return made


class iota(Dynamic, key="dyn.iota"):
    """0, 1, ... below `number`."""

    of = create.arange
    dtype: str = "int64"
    flat = True
    samples = [((_scalar(4),), {}), ((_scalar(0, "int64"),), {"dtype": "float32"})]

    @classmethod
    def reads(cls) -> list[int]:
        """The index of the number."""
        return [0]

    def infer(self, number: TensorType) -> Type:
        tensor(number, 0)
        return tensor_type((AnyDim(),), self.dtype)

    def static(self, values: Read) -> OpCard:
        """A range from 0."""
        attrs: dict[str, Any] = {"start": 0, "stop": values[0][0], "step": 1, "dtype": self.dtype}
        return self.of(**attrs)


class prefix(Dynamic, key="dyn.prefix"):
    """The first `number` elements along axis 0; a kernel computes the number."""

    of = slicing.strided_slice
    samples = [(((5, 3), _scalar(2)), {}), (((5,), _scalar(0)), {})]

    @classmethod
    def reads(cls) -> list[int]:
        """The index of the number."""
        return [1]

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        raise OpNotImplemented(
            f"{self.type_key} has no kernel of its own: how many elements its result has is found out when the program runs (argwhere,"
            " unique, boxes that are kept). relay.build makes programs of fixed sizes; compile for the virtual machine instead:"
            ' relay.vm.compile, or create_executor("vm")'
        )

    def infer(self, data: TensorType, number: TensorType) -> Type:
        t = tensor(data, 0)
        if not t.shape:
            raise TypeRuleError("data must have an axis", "it is a scalar", 0)
        tensor(number, 1)
        return tensor_type((AnyDim(), *t.shape[1:]), t.dtype)

    def static(self, values: Read) -> OpCard:
        """A slice."""
        attrs: dict[str, Any] = {"begin": (0,), "end": (values[1][0],), "axes": (0,)}
        return self.of(**attrs)

    def grad(self, data: Expr, number: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [moved_back(data, lambda x: prefix.call([x, number], {}), dy), None]


def op_const(value: int) -> Expr:
    """A scalar of int64."""
    return const(value, "int64")


for _card in (
    dyn_reshape, dyn_tile, dyn_broadcast_to, dyn_full, dyn_zeros, dyn_ones, dyn_one_hot, dyn_topk, dyn_strided_slice,
    dyn_squeeze, dyn_expand_dims, dyn_pad, dyn_resize2d, dyn_upsampling, dyn_upsampling3d,
):  # fmt: skip
    DYNAMIC[_card.of] = _card.call_of
