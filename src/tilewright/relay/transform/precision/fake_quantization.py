"""FakeQuantizationToInteger: converts float32 operators between dequantize and quantize to operators on the integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import AffineType, DataType, IRModule, Op, TensorAffineType, TupleAffineType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import as_expr, cards, constructor, find_card
from tilewright.relay.cards.relations import Dim, dims, known_equal
from tilewright.relay.expr import Call, Constant, Expr, ExprWithOp, Function, Tuple, TupleGetItem, const
from tilewright.relay.functor import contains
from tilewright.relay.op.arithmetic import elemwise
from tilewright.relay.op.layers import normalisation, padding
from tilewright.relay.op.movement import reshaping
from tilewright.relay.op.quantization import quantized
from tilewright.relay.op.quantization.quantized import spread
from tilewright.relay.op.quantization.quantized_products import Product
from tilewright.relay.rewriting import card_of, is_op, rewrite_calls, tensor_of, typed, typed_pass
from tilewright.support.errors import TVMError


class Affine(NamedTuple):
    """Quantisation of integers: real value = scale * (q - zero_point). Vectors of scales and zero points lie along `axis`."""

    scale: Expr
    zero: Expr
    dtype: str
    axis: int = -1

    @property
    def single(self) -> bool:
        """Whether the whole tensor has one scale and one zero point."""
        return _is_one(self.scale) and _is_one(self.zero)


class Quantity(NamedTuple):
    """Integers with their quantisation."""

    expr: Expr
    affine: Affine


def _shape(e: Expr) -> list[Dim]:
    return dims(tensor_of(e))


def _alike_shapes(a: Expr, b: Expr) -> bool:
    """Whether two tensors certainly have the same extents."""
    x, y = _shape(a), _shape(b)
    return len(x) == len(y) and all([known_equal(p, q) for p, q in zip(x, y, strict=True)])


def _is_one(e: Expr) -> bool:
    """Whether a tensor certainly has one element."""
    return all([known_equal(d, 1) for d in _shape(e)])


def _same(a: Expr, b: Expr) -> bool:
    return a is b or (isinstance(a, Constant) and isinstance(b, Constant) and np.array_equal(a.value, b.value))


def alike(a: Affine, b: Affine) -> bool:
    """Whether two quantisations are the same, so that equal integers have equal real values."""
    return _same(a.scale, b.scale) and _same(a.zero, b.zero)


ZERO = const(0, "int32")
BYTES = ("int8", "uint8")


class Region:
    """The operators between dequantize and one quantize. `of` gives their integer forms."""

    def __init__(self, optional: frozenset[str]) -> None:
        self.optional = optional
        self.wanted: dict[Expr, Affine] = {}
        """The requested quantisation of results."""
        self.reason = ""
        self._known: dict[Expr, Quantity | None] = {}

    def of(self, e: Expr) -> Quantity | None:
        """An expression's integers; None if it has none. The reason is kept."""
        if e not in self._known:
            self._known[e] = self._find(e)
        return self._known[e]

    def _find(self, e: Expr) -> Quantity | None:
        if isinstance(e, Call) and type(e.op) is Op:
            if is_op(e, "qnn.dequantize"):
                q, scale, zero = e.args
                return Quantity(q, Affine(scale, zero, str(tensor_of(q).dtype), card_of(e, quantized.dequantize).axis))
            own = self._registered(e)
            if own is not None:
                found = own(self, e)
                return self.no(f"{e.op.name} has no integer form here") if found is None else found
            form = FORMS.get(e.op.name)
            if form is not None and (e.op.name not in OPTIONAL or e.op.name in self.optional):
                found = form(self, e)
                if found is None:
                    return self.no(f"{e.op.name} has no integer form here")
                return Quantity(typed(found.expr), found.affine)
            return self.no(f"{e.op.name} has no integer form")
        if isinstance(e, TupleGetItem) and is_op(e.tuple_value, "split"):
            whole = self.of(e.tuple_value)
            return None if whole is None else Quantity(typed(TupleGetItem(whole.expr, e.index)), whole.affine)
        return self.no(f"a {type(e).__name__} is not a quantised value")

    def _registered(self, call: Call) -> Form | None:
        """The rule that a program registered for the operator."""
        for key, ask in (("FTVMFakeQuantizationToInteger", False), ("FTVMOptionalFakeQuantizationToInteger", True)):
            said = call.operator.get_attr(key)
            if said is not None and (not ask or call.operator.name in self.optional):
                return by_rule(said)
        return None

    def no(self, reason: str) -> Quantity | None:
        """None. Keeps the first reason."""
        self.reason = self.reason or reason
        return None

    def target(self, e: Expr, otherwise: Affine | None = None) -> Affine | None:
        """The requested quantisation of a result."""
        return self.wanted.get(e, otherwise)


