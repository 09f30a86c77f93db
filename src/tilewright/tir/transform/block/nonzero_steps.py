"""KeepNonzeroSteps: reduction loops leave out the steps that add products of zeros that were padded. Results differ only where another
factor is infinite or NaN.

    for y: for k in 5: for x, dx: S[y, x] += P[y + k, x] * W[k]             P is zero but for its rows 2 to 7
-->
    for y: for k in max(0, 2 - y) .. min(5, 8 - y): ..

A schedule annotates loops (NONZERO) with what it knows of the padding. Near the border of small images much is left out: an eighth
to a tenth of a 3 x 3 convolution over 7 x 7 pixels, a half of a 5 x 5 one over 4 x 4.
"""

from __future__ import annotations

from tilewright.arith import Analyzer, detect_linear_equation
from tilewright.arith.intervals import eval_set
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import Visitor, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import maximum, minimum
from tilewright.tir.expr import StringImm, Var
from tilewright.tir.stmt import Block, BlockRealize, For, LetStmt, Stmt
from tilewright.tir.stmt_functor import any_stmt, substitute, used_vars
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass

NONZERO = "nonzero_steps"
"""Loop annotation: the name of a buffer that the products read, one of its dimensions, and the first and the last index along it that
may hold something else than zeros."""


def KeepNonzeroSteps() -> Pass:
    """Cut off the first and last iterations of loops annotated "nonzero_steps" that only add products of padded zeros."""
    return body_pass("KeepNonzeroSteps", lambda func: nonzero_steps(func.body))


def nonzero_steps(body: Stmt) -> Stmt:
    """The program with shorter loops, without the annotations."""
    return _Cut().visit(body) if any_stmt(body, lambda s: isinstance(s, For) and NONZERO in s.annotations) else body


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


def _kept(s: For) -> tuple[PrimExpr, PrimExpr]:
    """The first iteration in which not all reads are zeros, and the one after the last."""
    name, dimension, first, last = _annotation(s)
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


def _annotation(s: For) -> tuple[str, int, int, int]:
    given = s.annotations[NONZERO]
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    numbers = [int(v) for v in values[1:] if isinstance(v, (int, IntImm))]
    if len(values) != 4 or not isinstance(values[0], (str, StringImm)) or len(numbers) != 3 or numbers[0] < 0:
        raise _refused(
            s, f"it must hold a buffer's name, a dimension, and the first and last index there, but is {given!r}"
        )
    name = values[0].value if isinstance(values[0], StringImm) else values[0]
    return str(name), numbers[0], numbers[1], numbers[2]


def _refused(s: For, why: str) -> TVMError:
    return TVMError(located(f"KeepNonzeroSteps: the annotation {NONZERO!r} of loop {s.loop_var.name}: {why}", s))


__all__ = ["NONZERO", "KeepNonzeroSteps", "nonzero_steps"]
