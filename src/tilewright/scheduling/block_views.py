"""Properties of a kernel's blocks for the rules: kinds of axes, roles of axes in reads, cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import FloatImm, IntImm, PrimExpr, Range
from tilewright.node import Visitor, on, structural_equal
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.tir import (
    Add,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    FloorDiv,
    FloorMod,
    For,
    IterVar,
    Mul,
    Stmt,
    Sub,
    Var,
)
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.facts.leaves import realize_of

HEAVY = frozenset(
    f"tir.{name}" for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "pow", "sin", "cos",
        "tan", "sinh", "cosh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "sqrt", "rsqrt",
    )
)  # fmt: skip

CHAINS = frozenset(f"tir.{name}" for name in ("exp", "tanh", "sigmoid", "erf"))
"""Functions that are chains of dependent instructions. The other functions are computed in float64, in two vectors."""


class _Uses(Visitor):
    """Variables, intrinsic names and loads below an expression or statement; the number of uses of variables, shared expressions
    counted each time.
    """

    def __init__(self) -> None:
        self.vars: set[Var] = set()
        self.leaves = 0
        self.calls: set[str] = set()
        self.loads: list[BufferLoad] = []

    @on(Var)
    def _var(self, v: Var) -> None:
        self.vars.add(v)
        self.leaves += 1

    @on(Call)
    def _call(self, c: Call) -> None:
        self.calls.add(getattr(c.op, "name", "function"))
        self.visit_children(c)

    @on(BufferLoad)
    def _load(self, load: BufferLoad) -> None:
        self.loads.append(load)
        self.visit_children(load)


class _Places(Visitor):
    """The places that a block stores to and loads from (buffer and indices), and the variables that have other uses
    besides indices.
    """

    def __init__(self) -> None:
        self.found: list[tuple[Buffer, Sequence[Any]]] = []
        self.elsewhere: set[Var] = set()

    @on(Var)
    def _var(self, v: Var) -> None:
        self.elsewhere.add(v)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.visit(s.value)
        self._place(s.buffer, s.indices)

    @on(BufferLoad)
    def _load(self, load: BufferLoad) -> None:
        self._place(load.buffer, load.indices)

    def _place(self, buffer: Buffer, indices: Sequence[Any]) -> None:
        self.found.append((buffer, indices))
        for index in indices:
            if not isinstance(index, Var):
                self.visit(index)


def uses(node: Any) -> _Uses:
    """Variables, calls and loads below a node."""
    found = _Uses()
    found.visit(node)
    return found


def extent_of(loop: For) -> int:
    """The extent of a loop; a large number if it is symbolic."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else 1 << 20


def constant_extent(axis: IterVar) -> int:
    """The extent of an axis; 0 where it is not constant."""
    return axis.dom.extent.value if axis.dom is not None and isinstance(axis.dom.extent, IntImm) else 0


def divisor_of(extent: PrimExpr) -> int:
    """The extent, or a known divisor of a symbolic one."""
    return extent.value if isinstance(extent, IntImm) else _known_divisor(extent)


def _known_divisor(extent: PrimExpr) -> int:
    found = Analyzer().modular_set(extent)
    return found.coeff if found.base == 0 else 1


