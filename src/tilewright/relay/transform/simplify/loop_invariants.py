"""HoistInvariants: moves computations that do not change between iterations in front of a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir import IntImm, IRModule, Op, TensorType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.analysis.sizes import named_extents, sizes_used
from tilewright.relay.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.functor import ExprMutator, binders, children, post_order, recursive_lets, substitute
from tilewright.relay.rewriting import card_of
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.tir import Any as AnyDim
from tilewright.tir import Var as PrimVar

Names = frozenset[Var]
_NONE: Names = frozenset()


class _Hoist(ExprMutator):
    """Moves loop-invariant values of each recursive function in front of it."""

    def __init__(self, recursive: set[Var]) -> None:
        super().__init__()
        self.recursive = recursive
        self.count = 0

    def visit_let(self, let: Let) -> Expr:
        chain = [(node, self.visit(node.value)) for node in self.chain_of(let)]
        result: Expr = self.visit(chain[-1][0].body)
        for node, value in reversed(chain):
            same = value is node.value and result is node.body
            result = self.memo_map[node] = self.hoisted(node if same else Let(node.var, value, result, node.span))
        return result

    def hoisted(self, loop: Let) -> Expr:
        """A binding. For a loop, its invariants are bound before it."""
        held = self.invariants(loop) if loop.var in self.recursive else []
        if not held:
            return loop
        names: dict[Expr, Expr] = {}
        for e in held:
            names[e] = Var(f"held{self.count}", opened(type_of(e)))
            self.count += 1
        value = with_own_names(loop.value, substitute(loop.value, names))
        body: Expr = Let(loop.var, value, loop.body, loop.span)
        for e, v in reversed(names.items()):
            assert isinstance(v, Var)
            body = Let(v, e, body)
        return body

    def invariants(self, loop: Let) -> list[Expr]:
        """The largest expressions with the same value in every iteration of a loop."""
        f = loop.value
        if not isinstance(f, Function) or f.is_primitive:
            return []
        bound, used, effects = facts(f.body, {loop.var, *f.params})
        found: dict[Expr, None] = {}
        seen: set[Expr] = set()
        stack: list[Expr] = [f.body]
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            if isinstance(e, Call) and e in used and not bound[e] and e not in effects:
                found[e] = None
                continue
            stack += reversed(every_round(e, lambda x: loop.var in bound[x]))
        return list(found) if sizes_are_told(f, found) else []


def with_own_names(old: Expr, new: Expr) -> Expr:
    """The rewritten form of an expression, with new variables in all rebuilt bindings. A graph may still use the old form elsewhere,
    and both share the unchanged parts."""
    kept = set(post_order(old))
    taken = {v for e in kept for v in binders(e)}
    # A new name rebuilds its users, including functions with their parameters. The loop ends when no new part binds an old variable.
    while again := {v for e in post_order(new) if e not in kept for v in binders(e) if v in taken}:
        new = substitute(new, {v: Var(v.name_hint, v.type_annotation, v.span) for v in again})
    return new


def opened(t: Type | None) -> Type | None:
    """The type of a hoisted value with computed extents left open, since the loop may lack the tensors to read them from."""
    if not isinstance(t, TensorType):
        return t
    known = [d if isinstance(d, (int, IntImm, PrimVar)) else AnyDim() for d in t.shape]
    return TensorType(tuple(known), t.dtype)


def sizes_are_told(f: Function, held: Mapping[Expr, None]) -> bool:
    """Whether every size in the types of the remaining loop is an extent of a tensor that the loop still has. Such tensors may be the
    hoisted values instead of their operands."""
    order = [*f.params, *post_order(f.body, lambda e: e in held)]
    told = {d for e in (*order, *held) if isinstance(e, Var) or e in held for d in named_extents(e)}
    return sizes_used(order).keys() <= told


def facts(root: Expr, own: set[Var]) -> tuple[dict[Expr, Names], set[Expr], set[Expr]]:
    """(expression -> the variables of the loop (`own`) or bound inside it on which it depends; the expressions that depend on any variable
    bound outside of themselves; the expressions with effects), for all expressions in a loop's body."""
    order = list(post_order(root))
    inner = set(own)
    for e in order:
        if isinstance(e, Let):
            inner.add(e.var)
        elif isinstance(e, Function):
            inner.update(e.params)
    bound: dict[Expr, Names] = {}
    used: set[Expr] = set()
    effects: set[Expr] = set()
    for e in order:
        parts = children(e)
        if isinstance(e, Var):
            bound[e] = frozenset((e,)) if e in inner else _NONE
            used.add(e)
            continue
        free = _NONE
        for c in parts:
            if bound[c]:
                free |= bound[c]
        if isinstance(e, Let):
            free -= {e.var}
        elif isinstance(e, Function):
            free -= frozenset(e.params)
        bound[e] = free
        if any([c in used for c in parts]):
            used.add(e)
        if _acts(e, inner) or any([c in effects for c in parts]):
            effects.add(e)
    return bound, used, effects


def _acts(e: Expr, inner: set[Var]) -> bool:
    """Whether an expression changes or reads a state, draws a random number, or calls an unknown function. Functions that are bound in
    the expression itself are known."""
    if isinstance(e, (RefCreate, RefRead, RefWrite)):
        return True
    if not isinstance(e, Call):
        return False
    if type(e.op) is Op:
        return not card_of(e).pure
    return isinstance(e.op, GlobalVar) or (isinstance(e.op, Var) and e.op not in inner)


def every_round(e: Expr, again: Callable[[Expr], bool]) -> list[Expr]:
    """The parts of an expression that are evaluated in every iteration that continues the loop. Of an if: the only side that continues."""
    if isinstance(e, Function):
        return []
    if isinstance(e, If):
        sides = [s for s in (e.true_branch, e.false_branch) if again(s)]
        return [e.cond, *(sides if len(sides) == 1 else [])]
    if isinstance(e, Let):
        return [e.value, e.body]
    if isinstance(e, (Call, Tuple, TupleGetItem)):
        return list(children(e))
    return []


def HoistInvariants() -> Pass:
    """Move computations that do not change between iterations of a loop (a function that calls itself) in front of the
    loop. They then run even if the loop has no iteration.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        with deep_recursion():
            loops = {
                g: recursive_lets(f) for g, f in mod.functions.items() if isinstance(f, Function) and not f.is_primitive
            }
            if not any(loops.values()):
                return mod
            typed = infer_module(mod)
            return typed.with_functions(
                {
                    g: _Hoist(loops[g]).rewritten_function(f) if isinstance(f, Function) and loops.get(g) else f
                    for g, f in typed.functions.items()
                }
            )

    return Pass(PassInfo(0, "HoistInvariants"), run)
