"""What expressions and programs are made of: features of the language, variables of types, dtypes, operators."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir import FuncType, GlobalVar, IRModule, TensorType, Type, TypeVar
from tilewright.ir.type_parts import parts
from tilewright.node import structural_equal
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    Tuple,
    Var,
)
from tilewright.relay.functor import (
    children,
    post_order,
    recursive_lets,
)


class Feature:
    """Features that a program may use, with the numbers of classic TVM."""

    fVar, fGlobalVar, fConstant, fTuple, fTupleGetItem, fFunction, fOp, fCall, fLet, fIf = range(10)
    fRefCreate, fRefRead, fRefWrite, fConstructor, fMatch, fGraph, fLetRec = range(10, 17)


_FEATURES: dict[str, int] = {n[1:]: i for n, i in vars(Feature).items() if n.startswith("f")}


def detect_feature(a: Expr | IRModule, b: IRModule | None = None) -> set[int]:
    """The features (see Feature) that an expression, or the functions of a module, use."""
    found: set[int] = set()
    roots = list(a.functions.values()) if isinstance(a, IRModule) else [a]
    roots += list(b.functions.values()) if b is not None else []
    for root in roots:
        if recursive_lets(root):
            found.add(Feature.fLetRec)
        used: dict[Expr, int] = {}
        for e in post_order(root):
            found.add(_FEATURES[type(e).__name__])
            if isinstance(e, Call):
                found.add(_FEATURES[type(e.op).__name__])
            for c in children(e):
                used[c] = used.get(c, 0) + 1
        atoms = (Var, GlobalVar, Constant)
        if any([n > 1 and not isinstance(e, atoms) and children(e) for e, n in used.items()]):
            found.add(Feature.fGraph)
    return found


def alpha_equal(a: Expr | Type | IRModule, b: Expr | Type | IRModule) -> bool:
    """Whether two programs are equal up to the names of their variables."""
    return structural_equal(a, b, map_free_vars=False)


def check_constant(expr: Expr) -> bool:
    """Whether `expr` consists only of constants, and of tuples and functions of constants."""
    return all([isinstance(e, (Constant, Tuple)) for e in post_order(expr)])


def _types_in(expr: Expr) -> Iterable[Type]:
    for e in post_order(expr):
        if isinstance(e, Var) and e.type_annotation is not None:
            yield e.type_annotation
        elif isinstance(e, Function) and e.ret_type is not None:
            yield e.ret_type
        elif isinstance(e, Call):
            yield from e.given_types


def _walk_type(t: Type, used: dict[TypeVar, None], bound: dict[TypeVar, None]) -> None:
    if isinstance(t, TypeVar):
        used[t] = None
    if isinstance(t, FuncType):
        bound.update(dict.fromkeys(t.type_params))
    for p in parts(t):
        _walk_type(p, used, bound)


def _type_variables(expr: Expr | Type) -> tuple[dict[TypeVar, None], dict[TypeVar, None]]:
    used: dict[TypeVar, None] = {}
    bound: dict[TypeVar, None] = {}
    if isinstance(expr, Type):
        _walk_type(expr, used, bound)
        return used, bound
    for e in post_order(expr):
        if isinstance(e, Function):
            bound.update({v: None for v in e.type_params if isinstance(v, TypeVar)})
    for t in _types_in(expr):
        _walk_type(t, used, bound)
    return used, bound


def free_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables that annotations use and no function binds, in the order of their first use."""
    used, bound = _type_variables(expr)
    return [v for v in used if v not in bound]


def bound_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type parameters of the functions (or function types) in `expr`."""
    return list(_type_variables(expr)[1])


def all_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """All type variables in `expr`."""
    used, bound = _type_variables(expr)
    return list({**used, **bound})


def all_dtypes(expr: Expr) -> set[str]:
    """The dtypes of all tensors in a typed expression."""
    found = [getattr(e, "_checked_type", None) for e in post_order(expr)]
    return {str(t.dtype) for t in found if isinstance(t, TensorType)}


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """The number of calls of each operator in a module."""
    counts: dict[str, int] = {}
    for f in mod.functions.values():
        if isinstance(f, Function):
            for e in post_order(f):
                if isinstance(e, Call) and hasattr(e.op, "name"):
                    counts[e.op.name] = counts.get(e.op.name, 0) + 1
    return counts
