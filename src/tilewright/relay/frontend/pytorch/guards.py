"""Conditions of an exported program on extents of its inputs: ranges, divisors, and the guards that PyTorch assumed at
export, as stated rules of a function (`relay.size_rules`)."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.relay.frontend.pytorch import compatibility
from tilewright.relay.frontend.pytorch.value import Argument
from tilewright.relay.op.program.checks import range_text, within_range
from tilewright.relay.size_rules import NUMBER, StatedRule, size_title, stated, variables
from tilewright.tir import EQ, GE, GT, LE, LT, NE, And, FloorDiv, FloorMod, Not, Or, Select, SizeVar
from tilewright.tir import Var as SizeVariable
from tilewright.tir.op import max as larger
from tilewright.tir.op import min as smaller
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    import sympy
    import torch

REMEDY = "The exported program says so: export it again with other bounds (torch.export.Dim) for such sizes"
EXAMPLE = "PyTorch took this as true when it exported the program: export it again with an example of such sizes"
COMPARED: dict[type, Callable[[Any, Any], PrimExpr]] = {
    ast.Eq: EQ, ast.NotEq: NE, ast.Lt: LT, ast.LtE: LE, ast.Gt: GT, ast.GtE: GE,
}  # fmt: skip


def stated_rules(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> list[StatedRule]:
    """The rules of an exported program. names: placeholder -> name of the input."""
    sizes = [((name, axis), e) for name, axis, e in _sizes(program, names)]
    rules = _ranges(program, sizes)
    first: dict[Any, tuple[str, int]] = {}
    same = {place: first.setdefault(e, place) for place, e in sizes}
    for rule in _guards(program, names):
        if not _follows(rule, rules, same):
            rules.append(rule)
    return rules


def _sizes(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> Iterator[tuple[str, int, Any]]:
    """(input, axis, sympy's expression) of each dynamic extent, and of each integer input (axis NUMBER)."""
    for n in program.graph.nodes:
        if n.op == "placeholder" and n.name in names:
            value = n.meta.get("val")
            found = enumerate(value.shape) if hasattr(value, "shape") else [(NUMBER, value)]
            yield from [(names[n.name], axis, d.node.expr) for axis, d in found if hasattr(d, "node")]


def _follows(rule: StatedRule, rules: Sequence[StatedRule], same: Mapping[tuple[str, int], tuple[str, int]]) -> bool:
    """Whether a rule follows from other rules and from the equal extents in `same`."""
    shared: dict[tuple[str, int], SizeVariable] = {}

    def condition(r: StatedRule) -> PrimExpr:
        places = [same.get(p, p) for p in r[3]]
        table = {
            v: shared.setdefault(p, SizeVar(size_title(*p), "int64"))
            for v, p in zip(variables(r[0]), places, strict=True)
        }
        made: PrimExpr = substitute(r[0], table)
        return made

    analyzer = Analyzer()
    with ExitStack() as scopes:
        for other in rules:
            scopes.enter_context(analyzer.constraint_scope(condition(other)))
        return analyzer.can_prove(condition(rule))


def bounds(interval: Any) -> tuple[int | None, int | None]:
    """The minimum and maximum of one of PyTorch's ranges; None for no bound."""

    def number(e: sympy.Expr) -> int | None:
        return int(e) if getattr(e, "is_Integer", False) and abs(int(e)) < (1 << 63) - 2 else None

    return number(interval.lower), number(interval.upper)


def _ranges(program: torch.export.ExportedProgram, sizes: Sequence[tuple[tuple[str, int], Any]]) -> list[StatedRule]:
    """Ranges of extents, and divisors of extents that are multiples of a symbol without an input's extent of its own."""
    rules: list[StatedRule] = []
    seen = set()
    own = {e for _, e in sizes if e.is_Symbol}
    for place, e in sizes:
        if e in seen:
            continue
        seen.add(e)
        name, axis = place
        variable, title = (
            SizeVariable("d", "int64"),
            f"{name if axis == NUMBER else f'dimension {axis} of {name}'} must be",
        )
        low, high = bounds(program.range_constraints[e]) if e in program.range_constraints else (None, None)
        # PyTorch does not specialise on extents of 0 or 1, and writes the minimum 2; programs are correct for smaller ones, too.
        low = None if low is None or low <= 2 and axis != NUMBER else low
        if low is not None or high is not None:
            rules.append(
                stated(within_range(variable, low, high), f"{title} {range_text(low, high)}", REMEDY, {variable: place})
            )
        if not e.is_Symbol and len(e.free_symbols) == 1 and not e.free_symbols & own and e.is_polynomial():
            (symbol,) = e.free_symbols
            by, plus = e.coeff(symbol, 1), e.coeff(symbol, 0)
            if e == by * symbol + plus and by.is_Integer and plus.is_Integer and abs(by) > 1:
                rest = int(plus) % int(by)
                condition = EQ(FloorMod(variable, IntImm("int64", int(by))), IntImm("int64", rest))
                text = f"{title} a multiple of {by}{f' and {rest} more' if rest else ''}"
                rules.append(stated(condition, text, REMEDY, {variable: place}))
    return rules


def _guards(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> list[StatedRule]:
    """The conditions that PyTorch assumed at export."""
    codes = getattr(program, "_guards_code", None) or []
    sources = _sources(program) if codes else {}
    rules: list[StatedRule] = []
    for code in codes:
        extents = _Extents(sources, names)
        tree = extents.visit(ast.parse(code.strip(), mode="eval").body)
        text = ast.unparse(tree)
        try:
            reader = _Condition(extents.places)
            condition = reader.of(tree)
        except _Unreadable as part:
            compatibility.UNCHECKED.seen(f"{text} ({part})")
            continue
        places = {v: p for p, v in reader.extents.items()}
        rules.append(stated(condition, f"the exported program needs {text}", EXAMPLE, places))
    return rules


def _sources(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Source in guards -> placeholder of the input."""
    from torch.utils import _pytree

    users = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    spec = program.call_spec.in_spec
    args, kwargs = _pytree.tree_unflatten(list(range(len(users))), spec)
    called = list(program.module_call_graph[0].signature.forward_arg_names or ())
    named = {**{called[k] if k < len(called) else f"arg{k}": a for k, a in enumerate(args)}, **kwargs}
    found: dict[str, str] = {}
    for path, k in _pytree.tree_flatten_with_path(named)[0]:
        top, rest = path[0].key, _pytree.keystr(path[1:])
        base, _, index = str(top).rpartition("_")
        for source in (f"L[{top!r}]{rest}", f"L['flat_args'][{k}]", f"L[{base!r}][{index}]{rest}"):
            found.setdefault(_normal(source), users[k])
    return found


def _normal(code: str) -> str:
    try:
        return ast.unparse(ast.parse(code, mode="eval"))
    except SyntaxError:
        return code


class _Extents(ast.NodeTransformer):
    """Replaces `L['x'].size()[0]` by `x.shape[0]`."""

    def __init__(self, sources: Mapping[str, str], names: Mapping[str, str]) -> None:
        self.sources, self.names = sources, names
        self.places: dict[str, tuple[str, int]] = {}
        """Name of an extent -> (input, axis)."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[]),
                slice=ast.Constant(value=int(axis)),
            ):
                return self.extent(tensor, axis) or node
        return self.extent(node, NUMBER) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self.extent(node, NUMBER) or self.generic_visit(node)

    def extent(self, source: ast.AST, axis: int) -> ast.AST | None:
        """The name of an input's extent; None for other sources."""
        name = self.names.get(self.sources.get(ast.unparse(source), ""))
        if name is None:
            return None
        title = size_title(name, axis)
        self.places[title] = name, axis
        return ast.Name(title, ast.Load())


class _Unreadable(Exception):
    """A part of a guard that has no translation here."""


class _Condition:
    """Python code over extents as an expression. Numbers are exact fractions (numerator, positive denominator)."""

    def __init__(self, places: Mapping[str, tuple[str, int]]) -> None:
        self.places = places
        self.extents: dict[tuple[str, int], SizeVariable] = {}

    def of(self, e: ast.AST) -> PrimExpr:
        """A comparison, or a logical combination of them."""
        match e:
            case ast.BoolOp(op=op, values=values):
                return functools.reduce(And if isinstance(op, ast.And) else Or, map(self.of, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self.of(operand))
            case ast.Compare(left=left, ops=ops, comparators=rights) if all([type(op) in COMPARED for op in ops]):
                sides = [self.number(s) for s in (left, *rights)]
                turns = zip(ops, sides, sides[1:], strict=False)
                parts = [COMPARED[type(op)](a * q, b * p) for op, (a, p), (b, q) in turns]
                return functools.reduce(And, parts)
        raise _Unreadable(ast.unparse(e))

    def number(self, e: ast.AST) -> tuple[PrimExpr, PrimExpr]:
        """A number as a fraction."""
        match e:
            case ast.Constant(value=int(value)):
                return _whole(value), _whole(1)
            case ast.Constant(value=float(value)) if math.isfinite(value):
                top, bottom = value.as_integer_ratio()
                return _whole(top), _whole(bottom)
            case ast.Name(id=name) if name in self.places:
                return self.extents.setdefault(self.places[name], SizeVariable("d", "int64")), _whole(1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                a, p = self.number(operand)
                return _whole(0) - a, p
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(e, op, self.number(left), self.number(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                (a, p), (b, q) = self.number(body), self.number(orelse)
                return Select(self.of(test), a * q, b * p), p * q
            case ast.Call(func=func, args=args):
                return self.call(e, ast.unparse(func).rpartition(".")[2], [self.number(a) for a in args])
        raise _Unreadable(ast.unparse(e))

    def binary(self, e: ast.AST, op: ast.operator, x: Any, y: Any) -> tuple[PrimExpr, PrimExpr]:
        """An operation of two fractions."""
        (a, p), (b, q) = x, y
        match op:
            case ast.Add():
                return a * q + b * p, p * q
            case ast.Sub():
                return a * q - b * p, p * q
            case ast.Mult():
                return a * b, p * q
            case ast.Div():
                return a * q, p * b
            case ast.FloorDiv():
                return FloorDiv(a * q, p * b), _whole(1)
            case ast.Mod():
                return FloorMod(a * q, b * p), p * q
            case ast.Pow() if isinstance(b, IntImm) and isinstance(q, IntImm) and q.value == 1 and 0 < b.value < 9:
                top, bottom = a, p
                for _ in range(b.value - 1):
                    top, bottom = top * a, bottom * p
                return top, bottom
        raise _Unreadable(ast.unparse(e))

    def call(self, e: ast.AST, name: str, args: Sequence[Argument]) -> tuple[PrimExpr, PrimExpr]:
        """A function of fractions. Extents are not negative, so truncation is the same as floor."""
        (a, p), one = args[0], _whole(1)
        match name:
            case "sym_float" | "float":
                return a, p
            case "trunc" | "floor" | "int" | "sym_int":
                return FloorDiv(a, p), one
            case "ceil":
                return FloorDiv(a + p - 1, p), one
            case "max" | "min" | "sym_max" | "sym_min":
                for b, q in args[1:]:
                    a, p = (larger if "max" in name else smaller)(a * q, b * p), p * q
                return a, p
        raise _Unreadable(ast.unparse(e))


def _whole(value: int) -> IntImm:
    return IntImm("int64", value)