class BlockView:
    """One block of a kernel, as it was when the view was made."""

    def __init__(self, sch: Schedule, rv: BlockRV) -> None:
        self.rv = rv
        block = sch.get(rv)
        assert isinstance(block, Block)
        self.block = block
        self.name = block.name_hint

    @property
    def spatial(self) -> list[IterVar]:
        return [v for v in self.block.iter_vars if v.iter_type == IterVar.DataPar]

    @property
    def reduction(self) -> list[IterVar]:
        return [v for v in self.block.iter_vars if v.iter_type == IterVar.CommReduce]

    @property
    def is_opaque(self) -> bool:
        """Whether the block is no compute over its axes: an extern call, or a block with axes of other kinds."""
        kinds = {v.iter_type for v in self.block.iter_vars}
        return not self.block.iter_vars or not kinds <= {IterVar.DataPar, IterVar.CommReduce}

    @property
    def is_injective(self) -> bool:
        return not self.is_opaque and not self.reduction and self.block.init is None

    @property
    def extents(self) -> list[int]:
        return [_int(v.dom.extent) for v in self.block.iter_vars if v.dom is not None]

    @property
    def iterations(self) -> int:
        return prod(self.extents)

    @property
    def operands(self) -> list[BufferRegion]:
        """What the block reads, by tensor; each place of a tensor that is read at several places (x * transposed x)."""
        found: list[BufferRegion] = []
        for region in self.block.reads:
            places = [] if _is_point(region) else _places_of(self.block.body, region.buffer)
            found += places if len(places) > 1 else [region]
        return found

    @property
    def largest_read(self) -> int:
        """The number of elements of the largest tensor that the block reads."""
        return max([prod([_int(e) for e in r.buffer.shape]) for r in self.block.reads], default=0)

    @property
    def is_heavy(self) -> bool:
        """Whether recomputing the block for each use would be expensive: transcendental functions, conditions."""
        return bool(uses(self.block.body).calls & HEAVY)

    @property
    def is_chained(self) -> bool:
        """Whether each element needs a long chain of dependent instructions."""
        return bool(uses(self.block.body).calls & CHAINS)

    def vector_elements(self, extent: int, lanes: int) -> int:
        """The number of elements of a vectorised loop: several vectors if each element needs a long chain of
        instructions, so that chains overlap.
        """
        if lanes < 4 or not self.is_chained:
            return lanes
        for several in (4, 2):
            if extent % (several * lanes) == 0:
                return several * lanes
        # A short row has no vectors to waste.
        return 2 * lanes if extent >= 16 * lanes or (extent >= 8 * lanes and -extent % (2 * lanes) < lanes) else lanes

    @property
    def is_reshape(self) -> bool:
        """Whether the block writes the elements of one tensor, in order, to a tensor of another shape."""
        store = self.block.body
        if not self.is_injective or not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
            return False
        load = store.value
        shapes = [d.value if isinstance(d, IntImm) else 0 for b in (load.buffer, store.buffer) for d in b.shape]
        same = len(load.buffer.shape) == len(store.buffer.shape) and shapes[: len(shapes) // 2] * 2 == shapes
        if same or 0 in shapes or load.buffer.strides or store.buffer.strides:
            return False
        analyzer = Analyzer()
        for axis in self.spatial:
            if axis.dom is not None:
                analyzer.bind(axis.var, axis.dom)
        return analyzer.can_prove_equal(_offset(load.buffer, load.indices), _offset(store.buffer, store.indices))

    @property
    def is_padding(self) -> bool:
        """Whether the block writes elements of one tensor along its own last axis, or a constant."""
        store = self.block.body
        if (
            not self.is_injective
            or not self.spatial
            or not isinstance(store, BufferStore)
            or not isinstance(store.value, Call)
        ):
            return False
        if getattr(store.value.op, "name", "") != "tir.if_then_else":
            return False
        _, value, other = store.value.args
        own_last = isinstance(value, BufferLoad) and bool(value.indices) and value.indices[-1] is self.spatial[-1].var
        return own_last and isinstance(other, (IntImm, FloatImm))

    def is_place_in(self, reader: BlockView) -> bool:
        """Whether the block computes (not only copies) at the place where another block reads."""
        store = self.block.body
        if not isinstance(store, BufferStore) or isinstance(store.value, BufferLoad):
            return False
        indices = [i for load in uses(reader.block.body).loads for i in load.indices]
        return any([load.buffer is store.buffer for i in indices for load in uses(i).loads])

    def size_in(self, reader: BlockView) -> int:
        """The number of uses of variables in another block once this one is inlined there."""
        there = uses(reader.block.body)
        reads = [load for load in there.loads if any([load.buffer is w.buffer for w in self.block.writes])]
        return there.leaves + len(reads) * uses(self.block.body).leaves

    @property
    def has_condition(self) -> bool:
        return "tir.if_then_else" in uses(self.block.body).calls

    def role_of(self, axis: IterVar) -> frozenset[int]:
        """The operands (by position) in which an axis occurs."""
        return frozenset(
            i for i, region in enumerate(self.operands) if any([axis.var in uses(r.min).vars for r in region.region])
        )

    def panel_of(self, axis: IterVar) -> int | None:
        """The width of the panels in which a read is packed along an axis. Its indices are v // width, .., v % width,
        and possibly the position in a group.
        """
        found = self.packed_read(axis)
        return None if found is None else found[1]

    def packed_read(self, axis: IterVar) -> tuple[BufferRegion, int] | None:
        """The read that is packed in panels along an axis, and the width of the panels."""
        for region in self.block.reads:
            indices = [r.min for r in region.region]
            for i in range(len(indices) - 1, max(len(indices) - 3, -1), -1):
                at = indices[i]
                if isinstance(at, FloorMod) and at.a is axis.var and isinstance(at.b, IntImm):
                    sizes = zip(indices[:i], region.buffer.shape, strict=False)
                    outer = [e for e, n in sizes if not isinstance(n, IntImm) or n.value > 1]
                    if outer and axis.var in uses(outer[-1]).vars:
                        continue  # counted along two axes: neighbours all the way
                    return region, at.b.value
        return None

    def neighbouring_axes(self) -> int:
        """The number of last axes, with static sizes, that together run over adjacent elements of the result and of
        every read.
        """
        spatial, places, count = self.spatial, _Places(), 0
        places.visit(self.block.body)
        for axis in reversed(spatial):
            if axis.var in places.elsewhere or axis.dom is None or not isinstance(axis.dom.extent, IntImm):
                break
            if not all([_follows(buffer, indices, spatial, count) for buffer, indices in places.found]):
                break
            count += 1
        return count

    def is_contiguous(self, axis: IterVar) -> bool:
        """Whether the axis runs over adjacent elements of the output, and of every read in which it occurs."""
        (write,) = self.block.writes
        if not _innermost(write.region, axis.var):
            return False
        return all([self.reads_along(r, axis) for r in self.operands])

    def reads_along(self, region: BufferRegion, axis: IterVar) -> bool:
        """Whether an axis runs over adjacent elements of every read in which it occurs."""
        return _innermost(region.region, axis.var) or _flat(region.buffer, region.region, axis.var)

    def axes_of(self, region: BufferRegion) -> list[IterVar]:
        """The axes that occur in the indices of a read."""
        found = set().union(*[uses(r.min).vars for r in region.region])
        return [v for v in self.block.iter_vars if v.var in found]

    def is_near(self, axis: IterVar, most: int) -> bool:
        """Whether the axis runs over adjacent elements of the output, and over elements of every read that are at most
        `most` elements apart.
        """
        (write,) = self.block.writes
        return self.is_contiguous(axis) or (
            _innermost(write.region, axis.var) and all([_near(r.region, axis.var, most) for r in self.operands])
        )


def _int(e: PrimExpr) -> int:
    return e.value if isinstance(e, IntImm) else 1 << 20


def _is_point(region: BufferRegion) -> bool:
    """Whether a region is one element."""
    return all([isinstance(r.extent, IntImm) and r.extent.value == 1 for r in region.region])


def _places_of(body: Stmt, buffer: Buffer) -> list[BufferRegion]:
    """The distinct elements of a buffer that a statement loads."""
    found: list[BufferLoad] = []
    for load in uses(body).loads:
        if load.buffer is buffer and not any([structural_equal(load, other) for other in found]):
            found.append(load)
    return [BufferRegion(buffer, tuple([Range.from_min_extent(i, 1) for i in load.indices])) for load in found]


def _innermost(region: Iterable[Any], var: Var) -> bool:
    """Whether a variable occurs only in the last index, alone or divided over blocks as v // c, v % c."""
    indices = [r.min for r in region]
    occurring = [i for i, e in enumerate(indices) if var in uses(e).vars]
    if not occurring:
        return True
    if occurring[-1] != len(indices) - 1:
        return False
    last = indices[-1]
    if isinstance(last, FloorMod) and last.a is var:
        return True
    return len(occurring) == 1 and steps_by_one(last, var)


def _near(region: Iterable[Any], var: Var, most: int) -> bool:
    """Whether a variable occurs only in the last index, alone, or times or divided by a constant up to `most`."""
    *lead, last = [r.min for r in region] or [None]
    if any([var in uses(e).vars for e in lead]):
        return False
    while isinstance(last, (Add, Sub)):
        if var in uses(last.b).vars:
            if isinstance(last, Sub) or var in uses(last.a).vars:
                return False
            last = last.b
        else:
            last = last.a
    if isinstance(last, (Mul, FloorDiv)) and isinstance(last.b, IntImm) and 0 < last.b.value <= most:
        last = last.a
    return last is var or var not in uses(last).vars


def _follows(buffer: Buffer, indices: Sequence[Any], axes: Sequence[IterVar], count: int) -> bool:
    """Whether an access is indexed by an axis followed by `count` others that each cover their whole dimension, or by
    none of them.
    """
    run = axes[len(axes) - count - 1 :]
    last, lead = indices[len(indices) - count - 1 :], indices[: max(len(indices) - count - 1, 0)]
    if not any([i is axis.var for i in indices for axis in run]):
        return True
    if buffer.strides or len(last) != len(run) or any([i is axis.var for i in lead for axis in run]):
        return False
    whole = [True, *[_same(d, axis.dom) for d, axis in zip(buffer.shape[len(indices) - count :], run[1:], strict=True)]]
    return all([i is axis.var and full for i, axis, full in zip(last, run, whole, strict=True)])


def _same(extent: PrimExpr, domain: Range | None) -> bool:
    """Whether a domain has a constant extent, equal to this one."""
    known = domain.extent if domain is not None else None
    return isinstance(extent, IntImm) and isinstance(known, IntImm) and extent.value == known.value


def _offset(buffer: Any, indices: Iterable[Any]) -> Any:
    """The number of elements of a buffer before the element at these indices."""
    offset: Any = 0
    for index, extent in zip(indices, buffer.shape, strict=True):
        offset = offset * extent + index
    return offset


def _flat(buffer: Any, region: Iterable[Any], var: Var) -> bool:
    """Whether indices over several axes of a buffer (v // c, v % c) access its elements in order."""
    if buffer.strides or not all([isinstance(d, IntImm) for d in buffer.shape]):
        return False
    indices = [r.min for r in region]
    occurring = [i for i, e in enumerate(indices) if var in uses(e).vars]
    offset = 0
    for index, extent in zip(indices[occurring[0] :], list(buffer.shape)[occurring[0] :], strict=True):
        offset = offset * extent + index
    return steps_by_one(Analyzer().simplify(offset), var)


def steps_by_one(e: PrimExpr, var: Var) -> bool:
    """Whether an index is the variable plus a term that does not depend on it."""
    while isinstance(e, (Add, Sub)):
        if var in uses(e.b).vars:
            if isinstance(e, Sub) or var in uses(e.a).vars:
                return False
            e = e.b
        else:
            e = e.a
    return e is var


HALO = "tilewright.halo"
"""Annotation of the block that adds a halo to a kernel's result. Only the rule of halos sees it."""


class KernelView:
    """The blocks directly below the root, without one that adds a halo, the dataflow between them, and the plan that decides
    about them. root: a block in the place of the root block.
    """

    def __init__(self, sch: Schedule, plan: KernelPlan, root: BlockRV | None = None) -> None:
        self.sch, self.plan = sch, plan
        self.root = root if root is not None else sch.get_block("root")

    def blocks(self) -> list[BlockView]:
        """Blocks in program order, those inside loops included."""
        return self._seen(self.sch.get_child_blocks(self.root))

    def outputs(self) -> set[str]:
        """Names of the blocks that write a parameter of the function."""
        found = [BlockView(self.sch, rv) for rv in self.sch.get_output_blocks(self.root)]
        names = {b.name for b in found if HALO not in b.block.annotations}
        for halo in [b for b in found if HALO in b.block.annotations]:
            names |= {self.sch.get(rv).name_hint for rv in self.sch.get_producers(halo.rv)}
        return names

    def consumers(self, block: BlockView) -> list[BlockView]:
        return self._seen(self.sch.get_consumers(block.rv))

    def producers(self, block: BlockView) -> list[BlockView]:
        return self._seen(self.sch.get_producers(block.rv))

    def producer(self, block: BlockView, read: int) -> BlockView:
        """The block that writes what a block reads at a position among its reads."""
        buffer = block.block.reads[read].buffer
        (found,) = [b for b in self.producers(block) if any([w.buffer is buffer for w in b.block.writes])]
        return found

    def _seen(self, blocks: list[BlockRV]) -> list[BlockView]:
        return [b for b in [BlockView(self.sch, rv) for rv in blocks] if HALO not in b.block.annotations]

    def loops(self, block: BlockView | BlockRV) -> list[LoopRV]:
        return self.sch.get_loops(block.rv if isinstance(block, BlockView) else block)

    def loops_of_axes(self, block: BlockView) -> dict[IterVar, LoopRV]:
        """The innermost loop that counts along each axis of a block; none for axes of one step."""
        loops = {self.sch.get(loop).loop_var: loop for loop in self.loops(block)}
        found: dict[IterVar, LoopRV] = {}
        for axis, value in zip(block.block.iter_vars, realize_of(self.sch.get_sref(block.rv)).iter_values, strict=True):
            counted = uses(value).vars
            for var, loop in loops.items():
                if var in counted:
                    found[axis] = loop
        return found

    def extents(self, loops: Iterable[LoopRV]) -> list[int]:
        return [extent_of(self.sch.get(loop)) for loop in loops]
