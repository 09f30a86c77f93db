"""Dynamic sizes: they get names where values are bound, and are computed in registers where they are needed.

The type rules of the operators are the shape functions. In a function every dynamic dimension gets a variable, and the virtual machine
computes the extents of results that the rules express in these variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, TensorType, TupleType, Type
from tilewright.node import structural_equal, structural_hash
from tilewright.relay.backend.vm.code import INT_OPS, VMFunction
from tilewright.relay.cards.card import OpCard
from tilewright.relay.cards.open_attributes import has_sizes, map_sizes
from tilewright.relay.cards.relations import assumptions, is_any, nonnegative
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import ExprMutator, post_order, substitute
from tilewright.relay.typing.infer_type import infer_types
from tilewright.support.errors import InternalError
from tilewright.tir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    SizeVar,
    Sub,
)
from tilewright.tir import Call as TirCall
from tilewright.tir import Var as SizeName
from tilewright.tir.expr import BinaryOpExpr
from tilewright.tir.stmt_functor import substitute as substitute_dims

_BINARY: dict[type[BinaryOpExpr], str] = {
    Add: "add",
    Sub: "sub",
    Mul: "mul",
    FloorDiv: "floordiv",
    FloorMod: "floormod",
    Min: "min",
    Max: "max",
    EQ: "eq",
    LT: "lt",
    And: "min",
    Or: "max",
}


def is_static(t: Type) -> bool:
    """Whether all dimensions of all tensors of a type are static."""
    if isinstance(t, TupleType):
        return all([is_static(f) for f in t.fields])
    return not isinstance(t, TensorType) or all([isinstance(d, IntImm) for d in t.shape])


def named(t: Type, hint: str) -> Type:
    """The type with a new variable for each unknown dimension."""
    if isinstance(t, TupleType) and not is_static(t):
        return TupleType(tuple([named(f, f"{hint}_{i}") for i, f in enumerate(t.fields)]))
    if not isinstance(t, TensorType) or not any([is_any(d) for d in t.shape]):
        return t
    shape = [SizeVar(f"{hint}_{i}", "int64") if is_any(d) else d for i, d in enumerate(t.shape)]
    return TensorType(tuple(shape), t.dtype)


class DynamicCall:
    """A call of a primitive function in which sizes are variables.

    func: the function in terms of its own variables `sizes`, so that calls that differ only in names share a kernel; values: the caller's
    values of them; result: the type of the result in terms of the caller's dimensions; assumed: pairs of these that the operators require
    to be equal, with the rule in words."""

    __slots__ = ("_known", "assumed", "func", "result", "sizes", "values")

    def __init__(self, func: Function, args: Sequence[Type]) -> None:
        self.sizes: list[SizeName] = []
        self.values: list[PrimExpr] = []
        self._known: dict[int, list[int]] = {}
        params = [Var(p.name_hint, self._own(t)) for p, t in zip(func.params, args, strict=True)]
        body = self._own_attributes(substitute(func.body, dict(zip(func.params, params, strict=True))))
        made = Function(tuple(params), body, None, (), func.attrs)
        with assumptions() as assumed:
            infer_types(made)
        self.func = made
        table = dict(zip(self.sizes, self.values, strict=True))
        self.result = _in_terms_of(made.body.checked_type, table)
        self.assumed = [
            (_dim_in_terms_of(a.equal[0], table), _dim_in_terms_of(a.equal[1], table), a.text(table)) for a in assumed
        ]

    def _own_attributes(self, body: Expr) -> Expr:
        """The body with the function's own sizes in the attributes of operators."""
        found: dict[Expr, OpCard] = {}
        for e in post_order(body):
            if isinstance(e, Call) and isinstance(e.attrs, OpCard) and has_sizes(e.attrs):
                found[e] = map_sizes(e.attrs, self._size)
        return rewritten(body, found) if found else body

    def _own(self, t: Type) -> Type:
        if isinstance(t, TupleType):
            return TupleType(tuple([self._own(f) for f in t.fields]))
        assert isinstance(t, TensorType)
        return TensorType(tuple([d if isinstance(d, IntImm) else self._size(d) for d in t.shape]), t.dtype)

    def _size(self, d: PrimExpr) -> SizeName:
        alike = self._known.setdefault(structural_hash(d, True), [])
        for i in alike:
            if structural_equal(self.values[i], d):
                return self.sizes[i]
        alike.append(len(self.sizes))
        # A value from a tensor may be negative.
        kind = SizeVar if nonnegative(d) else SizeName
        self.sizes.append(kind(f"d{len(self.sizes)}", "int64"))
        self.values.append(d)
        return self.sizes[-1]


