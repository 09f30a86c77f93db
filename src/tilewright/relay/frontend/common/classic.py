"""Functions for users' converters under their classic names: types, shapes and values of converted expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IRModule, Op, SourceName, TensorType
from tilewright.ir.span import BaseSpan, SequentialSpan, Span
from tilewright.relay.adt import Constructor
from tilewright.relay.cards.card import cards, constructor, several
from tilewright.relay.expr import Constant, Expr, Function, TupleGetItem, TupleWrapper, Var
from tilewright.relay.functor import ExprMutator, free_vars, post_order
from tilewright.relay.parameters import bind
from tilewright.relay.transform import FoldConstantExpr
from tilewright.relay.typing.infer_type import infer_module, infer_types
from tilewright.runtime import NDArray, array
from tilewright.support.errors import OpNotImplemented, TVMError


def _plain(node: Any) -> Expr:
    found = node.tuple_value if isinstance(node, TupleWrapper) else node
    if not isinstance(found, Expr):
        raise TypeError(f"a relay expression is expected, but {type(node).__name__} was given")
    return found


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """The function that makes calls of an operator. Prefixes such as "nn." may be omitted from its name. Raises
    OpNotImplemented for an unknown name."""
    for prefix in ("", "nn.", "image.", "vision.", "random."):
        if prefix + op_name in cards():
            return constructor(prefix + op_name)
    raise OpNotImplemented(f"relay has no operator {op_name!r}")


def new_var(
    name_hint: str, type_annotation: Any = None, shape: Sequence[Any] | None = None, dtype: str = "float32"
) -> Var:
    """A variable of a given type, or of a shape and dtype."""
    from tilewright.relay.expr import var

    return var(name_hint, type_annotation, shape, dtype)


def get_name(node: Any) -> str:
    """The name of a variable; "" for any other expression."""
    return str(node.name_hint) if hasattr(node, "name_hint") else ""


def infer_type(node: Any, mod: IRModule | None = None) -> Expr:
    """The expression with its inferred type (`checked_type`); `mod` has the functions that it calls."""
    plain = _plain(node)
    infer_types(plain, mod)
    return plain


def infer_shape(inputs: Any, mod: IRModule | None = None) -> Any:
    """The shape of a tensor: ints, and `Any` or symbols for dynamic dimensions. For other values it returns the type."""
    t = infer_type(inputs, mod).checked_type
    if not isinstance(t, TensorType):
        return t
    return tuple([int(d.value) if hasattr(d, "value") else d for d in t.shape])


def infer_channels(inputs: Any, transpose: bool = False) -> int:
    """The number of output channels of a convolution's weights, or with `transpose`, of a transposed convolution's."""
    return int(infer_shape(inputs)[1 if transpose else 0])


def infer_value(input_val: Any, params: Mapping[str, Any], mod: IRModule | None = None) -> NDArray:
    """The value of an expression. `params`: name -> array, for all free variables. Raises TVMError if one is missing."""
    from tilewright.relay.evaluation.interpreter import run_function

    plain = _plain(input_val)
    open_vars = free_vars(plain)
    unknown = [v.name_hint for v in open_vars if v.name_hint not in params]
    if unknown:
        raise TVMError(f"infer_value: the value depends on {', '.join(unknown)}, which params do not have")
    given = {v.name_hint: params[v.name_hint] for v in open_vars}
    function = bind(Function(open_vars, plain), given)
    if mod is not None:
        mod = infer_module(mod.with_functions({**mod.functions, GlobalVar("infer_value"): function}))
        function = mod["infer_value"]
    return array(np.asarray(run_function(function, [], mod)))


def infer_value_simulated(input_val: Any, params: Mapping[str, Any]) -> NDArray:
    """The value of an expression. Free variables that are not in `params` get random numbers of their types."""
    rng = np.random.default_rng(0)
    given = dict(params)
    for v in free_vars(_plain(input_val)):
        if v.name_hint not in given:
            t = infer_type(v).checked_type
            if not isinstance(t, TensorType):
                raise TVMError(f"infer_value_simulated: %{v.name_hint} is not a tensor, but {t}")
            given[v.name_hint] = rng.random(t.concrete_shape).astype(t.dtype)
    return infer_value(input_val, given)


def try_infer_value(
    val: Any,
    on_success: Callable[[Any], Any] | None = None,
    on_failure: Callable[[], Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Any, bool]:
    """(the value as a NumPy array, converted by `on_success`; True). For an unknown value: (the result of `on_failure`, or without it
    the expression; False)."""
    try:
        found = infer_value(val, parameters or {}).numpy()
    except TVMError:
        return (on_failure() if on_failure is not None else val), False
    return (on_success(found) if on_success is not None else found), True


def fold_constant(node: Any, mod: IRModule | None = None) -> Expr:
    """The expression after constant folding."""
    return FoldConstantExpr(_plain(node), mod)


def try_resolve_item(item: Any) -> Any:
    """The element if the expression is an item of an explicit tuple; any other expression is returned as it is."""
    node = _plain(item)
    if isinstance(node, TupleGetItem) and hasattr(node.tuple_value, "fields"):
        return node.tuple_value.fields[node.index]
    return item


def shape_of(x: Any, dtype: str = "int64") -> Expr:
    """The shape of a tensor: a constant if it is known, else an expression that computes it."""
    found = infer_shape(x)
    if all([isinstance(d, int) for d in found]):
        from tilewright.relay.expr import const

        return const(np.asarray(found, dtype))
    return constructor("shape_of")(_plain(x), dtype)


def to_int_list(np_array: np.ndarray) -> list[int]:
    """An array's elements as ints."""
    return [int(x) for x in np_array]


