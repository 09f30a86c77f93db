"""The module that an importer returns, with `main` as a function of the model's inputs and weights, and the executor that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.ir import IRModule, Op, TensorType, TupleType
from tilewright.relay.cards.card import OpCard
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import post_order
from tilewright.relay.op.data_dependent.counted import is_counted
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.ty import IncompleteType
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import DiagnosticError


def module_of(
    title: str,
    params: Iterable[Var],
    results: Sequence[Expr],
    names: Sequence[str],
    attrs: Mapping[str, Any] | None = None,
) -> IRModule:
    """`main(*params)` with its types. It returns one result, or a tuple of several.

    title: the model's name in messages; names: the names of the results in the model; attrs: more attributes of `main`. Raises
    DiagnosticError for types that do not fit.
    """
    body = results[0] if len(results) == 1 else Tuple(tuple(results))
    main = Function(list(params), body, attrs={"output_tensor_names": tuple(names), **(attrs or {})})
    try:
        return infer_module(IRModule.from_expr(main))
    except DiagnosticError as error:
        raise DiagnosticError(f"{title}: {error}") from None


def string_attrs(inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, Any]:
    """Attributes of `main` with the names of the inputs and outputs of strings. They are int64 numbers, which encode_strings and
    decode_strings convert."""
    named = {"string_inputs": tuple(inputs), "string_outputs": tuple(outputs)}
    return {key: names for key, names in named.items() if names}


def is_static(mod: IRModule) -> bool:
    """Whether a module is one graph of tensors of static shape."""
    main: Any = mod["main"]
    if len(mod.functions) != 1:
        return False
    # Parameters without uses count too, since executors need their types.
    return all([_is_static(e) for e in [*main.params, *post_order(main.body)]])


def _is_static(e: Expr) -> bool:
    if not isinstance(e, (Var, Constant, Call, Tuple, TupleGetItem)):
        return type(e) is Op
    if isinstance(e, Call) and (not isinstance(e.attrs, OpCard) or isinstance(e.attrs, Dynamic) or is_counted(e.attrs)):
        return False
    return _known_type(e.checked_type)


def _known_type(t: Any) -> bool:
    if isinstance(t, TupleType):
        return all(map(_known_type, t.fields))
    if isinstance(t, IncompleteType) or not isinstance(t, TensorType):
        return False
    return all([isinstance(d, int) or hasattr(d, "value") for d in t.shape])
