"""The module that an importer answers: `main`, of a model's inputs and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.expr import Expr, Function, Tuple, Var
from tilewright.relay.transform.infer_type import infer_module
from tilewright.support.errors import DiagnosticError


def module_of(
    title: str,
    params: Iterable[Var],
    results: Sequence[Expr],
    names: Sequence[str],
    attrs: Mapping[str, Any] | None = None,
) -> IRModule:
    """`main(*params)` that answers one result, or a tuple of several, with its types.

    title: the model's, for messages; names: of the results, as the model has them; attrs: more attributes of `main`. Raises
    DiagnosticError where types do not fit.
    """
    body = results[0] if len(results) == 1 else Tuple(tuple(results))
    main = Function(list(params), body, attrs={"output_tensor_names": tuple(names), **(attrs or {})})
    try:
        return infer_module(IRModule.from_expr(main))
    except DiagnosticError as error:
        raise DiagnosticError(f"{title}: {error}") from None
