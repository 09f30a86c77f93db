"""Expressions of tir in TVMScript."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.ir import BaseExpr, FloatImm, GlobalVar, IntImm, Op, PrimExpr, Range
from tilewright.ir.dtype import ScalableLanes
from tilewright.ir.types import PointerType
from tilewright.script.doc import (
    AND,
    COMPARE,
    NOT,
    OR,
    PRODUCT,
    SUM,
    Expr,
    assign,
    binary,
    dict_,
    float_text,
    lambda_,
    list_,
    literal,
    slice_,
    text,
    unary,
)
from tilewright.script.printer import Printer, data_hook, expr_hook
from tilewright.target import Target
from tilewright.tir import arithmetic as A
from tilewright.tir import expr as E
from tilewright.tir.buffer import extent_of
from tilewright.tir.builtin import lane_count
from tilewright.tir.intrinsics import DTYPE_FIRST, RENAMED, intrinsic
from tilewright.tir.printer.buffers import buffer_doc, region_indices, stop_doc
from tilewright.tir.stmt import BufferRegion, MatchBufferRegion


def t(p: Printer, member: str) -> Expr:
    return p.prefix("tir_prefix", member)


def type_doc(p: Printer, var: E.Var) -> Expr:
    """The annotation of a variable: `T.int32`, or `T.handle("float32", "shared")`."""
    if p.stands_in_metadata(var):
        return p.entry(var)
    if isinstance(var, E.SizeVar):
        return t(p, var.dtype).call(is_size_var="True")
    return p.expr(var.type_annotation)


def var_creation(p: Printer, var: E.Var) -> Expr:
    """The expression that makes a free variable: `T.int32()`."""
    doc = type_doc(p, var)
    if p.stands_in_metadata(var):
        return doc
    return doc if isinstance(var, E.SizeVar) or isinstance(var.type_annotation, PointerType) else doc.call()


@expr_hook(E.Var)
def _var(p: Printer, var: E.Var) -> Expr:
    doc = p.name(var)
    if doc is None:
        doc = p.define_free(var, var.name)
        p.free.append(assign(doc, var_creation(p, var), node=var))
    return doc


@expr_hook(IntImm)
def _int(p: Printer, imm: IntImm) -> Expr:
    if imm.dtype == p.config.int_dtype:
        return literal(imm.value)
    if imm.dtype.is_bool:
        return t(p, "bool").call(literal(bool(imm.value)))
    return t(p, imm.dtype).call(literal(imm.value))


@expr_hook(FloatImm)
def _float(p: Printer, imm: FloatImm) -> Expr:
    if imm.dtype == p.config.float_dtype and math.isfinite(imm.value):
        return literal(imm.value)
    # `T.float32(1)`: the type tells that it is no integer.
    said = float_text(imm.value)
    return t(p, imm.dtype).call(said if said == "-0.0" else said.removesuffix(".0"))


@expr_hook(E.StringImm)
def _string(p: Printer, imm: E.StringImm) -> Expr:
    return literal(imm.value)


@data_hook(E.StringImm)
def _string_data(p: Printer, imm: E.StringImm) -> Expr:
    # As a plain string it would be Python's.
    return t(p, "StringImm").call(literal(imm.value))


@expr_hook(E.Cast)
def _cast(p: Printer, e: E.Cast) -> Expr:
    return t(p, "Cast").call(literal(str(e.dtype)), p.expr(e.value))


# type -> operator, precedence, what the operator builds (so that folding can be seen), explicit constructor
_Build = Callable[[Any, Any], PrimExpr]
_OPERATORS: dict[type, tuple[str, int, _Build, str]] = {
    E.Add: ("+", SUM, A.add, "Add"),
    E.Sub: ("-", SUM, A.subtract, "Sub"),
    E.Mul: ("*", PRODUCT, A.multiply, "Mul"),
    E.Div: ("/", PRODUCT, A.div, "Div"),
    E.FloorDiv: ("//", PRODUCT, A.floordiv, "FloorDiv"),
    E.FloorMod: ("%", PRODUCT, A.floormod, "FloorMod"),
    E.EQ: ("==", COMPARE, A.eq, "EQ"),
    E.NE: ("!=", COMPARE, A.ne, "NE"),
    E.LT: ("<", COMPARE, A.less, "LT"),
    E.LE: ("<=", COMPARE, A.less_equal, "LE"),
    E.GT: (">", COMPARE, A.greater, "GT"),
    E.GE: (">=", COMPARE, A.greater_equal, "GE"),
    E.And: ("and", AND, A.logical_and, "And"),
    E.Or: ("or", OR, A.logical_or, "Or"),
}
_FUNCTIONS: dict[type, tuple[str, _Build, str]] = {
    E.Min: ("min", A.minimum, "Min"),
    E.Max: ("max", A.maximum, "Max"),
    E.Mod: ("truncmod", A.truncmod, "Mod"),
}
_CONSTANT = (IntImm, FloatImm, E.Broadcast)


def _folds(e: Any, build: _Build) -> bool:
    """Whether the plain operator on these operands would give anything but this node."""
    if e.a is not e.b and not isinstance(e.a, _CONSTANT) and not isinstance(e.b, _CONSTANT):
        return False
    try:
        made: Any = build(e.a, e.b)
    except (ArithmeticError, TypeError, ValueError):
        return True
    return type(made) is not type(e) or made.a is not e.a or made.b is not e.b


@expr_hook(*_OPERATORS)
def _operator(p: Printer, e: E.BinaryOpExpr) -> Expr:
    op, prec, build, constructor = _OPERATORS[type(e)]
    a, b = p.expr(e.a), p.expr(e.b)
    if _folds(e, build) or (op == "/" and not e.dtype.is_float) or (op in ("//", "%") and e.dtype.is_float):
        return t(p, constructor).call(a, b)
    return binary(op, prec, a, b)


@expr_hook(*_FUNCTIONS)
def _function(p: Printer, e: E.BinaryOpExpr) -> Expr:
    name, build, constructor = _FUNCTIONS[type(e)]
    return t(p, constructor if _folds(e, build) else name).call(p.expr(e.a), p.expr(e.b))


@expr_hook(E.Not)
def _not(p: Printer, e: E.Not) -> Expr:
    if isinstance(e.a, IntImm):
        return t(p, "Not").call(p.expr(e.a))
    return unary("not ", NOT, p.expr(e.a))


@expr_hook(E.Select)
def _select(p: Printer, e: E.Select) -> Expr:
    return t(p, "Select").call(p.expr(e.condition), p.expr(e.true_value), p.expr(e.false_value))


def index_docs(p: Printer, indices: tuple[PrimExpr, ...]) -> list[Expr]:
    """Indices of a load or store; a ramp becomes a slice."""
    return [_ramp_slice(p, i) if isinstance(i, E.Ramp) and i.dtype.lanes == i.lanes > 1 else p.expr(i) for i in indices]


def _lanes(p: Printer, lanes: int) -> Expr:
    return p.expr(lane_count(lanes)) if isinstance(lanes, ScalableLanes) else literal(lanes)


def _ramp_slice(p: Printer, ramp: E.Ramp) -> Expr:
    if isinstance(ramp.lanes, ScalableLanes):
        return p.expr(ramp)
    one = isinstance(ramp.stride, IntImm) and ramp.stride.value == 1
    if not isinstance(ramp.stride, IntImm) or ramp.stride.value <= 0:
        return p.expr(ramp)
    stop = ramp.base + ramp.stride * ramp.lanes
    length = extent_of(ramp.base, stop)
    if not isinstance(length, IntImm) or length.value != ramp.stride.value * ramp.lanes:
        return p.expr(ramp)
    return slice_(p.expr(ramp.base), p.expr(stop), None if one else p.expr(ramp.stride)).of(ramp)


@expr_hook(E.BufferLoad)
def _load(p: Printer, e: E.BufferLoad) -> Expr:
    buffer, indices = buffer_doc(p, e.buffer), index_docs(p, e.indices)
    if e.predicate is None:
        return buffer.index(indices)
    return buffer.attr("vload").call(list_([p.expr(i) for i in e.indices]), predicate=p.expr(e.predicate))


@expr_hook(E.ProducerLoad)
def _producer_load(p: Printer, e: E.ProducerLoad) -> Expr:
    return producer_name(p, e.producer).index([p.expr(i) for i in e.indices])


def producer_name(p: Printer, producer: Any) -> Expr:
    doc = p.name(producer)
    if doc is None:
        # What it computes has no syntax in a program of loops.
        value = p.data(producer)
        doc = p.define_free(producer, str(getattr(producer, "name", "tensor")))
        p.free.append(assign(doc, value))
    return doc


@expr_hook(E.Ramp)
def _ramp(p: Printer, e: E.Ramp) -> Expr:
    return t(p, "Ramp").call(p.expr(e.base), p.expr(e.stride), _lanes(p, e.lanes))


@expr_hook(E.Broadcast)
def _broadcast(p: Printer, e: E.Broadcast) -> Expr:
    return t(p, "Broadcast").call(p.expr(e.value), _lanes(p, e.lanes))


@expr_hook(E.Shuffle)
def _shuffle(p: Printer, e: E.Shuffle) -> Expr:
    return t(p, "Shuffle").call(list_([p.expr(v) for v in e.vectors]), list_([p.expr(i) for i in e.indices]))


@expr_hook(E.Let)
def _let(p: Printer, e: E.Let) -> Expr:
    value = p.expr(e.value)
    var = p.expr(e.var)
    return t(p, "Let").call(p.expr(e.body), where=dict_([(var, value)]))


@expr_hook(E.Any_)
def _any(p: Printer, e: E.Any_) -> Expr:
    return t(p, "Any").call()


@expr_hook(E.IterVar)
def _iter_var(p: Printer, axis: E.IterVar) -> Expr:
    dom = text("None") if axis.dom is None else range_doc(p, axis.dom)
    args = [p.expr(axis.var), dom, literal(ITER_TYPE_NAMES[axis.iter_type]), literal(axis.thread_tag)]
    return t(p, "iter_var").call(*args)


ITER_TYPE_NAMES = (
    "DataPar",
    "ThreadIndex",
    "CommReduce",
    "Ordered",
    "Opaque",
    "Unrolled",
    "Vectorized",
    "Parallelized",
    "Tensorized",
)


def range_doc(p: Printer, rng: Range) -> Expr:
    return t(p, "Range").call(p.expr(rng.min), stop_doc(p, rng.min, rng.extent))


@expr_hook(Range)
def _range(p: Printer, rng: Range) -> Expr:
    return range_doc(p, rng)


@expr_hook(E.CommReducer)
def _comm_reducer(p: Printer, r: E.CommReducer) -> Expr:
    with p.scope():
        names = [str(p.define(v, v.name)) for v in (*r.lhs, *r.rhs)]
        results = [p.expr(v) for v in r.result]
    body = results[0] if len(results) == 1 else Expr(("(", *_commas(results), ")"))
    return t(p, "comm_reducer").call(lambda_(names, body), list_([p.expr(v) for v in r.identity_element]))


def _commas(items: list[Expr]) -> list[str | Expr]:
    out: list[str | Expr] = []
    for item in items:
        out += [", ", item] if out else [item]
    return out


@expr_hook(E.Reduce)
def _reduce(p: Printer, e: E.Reduce) -> Expr:
    return t(p, "reduce").call(
        p.expr(e.combiner),
        source=list_([p.expr(v) for v in e.source]),
        init=list_([p.expr(v) for v in e.init]),
        axis=list_([p.expr(v) for v in e.axis]),
        condition=p.expr(e.condition),
        value_index=literal(e.value_index),
    )


def _word(name: str, e: E.Call) -> tuple[str, tuple[str, ...]] | None:
    """The word and the arguments that make this call; None when every word would make another one."""
    word = RENAMED.get(name, name)
    build = intrinsic(word)
    if build is None:
        return None
    leading: tuple[str, ...] = (str(e.dtype),) if word in DTYPE_FIRST else ()
    try:
        made = build(*leading, *[a.value if isinstance(a, E.StringImm) else a for a in e.args])
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return None
    if type(made) is not E.Call or made.op is not e.op or made.dtype is not e.dtype or len(made.args) != len(e.args):
        return None
    same = [
        a is b or (isinstance(a, E.StringImm) and isinstance(b, E.StringImm) and a.value == b.value)
        for a, b in zip(made.args, e.args, strict=True)
    ]
    return (word, leading) if all(same) else None


@expr_hook(E.Call)
def _call(p: Printer, e: E.Call) -> Expr:
    op: BaseExpr = e.op
    args = [p.expr(a) for a in e.args]
    if isinstance(op, GlobalVar):
        callee = p.expr(op)
        return callee.call(*args) if e.dtype == "void" else callee.call(*args, dtype=literal(str(e.dtype)))
    assert isinstance(op, Op), "Call.op is an Op or a GlobalVar"
    name = op.name.removeprefix("tir.")
    if name == "type_annotation" and not args:
        return t(p, "type_annotation").call(literal(str(e.dtype)))
    found = None if op.name == name else _word(name, e)
    if found is not None:
        return t(p, found[0]).call(*[literal(x) for x in found[1]], *args)
    return t(p, "call_intrin").call(literal(str(e.dtype)), literal(op.name), *args)


@expr_hook(BufferRegion)
def _region(p: Printer, r: BufferRegion) -> Expr:
    return buffer_doc(p, r.buffer).index(region_indices(p, r))


@expr_hook(MatchBufferRegion)
def _match_region(p: Printer, m: MatchBufferRegion) -> Expr:
    return Expr((buffer_doc(p, m.buffer), " = ", p.expr(m.source)), 0)


@expr_hook(Target)
def _target(p: Printer, target: Target) -> Expr:
    """`T.target("llvm -keys=cpu")`, as a dictionary where there is a host, which has no place in the string."""
    if target.host is None:
        return t(p, "target").call(literal(str(target)))
    return t(p, "target").call(p.data(target.export()))
