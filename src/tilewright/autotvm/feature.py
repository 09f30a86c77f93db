"""What cost models see of a scheduled program: its loops, and what of each buffer they touch.

A feature of a loop is a list of lists, each of a name and numbers:

    [["_itervar_", name], ["_attr_", extent, depth, outside, inside, *mark], ["_arith_", additions, products, divisions],
     [buffer, stride, touched, iterations for each element, touched by one iteration], ...]

outside, inside: iterations of the loops around it and itself; of itself and those in it. mark: which of MARKS it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.driver import lower
from tilewright.ir import IntImm
from tilewright.node import Visitor, on
from tilewright.te.schedule_apply import apply_schedule
from tilewright.tir import Add, Buffer, BufferLoad, BufferStore, Div, FloorDiv, FloorMod, For, Mul, PrimExpr, Sub, Var
from tilewright.tir.stmt import BlockRealize, ForKind
from tilewright.tuning.inputs import kernel_of

MARKS = (ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.THREAD_BINDING)

Strides = dict[Var, float]
Feature = list[list[Any]]


class _Loop(NamedTuple):
    """A loop, its iterations, the loops around it, the accesses inside; additions, products and divisions inside."""

    loop: For
    extent: int
    around: tuple[_Loop, ...]
    accesses: list[_Access]
    operations: list[int]


class _Access(NamedTuple):
    """An access: what it reads or writes, the strides of loops in each dimension, and the loops around it, the outermost first."""

    buffer: Buffer
    strides: tuple[Strides, ...]
    loops: tuple[_Loop, ...]

    def stride(self, loop: _Loop) -> float:
        """Elements from one iteration of a loop to the next."""
        step, found = 1.0, 0.0
        for strides, extent in zip(reversed(self.strides), reversed(self.buffer.shape), strict=True):
            found += abs(strides.get(loop.loop.loop_var, 0.0)) * step
            step *= _extent(extent)
        return found

    def touched(self, inside: Sequence[_Loop]) -> float:
        """Elements that loops touch, as a box."""
        count = 1.0
        for strides, extent in zip(self.strides, self.buffer.shape, strict=True):
            span = 1.0 + sum([abs(strides.get(loop.loop.loop_var, 0.0)) * (loop.extent - 1) for loop in inside])
            count *= min(span, _extent(extent))
        return count


def _extent(e: Any) -> int:
    return int(e.value) if isinstance(e, IntImm) else 1


class _Finder(Visitor):
    """The loops of a program with their accesses, in the order in which they begin."""

    def __init__(self) -> None:
        self.loops: list[_Loop] = []
        self._around: list[_Loop] = []
        self._bound: dict[Var, Strides] = {}

    @on(For)
    def _for(self, s: For) -> None:
        loop = _Loop(s, _extent(s.extent), tuple(self._around), [], [0, 0, 0])
        self.loops.append(loop)
        self._around.append(loop)
        self._bound[s.loop_var] = {s.loop_var: 1.0}
        self.visit(s.body)
        self._around.pop()

    @on(BlockRealize)
    def _block(self, s: BlockRealize) -> None:
        for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
            self._bound[axis.var] = self._strides(value)
        if s.block.init is not None:
            self.visit(s.block.init)
        self.visit(s.block.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._access(s.buffer, s.indices)
        self.visit(s.value)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._access(e.buffer, e.indices)

    @on(Add, Sub, Mul, Div)
    def _operation(self, e: Any) -> None:
        place = 1 if isinstance(e, Mul) else 2 if isinstance(e, Div) else 0
        for loop in self._around:
            loop.operations[place] += 1
        self.visit_children(e)

    def _access(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
        access = _Access(buffer, tuple([self._strides(i) for i in indices]), tuple(self._around))
        for loop in self._around:
            loop.accesses.append(access)

    def _strides(self, e: PrimExpr) -> Strides:
        """By loop, how much an index changes from one iteration to the next; of divisions and remainders, roughly."""
        if isinstance(e, Var):
            return self._bound.get(e, {})
        if isinstance(e, (Add, Sub)):
            a, b = self._strides(e.a), self._strides(e.b)
            sign = -1.0 if isinstance(e, Sub) else 1.0
            return {v: a.get(v, 0.0) + sign * b.get(v, 0.0) for v in {**a, **b}}
        if isinstance(e, (Mul, FloorDiv)) and isinstance(e.b, IntImm):
            by = float(e.b.value)
            return {v: s * by if isinstance(e, Mul) else s / by for v, s in self._strides(e.a).items()}
        if isinstance(e, FloorMod):
            return self._strides(e.a)
        return {}


def _loops(sch: Any, args: Any) -> list[_Loop]:
    finder = _Finder()
    finder.visit(apply_schedule(sch, list(args)).body)
    return finder.loops


def ana_lower(sch: Any, args: Any, binds: Mapping[Any, Any] | None = None, simple_mode: bool = True) -> Any:
    """The lowered statement of a schedule; without simple_mode, the module with its function."""
    made = lower(sch, args, binds=binds)
    return kernel_of(made).body if simple_mode else made


def get_itervar_feature(sch: Any, args: Any, take_log: bool = False) -> list[Feature]:
    """The features of the loops of a program, in their order. take_log: of counts, their binary logarithm."""
    return [_feature(loop, take_log) for loop in _loops(sch, args)]


def _feature(loop: _Loop, take_log: bool) -> Feature:
    scale = (lambda n: math.log2(max(n, 0.0) + 1.0)) if take_log else float
    outside = math.prod([o.extent for o in loop.around]) * loop.extent
    deepest = max([a.loops for a in loop.accesses], key=len, default=(loop,))
    inside = [o for o in deepest if o is loop or loop in o.around]
    below = math.prod([o.extent for o in inside])
    mark = [float(loop.loop.kind == kind) for kind in MARKS]
    found: Feature = [
        ["_itervar_", loop.loop.loop_var.name],
        ["_attr_", scale(loop.extent), float(len(loop.around)), scale(outside), scale(below), *mark],
        ["_arith_", *[scale(n) for n in loop.operations]],
    ]
    rows: dict[str, list[Any]] = {}
    for access in loop.accesses:
        own = [o for o in access.loops if o is loop or loop in o.around]
        touched, once = access.touched(own), access.touched([o for o in own if o is not loop])
        reuse = math.prod([o.extent for o in own]) / touched
        name = f"{access.buffer.name}_{sum([n.startswith(access.buffer.name + '_') for n in rows])}"
        rows[name] = [name, *[scale(n) for n in (access.stride(loop), touched, reuse, once)]]
    return [*found, *rows.values()]


def flatten_itervar_feature(fea: Sequence[Feature]) -> np.ndarray[Any, Any]:
    """The numbers of features, one after the other, as float32."""
    return np.array([n for loop in fea for part in loop[1:] for n in part[1:]], dtype=np.float32)


def get_itervar_feature_flatten(sch: Any, args: Any, take_log: bool = True) -> list[float]:
    """The numbers of the features of a program, one after the other."""
    return [float(n) for n in flatten_itervar_feature(get_itervar_feature(sch, args, take_log))]


def get_flatten_name(fea: Sequence[Feature]) -> list[str]:
    """What the numbers that `flatten_itervar_feature` gives are."""
    attributes = ["length", "nest_level", "topdown", "bottomup", *[f"ann_{i}" for i in range(len(MARKS))]]
    known = {"_attr_": attributes, "_arith_": ["add", "mul", "div"]}
    touch = ["stride", "count", "reuse", "once"]
    return [f"{loop[0][1]}.{part[0]}.{name}" for loop in fea for part in loop[1:] for name in known.get(part[0], touch)]


def get_buffer_curve_sample_flatten(sch: Any, args: Any, sample_n: int = 30) -> list[float]:
    """How much of each buffer is touched by how many iterations.

    Of each access that the program has, sample_n numbers: the binary logarithm of the elements that are touched by the innermost loops
    whose iterations are 1, 2, 4, ... Between two loops they are interpolated.
    """
    accesses: dict[int, _Access] = {}
    for loop in _loops(sch, args):
        accesses.update({id(access): access for access in loop.accesses})
    found: list[float] = []
    for access in accesses.values():
        iterations, touched = [0.0], [0.0]
        for place in reversed(range(len(access.loops))):
            inside = access.loops[place:]
            iterations.append(math.log2(math.prod([o.extent for o in inside])))
            touched.append(math.log2(access.touched(inside)))
        found += [float(n) for n in np.interp(np.arange(sample_n), iterations, touched)]
    return found
