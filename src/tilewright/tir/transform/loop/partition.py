"""LoopPartition: splits loops where their conditions become certain, so that the main part runs without tests.

A condition that is marked likely (the predicate of a split that does not divide) is examined from the outermost loop
inwards:

- If it bounds the loop variable, the loop becomes up to three loops: before, within and after the range in which the
  condition holds for all inner iterations. The middle one has no condition.
- Otherwise, if it contains the loop variable (for example in a division), the body becomes two versions. A test of
  the conditions for all inner iterations selects between them.

The inner loops treat the remaining conditions in the same way. Likely conditions in the value of a store (if_then_else,
Select) are treated, too: the version in which the condition holds has only the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.intervals import Evaluator
from tilewright.arith.linear import Lin, OutOfRange, combine, mentions, scale, shift
from tilewright.ir import IntImm, IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, on
from tilewright.tir.arithmetic import conjuncts, logical_and, logical_not, maximum, minimum
from tilewright.tir.expr import Call, IterVar, Select, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import likely
from tilewright.tir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, LetStmt, Stmt, stmt_seq
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import Invariants, call_name, prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa

MAX_COPIES = 32
"""The largest number of additional copies of loop bodies in one function."""


class _Conditions(Visitor):
    """Collects likely-conditions of a statement, with the loops between it and them."""

    def __init__(self, choices: dict[int, list[Call]]) -> None:
        self.choices = choices
        self.loops: list[For] = []
        self.bound: list[Var] = []
        self.found: list[tuple[Call, tuple[For, ...], bool]] = []
        self.threads: dict[Var, Range] = {}

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.threads.update(_thread_of(s))
        launched = s.attr_key == "thread_extent" and isinstance(s.node, IterVar) and s.node.var not in self.threads
        if launched:
            self.bound.append(s.node.var)
        self.visit(s.body)
        if launched:
            self.bound.pop()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    @on(For)
    def _for(self, s: For) -> None:
        self.loops.append(s)
        self.visit(s.body)
        self.loops.pop()

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self.bound.append(s.var)
        self.visit(s.body)
        self.bound.pop()

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        for c in self.choices.get(id(s.value), ()):
            self.found.append((c, tuple(self.loops), bool(self.bound)))

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        for c in conjuncts(s.condition):
            if call_name(c) == "likely":
                self.found.append((c, tuple(self.loops), bool(self.bound)))  # type: ignore[arg-type]
        self.visit(s.then_case)
        if s.else_case is not None:
            self.visit(s.else_case)


def _thread_of(s: AttrStmt) -> dict[Var, Range]:
    """The thread axis that a statement launches, if the threads of a block differ in it."""
    if s.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(s.node, IterVar):
        return {}
    if s.node.thread_tag.startswith("blockIdx"):
        return {}
    return {s.node.var: Range.from_min_extent(IntImm(s.node.var.dtype, 0), s.value)}


class _Choices(Visitor):
    """Collects the likely-conditions in the values of stores, by value."""

    def __init__(self) -> None:
        self.by_value: dict[int, list[Call]] = {}
        self._found: list[Call] = []

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._found = []
        self.visit(s.value)
        if self._found:
            self.by_value[id(s.value)] = self._found

    @on(Call)
    def _call(self, e: Call) -> None:
        if call_name(e) == "if_then_else":
            self._condition(e.args[0])
        self.visit_children(e)

    @on(Select)
    def _select(self, e: Select) -> None:
        self._condition(e.condition)
        self.visit_children(e)

    def _condition(self, condition: PrimExpr) -> None:
        self._found += [c for c in conjuncts(condition) if isinstance(c, Call) and call_name(c) == "likely"]


class _Chosen(Mutator):
    """Removes likely-conditions that are certain (given by identity), or with None turns all of them into plain conditions."""

    def __init__(self, certain: set[int] | None) -> None:
        self.certain = certain

    @on(Call)
    def _call(self, e: Call) -> Any:
        if call_name(e) == "likely" and self.certain is None:
            return e.args[0]
        new: Call = self.rebuild(e)
        if call_name(e) != "if_then_else":
            return new
        return self._choice(e.args[0], new, new.args[1], lambda c: Call(new.dtype, new.op, (c, *new.args[1:])))

    @on(Select)
    def _select(self, e: Select) -> PrimExpr:
        new = self.rebuild(e)
        return self._choice(e.condition, new, new.true_value, lambda c: Select(c, new.true_value, new.false_value))

    def _choice(self, condition: PrimExpr, new: PrimExpr, within: PrimExpr, other: Callable[[Any], Any]) -> PrimExpr:
        parts = list(conjuncts(condition))
        kept = [c for c in parts if self.certain is None or id(c) not in self.certain]
        if len(kept) == len(parts):
            return new
        return other(_conjunction(kept)) if kept else within


def _conjunction(parts: list[PrimExpr]) -> PrimExpr:
    condition = parts[0]
    for c in parts[1:]:
        condition = logical_and(condition, c)
    return condition


class _Plain(Mutator):
    """Stores with plain conditions in their values."""

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(BufferStore)
    def _store(self, s: BufferStore) -> BufferStore:
        return s.replace(value=_Chosen(None).visit(s.value))


class _Drop(Mutator):
    """Removes conditions that are certain; `choices` are those in the values of stores."""

    def __init__(self, certain: set[int], choices: dict[int, list[Call]], kept: list[PrimExpr]) -> None:
        self.certain, self.choices, self.kept = certain, choices, kept

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(BufferStore)
    def _store(self, s: BufferStore) -> BufferStore:
        found = self.choices.get(id(s.value), [])
        if self.certain.isdisjoint(map(id, found)):
            return s
        value = _Chosen(self.certain).visit(s.value)
        self.choices[id(value)] = [c for c in found if id(c) not in self.certain]
        self.kept.append(value)
        return s.replace(value=value)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        parts = list(conjuncts(s.condition))
        kept = [c for c in parts if id(c) not in self.certain]
        then = self.visit(s.then_case)
        if not kept:
            return then
        other = None if s.else_case is None else self.visit(s.else_case)
        if len(kept) == len(parts):
            return s if then is s.then_case and other is s.else_case else IfThenElse(s.condition, then, other)
        return IfThenElse(_conjunction(kept), then, other)


def _may_wrap(form: Lin, var: Var) -> bool:
    """Whether a form contains a bound from the range of a type (as for quotients of unknown sizes), so arithmetic on it may overflow."""
    if max([abs(form.const), *map(abs, form.terms.values())]) >= 1 << (var.dtype.bits - 2):
        return True
    return any([_may_wrap(a, var) for t in form.terms for a in t.args if isinstance(a, Lin)])


def _atoms_mention(form: Lin, var: Var) -> bool:
    return any([mentions(t, {id(var)}) for t in form.terms])


@dataclass(slots=True)
class _Needs:
    """The requirements of a condition on a loop variable: bounds, or, if it does not depend on the variable only in a `linear` way, that
    the `worst` forms are not positive."""

    lows: list[Lin]
    highs: list[Lin]
    worst: list[Lin]
    linear: bool

    @property
    def bounds(self) -> bool:
        return self.linear and bool(self.lows or self.highs)


HINT = "pragma_loop_partition_hint"
"""The pragma, or the annotation, of a loop that is split in any case. The annotation means every condition on its variable."""


class _MarkLikely(Mutator):
    """Marks the conditions of statements on a variable as likely."""

    def __init__(self, var: Var) -> None:
        self.var = var

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        s = self.rebuild(s)
        parts = [
            likely(c) if self.var in used_vars(c) and call_name(c) != "likely" else c for c in conjuncts(s.condition)
        ]
        return s.replace(condition=_conjunction(parts))


class _Settle(Mutator):
    """Conditionals that the analyzer decides become one of their branches."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        parts = conjuncts(s.condition)
        condition = _conjunction([c.args[0] if isinstance(c, Call) and call_name(c) == "likely" else c for c in parts])
        if self.analyzer.can_prove(condition):
            return self.visit(s.then_case)
        if self.analyzer.can_prove(logical_not(condition)):
            return Evaluate(IntImm("int32", 0)) if s.else_case is None else self.visit(s.else_case)
        return self.rebuild(s)


