"""The function from which a TE schedule starts: one block for each stage; a recurrence is a block around those of its
steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, on, structural_equal
from tilewright.support.errors import ScheduleError
from tilewright.te.operation import BaseComputeOp, ComputeOp, ExternOp, HybridOp, Operation, ScanOp, TensorComputeOp
from tilewright.te.primfunc import FunctionBuilder, post_order
from tilewright.te.regions import full_region
from tilewright.te.schedule_hybrid import rescheduled
from tilewright.te.schedule_stage import INLINE, SCOPE, Stage
from tilewright.te.tensor import Tensor
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import IterVar, ProducerLoad, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    For,
    ForKind,
    MatchBufferRegion,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import post_order_visit

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule


class ScheduleBuilder(FunctionBuilder):
    """Builds the function. `blocks` maps each operation to the name of its block."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        self.blocks: dict[Operation, str] = {}
        self.inside: set[Operation] = set()
        self.first_steps: dict[Operation, tuple[ScanOp, int]] = {}
        self.arguments: set[Tensor] = set()
        self.within: dict[Operation, ScanOp] = {}
        self.from_zero = True
        self.moved: dict[Var, Tensor] = {}
        """Parameters that are computed inside other stages, or inlined. The loop engine treats them like buffers that it may move."""
        self.every_param: tuple[Var, ...] = ()

    def build(self, args: Sequence[Any]) -> PrimFunc:
        for i, arg in enumerate(args):
            self.add_parameter(i, arg)
        tensors = [a for a in args if isinstance(a, Tensor)]
        self.arguments = set(tensors)
        self._hold_back(tensors)
        # An output that is not an argument is computed, too.
        order = post_order([*[t.op for t in tensors], *self.schedule.outputs])
        scans = [op for op in order if isinstance(op, ScanOp)]
        for scan in scans:
            self.inside |= set(steps_of(scan))
            self.inside |= {t.op for t in scan.state_placeholder}
        self._find_first_steps(order, scans)
        self._find_within(order, scans)
        for op in order:
            if op not in self.inside:
                self.add_operation(op)
        return self.finish()

    def _hold_back(self, tensors: Sequence[Tensor]) -> None:
        """Remove arguments that stages move from the parameters, until the schedule has been applied."""
        self.every_param = tuple(self.params)
        handles = {buffer: handle for handle, buffer in self.buffer_map.items()}
        for t in tensors:
            if isinstance(t.op, ComputeOp) and self.schedule[t].moves:
                handle = handles[self.buffers[t]]
                self.moved[handle] = t
                self.params.remove(handle)
                self.allocated.append(self.buffer_map.pop(handle))

    def add_operation(self, op: Operation) -> None:
        if isinstance(op, ScanOp):
            self._add_scan(op)
        elif op in self.first_steps:
            scan, i = self.first_steps[op]
            state = self._buffer_of(scan.outputs[i])
            view, match = _view(state, scan.init[i].shape, (0,), op.name)
            self.buffers[op.output(0)] = view
            with _Nested(self) as nests:
                super().add_operation(op)
            self.nests.append(
                _opaque(
                    f"{op.name}_first",
                    stmt_seq(nests),
                    [full_region(self.buffers[t]) for t in op.input_tensors],
                    [match.source],
                    [match],
                )
            )
        else:
            super().add_operation(op)
            if isinstance(op, TensorComputeOp):
                self._note_block(op)

    def _add_extern(self, op: ExternOp) -> None:
        if isinstance(op, HybridOp):
            op, outputs = rescheduled(op, self.schedule[op]), op.outputs
            # The changed operation is built on the buffers of the one that others read.
            for old, new in zip(outputs, op.outputs, strict=True):
                self.buffers[new] = self._buffer_of(old)
        super()._add_extern(op)

    def _add_compute(self, op: ComputeOp) -> None:
        self._add_block(op, [self._buffer_of(t) for t in op.outputs], op.body)

    def _add_block(
        self, op: ComputeOp, outputs: list[Buffer], body: tuple[PrimExpr, ...], name: str | None = None
    ) -> None:
        super()._add_block(op, outputs, body, name)
        self._note_block(op)

    def _note_block(self, op: Operation) -> None:
        nest: Any = self.nests[-1]
        while isinstance(nest, For):
            nest = nest.body
        self.blocks[op] = nest.block.name_hint

    def _find_first_steps(self, order: Sequence[Operation], scans: Sequence[ScanOp]) -> None:
        """Find operations that only start a recurrence. They write directly into its result."""
        readers: dict[Operation, int] = {}
        for op in order:
            for t in op.input_tensors:
                readers[t.op] = readers.get(t.op, 0) + 1
        for scan in scans:
            for i, t in enumerate(scan.init):
                single = isinstance(t.op, ComputeOp) and t.op.num_outputs == 1 and readers.get(t.op) == 1
                if single and t not in self.arguments:
                    self.first_steps[t.op] = (scan, i)

    def _find_within(self, order: Sequence[Operation], scans: Sequence[ScanOp]) -> None:
        """Find stages that are computed inside a step, because they are attached to a stage of the step or inlined only
        there.
        """
        home = {op: scan for scan in scans for op in steps_of(scan)}
        readers: dict[Operation, list[Operation]] = {}
        for op in order:
            for t in op.input_tensors:
                readers.setdefault(t.op, []).append(op)
        for op in reversed(order):
            if op in home or not isinstance(op, BaseComputeOp) or any([t in self.arguments for t in op.outputs]):
                continue
            stage = self.schedule[op]
            around: set[ScanOp | None] = set()
            if stage.attach_type == SCOPE and stage.attach_stage is not None:
                around = {home.get(stage.attach_stage.op)}
            elif stage.attach_type == INLINE:
                around = {home.get(r) for r in readers.get(op, [])}
            scan = around.pop() if len(around) == 1 else None
            if scan is not None:
                home[op] = self.within[op] = scan
        self.inside |= set(self.within)

    # ---- recurrences

    def _add_scan(self, scan: ScanOp) -> None:
        """first steps; for t: block(t) {the step's operations, reading the steps before and writing step t}"""
        states = [self._buffer_of(t) for t in scan.outputs]
        begun = len(self.nests)
        for state, init in zip(states, scan.init, strict=True):
            if init.op not in self.first_steps:
                self._copy_first(scan, state, init)
        axis = scan.scan_axis
        assert axis is not None and axis.dom is not None
        step = Var(f"v_{_plain(axis.var.name)}", axis.var.dtype)
        self.defined.add(step)
        views: list[MatchBufferRegion] = []
        for state, held in zip(states, scan.state_placeholder, strict=True):
            past, match = _view(state, state.shape, (0,), f"{held.op.name}_past")
            self.buffers[held] = past
            views.append(match)
        now: dict[Tensor, Buffer] = {}
        for state, update in zip(states, scan.update, strict=True):
            row = (IntImm("int32", 1), *state.shape[1:])
            now[update], match = _view(state, row, (step,), f"{update.op.name}_now")
            views.append(match)
        allocated = self.allocated
        self.allocated = []
        steps = steps_of(scan)
        before = [op for op in post_order(steps) if self.within.get(op) is scan]
        with _Nested(self) as nests:
            for op in before:
                super().add_operation(op)
                if isinstance(op, TensorComputeOp):
                    self._note_block(op)
            self._add_steps(scan, step, now)
        inner, self.allocated = self.allocated, allocated
        own = {*steps, *before, *[t.op for t in scan.state_placeholder]}
        reads = dict.fromkeys(self.buffers[t] for op in (*before, *steps) for t in op.input_tensors if t.op not in own)
        block = Block(
            (IterVar(axis.dom, step, IterVar.Ordered),),
            tuple([full_region(b) for b in (*states, *reads)]),
            tuple([full_region(b) for b in states]),
            self._block_names.fresh(_plain(scan.name)),
            stmt_seq(nests),
            None,
            tuple(inner),
            tuple(views),
        )
        loop = Var(_plain(axis.var.name), axis.var.dtype)
        body = BlockRealize((loop + axis.dom.min,), const_true(), block)
        self.nests.append(For(loop, 0, axis.dom.extent, ForKind.SERIAL, body))
        self._launch(scan, begun)

    def _launch(self, scan: ScanOp, begun: int) -> None:
        """Put the threads of Stage.env_threads around the whole recurrence, including first steps that precede it."""
        threads = self.schedule[scan].env_thread_axes
        if not threads:
            return
        self._need_fixed(scan)
        own = {f"{_plain(op.name)}_first" for op, (of, _) in self.first_steps.items() if of is scan}
        while begun and getattr(getattr(self.nests[begun - 1], "block", None), "name_hint", "") in own:
            begun -= 1
        nest: Stmt = stmt_seq(self.nests[begun:])
        for t in reversed(threads):
            assert t.dom is not None
            launched = IterVar(None, Var(t.thread_tag, t.var.dtype), IterVar.ThreadIndex, t.thread_tag)
            var = Var(_plain(t.var.name), t.var.dtype)
            nest = For(var, t.dom.min, t.dom.extent, ForKind.THREAD_BINDING, nest, launched)
        self.nests[begun:] = [nest]

    def _need_fixed(self, scan: ScanOp) -> None:
        """Checks that each thread reads only values that it wrote itself: threads that run all steps are not synchronised."""
        for axis, fixed in fixed_axes(scan).items():
            if not fixed and any([st.op in steps_of(scan) and _has_threads(st) for st in self.schedule.stages]):
                raise ScheduleError(
                    f"stage {scan.name}: env_threads: step t must read the state at its own {axis.var.name} only, for"
                    " the threads of a recurrence do not wait for each other; without env_threads every step is a"
                    " launch of its own"
                )

    def _copy_first(self, scan: ScanOp, state: Buffer, init: Tensor) -> None:
        view, match = _view(state, init.shape, (0,), f"{scan.name}_first")
        axes = tuple([IterVar(Range(0, d), Var(f"i{k}", d.dtype), IterVar.DataPar) for k, d in enumerate(init.shape)])
        copy = ComputeOp(f"{scan.name}_start", "", {}, axes, (init(*axes),))
        self.buffers[copy.output(0)] = view
        source = self.buffers[init]
        with _Nested(self) as nests:
            super()._add_compute(copy)
        self.nests.append(
            _opaque(f"{scan.name}_first", stmt_seq(nests), [full_region(source)], [match.source], [match])
        )

    def _add_steps(self, scan: ScanOp, step: Var, now: dict[Tensor, Buffer]) -> None:
        renamed: dict[Tensor, Tensor] = {}
        states = set(scan.state_placeholder)
        for op in steps_of(scan):
            if not isinstance(op, ComputeOp) or not op.axis:
                raise ScheduleError(
                    f"scan {scan.name}: operation {op.name} takes part in a step, so it must be a compute whose first"
                    f" axis is the step, but is a {type(op).__name__}"
                )
            time = op.axis[0]
            here = IterVar(Range(0, 1), Var(time.var.name, time.var.dtype), time.iter_type)
            body = tuple([_Step(scan, op, step, here.var, renamed, states).visit(e) for e in op.body])
            one = ComputeOp(op.name, op.tag, op.attrs, (here, *op.axis[1:]), body)
            renamed.update(zip(op.outputs, one.outputs, strict=True))
            for old, new in zip(op.outputs, one.outputs, strict=True):
                if old in now:
                    self.buffers[new] = now[old]
            super().add_operation(one)
            self.blocks[op] = self.blocks[one]


