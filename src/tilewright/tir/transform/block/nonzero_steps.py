"""KeepNonzeroSteps: reduction loops leave out the steps that add products of zeros that were padded. Results differ only where another
factor is infinite or NaN.

    for y: for k in 5: for x, dx: S[y, x] += P[y + k, x] * W[k]             P is zero but for its rows 2 to 7
-->
    for y: for k in max(0, 2 - y) .. min(5, 8 - y): ..

A schedule annotates loops (NONZERO) with what it knows of the padding. Near the border of small images much is left out: an eighth
to a tenth of a 3 x 3 convolution over 7 x 7 pixels, a half of a 5 x 5 one over 4 x 4.

A schedule annotates a block (NONZERO) whose single products are tested: with the same of each buffer, or, where padding has no buffer, with
the axes along which it is tested.

    for y, k, x: S[y, x] += P[y + k, x] * W[k]                                              or
    for y, k, x: S[y, x] += (A[y + k - 2, x] if 2 <= y + k < 8 else 0) * W[k]
-->
    for y, k, x: if 2 <= y + k < 8: S[y, x] += P[y + k, x] * W[k]

Tests of unrolled loops are gone in the program; those of others are moved out of the loops that do not change them.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from tilewright.arith import Analyzer, detect_linear_equation
from tilewright.arith.intervals import eval_set
from tilewright.ir import FloatImm, IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import Visitor, on
from tilewright.node import structural_equal as same
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import conjuncts, const, logical_and, maximum, minimum
from tilewright.tir.expr import Add, BufferLoad, Call, Cast, Max, Min, Mul, StringImm, Var
from tilewright.tir.op import if_then_else, max_value, min_value
from tilewright.tir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt, Stmt
from tilewright.tir.stmt_functor import any_stmt, ir_transform, substitute, used_vars
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass, call_name

NONZERO = "nonzero_steps"
"""Loop annotation: the name of a buffer that the products read, one of its dimensions, and the first and the last index along it that
may hold something else than zeros. Block annotation: a list of these, or the positions of axes of the block."""


def KeepNonzeroSteps() -> Pass:
    """Cut off the first and last iterations of loops annotated "nonzero_steps" that only add products of padded zeros; in blocks with this
    annotation, test instead of adding such a product."""
    return body_pass("KeepNonzeroSteps", lambda func: nonzero_steps(func.body))


def nonzero_steps(body: Stmt) -> Stmt:
    """The program with shorter loops and tested products, without the annotations."""
    marked = any_stmt(body, lambda s: isinstance(s, (For, Block)) and NONZERO in s.annotations)
    return _Cut().visit(body) if marked else body


class _Reads(Visitor):
    """Where the outermost blocks below a loop read a buffer along one dimension, and the loops around them."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name, self.dimension = name, dimension
        self.loops: dict[Var, Range] = {}
        self.found: list[tuple[PrimExpr, PrimExpr]] = []
        """The first index of each read, and the number of indices."""
        self.inside: set[Var] = set()
        """Variables that are there only inside of the loop."""
        self.starts = False
        """Whether a block begins its sums itself."""

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self.inside.add(s.var)
        self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> None:
        self.inside.add(s.loop_var)
        self.loops[s.loop_var] = Range.from_min_extent(s.min, s.extent)
        self.visit(s.body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        self.starts = self.starts or any_stmt(s.block, lambda b: isinstance(b, Block) and b.init is not None)
        values = {a.var: v for a, v in zip(s.block.iter_vars, s.iter_values, strict=True)}
        for read in s.block.reads:
            if read.buffer.name == self.name and self.dimension < len(read.region):
                place = read.region[self.dimension]
                self.found.append((substitute(place.min, values), substitute(place.extent, values)))


class _Cut(BufferMutator):
    @on(For)
    def _for(self, s: For) -> For:
        new: For = self.rebuild(s)
        if NONZERO not in s.annotations:
            return new
        begin, stop = _kept(s)
        kept = {k: v for k, v in new.annotations.items() if k != NONZERO}
        analyzer = Analyzer()
        extent = analyzer.simplify(maximum(stop - begin, IntImm(begin.dtype, 0)))
        return new.replace(min=analyzer.simplify(begin), extent=extent, annotations=kept)

    @on(Block)
    def _block(self, s: Block) -> Block:
        new: Block = self.rebuild(s)
        if NONZERO not in s.annotations:
            return new
        kept = {k: v for k, v in new.annotations.items() if k != NONZERO}
        marks = new.annotations[NONZERO]
        if not isinstance(marks, (list, tuple)):
            raise _refused(s, f"it must be a list, but is {marks!r}")
        if all([isinstance(i, (int, IntImm)) for i in marks]):
            return new.replace(body=_tested(new, {new.iter_vars[int(i)].var for i in marks}), annotations=kept)
        body = new.body
        for mark in reversed(marks):
            body = IfThenElse(_inside(s, mark), body)
        return new.replace(body=body, annotations=kept)


def _inside(block: Block, mark: Any) -> PrimExpr:
    """The condition that a block reads something else than zeros, by one of its marks."""
    name, dimension, first, last = _mark(block, mark)
    places = [r.region[dimension] for r in block.reads if r.buffer.name == name and dimension < len(r.region)]
    if len(places) != 1 or not isinstance(places[0].extent, IntImm) or places[0].extent.value != 1:
        raise _refused(block, f"it must read one element of {name!r}")
    return logical_and(places[0].min >= first, places[0].min <= last)


def padded_element(store: Stmt) -> Call | None:
    """The element that is padded, `if_then_else(inside, A, constant)`, of a statement that accumulates products of it (with zeros
    outside) or extremes (with the least or greatest value outside); None if it does something else. Outside, the statement changes
    nothing.
    """
    value = store.value if isinstance(store, BufferStore) else None
    if not isinstance(store, BufferStore) or not isinstance(value, (Add, Max, Min)):
        return None
    before = BufferLoad(store.buffer, store.indices)
    terms = [t for t in (value.a, value.b) if not same(t, before)]
    if len(terms) != 1:
        return None
    # The least value of a narrow type is not that of the type to which it is converted.
    term = without_casts(terms[0]) if isinstance(value, Add) else terms[0]
    factors = (
        [without_casts(f) for f in (term.a, term.b)] if isinstance(value, Add) and isinstance(term, Mul) else [term]
    )
    padded = [f for f in factors if isinstance(f, Call) and call_name(f) == "if_then_else"]
    outside = padded[0].args[2] if len(padded) == 1 else None
    if not isinstance(outside, (IntImm, FloatImm)):
        return None
    if isinstance(value, Add):
        neutral: PrimExpr = const(0, outside.dtype)
    else:
        neutral = min_value(outside.dtype) if isinstance(value, Max) else max_value(outside.dtype)
    return padded[0] if same(outside, neutral) else None


def without_casts(e: PrimExpr) -> PrimExpr:
    """The expression below conversions of its type."""
    return without_casts(e.value) if isinstance(e, Cast) else e


def _tested(block: Block, axes: set[Var]) -> Stmt:
    """The body of a block, S += (A if condition else 0) * B, with the tests of these axes around it: one statement for all tests of the
    same axes, so that each can be moved out of the other loops."""
    padded = padded_element(block.body)
    if padded is None:
        raise _refused(
            block, "it must accumulate products or extremes of one element that is padded with what changes nothing"
        )
    condition, value, outside = padded.args
    tests: dict[frozenset[Var], PrimExpr] = {}
    kept = []
    for test in conjuncts(condition):
        used = frozenset(used_vars(test))
        if used <= axes:
            tests[used] = logical_and(tests[used], test) if used in tests else test
        else:
            kept.append(test)
    rest = if_then_else(reduce(logical_and, kept), value, outside) if kept else value
    made = ir_transform(block.body, lambda e: rest if e is padded else None, None)
    for test in reversed(tests.values()):
        made = IfThenElse(test, made)
    return made


def _kept(s: For) -> tuple[PrimExpr, PrimExpr]:
    """The first iteration in which not all reads are zeros, and the one after the last."""
    name, dimension, first, last = _mark(s, s.annotations[NONZERO])
    reads = _Reads(name, dimension)
    reads.visit(s.body)
    if reads.starts:
        raise _refused(
            s, "a block below it begins its sums itself; decompose_reduction at this loop, or outside of it, first"
        )
    forms = [detect_linear_equation(index, [s.loop_var]) for index, _ in reads.found]
    if len(forms) != 1 or len(forms[0]) != 2 or not isinstance(forms[0][0], IntImm) or forms[0][0].value < 1:
        raise _refused(
            s,
            f"one block below it must read dimension {dimension} of {name!r} at a place that grows with the loop, "
            f"but it is read at {', '.join([str(i) for i, _ in reads.found]) or 'no place'}",
        )
    ((step, rest),), ((_, count),) = forms, reads.found
    places, inside = eval_set(rest, reads.loops), Analyzer()
    most = inside.simplify(places.max_value + count - 1)
    bounded = places.has_lower_bound() and places.has_upper_bound()
    if not bounded or not {*used_vars(places.min_value), *used_vars(most)}.isdisjoint(reads.inside):
        raise _refused(s, f"the places at which {name!r} is read must follow from the loops, but they are {rest}")
    begin = maximum(s.min, -((most - first) // step))
    return begin, minimum(s.min + s.extent, (last - places.min_value) // step + 1)


def _mark(s: For | Block, given: Any) -> tuple[str, int, int, int]:
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    numbers = [int(v) for v in values[1:] if isinstance(v, (int, IntImm))]
    if len(values) != 4 or not isinstance(values[0], (str, StringImm)) or len(numbers) != 3 or numbers[0] < 0:
        raise _refused(
            s, f"it must hold a buffer's name, a dimension, and the first and last index there, but is {given!r}"
        )
    name = values[0].value if isinstance(values[0], StringImm) else values[0]
    return str(name), numbers[0], numbers[1], numbers[2]


def _refused(s: For | Block, why: str) -> TVMError:
    of = f"loop {s.loop_var.name}" if isinstance(s, For) else f"block {s.name_hint}"
    return TVMError(located(f"KeepNonzeroSteps: the annotation {NONZERO!r} of {of}: {why}", s))


__all__ = ["NONZERO", "KeepNonzeroSteps", "nonzero_steps", "padded_element", "without_casts"]