class _Partition(Mutator):
    def __init__(self, const_loops: bool, choices: dict[int, list[Call]]) -> None:
        self.analyzer = Analyzer()
        self.choices = choices
        self.values: list[Any] = []
        """Values made here, kept alive so that their ids stay unique."""
        self.copies = 0
        self.const_loops = const_loops
        self.threads: dict[Var, Range] = {}
        self.hinted = self.settling = False

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == HINT:
            # The hint applies to the loop right below, whatever its length.
            self.hinted = True
            return self.visit(s.body)
        self.threads.update(_thread_of(s))
        return self.rebuild(s)

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        if s.annotations.get(HINT):
            notes = {k: v for k, v in s.annotations.items() if k != HINT}
            s = s.replace(body=_MarkLikely(s.loop_var).visit(s.body), annotations=notes)
            self.settling, outer = True, self.settling
            done = self._try(s) if s.kind == ForKind.SERIAL and self.copies < MAX_COPIES else None
            self.settling = outer
            if done is not None:
                return done
            self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        # Copies cost a GPU kernel more than the tests that they save.
        chosen = self.hinted or (self.const_loops and not self.threads) or not isinstance(s.extent, IntImm)
        self.hinted = False
        if s.kind in (ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED) and chosen and self.copies < MAX_COPIES:
            try:
                done = self._try(s)
            except OutOfRange:
                # A bound from the range of a type does not fit in that type, so the loop stays whole.
                done = None
            if done is not None:
                return done
        body = self.visit(s.body)
        return s if body is s.body else s.replace(body=body)

    def _forms(self, condition: PrimExpr) -> list[Lin] | None:
        """Forms that are all <= 0 exactly if the condition holds; None if it is not a conjunction of bounds."""
        engine = self.analyzer.engine
        out: list[Lin] = []
        for c in conjuncts(engine.simp(condition)):
            if isinstance(c, IntImm) and c.value:
                continue
            found = list(engine.orderings_of(c))
            if not found:
                return None
            out += found
        return out

    def _try(self, s: For) -> Stmt | None:
        look = _Conditions(self.choices)
        look.visit(s.body)
        if not look.found:
            return None
        # Inner variables may still be bound to the range of an earlier piece.
        for loop in {id(f): f for _, loops, _ in look.found for f in loops}.values():
            self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent), allow_override=True)
        lows: list[Lin] = []
        highs: list[Lin] = []
        guards: list[Lin] = []
        certain: set[int] = set()
        guarded: set[int] = set()
        refused: set[int] = set()
        steady = Invariants(s.body)
        for call, loops, inside_let in look.found:
            # A condition that is tested before the loop must not change in it.
            tested = not inside_let and all(map(steady, [call.args[0], *[e for f in loops for e in (f.min, f.extent)]]))
            needs = self._needs(call.args[0], s.loop_var, loops, look.threads) if tested else None
            if needs is None:
                refused.add(id(call))
            elif needs.bounds and s.kind != ForKind.PARALLEL:
                lows += needs.lows
                highs += needs.highs
                certain.add(id(call))
            else:
                guards += needs.worst
                guarded.add(id(call))
        certain -= refused | guarded
        guarded -= refused
        if certain:
            engine = self.analyzer.engine
            low = reduce(engine.maximum, lows) if lows else None
            high = reduce(engine.minimum, highs) if highs else None
            if s.kind != ForKind.UNROLLED or self._are_constant(s, low, high):
                return self._split(s, low, high, certain)
        return self._version(s, guards, guarded) if guarded else None

    def _needs(self, condition: PrimExpr, var: Var, loops: tuple[For, ...], threads: dict[Var, Range]) -> _Needs | None:
        """The requirements of a condition on a loop variable for all iterations of the inner loops and all threads; None if the condition
        is not a conjunction of bounds, or does not depend on the variable."""
        engine = self.analyzer.engine
        forms = self._forms(condition)
        if forms is None or not any([_atoms_mention(f, var) for f in forms]):
            return None
        # All threads of a block must take the same branch, so that they reach the same barriers.
        domains: dict[Var, Range] = {**self.threads, **threads}
        domains.update({f.loop_var: Range.from_min_extent(f.min, f.extent) for f in loops})
        relaxed = Evaluator(domains, engine)
        inside = {id(v) for v in domains}
        atom = engine.leaf(var)
        found = _Needs([], [], [], True)
        for form in forms:
            k = form.terms.get(atom, 0)
            rest = Lin({t: c for t, c in form.terms.items() if t is not atom}, form.const)
            top = relaxed.form(rest)[1]
            # If the extent of an inner loop depends on another inner loop, the bound may still contain its variable.
            if top is None or _may_wrap(top, var) or any([mentions(t, inside) for t in top.terms]):
                return None
            found.worst.append(combine(top, Lin({atom: 1}, 0), k) if k else top)
            mixed = _atoms_mention(rest, var) or _atoms_mention(top, var)
            if mixed or k == 0:
                found.linear = found.linear and k == 0 and not mixed and engine.prove_nonpositive(top)
                continue
            limit = engine.floordiv(scale(top, -1), abs(k))
            if k > 0:
                found.highs.append(limit)
            else:
                found.lows.append(scale(limit, -1))
        return found

    def _are_constant(self, s: For, low: Lin | None, high: Lin | None) -> bool:
        """Whether the extent and the bounds of a loop are constants."""
        engine, dtype = self.analyzer.engine, s.loop_var.dtype
        ends = [engine.emit(x, dtype) for x in (low, high) if x is not None]
        return all([isinstance(x, IntImm) for x in (s.extent, *ends)])

    def _split(self, s: For, low: Lin | None, high: Lin | None, certain: set[int]) -> Stmt | None:
        engine, simplify = self.analyzer.engine, self.analyzer.simplify
        dtype = s.loop_var.dtype
        begin = s.min
        end = simplify(s.min + s.extent)
        # Bounds are clamped to the loop, in order: begin <= first <= last <= end.
        first = begin if low is None else simplify(minimum(maximum(engine.emit(low, dtype), begin), end))
        last = end if high is None else simplify(maximum(minimum(engine.emit(shift(high, 1), dtype), end), first))
        if self.analyzer.can_prove(last <= first):
            return None
        pieces: list[Stmt] = []
        middle = self._without(certain, s.body)
        for start, stop, body in ((begin, first, s.body), (first, last, middle), (last, end, s.body)):
            extent = simplify(stop - start)
            if self.analyzer.can_prove(extent <= 0):
                continue
            if len(pieces):
                self.copies += 1
            self.analyzer.bind(s.loop_var, Range.from_min_extent(start, extent), allow_override=True)
            if self.settling and body is s.body:
                # What the range of a piece decides is gone, and what it leaves open splits the piece again.
                piece = s.replace(min=start, extent=extent, body=_Settle(self.analyzer).visit(body))
                pieces.append(self._try(piece) or piece.replace(body=self.visit(piece.body)))
            else:
                pieces.append(s.replace(min=start, extent=extent, body=self.visit(body)))
        return stmt_seq(*pieces)

    def _without(self, certain: set[int], body: Stmt) -> Stmt:
        return _Drop(certain, self.choices, self.values).visit(body)

    def _version(self, s: For, guards: list[Lin], certain: set[int]) -> Stmt:
        self.copies += 1
        guard = _conjunction([self.analyzer.engine.emit(g, s.loop_var.dtype) <= 0 for g in guards])
        fast = self.visit(self._without(certain, s.body))
        slow = self.visit(s.body)
        return s.replace(body=IfThenElse(guard, fast, slow))


def _run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
    options = ctx.config.get("tir.LoopPartition") or {}
    choices = _Choices()
    choices.visit(func.body)
    body = _Partition(bool(options.get("partition_const_loop", True)), choices.by_value).visit(func.body)
    if choices.by_value:
        body = _Plain().visit(body)
    return func if body is func.body else convert_ssa(func.replace(body=body))


def LoopPartition() -> Pass:
    """Split loops with likely conditions into a main part without the conditions, a part before and a part after."""
    made: Pass = prim_func_pass(_run, name="tir.LoopPartition", needs=("flat_buffers",), gives=("partitioned",))
    return made