Form = Callable[[Region, Call], Quantity | None]


def op(key: str) -> Callable[..., ExprWithOp]:
    return constructor(key)


def _same_operator(call: Call, *operands: Expr) -> Expr:
    return Call(call.op, (*operands, *call.args[len(operands) :]), call.attrs)


def _operand(region: Region, call: Call) -> Quantity | None:
    """The integers of the first operand. A quantisation requested for the result is also requested for the operand."""
    wanted = region.wanted.get(call)
    if wanted is not None:
        region.wanted.setdefault(call.args[0], wanted)
    return region.of(call.args[0])


def _first(region: Region, call: Call) -> Quantity | None:
    """`_operand` with a single scale."""
    q = _operand(region, call)
    return q if q is not None and q.affine.single else None


def moved(region: Region, call: Call) -> Quantity | None:
    """The integer form of operators that only move, select or compare elements."""
    q = _first(region, call)
    return None if q is None else Quantity(_same_operator(call, q.expr), q.affine)


def _zero_of(affine: Affine, expr: Expr) -> Expr:
    """The zero point, given as `expr`, in the dtype of the integers: a number if it is constant."""
    if isinstance(affine.zero, Constant):
        return const(affine.zero.value.reshape(()).astype(affine.dtype))
    return op("cast")(expr, dtype=affine.dtype)


def padded(region: Region, call: Call) -> Quantity | None:
    q = _first(region, call)
    value = call.args[1]
    if (
        q is None
        or not isinstance(value, Constant)
        or (value.value.any() and card_of(call, padding.pad).pad_mode == "constant")
    ):
        return None
    return Quantity(_same_operator(call, q.expr, _zero_of(q.affine, op("reshape")(q.affine.zero, ()))), q.affine)


def resized(region: Region, call: Call) -> Quantity | None:
    return moved(region, call) if getattr(card_of(call), "method", "") == "nearest_neighbor" else None


def relu(region: Region, call: Call) -> Quantity | None:
    q = _operand(region, call)
    if q is None or not _is_one(q.affine.zero):
        return None
    return Quantity(op("maximum")(q.expr, _zero_of(q.affine, q.affine.zero)), q.affine)


def clip(region: Region, call: Call) -> Quantity | None:
    q, wanted = _operand(region, call), region.wanted.get(call)
    if q is not None and wanted is not None and not q.affine.single:
        q = requantized(q, wanted)
    if (
        q is None
        or not q.affine.single
        or not isinstance(q.affine.scale, Constant)
        or not isinstance(q.affine.zero, Constant)
    ):
        return None
    scale, zero = float(q.affine.scale.value.item()), int(q.affine.zero.value.item())
    card = card_of(call, elemwise.clip)
    info = np.iinfo(q.affine.dtype)
    ends = [float(np.clip(np.rint(b / scale) + zero, info.min, info.max)) for b in (card.a_min, card.a_max)]
    return Quantity(op("clip")(q.expr, *ends), q.affine)


def requantized(q: Quantity, to: Affine) -> Quantity:
    """The same real values in another quantisation."""
    a = q.affine
    if alike(a, to) and a.dtype == to.dtype:
        return q
    made = op("qnn.requantize")(q.expr, a.scale, a.zero, to.scale, to.zero, axis=a.axis, out_dtype=to.dtype)
    return Quantity(typed(made), to)


def averaged(region: Region, call: Call) -> Quantity | None:
    """The integer form of means, in the scale of their operand; halves are rounded to even."""
    card = card_of(call)
    if getattr(card, "count_include_pad", False) and any(card["padding"]):
        return None
    q = _first(region, call)
    if q is None:
        return None
    mean = _same_operator(call, op("cast")(q.expr, dtype="float32"))
    return Quantity(op("cast")(op("round")(mean), dtype=q.affine.dtype), q.affine)