class _Attributes(ExprMutator):
    """Replaces the attributes of calls."""

    def __init__(self, attrs: Mapping[Expr, OpCard]) -> None:
        super().__init__()
        self.attrs = attrs

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if call not in self.attrs:
            return new
        return Call(new.op, new.args, self.attrs[call], new.given_types, new.span)


def rewritten(body: Expr, attrs: Mapping[Expr, OpCard]) -> Expr:
    """The expression with other attributes of some calls."""
    return _Attributes(attrs).visit(body)


def _in_terms_of(t: Type, table: Mapping[SizeName, PrimExpr]) -> Type:
    if isinstance(t, TupleType):
        return TupleType(tuple([_in_terms_of(f, table) for f in t.fields]))
    if not isinstance(t, TensorType):
        return t
    return TensorType(tuple([_dim_in_terms_of(d, table) for d in t.shape]), t.dtype)


def _dim_in_terms_of(d: PrimExpr, table: Mapping[SizeName, PrimExpr]) -> PrimExpr:
    return d if isinstance(d, IntImm) else Analyzer().simplify(substitute_dims(d, dict(table)))


class Sizes:
    """The registers that hold sizes at a place in a function. `inner()` is a copy for a branch."""

    def __init__(self, out: VMFunction, outer: Sizes | None = None) -> None:
        self.out = out
        self.sources: dict[SizeName, tuple[int, int]] = dict(outer.sources) if outer else {}
        self.registers: dict[SizeName, int] = dict(outer.registers) if outer else {}
        self.numbers: dict[int, int] = dict(outer.numbers) if outer else {}
        self.results: dict[tuple[int, ...], int] = dict(outer.results) if outer else {}

    def bind(self, register: int, t: Type | None) -> None:
        """Records that the variables in a tensor's dimensions can be read from it."""
        if isinstance(t, TensorType):
            for axis, d in enumerate(t.shape):
                if isinstance(d, SizeName) and d not in self.sources and d not in self.registers:
                    self.sources[d] = (register, axis)

    def register(self, d: PrimExpr | int) -> int:
        """The register of a dimension. It is computed here unless it is known already."""
        if isinstance(d, (int, IntImm)):
            return self.number(int(d))
        if isinstance(d, SizeName):
            if d not in self.registers:
                if d not in self.sources:
                    raise InternalError(f"{self.out.name}: the size {d.name} is used before a tensor that has it")
                made = self.out.register()
                source, axis = self.sources[d]
                self.out.emit("shape_of", made, source, axis)
                self.registers[d] = made
            return self.registers[d]
        return self.compute(d)

    def number(self, value: int) -> int:
        if value not in self.numbers:
            made = self.numbers[value] = self.out.register()
            low, high = value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
            self.out.emit("load_int", made, *[w - (1 << 32) if w >> 31 else w for w in (low, high)])
        return self.numbers[value]

    def compute(self, e: PrimExpr) -> int:
        """The register of an expression over sizes."""
        if isinstance(e, Cast):
            return self.register(e.value)
        if isinstance(e, BinaryOpExpr) and type(e) in _BINARY:
            return self.operation(_BINARY[type(e)], self.register(e.a), self.register(e.b))
        if isinstance(e, (GT, LE, GE)):
            # a > b is b < a; a >= b is not (a < b).
            a, b = (e.a, e.b) if isinstance(e, GE) else (e.b, e.a)
            less = self.operation("lt", self.register(a), self.register(b))
            return less if isinstance(e, GT) else self.negated(less)
        if isinstance(e, Not):
            return self.negated(self.register(e.a))
        if isinstance(e, NE):
            return self.negated(self.operation("eq", self.register(e.a), self.register(e.b)))
        if isinstance(e, Select):
            return self.operation("select", *map(self.register, (e.condition, e.true_value, e.false_value)))
        if isinstance(e, TirCall) and getattr(e.op, "name", "") == "tir.if_then_else":
            return self.operation("select", *map(self.register, e.args))
        raise InternalError(f"{self.out.name}: a size cannot be computed at run time: {e}")

    def negated(self, register: int) -> int:
        return self.operation("select", register, self.number(0), self.number(1))

    def operation(self, name: str, *registers: int) -> int:
        """The register of an operation on registers that hold sizes."""
        key = (INT_OPS.index(name), *registers)
        if key not in self.results:
            made = self.results[key] = self.out.register()
            self.out.emit("int", made, *key, *([registers[0]] * (3 - len(registers))))
        return self.results[key]

    def need(self, condition: PrimExpr, message: int, numbers: Sequence[PrimExpr]) -> None:
        """Emits a check of a condition. Its message has the numbers."""
        self.out.emit("need", self.register(condition), message, [self.register(n) for n in numbers])