class _Nested:
    """Collects nests that are built inside another nest in a separate list."""

    def __init__(self, builder: ScheduleBuilder) -> None:
        self.builder = builder

    def __enter__(self) -> list[Stmt]:
        self.outer, self.builder.nests = self.builder.nests, []
        return self.builder.nests

    def __exit__(self, *exc: object) -> None:
        self.builder.nests = self.outer


class _Step(Mutator):
    """The body of an operation at one step. Its time axis is the step; values of the step are read at their only row."""

    def __init__(
        self, scan: ScanOp, op: ComputeOp, step: Var, row: Var, renamed: dict[Tensor, Tensor], states: set[Tensor]
    ) -> None:
        self.scan, self.op, self.step, self.row, self.renamed, self.states = scan, op, step, row, renamed, states

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.step if v is self.op.axis[0].var else v

    @on(ProducerLoad)
    def _load(self, load: ProducerLoad) -> PrimExpr:
        tensor = load.producer
        time = self.op.axis[0].var
        first = load.indices[0] if load.indices else None
        rest = tuple([self.visit(i) for i in load.indices[1:]])
        if tensor in self.renamed:
            if first is None or not structural_equal(first, time):
                raise ScheduleError(
                    f"scan {self.scan.name}: {self.op.name} must read {tensor.op.name} at its own step {time.name}, but"
                    f" reads it at {first}; only the state is kept from step to step"
                )
            return ProducerLoad(self.renamed[tensor], (self.row, *rest))
        if tensor in self.states:
            back = Analyzer().simplify(time - first) if first is not None else None
            if not isinstance(back, IntImm) or back.value < 1:
                raise ScheduleError(
                    f"scan {self.scan.name}: {self.op.name} must read the state {tensor.op.name} at a step before"
                    f" {time.name}, but reads it at {first}"
                )
        return ProducerLoad(tensor, tuple([self.visit(i) for i in load.indices]))