def product(region: Region, call: Call) -> Quantity | None:
    """The integer form of convolutions and matrix products: int32 sums with the product of the data's and the weights' scale."""
    x, w = region.of(call.args[0]), region.of(call.args[1])
    if x is None or w is None or not x.affine.single or {x.affine.dtype, w.affine.dtype} - set(BYTES):
        return None
    card = card_of(call)
    if card["out_dtype"] not in ("", "float32") or getattr(card, "transpose_a", False):
        return None
    name = {"nn.matmul": "qnn.dense"}.get(call.operator.name, f"qnn.{call.operator.name.removeprefix('nn.')}")
    if not getattr(card, "transpose_b", True):
        w = _transposed(w)
    kind = find_card(name)
    assert issubclass(kind, Product)
    fields = {f.name for f in kind._fields} & {f.name for f in type(card)._fields} - {"span", "out_dtype"}
    attrs = {n: getattr(card, n) for n in fields}
    ndim = len(_shape(w.expr))
    channels = kind(**attrs).channels_axis(ndim)
    if not w.affine.single and (name == "qnn.batch_matmul" or w.affine.axis % ndim != channels):
        return None
    sums = kind.call([x.expr, w.expr, x.affine.zero, w.affine.zero, x.affine.scale, w.affine.scale], attrs)
    layout = getattr(card, "out_layout", "") or getattr(card, "data_layout", "")
    axis = layout.index("C") if layout else -1
    return Quantity(sums, Affine(_times(x.affine.scale, w.affine.scale), ZERO, "int32", axis))


def _transposed(q: Quantity) -> Quantity:
    """The last two axes swapped, as quantised products require for their second operand."""
    ndim = len(_shape(q.expr))
    axis = {ndim - 1: ndim - 2, ndim - 2: ndim - 1}.get(q.affine.axis % ndim, q.affine.axis)
    affine = q.affine._replace(axis=axis)
    if isinstance(q.expr, Constant):
        return Quantity(typed(const(np.ascontiguousarray(q.expr.value.swapaxes(-1, -2)))), affine)
    axes = (*range(ndim - 2), ndim - 1, ndim - 2)
    return Quantity(typed(op("transpose")(q.expr, axes=axes)), affine)


