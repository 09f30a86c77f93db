"""ToMixedPrecision: convolutions and products compute in narrow float types. Operators that need a large range or high precision do not.

Every operator has a category. ALWAYS: worth casting for. FOLLOW: computed in the narrow type if its operands are already narrow. NEVER:
its operands are cast to the wide type.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from tilewright.ir import Attrs, BaseFunc, DataType, GlobalVar, IRModule, Op, TensorType, TupleType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import BROADCAST, constructor
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, const
from tilewright.relay.functor import ExprMutator, users
from tilewright.relay.op.registry import register_mixed_precision_conversion as register_mixed_precision_conversion
from tilewright.relay.rewriting import card_of, same_result, typed
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError

MOST = {"bfloat16": 3.3895313892515355e38, "float16": 65504.0}
"""The largest number of each type."""

MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = 0, 1, 2

DEFAULT_ALWAYS_LIST = [
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.dense",
    "nn.matmul", "nn.batch_matmul",
]  # fmt: skip
DEFAULT_FOLLOW_LIST = [
    "abs", "add", "annotation.stop_fusion", "argmax", "argmin", "arange", "broadcast_to", "broadcast_to_like", "cast", "ceil", "clip",
    "concatenate", "copy", "divide", "equal", "expand_dims", "fixed_point_multiply", "floor", "full", "full_like", "gather", "gather_nd",
    "greater", "greater_equal", "image.resize2d", "layout_transform", "less", "less_equal", "logical_not", "max", "maximum", "meshgrid",
    "min", "minimum", "multiply", "negative", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d",
    "nn.adaptive_max_pool1d", "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d",
    "nn.batch_flatten", "nn.batch_norm", "nn.batch_to_space_nd", "nn.bias_add", "nn.depth_to_space", "nn.dropout",
    "nn.global_avg_pool2d", "nn.global_max_pool2d", "nn.instance_norm", "nn.layer_norm", "nn.leaky_relu", "nn.max_pool1d",
    "nn.max_pool2d", "nn.max_pool3d", "nn.pad", "nn.mirror_pad", "nn.prelu", "nn.relu", "nn.space_to_batch_nd", "nn.space_to_depth",
    "nn.upsampling", "not_equal", "one_hot", "ones", "ones_like", "repeat", "reshape", "reshape_like", "reverse", "round",
    "scatter_elements", "scatter_nd", "sequence_mask", "shape_of", "sigmoid", "sign", "slice_like", "sparse_to_dense", "split",
    "sqrt", "squeeze", "stack",
    "strided_set", "strided_slice", "subtract", "take", "tanh", "tile", "topk", "transpose", "trunc", "unravel_index", "where",
    "zeros", "zeros_like",
]  # fmt: skip
DEFAULT_NEVER_LIST = [
    "atan", "acos", "acosh", "asin", "asinh", "atanh", "cos", "cosh", "cumsum", "cumprod", "erf", "exp", "fast_erf", "fast_exp", "log",
    "log10", "log2", "mean", "nn.cross_entropy", "nn.cross_entropy_with_logits", "nn.fast_softmax", "nn.group_norm", "nn.l2_normalize",
    "nn.log_softmax", "nn.lrn", "nn.nll_loss", "nn.softmax", "power", "prod", "rsqrt", "sin", "sinh", "std", "sum", "tan", "variance",
]  # fmt: skip
_DEFAULTS = {
    **dict.fromkeys(DEFAULT_ALWAYS_LIST, MIXED_PRECISION_ALWAYS),
    **dict.fromkeys(DEFAULT_FOLLOW_LIST, MIXED_PRECISION_FOLLOW),
    **dict.fromkeys(DEFAULT_NEVER_LIST, MIXED_PRECISION_NEVER),
}


Category = list[Any]
"""What a rule says of a call: the category, the type of the accumulator, and that of the result."""


def get_generic_out_dtypes(call_node: Call, mixed_precision_type: str) -> list[str]:
    """The types of the accumulator and of the result of operators in the narrow type: those with an `out_dtype` add up in float32."""
    wide = hasattr(call_node.attrs, "out_dtype")
    return ["float32" if wide else mixed_precision_type, mixed_precision_type]


def _rule(category: int) -> Callable[[Call, str], Category]:
    return lambda call_node, mixed_precision_type: [
        category,
        *get_generic_out_dtypes(call_node, mixed_precision_type),
    ]


generic_always_op, generic_follow_op, generic_never_op = map(
    _rule, (MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER)
)
"""Rules for `register_mixed_precision_conversion`."""


def register_func_to_op_list(list_ops: Sequence[str]) -> Callable[[Callable[..., Category]], Callable[..., Category]]:
    """Decorator: registers a rule for all operators of a list. `rule(call, mixed_precision_type)` says their category and types."""

    def register(rule: Callable[..., Category]) -> Callable[..., Category]:
        for name in list_ops:
            register_mixed_precision_conversion(name, rule)
        return rule

    return register


NORMS = frozenset(("nn.layer_norm", "nn.instance_norm", "nn.batch_norm"))


class _Mixer(ExprMutator):
    """`counts`: the number of operators that use each expression. A result with one user is passed on before it is rounded if that
    costs nothing: it is part of the user's kernel, or the input of a norm, which removes low digits anyway."""

    def __init__(self, narrow: str, missing: int, counts: Mapping[Expr, int] | None = None) -> None:
        super().__init__()
        self.narrow, self.missing, self.counts = narrow, missing, counts
        self.unknown: dict[str, None] = {}
        self.casts: dict[tuple[Expr, str], Expr] = {}

    def category(self, call: Call) -> tuple[int, str, str]:
        """(category, the type of the accumulator, the type of the result)."""
        said = call.operator.get_attr("FTVMMixedPrecisionConversionType")
        if said is not None:
            kind, accumulate, result = said(call, self.narrow)
            return int(kind), str(accumulate), str(result)
        name: str = call.operator.name
        kind = _DEFAULTS.get(name, -1)
        if kind < 0:
            self.unknown[name] = None
            kind = MIXED_PRECISION_NEVER
        # Sums of products accumulate in float32.
        wide = "float32" if kind == MIXED_PRECISION_ALWAYS and hasattr(card_of(call), "out_dtype") else self.narrow
        return kind, wide, self.narrow

    def cast(self, e: Expr, dtype: str) -> Expr:
        """A value with its float parts cast to a type. Existing casts are used again."""
        t = typed(e).checked_type
        if isinstance(t, TupleType):
            if isinstance(e, Tuple):
                fields = tuple([self.cast(f, dtype) for f in e.fields])
                same = all([a is b for a, b in zip(fields, e.fields, strict=True)])
                return e if same else typed(Tuple(fields, e.span))
            if not any([_floats(f) and str(f.dtype) != dtype for f in t.fields]):
                return e
            return typed(Tuple(tuple([self.cast(typed(TupleGetItem(e, i)), dtype) for i in range(len(t.fields))])))
        if not _floats(t) or str(t.dtype) == dtype:
            return e
        key = (e, dtype)
        if isinstance(e, Constant) and t.dtype.bits > DataType(dtype).bits:
            e = _in_range(e, dtype)
        if key not in self.casts:
            self.casts[key] = typed(constructor("cast")(e, dtype))
            if t.dtype.bits < DataType(dtype).bits:
                # Casting the wide value back gives the narrow one.
                self.casts[self.casts[key], str(t.dtype)] = e
        return self.casts[key]

    def wide(self, call: Call) -> str:
        """The widest float type among a call's original operands."""
        found = [str(d) for a in call.args for d in _dtypes(a.checked_type) if d.is_float]
        return max(found, key=lambda d: DataType(d).bits, default="float32")

    def visit_call(self, call: Call) -> Expr:
        args = [self.visit(a) for a in call.args]
        if type(call.op) is not Op:
            # Functions keep their types.
            args = [self.cast_as(a, old) for a, old in zip(args, call.args, strict=True)]
            return same_result(Call(self.visit(call.op), tuple(args), call.attrs, call.given_types, call.span), call)
        kind, accumulate, result = self.category(call)
        floats = [d for a in args for d in _dtypes(typed(a).checked_type) if d.is_float]
        follows = bool(floats) and all(
            [str(d) == self.narrow or _scalar(a) for a in args for d in _dtypes(a.checked_type)]
        )
        narrow = bool(floats) and (kind == MIXED_PRECISION_ALWAYS or (kind == MIXED_PRECISION_FOLLOW and follows))
        if call.op.name == "cast" or not floats:
            return typed(self.remade(call, args, call.attrs))
        if not narrow:
            return typed(self.remade(call, [self.cast(a, self.wide(call)) for a in args], call.attrs))
        if kind == MIXED_PRECISION_FOLLOW and said_nothing(call) and self.keeps_digits(call, args):
            new = typed(self.remade(call, [self.cast(a, self.wide(call)) for a in args], call.attrs))
            return self.cast(new, result)
        attrs: Any = call.attrs
        if hasattr(attrs, "out_dtype") and (kind == MIXED_PRECISION_ALWAYS or attrs.out_dtype):
            attrs = attrs.replace(out_dtype=accumulate)
        elif hasattr(attrs, "dtype") and attrs.dtype and DataType(attrs.dtype).is_float:
            attrs = attrs.replace(dtype=result)
        new = typed(self.remade(call, [self.cast(a, self.narrow) for a in args], attrs))
        return self.cast(new, result)

    def keeps_digits(self, call: Call, args: Sequence[Expr]) -> bool:
        """Whether an operator on narrow operands should read them before rounding: a norm of results that only it uses, or an element-wise
        operator on such results with constants that need more digits (biases, scales)."""
        if self.counts is None:
            return False
        constants = [a for a in args if isinstance(a, Constant)]
        tensors = [old for old, a in zip(call.args, args, strict=True) if not isinstance(a, Constant)]
        producers = [t for t in tensors if type(t) is Call and self.counts.get(t) == 1]
        if len(producers) < len(tensors):
            return False
        name = call.operator.name
        if name in NORMS:
            return card_of(producers[0]).fuse <= BROADCAST
        return card_of(call).fuse <= BROADCAST and not all([_exact(c, self.narrow) for c in constants])

    def remade(self, call: Call, args: Sequence[Expr], attrs: Attrs | None) -> Call:
        if attrs is call.attrs and all([a is b for a, b in zip(args, call.args, strict=True)]):
            return call
        return Call(call.op, tuple(args), attrs, call.given_types, call.span)

    def cast_as(self, new: Expr, old: Expr) -> Expr:
        """`new` in the type of `old`."""
        t = old.checked_type
        if _floats(t):
            return self.cast(new, str(t.dtype))
        if isinstance(t, TupleType) and isinstance(typed(new).checked_type, TupleType):
            items = (
                new.fields if isinstance(new, Tuple) else [typed(TupleGetItem(new, i)) for i in range(len(t.fields))]
            )
            fields = [
                self.cast(item, str(want.dtype)) if _floats(want) else item
                for item, want in zip(items, t.fields, strict=True)
            ]
            same = all([a is b for a, b in zip(fields, items, strict=True)])
            return new if same else typed(Tuple(tuple(fields)))
        return new

    def visit_tuple(self, tup: Tuple) -> Expr:
        return typed(super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        value = self.visit(op.tuple_value)
        return typed(value.fields[op.index] if isinstance(value, Tuple) else op.replace(tuple_value=value))

    def visit_if(self, ite: If) -> Expr:
        # Both branches keep their common original type.
        a, b = (self.cast_as(self.visit(e), e) for e in (ite.true_branch, ite.false_branch))
        return typed(If(self.cast_as(self.visit(ite.cond), ite.cond), a, b, ite.span))

    def visit_let(self, let: Let) -> Expr:
        chain = [(node, self.cast_as(self.visit(node.value), node.value)) for node in self.chain_of(let)]
        body = chain[-1][0].body
        result: Expr = self.cast_as(self.visit(body), body)
        for node, value in reversed(chain):
            result = self.memo_map[node] = Let(node.var, value, result, node.span)
        return result

    def visit_function(self, fn: Function) -> Expr:
        if fn.is_primitive:
            return fn
        return fn.replace(body=self.cast_as(self.visit(fn.body), fn.body))


def said_nothing(call: Call) -> bool:
    """Whether no program has registered a category for an operator."""
    return call.operator.get_attr("FTVMMixedPrecisionConversionType") is None


def _exact(c: Constant, dtype: str) -> bool:
    """Whether a constant's numbers are exact in a narrower type."""
    value = c.value
    with np.errstate(over="ignore"):
        return value.dtype.kind != "f" or bool(
            np.array_equal(value.astype(numpy_dtype(dtype)).astype(value.dtype), value)
        )


def _in_range(c: Constant, dtype: str) -> Constant:
    """A constant with finite numbers clamped to a narrower type's range: attention masks contain the lowest number of their type."""
    most = MOST.get(dtype, np.inf)
    beyond = np.isfinite(c.value) & (np.abs(c.value) > most)
    if not beyond.any():
        return c
    return typed(const(np.where(beyond, np.copysign(most, c.value), c.value).astype(c.value.dtype)))


def _floats(t: Type) -> TypeGuard[TensorType]:
    return isinstance(t, TensorType) and t.dtype.is_float


def _dtypes(t: Type) -> list[DataType]:
    if isinstance(t, TupleType):
        return [d for f in t.fields for d in _dtypes(f)]
    return [t.dtype] if isinstance(t, TensorType) else []


def _scalar(e: Expr) -> bool:
    """Whether a cast of `e` costs nothing: it is a constant, or has no floats."""
    return isinstance(e, Constant) or not any([d.is_float for d in _dtypes(e.checked_type)])


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> Pass:
    """Compute convolutions and products in `mixed_precision_type` (float16 or bfloat16). Operators that need a large range or high
    precision keep their type; others follow their operands.

    missing_op_mode: an operator of no category raises TVMError (0), or is NEVER, with a warning (1) or silently (2).
    With the option "relay.ToMixedPrecision.keep_orig_output_dtype" the results keep their types; else they have the types of
    the last operators.
    """
    if missing_op_mode not in (0, 1, 2):
        raise ValueError(f"missing_op_mode must be 0 (raise), 1 (warn) or 2 (ignore), but is {missing_op_mode!r}")
    return _mixing(mixed_precision_type, missing_op_mode, False)


def keeping_types(mixed_precision_type: str) -> Pass:
    """ToMixedPrecision for a build: results keep their types whatever the options, and operators without a category cause no warning."""
    return _mixing(mixed_precision_type, 2, True)


def _mixing(mixed_precision_type: str, missing_op_mode: int, keeps: bool) -> Pass:
    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        keep = keeps or bool(ctx.config.get("relay.ToMixedPrecision.keep_orig_output_dtype", False))
        functions: dict[GlobalVar, BaseFunc] = {}
        unknown: dict[str, None] = {}
        for g, f in mod.functions.items():
            if isinstance(f, Function) and not f.is_primitive:
                counts = {e: len(u) for e, u in users([f.body]).items()} if keeps else None
                mixer = _Mixer(mixed_precision_type, missing_op_mode, counts)
                inner = mixer.visit(f.body)
                f = _with_body(f, mixer.cast_as(inner, f.body) if keep or g.name_hint != "main" else inner)
                unknown.update(mixer.unknown)
            functions[g] = f
        if unknown and missing_op_mode < 2:
            text = f"ToMixedPrecision: operators of no category are kept in their types: {', '.join(sorted(unknown))}"
            remedy = "say one with relay.op.register_mixed_precision_conversion"
            if missing_op_mode == 0:
                raise TVMError(f"{text}; {remedy}")
            warnings.warn(f"{text}; {remedy}", stacklevel=2)
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(0, "ToMixedPrecision"), run)


def _with_body(func: Function, body: Expr) -> Function:
    if body is func.body:
        return func
    # The declared result type may have become narrow.
    return Function(func.params, body, None, func.type_params, func.attrs, func.span)


__all__ = [
    "DEFAULT_ALWAYS_LIST",
    "DEFAULT_FOLLOW_LIST",
    "DEFAULT_NEVER_LIST",
    "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW",
    "MIXED_PRECISION_NEVER",
    "ToMixedPrecision",
    "generic_always_op",
    "generic_follow_op",
    "generic_never_op",
    "get_generic_out_dtypes",
    "register_func_to_op_list",
    "register_mixed_precision_conversion",
]