def steps_of(scan: ScanOp) -> list[Operation]:
    """The operations of one step in order: the updates, and the operations they need that depend on the state."""
    states = {t.op for t in scan.state_placeholder}
    depends: set[Operation] = set(states)
    out = []
    updates = {t.op for t in scan.update}
    for op in post_order([t.op for t in scan.update]):
        if op in updates or any([t.op in depends for t in op.input_tensors]):
            if op not in states:
                depends.add(op)
                out.append(op)
    return out


def fixed_axes(scan: ScanOp) -> dict[IterVar, bool]:
    """Spatial axis of the updates -> whether every step reads the state only at the same index."""
    states = set(scan.state_placeholder)
    body = set(steps_of(scan))
    fixed: dict[IterVar, bool] = {}
    for update in scan.update:
        if isinstance(update.op, ComputeOp):
            for k, axis in enumerate(update.op.axis[1:], start=1):
                fixed[axis] = all([_reads_at_own(op, k, states, body) for op in body if isinstance(op, ComputeOp)])
    return fixed


def _reads_at_own(op: ComputeOp, dim: int, states: set[Tensor], body: set[Operation]) -> bool:
    """Whether an operation of a step reads states and other operations of the step only at its own index of `dim`."""
    found: list[bool] = []

    def note(e: Any) -> None:
        if isinstance(e, ProducerLoad) and (e.producer in states or e.producer.op in body):
            inside = dim < len(e.indices) and dim < len(op.axis)
            found.append(inside and structural_equal(e.indices[dim], op.axis[dim].var))

    for e in op.body:
        post_order_visit(e, note)
    return all(found)


def _has_threads(stage: Stage) -> bool:
    return any([m.bind_thread is not None for m in stage.marks.values()])


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _view(buffer: Buffer, shape: Any, begin: tuple[Any, ...], name: str) -> tuple[Buffer, MatchBufferRegion]:
    """A buffer for the rows of another buffer from `begin` on."""
    view = decl_buffer(shape, buffer.dtype, _plain(name), offset_factor=1)
    low = (*begin, *[0] * (len(buffer.shape) - len(begin)))
    ranges = [Range.from_min_extent(m, e) for m, e in zip(low, shape, strict=True)]
    return view, MatchBufferRegion(view, BufferRegion(buffer, tuple(ranges)))


def _opaque(
    name: str,
    body: Stmt,
    reads: list[BufferRegion],
    writes: list[BufferRegion],
    matched: list[MatchBufferRegion],
) -> Stmt:
    block = Block((), tuple(reads), tuple(writes), _plain(name), body, None, (), tuple(matched))
    return BlockRealize((), const_true(), block)