def _times(a: Expr, b: Expr) -> Expr:
    """A product of scales, computed at once for constants."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        left = a.value.reshape(()) if a.value.size == 1 else a.value
        return const((left * b.value).astype(np.float32))
    return op("multiply")(a, b)


def bias_add(region: Region, call: Call) -> Quantity | None:
    """The integer form of a bias: it is added to int32 sums in their scale."""
    x = region.of(call.args[0])
    if x is None or x.affine.dtype != "int32" or not _same(x.affine.zero, ZERO):
        return None
    bias = call.args[1]
    if isinstance(bias, Constant) and isinstance(x.affine.scale, Constant):
        return Quantity(
            _same_operator(call, x.expr, const(np.rint(bias.value / x.affine.scale.value).astype(np.int32))), x.affine
        )
    b = region.of(bias)
    if b is None:
        return None
    if not (b.affine.dtype == "int32" and alike(b.affine, x.affine)):
        real = op("qnn.dequantize")(b.expr, b.affine.scale, b.affine.zero)
        b = Quantity(op("qnn.quantize")(real, x.affine.scale, ZERO, out_dtype="int32"), x.affine)
    return Quantity(_same_operator(call, x.expr, b.expr), x.affine)


def combined(region: Region, call: Call) -> Quantity | None:
    """The integer form of add, subtract, multiply: in the requested scale of the result, or unchanged if both scales are equal."""
    name = call.operator.name
    with_constant = _scaled(region, call) if name == "multiply" else _shifted(region, call)
    if with_constant is not None:
        return with_constant
    a, b = region.of(call.args[0]), region.of(call.args[1])
    if a is None or b is None:
        return None
    plain = a.affine.dtype == b.affine.dtype == "int32" and alike(a.affine, b.affine) and _same(a.affine.zero, ZERO)
    if plain and name != "multiply":
        return Quantity(_same_operator(call, a.expr, b.expr), a.affine)
    out = region.target(call)
    if out is None or not out.single:
        return None
    f = op("qnn." + {"multiply": "mul"}.get(name, name))
    (x, s, y, z), (t, u) = (a.expr, a.affine, b.expr, b.affine), out[:2]
    result = f(x, y, s.scale, s.zero, z.scale, z.zero, t, u, lhs_axis=s.axis, rhs_axis=z.axis)
    return Quantity(result, out._replace(dtype=s.dtype))


def _scaled(region: Region, call: Call) -> Quantity | None:
    """The integer form of a product with a positive constant: the same integers in another scale."""
    for k in (0, 1):
        c = call.args[k]
        if (
            isinstance(c, Constant)
            and c.value.size == 1
            and c.value.item() > 0
            and _alike_shapes(call, call.args[1 - k])
        ):
            q = region.of(call.args[1 - k])
            return None if q is None else Quantity(q.expr, q.affine._replace(scale=_times(c, q.affine.scale)))
    return None


def _shifted(region: Region, call: Call) -> Quantity | None:
    """The integer form of a constant that is added to (or subtracted from) int32 sums, in their scale."""
    for k in (0, 1) if is_op(call, "add") else (1,):
        c = call.args[k]
        if isinstance(c, Constant) and _alike_shapes(call, call.args[1 - k]):
            q = region.of(call.args[1 - k])
            if (
                q is None
                or q.affine.dtype != "int32"
                or not _same(q.affine.zero, ZERO)
                or not isinstance(q.affine.scale, Constant)
            ):
                return None
            scale = spread(q.affine.scale.value, len(_shape(call)), q.affine.axis)
            return Quantity(op(call.operator.name)(q.expr, const(np.rint(c.value / scale).astype(np.int32))), q.affine)
    return None


def compared(region: Region, call: Call) -> Quantity | None:
    """The integer form of minimum and maximum of operands with one scale."""
    a, b = region.of(call.args[0]), region.of(call.args[1])
    if (
        a is None
        or b is None
        or a.affine.dtype != b.affine.dtype
        or not a.affine.single
        or not alike(a.affine, b.affine)
    ):
        return None
    return Quantity(_same_operator(call, a.expr, b.expr), a.affine)


def concatenate(region: Region, call: Call) -> Quantity | None:
    if not isinstance(call.args[0], Tuple):
        return None
    parts = [region.of(f) for f in call.args[0].fields]
    known = [p for p in parts if p is not None and p.affine.single]
    if len(known) < len(parts) or len({p.affine.dtype for p in known}) != 1:
        return None
    out = region.target(call, known[0].affine)
    assert out is not None
    made = op("qnn.concatenate")(
        [p.expr for p in known], [p.affine.scale for p in known], [p.affine.zero for p in known], out.scale, out.zero,
        card_of(call, reshaping.concatenate).axis,
    )  # fmt: skip
    return Quantity(made, out._replace(dtype=known[0].affine.dtype))


def function(key: str) -> Form:
    """The integer form of a function of one tensor: the quantised operator of this name."""

    def form(region: Region, call: Call) -> Quantity | None:
        out, q = region.target(call), region.of(call.args[0])
        if q is None or out is None or not (q.affine.single and out.single) or q.affine.dtype not in BYTES:
            return None
        attrs = {"axis": card_of(call, normalisation.softmax).axis} if key == "softmax" else {}
        given = [card_of(call, elemwise.leaky_relu).alpha] if key == "leaky_relu" else []
        a = q.affine
        made = op(f"qnn.{key}")(q.expr, *given, a.scale, a.zero, out.scale, out.zero, **attrs)
        return Quantity(made, out._replace(dtype=a.dtype))

    return form


def by_rule(rule: Callable[[Call, Mapping[Expr, AffineType]], Any]) -> Form:
    """The integer form by a rule from `register_fake_quantization_to_integer`."""

    def form(region: Region, call: Call) -> Quantity | None:
        types: dict[Expr, AffineType] = {}

        def integers(e: Expr) -> Expr | None:
            if isinstance(e, Tuple):
                fields = [f for f in map(integers, e.fields) if f is not None]
                if len(fields) < len(e.fields):
                    return None
                made = typed(Tuple(tuple(fields)))
                types[made] = TupleAffineType(
                    tuple([t for f in fields if isinstance(t := types.get(f), TensorAffineType)])
                )
                return made
            if isinstance(e, Constant):
                return e
            q = region.of(e)
            if q is not None:
                types[q.expr] = affine_type(q.affine)
            return None if q is None else q.expr

        args = [a for a in map(integers, call.args) if a is not None]
        if len(args) < len(call.args):
            return None
        new = Call(call.op, tuple(args), call.attrs, (), call.span)
        wanted = region.target(call)
        if wanted is not None:
            types[new] = affine_type(wanted)
        answer = rule(new, types)
        if answer is None:
            return None
        made, t = answer
        if not isinstance(t, TensorAffineType):
            raise TVMError(
                f"the function registered for {call.operator.name} by register_fake_quantization_to_integer must return"
                f" [expression, TensorAffineType], but returned a {type(t).__name__}"
            )
        return Quantity(typed(as_expr(made)), Affine(t.scale, t.zero_point, str(t.dtype), t.axis))

    return form


def affine_type(a: Affine) -> TensorAffineType:
    """Quantisation in the form of registered rules."""
    return TensorAffineType(a.scale, a.zero, DataType(a.dtype), a.axis)


MOVING = """broadcast_to copy expand_dims layout_transform max min nn.batch_flatten nn.depth_to_space nn.global_max_pool2d
nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.space_to_depth repeat reshape reverse split squeeze strided_slice take tile
transpose"""
FORMS: dict[str, Form] = {
    **dict.fromkeys(MOVING.split(), moved),
    **dict.fromkeys(("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d", "mean"), averaged),
    **dict.fromkeys(("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.matmul", "nn.batch_matmul"), product),
    **dict.fromkeys(("add", "subtract", "multiply"), combined),
    **dict.fromkeys(("minimum", "maximum"), compared),
    **{k: function(k) for k in ("tanh", "erf", "exp", "sqrt", "rsqrt", "sigmoid", "log", "abs")},
    "nn.leaky_relu": function("leaky_relu"), "nn.softmax": function("softmax"), "nn.relu": relu, "clip": clip,
    "nn.bias_add": bias_add, "nn.pad": padded, "image.resize2d": resized, "concatenate": concatenate,
}  # fmt: skip
OPTIONAL = frozenset(["nn.softmax"])
"""Operators that lose much accuracy in integers. They are converted only if `optional_qnn_ops` names them."""


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> Pass:
    """Replace float32 operators between dequantize and quantize by operators on integers.

    hard_fail: raises TVMError for a region that stays in float32, instead of leaving it. use_qat: afterwards, operators with only
    dequantised operands become integer operators, too, even without a quantised result. optional_qnn_ops: names
    of operators that are only converted on demand ("nn.softmax").
    """
    optional = frozenset(optional_qnn_ops or ())
    own = {name for name in cards() if Op.get(name).get_attr("FTVMOptionalFakeQuantizationToInteger") is not None}
    for name in sorted(optional - OPTIONAL - own):
        raise ValueError(f"optional_qnn_ops may name {', '.join(sorted(OPTIONAL | own))}, but names {name!r}")

    def closed(call: Call) -> Expr | None:
        if not is_op(call, "qnn.quantize"):
            return None
        x, scale, zero = call.args
        card = card_of(call, quantized.quantize)
        region, out = Region(optional), Affine(scale, zero, card.out_dtype, card.axis)
        if not out.single:
            return None
        region.wanted[x] = out
        q = region.of(x)
        if q is None:
            if hard_fail:
                raise TVMError(f"FakeQuantizationToInteger: a quantised region stays in float32: {region.reason}:\n{x}")
            return None
        return requantized(q, out).expr

    def open_ended(call: Call) -> Expr | None:
        if type(call.op) is not Op:
            return None
        own = call.op.get_attr("FTVMFakeQuantizationToInteger")
        if call.op.name not in FORMS and own is None:
            return None
        fields = [f for a in call.args for f in (a.fields if isinstance(a, Tuple) else (a,))]
        ready = [is_op(f, "qnn.dequantize") for f in fields]
        if not any(ready) or not all([r or isinstance(f, Constant) for r, f in zip(ready, fields, strict=True)]):
            return None
        q = Region(optional).of(call)
        if q is None:
            return None
        return op("qnn.dequantize")(q.expr, q.affine.scale, q.affine.zero, axis=q.affine.axis)

    def run(f: Function, mod: IRModule) -> Function:
        if not contains(f, lambda e: is_op(e, "qnn.quantize", "qnn.dequantize")):
            return f
        f = rewrite_calls(f, closed)
        return rewrite_calls(f, open_ended) if use_qat else f

    return typed_pass("FakeQuantizationToInteger", 0, run)
