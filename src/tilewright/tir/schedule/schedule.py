"""tir.Schedule: a program, handles into it, and every primitive as a method."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.ir import GlobalVar, IntImm, IRModule, PrimExpr, PrimExprLike
from tilewright.tir import Block, For, PrimFunc, Var
from tilewright.tir.schedule.arguments import buffer_argument, checked_map
from tilewright.tir.schedule.errors import ScheduleError, Violation, refuse, render
from tilewright.tir.schedule.facts import block_checks, leaves
from tilewright.tir.schedule.index_map import IndexMap
from tilewright.tir.schedule.primitives import annotating, sampling, transform
from tilewright.tir.schedule.primitives.computation import attach, blocks, inline, online, reduction, rfactor
from tilewright.tir.schedule.primitives.loop_nests import (
    loop_kinds,
    loops,
    merged_axes,
    rasterization,
    shortening,
    versions,
)
from tilewright.tir.schedule.primitives.storage import (
    buffers,
    cache,
    cache_special,
    halo,
    padding,
    replicated,
    rolling,
    staged_at,
)
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, ExprRV, InstructionKind, LoopRV, Trace, primitive, run
from tilewright.tir.schedule.tries import Fallback, Try

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


ERROR_LEVELS = ("detail", "fast", "none")


@primitive
def get_block(s: Schedule, name: str, func_name: str | None = None) -> BlockRV:
    """Return the block with this name in the function `func_name`.

    Without `func_name`: the function set by `work_on`, or the only one, or "main".
    """
    gvar = s._function(func_name)
    found = []
    for ref in s._blocks(gvar):
        if ref.stmt.name_hint == name:
            found.append(ref)
    if len(found) != 1:
        names = sorted({r.stmt.name_hint for r in s._blocks(gvar)})
        if not found:
            refuse(f"there is no block named {name!r} in {gvar.name_hint}; its blocks are {', '.join(names)}")
        refuse(f"{len(found)} blocks are named {name!r}, but a name must be unique", *[r.stmt for r in found])
    return s.block_rv(found[0])


@primitive
def get_loops(s: Schedule, block: BlockRV | str) -> list[LoopRV]:
    """Return the loops around a block within its scope, outermost first."""
    return [s.loop_rv(ref) for ref in leaves.loops_above(s.block(block))]


@primitive
def get_child_blocks(s: Schedule, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
    """Return the blocks directly below a block or loop."""
    stmt = s.find(block_or_loop).stmt
    return [s.block_rv(s.state.ref(leaf.block)) for leaf in leaves.leaves(stmt.body)]


@primitive
def get_producers(s: Schedule, block: BlockRV | str) -> list[BlockRV]:
    """Return the blocks of the same scope that write what the block reads."""
    return [s.block_rv(s.state.ref(leaf.block)) for leaf in block_checks.producers(s.block(block))]


@primitive
def get_consumers(s: Schedule, block: BlockRV | str) -> list[BlockRV]:
    """Return the blocks of the same scope that read what the block writes."""
    return [s.block_rv(s.state.ref(leaf.block)) for leaf in block_checks.consumers(s.block(block))]


@primitive
def get_output_blocks(s: Schedule, scope_block: BlockRV | str) -> list[BlockRV]:
    """Return the blocks below `scope_block` that write a buffer allocated outside of it."""
    scope = s.block(scope_block).stmt
    own = set(scope.alloc_buffers)
    found = [x for x in leaves.leaves(scope.body) if any([b not in own for b in block_checks.written_buffers(x.block)])]
    return [s.block_rv(s.state.ref(leaf.block)) for leaf in found]


@primitive
def enter_postproc(s: Schedule) -> None:
    """Mark the start of post-processing in the trace. A replay can leave out the instructions after the mark."""


class Schedule:
    """A program and the primitives that transform it. A primitive keeps the results, or raises ScheduleError and
    changes nothing.

    mod: a PrimFunc or a module. With several functions, `work_on` selects one.

    seed: seed of the sampling primitives. None draws one.

    debug_mask: checks of the state after every primitive: "all", "none", or bits of ScheduleDebugMask.

    error_render_level: "detail" shows the program with the culprits underlined, "fast" only the text, "none" only that
    the primitive is refused.

    enable_check: False omits the checks of dependences. The caller is then responsible for the results.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if isinstance(mod, PrimFunc):
            functions: Any = {"main": mod}
            mod = IRModule(functions)
        if not isinstance(mod, IRModule):
            raise TypeError(f"Schedule takes a PrimFunc or an IRModule, but was given {type(mod).__name__}")
        if error_render_level not in ERROR_LEVELS:
            raise ValueError(f"error_render_level must be one of {ERROR_LEVELS}, but is {error_render_level!r}")
        self.error_render_level = error_render_level
        self._state = ScheduleState(mod, debug_mask=debug_mask, enable_check=enable_check)
        if not self._state.functions:
            raise ValueError("Schedule needs a PrimFunc whose body is a root block, but the module has none")
        self._values: dict[Any, Any] = {}
        self._trace: Trace | None = Trace()
        self._work_on: GlobalVar | None = None
        self._last_was_list = False
        self.fallbacks: list[Fallback] = []
        self.seed(seed)

    # ---- program, trace and state

    @property
    def mod(self) -> IRModule:
        return self._state.mod

    @property
    def state(self) -> ScheduleState:
        return self._state

    @property
    def trace(self) -> Trace | None:
        return self._trace

    @property
    def func_working_on(self) -> GlobalVar | None:
        return self._work_on

    def work_on(self, func_name: str) -> None:
        """Select the function in which `get_block` looks from now on. Raises ScheduleError if the module has none of
        that name.
        """
        try:
            self._work_on = self._function(func_name)
        except Violation as v:
            raise ScheduleError(f"work_on: {v.rule}") from None

    def copy(self) -> Schedule:
        """Return an independent schedule at the same point. The handles of this schedule are valid in it."""
        new = object.__new__(Schedule)
        new.error_render_level = self.error_render_level
        new._state, moved = self._state.copy_with_refs()
        new._values = {rv: moved.get(id(v), v) if isinstance(v, StmtSRef) else v for rv, v in self._values.items()}
        new._trace = None if self._trace is None else self._trace.copy()
        new._work_on, new._last_was_list = self._work_on, False
        new.fallbacks = list(self.fallbacks)
        new._random = random.Random(self._random.getrandbits(31))
        return new

    def tried(self, given_up: str) -> Try:
        """A context for one primitive that the schedule can do without. If it is refused, the program and the trace stay as
        they are, and `fallbacks` says what is given up and why.

            with sch.tried("rows of the producer in the loop of their reader") as step:
                sch.compute_at(producer, loop)
            if step.refused: ...
        """
        return Try(self.fallbacks, given_up)

    def accepts(self, step: Callable[[Schedule], Any]) -> bool:
        """Whether steps would be accepted. They run on a copy."""
        try:
            step(self.copy())
        except ScheduleError:
            return False
        return True

    def attempt(self, steps: Callable[[Schedule], Any]) -> bool:
        """Does steps; if one is refused, none of them. Whether they were done. References to loops and blocks that were taken from this
        schedule before may be those of another one after a refusal; handles stay valid."""
        before = self.copy()
        try:
            steps(self)
        except ScheduleError:
            self._state, self._values, self._trace = before._state, before._values, before._trace
            return False
        return True

    def seed(self, seed: int | None) -> None:
        if seed is None or seed == -1:
            seed = random.getrandbits(31)
        self._random = random.Random(seed)

    def fork_seed(self) -> int:
        """Draw a seed from the random numbers of this schedule."""
        return self._random.getrandbits(31)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Print the program and the trace. The classic options of printing (style, black_format) are accepted and
        ignored.
        """
        print(self.mod)
        if self._trace is not None:
            print(self._trace)

    # ---- handles

    def get(self, rand_var_or_sref: Any) -> Any:
        """Return the Block, the For or the int of a handle. Accepts expressions of sampled ints, too."""
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, int):
            return rand_var_or_sref
        if isinstance(rand_var_or_sref, PrimExpr):
            value = self._values.get(rand_var_or_sref) if isinstance(rand_var_or_sref, Var) else None
            if value is not None:
                return value
            from tilewright.tir.stmt_functor import substitute

            e = substitute(
                rand_var_or_sref, {v: IntImm("int32", x) for v, x in self._values.items() if isinstance(v, Var)}
            )
            e = self.state.forms.simplify(e)
            return e.value if isinstance(e, IntImm) else e
        return self.get_sref(rand_var_or_sref).stmt

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef:
        """Return the reference of a handle, or of a statement of the current program."""
        try:
            return self.find(rand_var_or_stmt)
        except Violation as v:
            raise ScheduleError(f"get_sref: {v.rule}") from None

    def find(self, rv: Any) -> StmtSRef:
        """Like `get_sref`, but raises Violation, for use inside primitives."""
        if isinstance(rv, StmtSRef):
            return rv
        if isinstance(rv, (Block, For)):
            known = self._state.get_sref(rv)
            if known is None:
                refuse("{0} is not part of the current program", rv)
            return known
        ref = self._values.get(rv) if isinstance(rv, (BlockRV, LoopRV)) else None
        if not isinstance(ref, StmtSRef):
            refuse(f"a handle of this schedule is needed, but {rv!r} is none")
        if ref.stmt is None:
            refuse("the loop or block of a handle no longer exists: an earlier primitive removed it")
        return ref

    def remove_rv(self, rand_var: Any) -> None:
        """Remove a handle."""
        self._values.pop(rand_var, None)

    def block(self, rv: Any) -> StmtSRef:
        """Return the reference of a block handle."""
        ref = self.find(rv)
        if type(ref.stmt) is not Block:
            refuse("a block is needed, but {0} was given", ref.stmt)
        return ref

    def loop(self, rv: Any) -> StmtSRef:
        """Return the reference of a loop handle."""
        ref = self.find(rv)
        if type(ref.stmt) is not For:
            refuse("a loop is needed, but {0} was given", ref.stmt)
        return ref

    def number(self, value: PrimExprLike | None) -> Any:
        """Convert an int or a sampled handle to a Python int. None stays None."""
        if isinstance(value, PrimExpr):
            value = self.get(value)
        return value.value if isinstance(value, IntImm) else value

    def block_rv(self, ref: StmtSRef) -> BlockRV:
        rv = BlockRV()
        self._values[rv] = ref
        return rv

    def loop_rv(self, ref: StmtSRef) -> LoopRV:
        rv = LoopRV()
        self._values[rv] = ref
        return rv

    def mark_rv(self, mark: int) -> LoopRV:
        """Make a loop handle that stands for no loop: -1 keeps the block where it is, -2 inlines it."""
        rv = LoopRV()
        self._values[rv] = mark
        return rv

    def location_mark(self, rv: Any) -> int | None:
        """Return the mark of a handle that stands for no loop, else None."""
        value = self._values.get(rv)
        return value if isinstance(value, int) else None

    def expr_rv(self, value: int) -> ExprRV:
        rv = Var("v", "int32")
        self._values[rv] = value
        return rv

    # ---- machinery of the primitives

    def _run(self, kind: InstructionKind, values: list[Any]) -> list[PrimExpr | BlockRV | LoopRV]:
        return run(self, kind, values)

    def _default_function_name(self) -> str | None:
        """The name of the function in which `get_block` looks, if there is only one candidate."""
        if self._work_on is not None:
            return self._work_on.name_hint
        return next(iter(self._state.roots)).name_hint if len(self._state.roots) == 1 else None

    def _function(self, name: str | None) -> GlobalVar:
        known = list(self._state.roots)
        if name is None:
            if self._work_on is not None:
                return self._work_on
            if len(known) == 1:
                return known[0]
            main = [g for g in known if g.name_hint == "main"]
            if main:
                return main[0]
            refuse(
                f"the module has the functions {[g.name_hint for g in known]}: say which one by func_name or work_on"
            )
        found = [g for g in known if g.name_hint == str(name)]
        if not found:
            refuse(f"there is no function {name!r} to schedule; the module has {[g.name_hint for g in known]}")
        return found[0]

    def _blocks(self, gvar: GlobalVar) -> list[StmtSRef]:
        root = self._state.roots[gvar]
        return [root, *[self._state.ref(b) for b in all_blocks(root.stmt.body)]]

    @staticmethod
    def _create_non_traced(
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> Schedule:
        """Make a schedule without a trace."""
        new = Schedule(
            mod, seed=seed, debug_mask=debug_mask, error_render_level=error_render_level, enable_check=enable_check
        )
        new._trace = None
        return new

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> bool:
        """Whether decompose_padding would accept the block and loop."""
        return self.accepts(lambda trial: trial.decompose_padding(block, loop))

    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: Any,
        index_map: Any,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """B[i] = f; C[j] = B[j]   -->   B[i // 4, i % 4] = f; C[j] = B[j // 4, j % 4]

        buffer: ("read" or "write", number), a name, or the buffer. index_map: an IndexMap, or a function from the old
        indices to the new ones. IndexMap.AXIS_SEPARATOR among the new indices separates groups of dimensions; each
        group is flattened to one physical dimension. pad_value: the value of padding elements in the new layout, a
        number or a function of the new indices. None: the new layout must have no padding. assume_injective_transform:
        do not check that the map gives different elements different places.
        """
        separators: list[int] = []
        if callable(index_map) and not isinstance(index_map, IndexMap):
            try:
                ref = self.block(self.get_block(block) if isinstance(block, str) else block)
                kind, number = buffer_argument(ref.stmt, buffer)
                regions = ref.stmt.writes if kind == "write" else ref.stmt.reads
                index_map, separators = checked_map(index_map, len(regions[number].buffer.shape))
                buffer = (kind, number)
            except Violation as v:
                raise render("transform_layout", v, self.mod, self.error_render_level) from None
        self._transform_layout(block, buffer, index_map, pad_value, assume_injective_transform)
        if separators:
            self.set_axis_separator(block, buffer, separators)

    get_block = get_block
    get_loops = get_loops
    get_child_blocks = get_child_blocks
    get_producers = get_producers
    get_consumers = get_consumers
    get_output_blocks = get_output_blocks
    enter_postproc = enter_postproc

    split = loops.split
    loop_partition = loops.loop_partition
    fuse = loops.fuse
    reorder = loops.reorder
    merge = loops.merge
    rasterize = rasterization.rasterize
    unsafe_shorten = shortening.unsafe_shorten
    merge_axes = merged_axes.merge_axes
    add_version = versions.add_version
    add_unit_loop = loops.add_unit_loop
    reorder_block_iter_var = loops.reorder_block_iter_var

    parallel = loop_kinds.parallel
    vectorize = loop_kinds.vectorize
    unroll = loop_kinds.unroll
    bind = loop_kinds.bind
    annotate_buffer_access = annotating.annotate_buffer_access
    unsafe_hide_buffer_access = annotating.unsafe_hide_buffer_access
    annotate = annotating.annotate
    unannotate = annotating.unannotate

    compute_inline = inline.compute_inline
    reverse_compute_inline = inline.reverse_compute_inline
    compute_at = attach.compute_at
    reverse_compute_at = attach.reverse_compute_at

    sample_categorical = sampling.sample_categorical
    sample_perfect_tile = sampling.sample_perfect_tile
    sample_partitioned_tile = sampling.sample_partitioned_tile
    sample_compute_location = sampling.sample_compute_location

    cache_read = cache.cache_read
    cache_write = cache.cache_write
    reindex_cache_read = cache_special.reindex_cache_read
    reindex_cache_write = cache_special.reindex_cache_write
    cache_inplace = cache_special.cache_inplace
    cache_index = cache_special.cache_index
    read_at = staged_at.read_at
    write_at = staged_at.write_at
    reindex = transform.reindex

    decompose_reduction = reduction.decompose_reduction
    rfactor = rfactor.rfactor
    online = online.online

    set_scope = buffers.set_scope
    storage_align = buffers.storage_align
    unsafe_set_dtype = buffers.unsafe_set_dtype
    set_axis_separator = buffers.set_axis_separator
    _transform_layout = transform.transform_layout
    transform_block_layout = transform.transform_block_layout
    blockize = blocks.blockize
    tensorize = blocks.tensorize
    decompose_padding = padding.decompose_padding
    decompose_halo = halo.decompose_halo
    elide_copy = halo.elide_copy
    pad_einsum = padding.pad_einsum
    replicate = replicated.replicate
    rolling_buffer = rolling.rolling_buffer


def all_blocks(stmt: Any) -> list[Any]:
    """Every block at and below a statement, outer ones first."""
    out: list[Stmt] = []
    for leaf in leaves.leaves(stmt):
        out.append(leaf.block)
        out.extend(all_blocks(leaf.block.body))
    return out


__all__ = ["Schedule", "render"]