def ensure_scalar_shape(x: Any) -> Expr:
    """A tensor of one element, without axes."""
    shape = infer_shape(x)
    if any([d != 1 for d in shape]):
        raise TVMError(f"a tensor of one element is expected, but its shape is {shape}")
    return constructor("reshape")(_plain(x), ()) if shape else _plain(x)


def unbind(data: Any, axis: int = 0) -> TupleWrapper:
    """The slices along an axis, as a tuple, each without the axis. Raises TVMError if the extent is unknown or too large."""
    from tilewright.relay.expr import Tuple

    shape = infer_shape(data)
    if not -len(shape) <= axis < len(shape):
        raise TVMError(f"unbind: axis {axis} is out of range for a tensor of {len(shape)} dimensions")
    if not isinstance(shape[axis], int):
        raise TVMError(f"unbind: the size of axis {axis} is not known in {shape}")
    parts = several("split")(_plain(data), shape[axis], axis)
    squeeze = constructor("squeeze")
    return TupleWrapper(Tuple(tuple([squeeze(parts[i], axis=[axis]) for i in range(shape[axis])])), shape[axis])


def autopad(
    data: Any,
    strides: Sequence[int],
    kernel_shape: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    pad_type: str = "constant",
    deconv: bool = False,
    mode: str = "SAME_UPPER",
    pad_value: float = 0.0,
) -> Expr:
    """`data` (batch, channels, ...) padded so that windows with these strides give ceil(size / stride) results along each axis.
    deconv: pads for a transposed convolution. The odd element goes to the end, or with "SAME_LOWER" to the start."""
    if "SAME" not in mode:
        raise TVMError(f"autopad: mode is SAME_UPPER or SAME_LOWER, but is {mode!r}")
    sizes = infer_shape(data)[2:]
    widths = [(0, 0), (0, 0)]
    for size, stride, kernel, dilation in zip(sizes, strides, kernel_shape, dilations, strict=False):
        if not isinstance(size, int):
            raise TVMError(f"autopad: the sizes {sizes} must be known")
        window = (kernel - 1) * dilation + 1
        left = size % stride
        total = max(window - stride if deconv or left == 0 else window - left, 0)
        widths.append((total - total // 2, total // 2) if "LOWER" in mode else (total // 2, total - total // 2))
    return constructor("nn.pad")(_plain(data), widths, pad_value, pad_type)


def _spanned(root: Expr, span: BaseSpan) -> Any:
    """`root` with the span on all calls, tuples and other nodes above those that already have one."""
    leaves = (Op, Var, Constant, GlobalVar, Constructor)
    mutator = ExprMutator()

    def has_span(e: Any) -> bool:
        return not isinstance(e, leaves) and e.span is not None

    for e in post_order(root, skip=has_span):
        if not isinstance(e, leaves):
            new: Any = mutator.visit(e)
            mutator.memo_map[e] = new if new.span is not None else new.replace(span=span)
    return mutator.visit(root)


def set_span(sym: Any, span: Any) -> Any:
    """The expression with a span on all nodes without one. span: a span, or the name of the model's node (str or bytes)."""
    if isinstance(span, bytes):
        span = span.decode()
    if isinstance(span, str):
        span = Span(SourceName(span), 0, 0, 0, 0)
    elif isinstance(span, (list, tuple)):
        span = SequentialSpan(tuple(span))
    if isinstance(sym, TupleWrapper):
        return TupleWrapper(_spanned(sym.tuple_value, span), sym.size)
    found = _plain(sym)
    if isinstance(found, (Var, Constant)):
        return found if found.span is not None else found.replace(span=span)
    return _spanned(found, span)


class RequiredAttr:
    """Marks an attribute without a default, which must be given."""


_REQUIRED = RequiredAttr()


class StrAttrsDict:
    """Attributes that are stored as strings, with getters that parse them."""

    def __init__(self, attrs: Mapping[str, str]) -> None:
        self.attrs = attrs

    def _get(self, key: str, default: Any, read: Callable[[str], Any]) -> Any:
        if key in self.attrs:
            return read(self.attrs[key])
        if isinstance(default, RequiredAttr):
            raise AttributeError(f"Required attribute {key} not found.")
        return default

    def has_attr(self, key: str) -> bool:
        """Whether the attribute exists."""
        return key in self.attrs

    def get_float(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, float)

    def get_int(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, lambda text: None if text == "None" else int(text))

    def get_str(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, str)

    def get_bool(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, lambda text: text.strip().lower() in ("true", "1", "t", "y", "yes"))

    def get_int_tuple(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, lambda text: tuple([int(x) for x in _items(text)]))

    def get_float_tuple(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, lambda text: tuple([float(x) for x in _items(text)]))

    def get_int_list(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(key, default, lambda text: [int(x) for x in _items(text)])

    def get_tuple_tuple_int(self, key: str, default: Any = _REQUIRED) -> Any:
        return self._get(
            key, default, lambda text: tuple([tuple(map(int, _items(t))) for t in re.findall(r"\(([^()]*)\)", text)])
        )


def _items(text: str) -> list[str]:
    return [x.strip() for x in text.strip("()[] ").split(",") if x.strip() not in ("", "None")]


class ExprTable:
    """Expressions by name, for the walk of a converter over a model."""

    def __init__(self) -> None:
        self.exprs: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        self.const_ctr = 1
        self.in_padding = False

    def new_const(
        self, value: Any, shape: Sequence[Any] | None = None, dtype: str = "float32", source_name: str | None = None
    ) -> Expr:
        """A new variable for a constant. Its value is added to `params`."""
        name = f"_param_{self.const_ctr}"
        self.const_ctr += 1
        if hasattr(value, "shape"):
            shape = value.shape
        self.params[name] = value
        made: Expr = set_span(new_var(name, shape=shape, dtype=dtype), source_name or name)
        self.exprs[name] = made
        return made

    def get_expr(self, name: str) -> Any:
        return self.exprs[name]

    def set_expr(self, name: str, expr: Any, force_override: bool = False) -> None:
        """Stores an expression under a name. An existing one stays unless `force_override`."""
        if force_override or name not in self.exprs:
            self.exprs[name] = expr

    def has_expr(self, name: str) -> bool:
        return name in self.exprs

    def set_padding(self, paddings: Any) -> None:
        self.paddings, self.in_padding = paddings, True

    def clear_padding(self) -> None:
        self.in_padding = False


class AttrCvt:
    """A converter of one operator that renames attributes. Calling it with inputs, attributes and params makes the call.

    op_name: relay's name, or a function from the attributes to the name. transforms: attribute -> new name, or (new name, default),
    or (new name, default, function of the value). excludes: refused attributes; disables, ignores: omitted attributes;
    extras: added attributes. custom_check: (function of the attributes, message).
    """

    def __init__(
        self,
        op_name: str | Callable[..., str],
        transforms: Mapping[str, Any] | None = None,
        excludes: Sequence[str] | None = None,
        disables: Sequence[str] | None = None,
        ignores: Sequence[str] | None = None,
        extras: Mapping[str, Any] | None = None,
        custom_check: tuple[Callable[..., bool], str] | None = None,
    ) -> None:
        self._op_name = op_name
        self._transforms, self._extras = dict(transforms or {}), dict(extras or {})
        self._excludes, self._left_out = tuple(excludes or ()), {*(disables or ()), *(ignores or ())}
        self._custom_check = custom_check

    def __call__(self, inputs: Sequence[Any], attrs: Mapping[str, Any], *args: object) -> Any:
        if self._custom_check is not None and not self._custom_check[0](attrs):
            raise TVMError(f"Check failed: {self._custom_check[1]}")
        name = self._op_name if isinstance(self._op_name, str) else self._op_name(attrs)
        made: dict[str, Any] = {}
        for key, value in attrs.items():
            if key in self._excludes:
                raise OpNotImplemented(f"{name}: the attribute {key} is not supported")
            if key in self._left_out:
                continue
            new, _, change = _transform(key, self._transforms.get(key, key))
            made[new] = value if change is None else change(value)
        for key, rule in self._transforms.items():
            new, default, _ = _transform(key, rule)
            if key not in attrs and default is not None:
                made.setdefault(new, default)
        return get_relay_op(name)(
            *[_plain(i) if isinstance(i, TupleWrapper) else i for i in inputs], **{**made, **self._extras}
        )


def _transform(key: str, rule: Any) -> tuple[str, Any, Callable[[Any], Any] | None]:
    """An entry of `transforms` as (new name, default, conversion)."""
    if isinstance(rule, str):
        return rule, None, None
    new, *rest = rule
    return new or key, rest[0] if rest else None, rest[1] if len(rest) > 1 else None


class Renamer:
    """A converter of an operator with another name in relay and the same attributes."""

    def __init__(self, new_name: str) -> None:
        self._new_name = new_name

    def __call__(self, inputs: Sequence[Any], attrs: Mapping[str, Any], *args: object) -> Any:
        if "tvm_custom" in attrs:
            attrs = {k: v for k, v in attrs.items() if k != "tvm_custom"}
        return get_relay_op(self._new_name)(*inputs, **attrs)


__all__ = [
    "AttrCvt",
    "ExprTable",
    "Renamer",
    "RequiredAttr",
    "StrAttrsDict",
    "autopad",
    "ensure_scalar_shape",
    "fold_constant",
    "get_name",
    "get_relay_op",
    "infer_channels",
    "infer_shape",
    "infer_type",
    "infer_value",
    "infer_value_simulated",
    "new_var",
    "set_span",
    "shape_of",
    "to_int_list",
    "try_infer_value",
    "try_resolve_item",
    "unbind",
]
