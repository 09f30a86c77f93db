"""OptimizeTileIterators: what asynchronous copies need of addresses and conditions in a loop of steps is computed before it.

    for k:                                               -->   at[r] = address(r, 0); mask[r] = bits of condition(r, p), p < P
      for r (unrolled):                                        for k:
        copy(address(r, k), where condition(r, k // q))          by = address(0, k) - address(0, 0)
                                                                 for r: copy(at[r] + by, where bit k // q of mask[r])

r: rounds, in which a thread copies a vector each. The distance `by` is the same for all threads and rounds: it is taken once for an operand
and a step. P is the number of positions of a filter, or 1 where a condition does not depend on the step.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import DataType, IntImm, PointerType, PrimExpr, PrimType, Range
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, nodes_of, on
from tilewright.node import structural_equal as same
from tilewright.tir.arithmetic import add, const_true, floordiv, subtract
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import Add, BufferLoad, Call, FloorDiv, IterVar, Mul, Sub, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import call_intrin
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, ForKind, LetStmt, Stmt, stmt_seq
from tilewright.tir.stmt_functor import any_stmt, substitute, used_vars
from tilewright.tir.transform.base import body_pass, call_name, has_load
from tilewright.tir.transform.ssa import convert_ssa

ITERATORS = "tile_iterators"
"""Annotation of a loop of steps: "optimized"."""
MOST_POSITIONS = 32
"""Bits of a mask."""
MOST_ROUNDS = 32
PLACES, CONDITION = (1, 3), 5
"""Arguments of ptx_cp_async: the places in shared and in global memory, and the condition."""


class _Copy(NamedTuple):
    """A copy in a step, and the unrolled loops around it, the outermost first."""

    call: Call
    rounds: tuple[For, ...]


class _Find(Visitor):
    """Copies in a statement."""

    def __init__(self) -> None:
        self.found: list[_Copy] = []
        self._rounds: tuple[For, ...] = ()
        self._apart = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    @on(For)
    def _for(self, s: For) -> None:
        outer, self._rounds = (self._rounds, self._apart), (*self._rounds, s)
        self._apart |= s.kind != ForKind.UNROLLED or not isinstance(s.extent, IntImm)
        self.visit(s.body)
        self._rounds, self._apart = outer

    @on(LetStmt, AttrStmt)
    def _bound(self, s: LetStmt | AttrStmt) -> None:
        """A variable that is bound inside of the step is not there before the loop."""
        outer = self._apart
        self._apart |= isinstance(s, LetStmt) or s.attr_key == "thread_extent"
        self.visit(s.body)
        self._apart = outer

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if call_name(s.value) == "ptx_cp_async" and not self._apart:
            assert isinstance(s.value, Call)
            self.found.append(_Copy(s.value, self._rounds))


def _terms(e: PrimExpr, sign: int = 1) -> list[tuple[int, PrimExpr]]:
    """The terms of a sum with their signs."""
    if isinstance(e, Add):
        return [*_terms(e.a, sign), *_terms(e.b, sign)]
    if isinstance(e, Sub):
        return [*_terms(e.a, sign), *_terms(e.b, -sign)]
    return [(sign, e)]


def _sum(terms: list[tuple[int, PrimExpr]]) -> PrimExpr:
    found: PrimExpr = IntImm("int32", 0)
    for sign, e in terms:
        found = add(found, e) if sign > 0 else subtract(found, e)
    return found


class _Steps:
    """One marked loop."""

    def __init__(self, loop: For, analyzer: Analyzer) -> None:
        self.loop, self.analyzer = loop, analyzer
        self.before: list[Stmt] = []
        self.storage: list[Buffer] = []
        self.distances: list[tuple[Var, PrimExpr]] = []
        self.calls: dict[int, Call] = {}

    def build(self) -> Stmt:
        look = _Find()
        look.visit(self.loop.body)
        for copy in look.found:
            new = self._moved(copy)
            if new is not None:
                self.calls[id(copy.call)] = new
        if not self.calls:
            return self.loop
        body: Stmt = _Calls(self.calls).visit(self.loop.body)
        for var, value in reversed(self.distances):
            body = LetStmt(var, value, body)
        out = stmt_seq(*self.before, self.loop.replace(body=body))
        for buffer in reversed(self.storage):
            out = Allocate(buffer.data, buffer.dtype, (buffer.shape[0],), const_true(), out)
        return out

    def _moved(self, copy: _Copy) -> Call | None:
        """A copy whose addresses and condition are looked up; None where they are not of the form."""
        rounds = prod([f.extent.value for f in copy.rounds])  # type: ignore[attr-defined]
        places = {at: self._split(copy.call.args[at]) for at in PLACES}
        if rounds > MOST_ROUNDS or None in places.values():
            return None
        args = list(copy.call.args)
        if len(args) > CONDITION:
            test = self._test(args[CONDITION], copy)
            if test is None:
                return None
            args[CONDITION] = test
        for at, (rest, step) in places.items():  # type: ignore[misc]
            # What a thread has of its own, and what differs by a constant from round to round, which is a part of the instruction.
            own, fixed = self._by_round(rest, copy)
            place = self._kept(own, "int32", copy, "at")
            if self.loop.loop_var in used_vars(step):
                place = add(place, self._distance(step))
            args[at] = add(place, fixed)
        return Call(copy.call.dtype, copy.call.op, tuple(args), copy.call.span)

    def _split(self, at: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """An address as (what does not depend on the step, what depends on it alone); None for others."""
        k = self.loop.loop_var
        parts: tuple[list[tuple[int, PrimExpr]], list[tuple[int, PrimExpr]]] = ([], [])
        for sign, e in _terms(self.analyzer.simplify(at)):
            used = set(used_vars(e))
            if k in used and used != {k}:
                return None
            parts[k in used].append((sign, e))
        if has_load(at):
            return None
        return _sum(parts[0]), _sum(parts[1])

    def _by_round(self, rest: PrimExpr, copy: _Copy) -> tuple[PrimExpr, PrimExpr]:
        """(what does not depend on the round, what depends on it alone) of a sum; all of it and 0 if there are other terms."""
        rounds = {f.loop_var for f in copy.rounds}
        own: list[tuple[int, PrimExpr]] = []
        fixed: list[tuple[int, PrimExpr]] = []
        for sign, e in _terms(rest):
            used = set(used_vars(e))
            if used & rounds and not (used <= rounds and _is_linear(e)):
                return rest, IntImm("int32", 0)
            (fixed if used and used <= rounds else own).append((sign, e))
        return _sum(own), _sum(fixed)

    def _distance(self, step: PrimExpr) -> PrimExpr:
        """A variable of the step, one for all copies that move alike."""
        for var, value in self.distances:
            if same(value, step):
                return var
        var = Var(f"by_{len(self.distances)}", "int32")
        self.distances.append((var, step))
        return var

    def _test(self, condition: PrimExpr, copy: _Copy) -> PrimExpr | None:
        """A condition as a bit of a mask; None if it takes other values of the step than its part over a constant."""
        k = self.loop.loop_var
        if has_load(condition):
            return None
        condition = self.analyzer.simplify(condition)
        if k not in used_vars(condition):
            return self._bit(self._kept(self._mask(condition, None, 1), "uint32", copy, "mask"), IntImm("int32", 0))
        part = _part_of(condition, self.loop, self.analyzer)
        if not isinstance(self.loop.extent, IntImm) or not isinstance(self.loop.min, IntImm):
            return None
        first, last = self.loop.min.value // part, (self.loop.min.value + self.loop.extent.value - 1) // part
        if last - first >= MOST_POSITIONS:
            return None
        position = Var("position", k.dtype)
        of = substitute(condition, {k: (position + first) * part})
        mask = self._kept(self._mask(of, position, last - first + 1), "uint32", copy, "mask")
        return self._bit(mask, self.analyzer.simplify(floordiv(k, part) - first))

    def _mask(self, condition: PrimExpr, position: Var | None, count: int) -> PrimExpr:
        """The values of a condition at all positions as bits."""
        found: PrimExpr | None = None
        for p in range(count):
            value = condition if position is None else substitute(condition, {position: IntImm(position.dtype, p)})
            bit = call_intrin("uint32", "tir.if_then_else", self.analyzer.simplify(value), _word(1 << p), _word(0))
            found = bit if found is None else call_intrin("uint32", "tir.bitwise_or", found, bit)
        assert found is not None
        return found

    @staticmethod
    def _bit(mask: PrimExpr, position: PrimExpr) -> PrimExpr:
        moved = call_intrin("uint32", "tir.shift_right", mask, position.astype("uint32"))
        return call_intrin("uint32", "tir.bitwise_and", moved, _word(1)).equal(_word(1))

    def _kept(self, value: PrimExpr, dtype: str, copy: _Copy, name: str) -> PrimExpr:
        """A value that is computed before the loop, in registers: one, or one for each round if it differs between them."""
        rounds = [f for f in copy.rounds if f.loop_var in used_vars(value)]
        size = prod([f.extent.value for f in rounds])  # type: ignore[attr-defined]
        place: PrimExpr = IntImm("int32", 0)
        for f in rounds:
            place = place * f.extent + (f.loop_var - f.min)
        data = Var(f"{name}_{len(self.storage)}", PointerType(PrimType(DataType(dtype)), "local"))
        buffer = decl_buffer((size,), dtype, data.name, data=data, scope="local")
        self.storage.append(buffer)
        fill: Stmt = BufferStore(buffer, value, (place,))
        for f in reversed(rounds):
            fill = For(f.loop_var, f.min, f.extent, ForKind.UNROLLED, fill)
        self.before.append(fill)
        return BufferLoad(buffer, (place,))


def _word(value: int) -> IntImm:
    return IntImm("uint32", value)


def _is_linear(e: PrimExpr) -> bool:
    """Whether a term is a variable, perhaps times a constant."""
    return isinstance(e, Var) or (isinstance(e, Mul) and isinstance(e.a, Var) and isinstance(e.b, IntImm))


def _part_of(condition: PrimExpr, loop: For, analyzer: Analyzer) -> int:
    """The greatest constant q for which a condition depends on k // q alone, of the constants by which it divides; 1 without one."""
    k = loop.loop_var
    divisors = {e.b.value for e in nodes_of(condition, FloorDiv) if isinstance(e.b, IntImm) and k in used_vars(e.a)}
    for part in sorted(divisors, reverse=True):
        inside = Var("inside", k.dtype)
        analyzer.bind(inside, Range.from_min_extent(IntImm(k.dtype, 0), IntImm(k.dtype, part)))
        position = Var("position", k.dtype)
        end = analyzer.simplify(floordiv(loop.min + loop.extent - 1, part) + 1)
        analyzer.bind(position, Range.from_min_extent(IntImm(k.dtype, 0), end))
        if inside not in used_vars(analyzer.simplify(substitute(condition, {k: position * part + inside}))):
            return part
    return 1


