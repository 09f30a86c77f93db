"""Comparisons of numbers: arrays, expressions, gradients against finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.arith import Analyzer, IntConstraintsTransform
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import EQ, stmt_functor
from tilewright.tir.arithmetic import const_true, logical_and
from tilewright.tir.expr import Var
from tilewright.tir.stmt_functor import substitute


def _array(x: Any) -> Any:
    return x.numpy() if hasattr(x, "numpy") else np.asanyarray(x)


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """Raises AssertionError when shapes differ, or values by more than `atol + rtol * abs(desired)`."""
    left, right = _array(actual), _array(desired)
    np.testing.assert_allclose(left.shape, right.shape, err_msg="shapes")
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Sequence[Any] | Mapping[str, Any],
    grad_values: Sequence[Any] | Mapping[str, Any],
    function_value: float | None = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raises AssertionError where gradients differ from central differences of a scalar function.

    Inputs and gradients are lists, or mappings by keyword. A gradient g of n values passes when its distance from
    the differences is at most `atol * sqrt(n) + rtol * norm(g)`; it is tried again with a step ten times smaller.
    function_value is taken for compatibility and not needed.
    """
    if isinstance(input_values, Mapping):
        names = list(input_values)
        assert isinstance(grad_values, Mapping)
        grads = [grad_values[name] for name in names]

        def call(values: list[Any]) -> Any:
            return function(**dict(zip(names, values, strict=True)))

        values = [np.array(input_values[name]) for name in names]
    else:
        names = [str(k) for k in range(len(input_values))]
        grads = list(grad_values)

        def call(values: list[Any]) -> Any:
            return function(*values)

        values = [np.array(v) for v in input_values]

    def difference(k: int, at: tuple[int, ...], step: float) -> float:
        def moved(sign: int) -> float:
            old = values[k][at]
            values[k][at] = old + sign * step
            result = float(np.asarray(_array(call(values))))
            values[k][at] = old
            return result

        return (moved(1) - moved(-1)) / (2 * step)

    for k, (name, grad) in enumerate(zip(names, grads, strict=True)):
        given = _array(grad)
        if given.shape != values[k].shape:
            raise AssertionError(f"the gradient of {name} has shape {given.shape}, the input {values[k].shape}")
        for step in (delta, delta / 10):
            numeric = np.zeros(values[k].shape, "float64")
            for at in np.ndindex(values[k].shape):
                numeric[at] = difference(k, at, step)
            distance = float(np.linalg.norm(given - numeric))
            allowed = atol * np.sqrt(numeric.size) + rtol * float(np.linalg.norm(given))
            if distance <= allowed:
                break
        else:
            raise AssertionError(
                f"the gradient of {name} lies {distance:.6g} from finite differences, more than {allowed:.6g}\n"
                f"gradient: {given}\ndifferences: {numeric}"
            )


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Raises ValueError unless two integer expressions are proved to be equal."""
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise ValueError(f"{lhs} and {rhs} are not equal")


def check_bool_expr_is_true(bool_expr: PrimExpr, vranges: Mapping[Var, Any], cond: PrimExpr | None = None) -> None:
    """Raises AssertionError for values of the variables within their ranges at which the expression is false.

    vranges: variable -> Range of constant bounds. cond: only where it holds. Every combination is tried.
    """
    names = list(vranges)
    spans = [range(int(r.min), int(r.min) + int(r.extent)) for r in vranges.values()]
    analyzer = Analyzer()
    for point in itertools.product(*spans):
        env = {v: IntImm(v.dtype, k) for v, k in zip(names, point, strict=True)}
        if cond is not None and not getattr(analyzer.simplify(stmt_functor.substitute(cond, env)), "value", 0):
            continue
        holds = analyzer.simplify(stmt_functor.substitute(bool_expr, env))
        if isinstance(holds, IntImm) and holds.value:
            continue
        at = ", ".join(f"{v.name} = {k}" for v, k in zip(names, point, strict=True))
        sides = ""
        if isinstance(bool_expr, EQ):
            left, right = (analyzer.simplify(stmt_functor.substitute(e, env)) for e in (bool_expr.a, bool_expr.b))
            sides = f": {left} != {right}"
        raise AssertionError(f"the expression {bool_expr} is not true at {at}{sides}")


def check_int_constraints_trans_consistency(
    constraints_trans: IntConstraintsTransform, vranges: Mapping[Var, Any] | None = None
) -> None:
    """Raises AssertionError unless the two systems have the same solutions, one to one, through the given variables.

    vranges: ranges of variables that neither system bounds. Every solution within the ranges is tried.
    """
    ways = (
        (constraints_trans.src, constraints_trans.dst, constraints_trans.src_to_dst, constraints_trans.dst_to_src),
        (constraints_trans.dst, constraints_trans.src, constraints_trans.dst_to_src, constraints_trans.src_to_dst),
    )
    for given, other, there, back in ways:
        # What holds of a solution of `given`, told in its own variables: it comes back as itself, and solves `other`.
        claims = [substitute(there[v], dict(back)).equal(v) for v in given.variables if v in there]
        bounds = [(v, other.ranges[v]) for v in other.variables if v in other.ranges]
        limits = [logical_and(v >= r.min, v < r.min + r.extent) for v, r in bounds]
        claims += [substitute(c, dict(back)) for c in (*other.relations, *limits)]
        claim, condition = const_true(), const_true()
        for c in claims:
            claim = logical_and(claim, c)
        for c in given.relations:
            condition = logical_and(condition, c)
        check_bool_expr_is_true(claim, {**(vranges or {}), **given.ranges}, condition)


def get_dtype_range(dtype: str) -> tuple[Any, Any]:
    """The lowest and highest finite value of a type."""
    kind = DataType(dtype)
    if kind.is_bool:
        return False, True
    if kind.is_int or kind.is_uint:
        low = -(1 << (kind.bits - 1)) if kind.is_int else 0
        return low, low + (1 << kind.bits) - 1
    import ml_dtypes

    info: Any = ml_dtypes.finfo(str(kind))  # type: ignore[no-untyped-call]
    return float(info.min), float(info.max)
