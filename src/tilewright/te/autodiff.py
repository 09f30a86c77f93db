"""Reverse-mode differentiation of tensor expressions. The adjoints of computes are computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, pi, sqrt
from typing import Any

from tilewright.arith import Analyzer, detect_linear_equation
from tilewright.ir import FloatImm, IntImm, PrimExpr, Range, as_prim_expr
from tilewright.node import any_node, structural_equal
from tilewright.support.errors import TVMError
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.primfunc import post_order
from tilewright.te.tensor import Tensor
from tilewright.tir import op as intrin
from tilewright.tir.arithmetic import cast_to, const
from tilewright.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    Call,
    Cast,
    CommReducer,
    Div,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Not,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
    Var,
)
from tilewright.tir.stmt_functor import substitute

Conditions = tuple[PrimExpr, ...]


class _Term:
    """One use of an input: head times derivative under `conditions`, over the axes in `vars`."""

    def __init__(self, load: ProducerLoad, value: PrimExpr, conditions: Conditions) -> None:
        self.load, self.value, self.conditions = load, value, conditions


def gradient(output: Tensor, inputs: Tensor | Sequence[Tensor], head: Tensor | None = None) -> list[Tensor]:
    """The adjoints of `inputs`: sums of `head` times the derivative over the elements of `output`.

    head: shape (prefix..., *output.shape); the results have shape (prefix..., *input.shape). Without a head, the
    results are Jacobians of shape (*output.shape, *input.shape). An input on which the output does not depend gets
    zeros. At points without a derivative (max of equal values, abs at 0) a one-sided derivative is used; all equal
    maxima of a reduction count. Reductions by combiners other than sum, maximum and minimum use the Jacobian of their
    result. Raises TVMError for operations without a derivative.
    """
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    prefix = _prefix(output, head)
    needed = _depending(output.op, {t.op for t in wanted})
    adjoints: dict[Tensor, list[Tensor]] = {output: [head if head is not None else _identity(output)]}
    for op in reversed(post_order([output.op])):
        if op not in needed:
            continue
        parts = [(t, adjoints[t]) for t in op.outputs if t in adjoints]
        inner = [t for t in op.input_tensors if t.op in needed or t in wanted]
        if not parts or not inner:
            continue
        if not isinstance(op, ComputeOp) or len(op.body) != 1:
            raise TVMError(
                f"te.gradient: operation {op.name} lies between the output and an input, so it must be a compute with"
                f" one result, but is a {type(op).__name__} with {op.num_outputs}"
            )
        total = _total(op.output(0), parts[0][1], prefix)
        adjoints[op.output(0)] = [total]
        for term in _Backward(op, total, prefix).terms(set(inner)):
            adjoints.setdefault(term[0], []).append(term[1])
    return [_total(t, adjoints.get(t, []), prefix) for t in wanted]


def _prefix(output: Tensor, head: Tensor | None) -> tuple[PrimExpr, ...]:
    if head is None:
        return output.shape
    count = len(head.shape) - len(output.shape)
    if count < 0 or not structural_equal(head.shape[count:], output.shape):
        raise ValueError(
            f"te.gradient: the shape of head must end with that of the output, {list(output.shape)}, but is"
            f" {list(head.shape)}"
        )
    return head.shape[:count]


def _depending(output: Operation, sources: set[Operation]) -> set[Operation]:
    """The operations that the output needs and that need a source, including the sources."""
    found: set[Operation] = set()
    for op in post_order([output]):
        if op in sources or any([t.op in found for t in op.input_tensors]):
            found.add(op)
    return found


def _axes(shape: Sequence[PrimExpr], name: str) -> tuple[IterVar, ...]:
    zero = [as_prim_expr(0, dtype=d.dtype) for d in shape]
    return tuple(
        [
            IterVar(Range.from_min_extent(z, d), Var(f"{name}{i}", d.dtype), IterVar.DataPar)
            for i, (z, d) in enumerate(zip(zero, shape, strict=True))
        ]
    )


def _compute(name: str, axes: Sequence[IterVar], body: PrimExpr) -> Tensor:
    return ComputeOp(name, "", {}, tuple(axes), (body,)).output(0)


def _identity(output: Tensor) -> Tensor:
    rows, columns = _axes(output.shape, "p"), _axes(output.shape, "i")
    same = [EQ(a.var, b.var) for a, b in zip(rows, columns, strict=True)]
    one, zero = const(1, output.dtype), const(0, output.dtype)
    return _compute("identity", (*rows, *columns), Select(intrin.all(*same), one, zero) if same else one)


def _total(tensor: Tensor, parts: list[Tensor], prefix: tuple[PrimExpr, ...]) -> Tensor:
    """The sum of the adjoints from all users of a tensor; zeros without users."""
    if len(parts) == 1:
        return parts[0]
    axes = (*_axes(prefix, "p"), *_axes(tensor.shape, "i"))
    where = [a.var for a in axes]
    body = _sum_of([p(*where) for p in parts], tensor)
    return _compute(f"{tensor.op.name}.grad", axes, body)


def _sum_of(values: Sequence[PrimExpr], like: Tensor) -> PrimExpr:
    total = const(0, like.dtype)
    for i, v in enumerate(values):
        total = Add(total, v) if i else v
    return total


def _unary(op: str, x: PrimExpr) -> PrimExpr | None:
    """The derivative of an intrinsic at x."""
    f = _DERIVATIVES.get(op)
    return None if f is None else f(x)


_DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "exp": intrin.exp,
    "exp2": lambda x: intrin.exp2(x) * log(2.0),
    "exp10": lambda x: intrin.exp10(x) * log(10.0),
    "log": lambda x: const(1, x.dtype) / x,
    "log2": lambda x: const(1 / log(2.0), x.dtype) / x,
    "log10": lambda x: const(1 / log(10.0), x.dtype) / x,
    "log1p": lambda x: const(1, x.dtype) / (x + const(1, x.dtype)),
    "sqrt": lambda x: const(0.5, x.dtype) / intrin.sqrt(x),
    "rsqrt": lambda x: const(-0.5, x.dtype) * intrin.rsqrt(x) / x,
    "tanh": lambda x: const(1, x.dtype) - intrin.tanh(x) * intrin.tanh(x),
    "sigmoid": lambda x: intrin.sigmoid(x) * (const(1, x.dtype) - intrin.sigmoid(x)),
    "sin": intrin.cos,
    "cos": lambda x: const(-1, x.dtype) * intrin.sin(x),
    "tan": lambda x: const(1, x.dtype) + intrin.tan(x) * intrin.tan(x),
    "sinh": intrin.cosh,
    "cosh": intrin.sinh,
    "asin": lambda x: intrin.rsqrt(const(1, x.dtype) - x * x),
    "acos": lambda x: const(-1, x.dtype) * intrin.rsqrt(const(1, x.dtype) - x * x),
    "atan": lambda x: const(1, x.dtype) / (const(1, x.dtype) + x * x),
    "erf": lambda x: const(2 / sqrt(pi), x.dtype) * intrin.exp(const(-1, x.dtype) * x * x),
    "asinh": lambda x: intrin.rsqrt(x * x + const(1, x.dtype)),
    "acosh": lambda x: intrin.rsqrt(x * x - const(1, x.dtype)),
    "atanh": lambda x: const(1, x.dtype) / (const(1, x.dtype) - x * x),
    "fabs": lambda x: Select(GE(x, const(0, x.dtype)), const(1, x.dtype), const(-1, x.dtype)),
}
_STEPS = frozenset({"floor", "ceil", "round", "trunc", "nearbyint", "rint"})
_PAIRS: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    # (value, x, y) -> the derivatives by x and by y.
    "pow": lambda f, x, y: (y * intrin.power(x, y - const(1, y.dtype)), f * intrin.log(x)),
    "atan2": lambda f, y, x: (x / (x * x + y * y), const(-1, x.dtype) * y / (x * x + y * y)),
    "hypot": lambda f, x, y: (x / f, y / f),
    "fmod": lambda f, x, y: (const(1, x.dtype), const(-1, x.dtype) * intrin.trunc(x / y)),
    "copysign": lambda f, x, y: (
        Select(GE(x * y, const(0, x.dtype)), const(1, x.dtype), const(-1, x.dtype)),
        const(0, x.dtype),
    ),
}
"""Derivatives of intrinsics of two arguments."""


class _Backward:
    """The adjoints of the tensors that one compute reads, given its own adjoint."""

    def __init__(self, op: ComputeOp, adjoint: Tensor, prefix: tuple[PrimExpr, ...]) -> None:
        self.op, self.adjoint, self.prefix = op, adjoint, prefix
        self.found: list[_Term] = []
        self.wanted: set[Tensor] = set()
        self.variable: Var | None = None
        self.slopes: list[tuple[PrimExpr, Conditions]] = []

    def terms(self, wanted: set[Tensor]) -> list[tuple[Tensor, Tensor]]:
        self.wanted = wanted
        op = self.op
        rows = _axes(self.prefix, "p")
        head: PrimExpr = self.adjoint(*[a.var for a in (*rows, *op.axis)])
        body = op.body[0]
        if not isinstance(body, Reduce):
            self.walk(body, head, ())
            return [self.solved(t, rows, op.axis) for t in self.found]
        starts = body.init or ()
        if not _is_simple(body):
            return self._general(body, rows)
        self.walk(body.source[0], *self._through(body, head))
        inside = [self.solved(t, rows, (*op.axis, *body.axis)) for t in self.found]
        self.found = []
        for start in starts:
            self.walk(start, head, ())
        return inside + [self.solved(t, rows, op.axis) for t in self.found]

    def _through(self, body: Reduce, head: PrimExpr) -> tuple[PrimExpr, Conditions]:
        """The adjoint of the source of a sum, maximum or minimum, and the condition under which it holds."""
        always = isinstance(body.condition, IntImm) and bool(body.condition.value)
        conditions = () if always else (body.condition,)
        if not isinstance(body.combiner.result[0], Add):
            own = self.op.output(0)(*[a.var for a in self.op.axis])
            conditions = (*conditions, EQ(body.source[0], own))
        return head, conditions

    def _general(self, body: Reduce, rows: tuple[IterVar, ...]) -> list[tuple[Tensor, Tensor]]:
        """Any combiner: reduce the derivative by one element of an input together with the value.

        With the combiner f, the pairs (dx, x) and (dy, y) combine to (df/dx dx + df/dy dy, f(x, y)).
        """
        op, combiner = self.op, body.combiner
        if any([self._uses_wanted(e) for e in body.init]):
            raise TVMError(f"te.gradient: the start of the reduction of compute {op.name} must not depend on an input")
        value, result = body.source[0], combiner.result[0]
        x, y = combiner.lhs[0], combiner.rhs[0]
        dx, dy = Var("dx", x.dtype), Var("dy", y.dtype)
        slope = _slope(op, result, x) * dx + _slope(op, result, y) * dy
        zero = const(0, value.dtype)
        both = CommReducer((dx, x), (dy, y), (slope, result), (zero, combiner.identity_element[0]))
        self.walk(value, const(1, value.dtype), ())
        out: list[tuple[Tensor, Tensor]] = []
        for tensor in dict.fromkeys(t.load.producer for t in self.found):
            columns = _axes(tensor.shape, "j")
            parts: PrimExpr = zero
            for term in self.found:
                if term.load.producer == tensor:
                    here = [EQ(i, c.var) for i, c in zip(term.load.indices, columns, strict=True)]
                    part = term.value
                    for condition in [*term.conditions[::-1], intrin.all(*here) if here else const(True)]:
                        part = intrin.if_then_else(condition, part, zero)
                    parts = parts + part
            init = (zero, *body.init) if body.init else ()
            axes = (*[a.replace(var=Var(a.var.name, a.var.dtype)) for a in op.axis], *columns)
            inner = [IterVar(a.dom, Var(a.var.name, a.var.dtype), IterVar.CommReduce) for a in body.axis]
            env: dict[Var, PrimExpr] = {
                old.var: new.var
                for old, new in zip((*op.axis, *body.axis), (*axes[: len(op.axis)], *inner), strict=True)
            }
            pair = Reduce(
                both,
                (substitute(parts, env), substitute(value, env)),
                tuple(inner),
                substitute(body.condition, env),
                0,
                tuple([substitute(e, env) for e in init]),
            )
            name = f"{tensor.op.name}.{op.name}.jacobian"
            jacobian = ComputeOp(name, "", {}, axes, (pair, pair.replace(value_index=1))).output(0)
            places = _axes(tensor.shape, "j")
            sums = [IterVar(a.dom, Var(a.var.name, a.var.dtype), IterVar.CommReduce) for a in op.axis]
            at = [a.var for a in sums]
            total = self.adjoint(*[a.var for a in rows], *at) * jacobian(*at, *[a.var for a in places])
            result_value = intrin.sum(total, axis=sums) if sums else total
            out.append((tensor, _compute(f"{tensor.op.name}.{op.name}.grad", (*rows, *places), result_value)))
        return out

    def walk(self, e: PrimExpr, head: PrimExpr, where: Conditions) -> None:
        """Collect every use of a wanted tensor in `e`, whose adjoint is `head`."""
        if isinstance(e, ProducerLoad):
            if e.producer in self.wanted:
                self.found.append(_Term(e, head, where))
        elif e is self.variable:
            self.slopes.append((head, where))
        elif not e.dtype.is_float or isinstance(e, (FloatImm, Var)):
            return
        elif isinstance(e, (Add, Sub)):
            self.walk(e.a, head, where)
            self.walk(e.b, head if isinstance(e, Add) else const(-1, e.dtype) * head, where)
        elif isinstance(e, Mul):
            self.walk(e.a, head * e.b, where)
            self.walk(e.b, head * e.a, where)
        elif isinstance(e, Div):
            self.walk(e.a, head / e.b, where)
            self.walk(e.b, const(-1, e.dtype) * head * e.a / (e.b * e.b), where)
        elif isinstance(e, (Max, Min)):
            first = GE(e.a, e.b) if isinstance(e, Max) else LE(e.a, e.b)
            second = LT(e.a, e.b) if isinstance(e, Max) else GT(e.a, e.b)
            self.walk(e.a, head, (*where, first))
            self.walk(e.b, head, (*where, second))
        elif isinstance(e, Select):
            self.walk(e.true_value, head, (*where, e.condition))
            self.walk(e.false_value, head, (*where, Not(e.condition)))
        elif isinstance(e, Cast):
            if e.value.dtype.is_float:
                self.walk(e.value, cast_to(head, e.value.dtype), where)
        elif isinstance(e, Let):
            self.walk(substitute(e.body, {e.var: e.value}), head, where)
        elif isinstance(e, Call):
            self._call(e, head, where)
        else:
            self._none(e)

    def _call(self, e: Call, head: PrimExpr, where: Conditions) -> None:
        name = getattr(e.op, "name", "").removeprefix("tir.")
        if name == "if_then_else":
            self.walk(e.args[1], head, (*where, e.args[0]))
            self.walk(e.args[2], head, (*where, Not(e.args[0])))
        elif name == "likely":
            self.walk(e.args[0], head, where)
        elif name in _PAIRS:
            for x, slope in zip(e.args, _PAIRS[name](e, *e.args), strict=True):
                self.walk(x, head * slope, where)
        elif name not in _STEPS:
            derivative = _unary(name, e.args[0]) if len(e.args) == 1 else None
            if derivative is None:
                self._none(e)
            else:
                self.walk(e.args[0], head * derivative, where)

    def _none(self, e: PrimExpr) -> None:
        if self._uses_wanted(e):
            raise TVMError(f"te.gradient: no derivative is known for {e} in compute {self.op.name}")

    def _uses_wanted(self, e: PrimExpr) -> bool:
        return any_node(e, lambda x: isinstance(x, ProducerLoad) and x.producer in self.wanted)

    def solved(self, term: _Term, rows: tuple[IterVar, ...], axes: tuple[IterVar, ...]) -> tuple[Tensor, Tensor]:
        """The term as a function of the input's indices. Axes that the indices determine are replaced; the sum runs
        over the others.
        """
        tensor: Tensor = term.load.producer
        columns = _axes(tensor.shape, "j")
        analyzer = Analyzer()
        for axis in (*axes, *columns, *rows):
            assert axis.dom is not None
            analyzer.bind(axis.var, axis.dom)
        free = {a.var: a for a in axes}
        env: dict[Var, PrimExpr] = {}
        where = list(term.conditions)
        equations = [(i, c.var) for i, c in zip(term.load.indices, columns, strict=True)]
        # Plain indices first: what they fix makes the others simpler.
        for index, column in sorted(equations, key=lambda x: not isinstance(x[0], Var)):
            now = analyzer.simplify(substitute(index, env))
            solution = _solve(now, column, free)
            if solution is None:
                if not analyzer.can_prove_equal(now, column):
                    where.append(EQ(cast_to(now, column.dtype), column))
                continue
            var, value = solution
            value = analyzer.simplify(value)
            dom = free.pop(var).dom
            assert dom is not None
            env = {v: analyzer.simplify(substitute(x, {var: value})) for v, x in env.items()}
            env[var] = value
            for bound in (GE(value, dom.min), LT(value, dom.min + dom.extent)):
                if not analyzer.can_prove(bound):
                    where.append(bound)
        return tensor, self._finish(term, where, env, list(free.values()), (*rows, *columns))

    def _finish(
        self,
        term: _Term,
        where: list[PrimExpr],
        env: dict[Var, PrimExpr],
        left: list[IterVar],
        axes: tuple[IterVar, ...],
    ) -> Tensor:
        sums = [IterVar(a.dom, Var(a.var.name, a.var.dtype), IterVar.CommReduce) for a in left]
        renamed: dict[Var, PrimExpr] = {a.var: b.var for a, b in zip(left, sums, strict=True)}
        env = {v: substitute(x, renamed) for v, x in env.items()} | renamed
        value = substitute(term.value, env)
        # Bounds are tested before conditions that load, so that those are never out of bounds.
        for condition in [*where[: len(term.conditions)][::-1], *where[len(term.conditions) :]]:
            value = intrin.if_then_else(substitute(condition, env), value, const(0, value.dtype))
        if sums:
            value = intrin.sum(value, axis=sums)
        return _compute(f"{term.load.producer.op.name}.{self.op.name}.grad", axes, value)


def _is_simple(body: Reduce) -> bool:
    """Whether a reduction is a sum, maximum or minimum. Their adjoint needs no second reduction."""
    result = body.combiner.result[0]
    both = {body.combiner.lhs[0], body.combiner.rhs[0]}
    if isinstance(result, Select) and isinstance(result.condition, (GT, LT)):
        # The larger or the smaller, written as a choice.
        compared = {result.condition.a, result.condition.b}
        return {result.true_value, result.false_value} == both == compared
    return isinstance(result, (Add, Max, Min)) and {result.a, result.b} == both


def _slope(op: ComputeOp, e: PrimExpr, variable: Var) -> PrimExpr:
    """The derivative of an expression by a variable."""
    backward = _Backward(op, op.output(0), ())
    backward.variable = variable
    backward.walk(e, const(1, e.dtype), ())
    zero = const(0, e.dtype)
    total: PrimExpr = zero
    for head, where in backward.slopes:
        part = head
        for condition in reversed(where):
            part = Select(condition, part, zero)
        total = total + part
    return total


def _solve(index: PrimExpr, column: Var, free: dict[Var, IterVar]) -> tuple[Var, PrimExpr] | None:
    """A free axis and its value where `index` equals `column`, if the index grows by one with the axis."""
    for var in free:
        parts = detect_linear_equation(index, [var])
        if len(parts) == 2 and isinstance(parts[0], IntImm) and abs(parts[0].value) == 1:
            rest = parts[1]
            return var, (column - rest if parts[0].value == 1 else rest - column)
    return None