class _Calls(Mutator):
    """Puts calls in the places of others."""

    def __init__(self, calls: dict[int, Call]) -> None:
        self.calls = calls

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        new = self.calls.get(id(s.value))
        return s if new is None else Evaluate(new)


class _Loops(Mutator):
    def __init__(self) -> None:
        self.analyzer = Analyzer()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar):
            self.analyzer.bind(
                s.node.var, Range.from_min_extent(IntImm(s.node.var.dtype, 0), s.value), allow_override=True
            )
        return self.rebuild(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        if not _is_marked(s):
            return self.rebuild(s)
        for f in nodes_of(s.body, For):
            self.analyzer.bind(f.loop_var, Range.from_min_extent(f.min, f.extent), allow_override=True)
        plain = s.replace(annotations={n: v for n, v in s.annotations.items() if n != ITERATORS})
        return _Steps(plain, self.analyzer).build()


def _is_marked(s: Stmt) -> bool:
    return (
        isinstance(s, For)
        and str(getattr(s.annotations.get(ITERATORS), "value", s.annotations.get(ITERATORS))) == "optimized"
    )


def _optimized(func: PrimFunc) -> Stmt:
    if not any_stmt(func.body, _is_marked):
        return func.body
    return convert_ssa(func.replace(body=_Loops().visit(func.body))).body


def OptimizeTileIterators() -> Pass:
    """In loops annotated "tile_iterators" = "optimized", compute addresses of asynchronous copies before the loop and move them by what is
    equal for all threads; conditions become bits of masks that are computed once. Needs flat buffers. Copies of other forms stay.
    """
    return body_pass("OptimizeTileIterators", _optimized, needs=("flat_buffers",))


__all__ = ["ITERATORS", "OptimizeTileIterators"]
