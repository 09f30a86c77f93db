"""Applies a TE schedule to a tir.Schedule: consumers first, each stage attached and then split; marks come last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Mutator, on
from tilewright.support.errors import ScheduleError
from tilewright.te.operation import BaseComputeOp, ComputeOp, PlaceholderOp
from tilewright.te.schedule_build import ScheduleBuilder
from tilewright.te.schedule_prefetch import prefetches
from tilewright.te.schedule_stage import INLINE, SCOPE, Fuse, IterVarAttr, Singleton, Split, Stage, find, names
from tilewright.te.tensor import Tensor
from tilewright.tir import schedule as tir_schedule
from tilewright.tir.arithmetic import cast_to, logical_and
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, Reduce, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.schedule import BlockRV, IndexMap, LoopRV
from tilewright.tir.schedule.errors import Violation
from tilewright.tir.schedule.facts.leaves import leaf_of
from tilewright.tir.schedule.facts.threads import need_one_axis
from tilewright.tir.schedule.primitives.loop_nests.loop_kinds import AXES, set_kind
from tilewright.tir.schedule.state import StmtSRef
from tilewright.tir.stmt import BlockRealize, For, ForKind, Stmt, stmt_seq
from tilewright.tir.stmt_functor import substitute, used_vars

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule


def apply_schedule(schedule: Schedule, args: list[Any], binds: Mapping[Tensor, Buffer] | None = None) -> PrimFunc:
    """Make the function with the parameters `args` and apply every stage of the schedule. `binds` gives the buffers of
    tensors.
    """
    builder, func = _built(schedule, args, binds)
    if schedule.whole is not None:
        return schedule.whole(func)
    return _Application(schedule, builder, func).run() if builder.blocks else func


def infer_ranges(schedule: Schedule, args: list[Any]) -> dict[IterVar, Range]:
    """The range of every axis after its stage is attached, in terms of the axes of the stages around it."""
    builder, func = _built(schedule, args, None)
    applied = _Application(schedule, builder, func)
    if builder.blocks:
        applied.place()
    return applied.ranges


def _built(
    schedule: Schedule, args: list[Tensor], binds: Mapping[Tensor, Buffer] | None
) -> tuple[ScheduleBuilder, PrimFunc]:
    builder = ScheduleBuilder(schedule)
    builder.bound = {schedule.current(t): b for t, b in (binds or {}).items()}
    return builder, builder.build([schedule.current(a) if isinstance(a, Tensor) else a for a in args])


class _Loops:
    """The loops of one stage, and those of its separate initialisation, by axis."""

    def __init__(self, stage: Stage, block: BlockRV) -> None:
        self.stage, self.block = stage, block
        self.of: dict[Var, LoopRV] = {}
        self.init: dict[Var, LoopRV] = {}
        self.init_block: BlockRV | None = None
        self.names: dict[Var, str] = {}

    def leaves(self) -> list[tuple[IterVar, LoopRV]]:
        """The leaves that still have loops; tensorized ones have none."""
        return [(a, self.of[a.var]) for a in self.stage.leaf_iter_vars if a.var in self.of]

    def mark(self, axis: IterVar) -> IterVarAttr:
        return self.stage.marks.get(axis.var) or IterVarAttr()


class _Application:
    def __init__(self, schedule: Schedule, builder: ScheduleBuilder, func: PrimFunc) -> None:
        self.schedule, self.builder = schedule, builder
        self.sch = tir_schedule.Schedule(func)
        self.sch._trace = None
        self.loops: dict[int, _Loops] = {}
        self.ranges: dict[IterVar, Range] = {}

    def place(self) -> list[Stage]:
        """Gives each stage its place and its loops, as far as the ranges of axes depend on them. Returns the stages."""
        stages = [st for st in self.schedule.stages if st.op in self.builder.blocks]
        for stage in stages:
            self._guard(stage, self._place)
        for stage in reversed(stages):
            if stage.attach_type != INLINE:
                self._guard(stage, self._shape)
        return stages

    def run(self) -> PrimFunc:
        stages = self.place()
        for name in ("_roll", "_initialise", "_tensorize", "_mark"):
            for stage in stages:
                if id(stage) in self.loops:
                    self._guard(stage, getattr(self, name))
        self._lay_out_inputs()
        made = list(self.loops.values())
        hints = prefetches(self.sch, made, self.builder.buffers, self.schedule.current)
        (func,) = self.sch.mod.functions.values()
        assert isinstance(func, PrimFunc)
        func = func.replace(body=_Finish(self.sch, func, made, hints).visit(func.body))
        return self._with_moved(func) if self.builder.moved else func

    def _with_moved(self, func: PrimFunc) -> PrimFunc:
        """Make attached arguments parameters again. The parameters of inlined arguments stay unused."""
        root: Any = func.body
        table = dict(func.buffer_map)
        allocated = list(root.block.alloc_buffers)
        for handle, tensor in self.builder.moved.items():
            made = self.loops.get(id(self.schedule[tensor]))
            buffer = self.builder.buffers[tensor]
            if made is not None:
                buffer = self.sch.get(made.block).writes[tensor.value_index].buffer
                allocated.remove(buffer)
            table[handle] = buffer
        body = root.replace(block=root.block.replace(alloc_buffers=tuple(allocated)))
        return func.replace(params=self.builder.every_param, buffer_map=table, body=body)

    def _lay_out_inputs(self) -> None:
        """Set the new layouts of inputs, through any block that reads them."""
        for stage in self.schedule.stages:
            if not stage.layouts or not isinstance(stage.op, PlaceholderOp):
                continue
            buffer = self.builder.buffers.get(stage.op.output(0))
            blocks = [self.sch.get_block(name) for name in self.builder.blocks.values()] if buffer is not None else []
            reads = [(b, k) for b in blocks for k, r in enumerate(self.sch.get(b).reads) if r.buffer is buffer]
            for layout in stage.layouts if reads else ():
                block, index = reads[0]
                self.sch.transform_layout(block, ("read", index), layout)

    def _roll(self, stage: Stage) -> None:
        if stage.rolling:
            self.sch.rolling_buffer(self.loops[id(stage)].block, 0)

    def _guard(self, stage: Stage, step: Any) -> None:
        try:
            step(stage)
        except ScheduleError as error:
            text = str(error)
            if text.startswith("stage "):
                raise
            raise ScheduleError(f"stage {stage.name}: {text}") from None

    def _block(self, stage: Stage) -> BlockRV:
        return self.sch.get_block(self.builder.blocks[stage.op])

    def _place(self, stage: Stage) -> None:
        """Apply the settings of the whole block: scope, alignment, inlining."""
        sch, block = self.sch, self._block(stage)
        if stage.attach_type == INLINE:
            sch.compute_inline(block)
            return
        if stage.scope and stage.scope != "global":
            for i in range(stage.op.num_outputs):
                sch.set_scope(block, i, stage.scope)
        assert isinstance(stage.op, BaseComputeOp)
        for i, axis in enumerate(stage.op.axis):
            mark = stage.marks.get(axis.var)
            if mark is not None and mark.dim_align_factor:
                sch.storage_align(block, 0, i, mark.dim_align_factor, mark.dim_align_offset)
        if stage.double_buffered:
            sch.annotate(block, "double_buffer_scope", 0)
        self._lay_out(stage, block)

    def _lay_out(self, stage: Stage, block: BlockRV) -> None:
        """Set the new layout of the buffer, and order the loops of the block by it."""
        reduced = len(stage.op.loop_axes) - len(stage.op.output(0).shape)
        rank = len(stage.op.output(0).shape)
        for layout in stage.layouts:
            whole, _ = IndexMap.from_func_with_separators(layout, rank)
            self.sch.transform_layout(block, ("write", 0), layout)
            rest = [Var(f"r{k}", "int32") for k in range(reduced)]
            points = IndexMap((*whole.initial_indices, *rest), (*whole.final_indices, *rest))
            self.sch.transform_block_layout(block, points)
            rank = len(whole.final_indices)

    def _target(self, stage: Stage) -> LoopRV | None:
        """The loop to which the stage is attached."""
        place = stage.group if stage.group is not None and stage.attach_type != SCOPE else stage
        if place.attach_type != SCOPE:
            return None
        parent, axis = place.attach_stage, place.attach_ivar
        assert parent is not None and axis is not None
        if parent.attach_type == INLINE:
            raise ScheduleError(
                f"stage {stage.name}: compute_at: it is attached to stage {parent.name}, which is inlined and has no"
                " loops; attach it to a consumer of that"
            )
        if find(parent.leaf_iter_vars, axis) is None:
            raise ScheduleError(
                f"stage {stage.name}: compute_at: it is attached at {axis.var.name} of stage {parent.name}, which is not a"
                f" leaf any more; the leaves are {names(parent.leaf_iter_vars)}"
            )
        found = self.loops.get(id(parent))
        if found is None:
            raise ScheduleError(
                f"stage {stage.name}: compute_at: it is attached to stage {parent.name}, which does not read it"
            )
        return found.of[axis.var]

    def _shape(self, stage: Stage) -> None:
        """Attach the stage and make its own loops."""
        sch, block = self.sch, self._block(stage)
        target = self._target(stage)
        if target is None:
            own = sch.get_loops(block)
        else:
            self._default_scope(stage, block, target)
            sch.compute_at(block, target, preserve_unit_loops=True)
            around = sch.get_loops(block)
            depth = [sch.get(lp) for lp in around].index(sch.get(target))
            own = around[depth + 1 :]
        made = self.loops[id(stage)] = _Loops(stage, block)
        for axis, loop in zip(stage.root_iter_vars, own, strict=True):
            made.of[axis.var] = loop
        self._note_ranges(made, own)
        for action in stage.actions:
            self._act(made, action)
            parts = {Split: ("outer", "inner"), Fuse: ("fused",), Singleton: ("iter",)}.get(type(action), ())
            for part in [getattr(action, p) for p in parts]:
                self.ranges[part] = (
                    Range(0, sch.get(of_part).extent) if (of_part := made.of.get(part.var)) else part.dom
                )
        for axis, loop in made.leaves():
            self._bind(stage, axis, loop, made.mark(axis).bind_thread)

    def _default_scope(self, stage: Stage, block: BlockRV, target: LoopRV) -> None:
        """Set the default scope: "local" if one thread computes the stage, "shared" if a block of threads does."""
        if stage.scope or any([t in self.builder.arguments for t in stage.op.outputs]):
            return
        ref = self.sch.get_sref(target)
        loops = [r.stmt for r in (ref, *ref.ancestors()) if isinstance(r.stmt, For)]
        tags = [lp.thread_binding.thread_tag for lp in loops if lp.thread_binding is not None]
        scope = "local" if [t for t in tags if not t.startswith("blockIdx")] else "shared" if tags else ""
        for i in range(stage.op.num_outputs if scope else 0):
            self.sch.set_scope(block, i, scope)

    def _note_ranges(self, made: _Loops, own: list[LoopRV]) -> None:
        """Record the part of each axis that the attached stage runs."""
        env: dict[Var, PrimExpr] = {}
        for other in self.loops.values():
            if other is not made:
                env.update({(v := self.sch.get(lp).loop_var): cast_to(a.var, v.dtype) for a, lp in other.leaves()})
        env.update({(v := self.sch.get(lp).loop_var): IntImm(v.dtype, 0) for lp in own})
        values = leaf_of(self.sch.get_sref(made.block)).realize.iter_values
        axes = made.stage.root_iter_vars
        for axis, loop, value in zip(axes, own, values[len(values) - len(axes) :], strict=True):
            low = Analyzer().simplify(substitute(value, env))
            self.ranges[axis] = Range.from_min_extent(low, self.sch.get(loop).extent)

    def _bind(self, stage: Stage, axis: IterVar, loop: LoopRV, thread: IterVar | None) -> None:
        """Bind a loop to threads, before other stages are attached inside it: shared data is computed for all threads."""
        if thread is None:
            return
        made, asked = self.sch.get(loop).extent, thread.dom.extent if thread.dom is not None else None
        if isinstance(made, IntImm) and isinstance(asked, IntImm) and made.value != asked.value:
            raise ScheduleError(
                f"stage {stage.name}: bind: {axis.var.name} runs to {made}, but thread axis {thread.thread_tag} has the"
                f" extent {asked}; they must agree"
            )
        tag = "vthread" if thread.thread_tag == "cthread" else thread.thread_tag
        ref = self.sch.get_sref(loop)
        try:
            self.sch.bind(loop, tag)
        except ScheduleError as error:
            # Like for parallel axes: iterations of a spatial axis are independent.
            if axis.iter_type == IterVar.CommReduce or tag not in AXES or not self._is_one_axis(ref, tag):
                raise ScheduleError(f"stage {stage.name}, axis {axis.var.name}: {error}") from None
            own = IterVar(None, Var(tag, ref.stmt.loop_var.dtype), IterVar.ThreadIndex, tag)
            set_kind(self.sch, ref, ForKind.THREAD_BINDING, own)

    def _is_one_axis(self, ref: StmtSRef, tag: str) -> bool:
        """Whether the loop can share the thread axis of loops around it."""
        try:
            need_one_axis(self.sch.state, ref, tag)
        except Violation:
            return False
        return True

    def _act(self, made: _Loops, action: Any) -> None:
        sch, of = self.sch, made.of
        if isinstance(action, Split):
            parent = of[action.parent.var]
            factors: list[Any] = [None, action.factor] if action.nparts is None else [action.nparts, None]
            if not action.disable_predication and not {action.outer.var, action.inner.var} & _in_threads(made.stage):
                factors = [_at_most(factor, sch.get(parent).extent) for factor in factors]
            of[action.outer.var], of[action.inner.var] = sch.split(
                parent, factors, disable_predication=action.disable_predication
            )
        elif isinstance(action, Fuse):
            of[action.fused.var] = sch.fuse(of[action.outer.var], of[action.inner.var])
        elif hasattr(action, "leaves"):
            self._reorder([of[a.var] for a in action.leaves if a.var in of])
        else:
            loops = [of[a.var] for a in made.stage.root_iter_vars]
            of[action.iter.var] = sch.add_unit_loop(loops[0] if loops else made.block)

    def _reorder(self, loops: list[LoopRV]) -> None:
        """Order all loops of a stage, while they contain nothing else.

        Below the place of the stage each point is reached once, in every order, and a reduction starts with its first
        step. The loop engine cannot always prove this if split factors do not divide.
        """
        try:
            self.sch.reorder(*loops)
        except ScheduleError:
            refs = [self.sch.loop(lp) for lp in loops]
            chain = sorted(refs, key=lambda r: len(list(r.ancestors())))
            body = chain[-1].stmt.body
            for ref in reversed(refs):
                body = ref.stmt.replace(body=body)
            self.sch.state.replace(chain[0], body)

    def _initialise(self, stage: Stage) -> None:
        """Move the initialisation of a reduction in front of its outermost reduction loop."""
        op = stage.op
        made = self.loops[id(stage)]
        if not isinstance(op, ComputeOp) or not isinstance(op.body[0], Reduce):
            return
        leaves = made.leaves()
        reducing = [i for i, (a, _) in enumerate(leaves) if a.iter_type == IterVar.CommReduce]
        threads = [made.mark(a).bind_thread for a, _ in leaves if a.iter_type == IterVar.CommReduce]
        tensorized = [i for i, (a, _) in enumerate(leaves) if made.mark(a).tensor_intrin is not None]
        if any([t is not None for t in threads]) or (tensorized and tensorized[0] <= reducing[0]):
            return
        try:
            init = self.sch.decompose_reduction(made.block, leaves[reducing[0]][1])
        except ScheduleError:
            # Points that are visited again keep a conditional initialisation.
            return
        made.init_block = init
        spatial = [a for a, _ in leaves[reducing[0] :] if a.iter_type != IterVar.CommReduce]
        loops = self.sch.get_loops(init)
        if len(spatial) and len(loops) >= len(spatial):
            made.init = {a.var: lp for a, lp in zip(spatial, loops[-len(spatial) :], strict=True)}

    def _tensorize(self, stage: Stage) -> None:
        made = self.loops[id(stage)]
        for axis, loop in made.leaves():
            intrin = made.mark(axis).tensor_intrin
            if intrin is None:
                continue
            place = [a.var for a in stage.leaf_iter_vars].index(axis.var)
            within = [a.var for a in stage.leaf_iter_vars[place:]]
            update, reset = intrin.registered(made.init_block is not None)
            if made.init_block is not None:
                inside = [made.init[v] for v in within if v in made.init]
                self.sch.tensorize(inside[0] if inside else made.init_block, reset)
            tile = self.sch.blockize(loop)
            self.sch.tensorize(tile, update)
            ref = self.sch.get_sref(tile)
            if ref.stmt.init is not None:
                # The intrinsic does the whole reduction, including its initialisation.
                self.sch.state.replace(ref, ref.stmt.replace(init=None))
            made.of = {v: lp for v, lp in made.of.items() if v not in within}
            made.init = {v: lp for v, lp in made.init.items() if v not in within}
            return

    def _mark(self, stage: Stage) -> None:
        sch = self.sch
        made = self.loops[id(stage)]
        for axis in stage.leaf_iter_vars:
            mark = stage.marks.get(axis.var)
            loops = [table[axis.var] for table in (made.init, made.of) if axis.var in table]
            made.names.update({sch.get(lp).loop_var: axis.var.name for lp in loops})
            if mark is None:
                continue
            for loop in loops if mark.bind_thread is None else ():
                if mark.kind == "unrolled":
                    sch.unroll(loop)
                elif mark.kind is not None:
                    self._independent(loop, mark.kind)
            for key, value in mark.pragmas:
                sch.annotate(loops[-1], f"pragma_{key}", 1 if value is None else value)

    def _independent(self, loop: LoopRV, kind: str) -> None:
        """Mark a spatial axis as parallel or vectorised.

        Its iterations are independent: the axes of a stage are splits and fusions of those of its operation, and each
        iteration recomputes the stages attached below. The loop engine cannot always prove this if split factors do not
        divide.
        """
        mark = self.sch.vectorize if kind == "vectorized" else self.sch.parallel
        # Without the program in the error, which takes as long to print as all else.
        level, self.sch.error_render_level = self.sch.error_render_level, "fast"
        try:
            mark(loop)
        except ScheduleError:
            self.sch.error_render_level = level
            ref = self.sch.get_sref(loop)
            constant = isinstance(ref.stmt.extent, IntImm)
            alone = len(self.sch.get_child_blocks(loop)) == 1
            if kind == "vectorized" and not (constant and alone):
                mark(loop)
            set_kind(self.sch, ref, ForKind.VECTORIZED if kind == "vectorized" else ForKind.PARALLEL)
        finally:
            self.sch.error_render_level = level


class _Finish(Mutator):
    """Gives loops the names of their axes (dots become underscores), and stores the predicates of their stages."""

    def __init__(
        self, sch: tir_schedule.Schedule, func: PrimFunc, made: list[_Loops], hints: Mapping[int, list[Stmt]]
    ) -> None:
        self.hints = hints
        self.renamed: dict[Var, Var] = {}
        for loops in made:
            for var, name in loops.names.items():
                self.renamed[var] = Var(name.replace(".", "_"), var.dtype)
        self.predicates: dict[Any, PrimExpr] = {}
        known = set(func.params)
        for b in func.buffer_map.values():
            known.update(v for d in b.shape for v in used_vars(d))
        threads = {m.bind_thread for loops in made for m in loops.stage.marks.values() if m.bind_thread is not None}
        for loops in made:
            predicate = loops.stage.store_predicate
            if predicate is None or _reduces_across_threads(loops):
                continue
            for block, table in ((loops.block, loops.of), (loops.init_block, {**loops.of, **loops.init})):
                if block is None:
                    continue
                around = [sch.get(lp) for lp in sch.get_loops(block)]
                env: dict[Var, PrimExpr] = {
                    a.var: sch.get(table[a.var]).loop_var for a in loops.stage.leaf_iter_vars if a.var in table
                }
                tags = {lp.thread_binding.thread_tag: lp.loop_var for lp in around if lp.thread_binding is not None}
                env.update({t.var: tags[t.thread_tag] for t in threads if t.thread_tag in tags})
                here = substitute(predicate, env)
                for var in used_vars(here):
                    if var not in known and not any([lp.loop_var is var for lp in around]):
                        raise loops.stage.refuse(
                            "set_store_predicate",
                            f"{var.name} must be a leaf, a thread that a loop around it is bound to, or an argument",
                        )
                self.predicates[id(sch.get(block))] = here

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.renamed.get(v, v)

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.renamed.get(s.loop_var)
        hints = self.hints.get(id(s))
        rebuilt = self.rebuild(s if not hints else s.replace(body=stmt_seq(*hints, s.body)))
        return rebuilt if new is None else rebuilt.replace(loop_var=new)

    @on(BlockRealize)
    def _realize(self, r: BlockRealize) -> Stmt:
        predicate = self.predicates.get(id(r.block))
        new = self.rebuild(r)
        return new if predicate is None else new.replace(predicate=logical_and(new.predicate, self.visit(predicate)))


def _in_threads(stage: Stage) -> set[Var]:
    """The axes that were bound to threads, and those of which they were made: threads are as many as other stages need."""
    found = {var for var, mark in stage.marks.items() if mark.bind_thread is not None}
    for action in reversed(stage.relations):
        if isinstance(action, Fuse) and action.fused.var in found:
            found |= {action.outer.var, action.inner.var}
        elif isinstance(action, Split) and {action.outer.var, action.inner.var} & found:
            found.add(action.parent.var)
    return found


def _at_most(factor: Any, extent: PrimExpr) -> Any:
    """The factor of a split, or the extent of its loop where that is less: a stage in a tile of another one has few iterations, and needs
    no loop of which most iterations do nothing."""
    known = factor.value if isinstance(factor, IntImm) else factor
    return extent if isinstance(known, int) and isinstance(extent, IntImm) and extent.value < known else factor


def _reduces_across_threads(loops: _Loops) -> bool:
    """Whether threads share a reduction of the stage. All of them contribute, and the reduction makes the one store."""
    leaves = loops.stage.leaf_iter_vars
    return any([a.iter_type == IterVar.CommReduce and loops.mark(a).bind_thread is not None for a in leaves])
