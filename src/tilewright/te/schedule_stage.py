"""A stage of a TE schedule: the axes of an operation, their splits, fusions and marks, and the place of the
computation.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.support.errors import ScheduleError
from tilewright.te.operation import BaseComputeOp, ComputeOp, HybridOp, Operation, PlaceholderOp, ScanOp
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import IterVar, Var
from tilewright.tir.schedule import IndexMap

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule
    from tilewright.te.tensor_intrin import TensorIntrin


class Split:
    """parent -> outer, inner. Either `factor` (the extent of inner) or `nparts` (the extent of outer) is given."""

    def __init__(
        self,
        parent: IterVar,
        outer: IterVar,
        inner: IterVar,
        factor: Any,
        nparts: Any,
        disable_predication: bool = False,
    ) -> None:
        self.parent, self.outer, self.inner = parent, outer, inner
        self.factor, self.nparts = (
            None if size is None else as_prim_expr(size, dtype=parent.var.dtype) for size in (factor, nparts)
        )
        self.disable_predication = disable_predication


class Fuse:
    """outer, inner -> fused."""

    def __init__(self, outer: IterVar, inner: IterVar, fused: IterVar) -> None:
        self.outer, self.inner, self.fused = outer, inner, fused


class Singleton:
    """An axis of extent one that corresponds to no axis of the operation."""

    def __init__(self, iter: IterVar) -> None:
        self.iter = iter


class Reordered:
    """The new order of the leaves."""

    def __init__(self, leaves: tuple[IterVar, ...]) -> None:
        self.leaves = leaves


class IterVarAttr:
    """The marks of an axis."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.bind_thread: IterVar | None = None
        self.pragmas: list[tuple[str, Any]] = []
        self.prefetches: list[tuple[Tensor, Any]] = []
        self.tensor_intrin: TensorIntrin | None = None
        self.dim_align_factor = self.dim_align_offset = 0

    @property
    def iter_type(self) -> int:
        """The kind of the loop, as a kind of IterVar."""
        return KINDS[self.kind] if self.kind else IterVar.Tensorized if self.tensor_intrin else IterVar.DataPar

    @property
    def pragma_keys(self) -> list[str]:
        return [k for k, _ in self.pragmas]

    @property
    def pragma_values(self) -> list[Any]:
        return [v for _, v in self.pragmas]

    @property
    def prefetch_data(self) -> list[Tensor]:
        return [t for t, _ in self.prefetches]

    @property
    def prefetch_offset(self) -> list[Any]:
        return [o for _, o in self.prefetches]


class AttachType(enum.IntEnum):
    """The place of a stage. `ROOT`: on its own; `SCOPE`: in a loop of another stage; `INLINE`: in its readers."""

    ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5


INLINE, ROOT, SCOPE = AttachType.INLINE, AttachType.ROOT, AttachType.SCOPE
SCOPES = ("global", "shared", "local", "warp", "wmma", "m16n8k8", "amx", "texture")
KINDS = {
    "vectorized": IterVar.Vectorized,
    "unrolled": IterVar.Unrolled,
    "parallel": IterVar.Parallelized,
}


def find(axes: Sequence[IterVar], axis: IterVar) -> int | None:
    """The position of an axis in a sequence."""
    for i, a in enumerate(axes):
        if a.var is axis.var:
            return i
    return None


def names(axes: Sequence[IterVar]) -> str:
    return ", ".join([a.var.name for a in axes]) or "none"


class Stage:
    """The axes of an operation (`leaf_iter_vars`, outermost first) and its place. The methods mark or change them.

    Axes are the IterVars of `op.axis`, `op.reduce_axis`, and those that `split`, `fuse` and `tile` return. If a rule is
    broken, a method raises ScheduleError and changes nothing.
    """

    def __init__(self, schedule: Schedule, op: Operation, is_output: bool) -> None:
        self.schedule, self.op, self.origin_op, self.is_output = schedule, op, op, is_output
        self.scope = ""
        self.double_buffered = False
        self.rolling = False
        self.layouts: list[Callable[..., Any]] = []
        self.env_thread_axes: tuple[IterVar, ...] = ()
        self.store_predicate: PrimExpr | None = None
        self.group: Stage | None = None
        self.members: list[Stage] | None = None
        self.attach_type, self.attach_stage, self.attach_ivar = ROOT, None, None  # type: tuple[int, Stage | None, IterVar | None]
        self.reset()

    def reset(self) -> None:
        """Set the axes to those of the operation."""
        self.root_iter_vars = list(self.op.loop_axes)
        self.all_iter_vars = list(self.root_iter_vars)
        self.leaf_iter_vars = list(self.root_iter_vars)
        self.actions: list[Split | Fuse | Singleton | Reordered] = []
        self.marks: dict[Var, IterVarAttr] = {}

    @property
    def is_plain(self) -> bool:
        """Whether nothing was done to the stage."""
        marked = self.scope or self.double_buffered or self.rolling or self.layouts or self.env_thread_axes
        moved = self.attach_type != ROOT or self.op is not self.origin_op or self.store_predicate is not None
        return not (self.actions or self.marks or marked or moved)

    @property
    def moves(self) -> bool:
        """Whether the stage is inlined or computed inside another stage."""
        place = self.group if self.group is not None and self.attach_type != SCOPE else self
        return self.attach_type == INLINE or place.attach_type == SCOPE

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def iter_var_attrs(self) -> dict[IterVar, IterVarAttr]:
        """The marks of all marked axes."""
        return {a: self.marks[a.var] for a in self.all_iter_vars if a.var in self.marks}

    @property
    def num_child_stages(self) -> int:
        """The number of stages in a group; 0 for other stages."""
        return len(self.members or ())

    @property
    def relations(self) -> list[Split | Fuse | Singleton]:
        """The splits and fusions, in order."""
        return [a for a in self.actions if not isinstance(a, Reordered)]

    def __repr__(self) -> str:
        return f"stage({self.name}, leaves=[{names(self.leaf_iter_vars)}])"

    # ---- checks

    def refuse(self, primitive: str, rule: str) -> ScheduleError:
        return ScheduleError(f"{primitive}: stage {self.name}: {rule}")

    def _leaf(self, primitive: str, axis: IterVar) -> int:
        if not isinstance(axis, IterVar):
            raise TypeError(f"{primitive}: stage {self.name}: an axis (IterVar) is needed, but was given {axis!r}")
        if isinstance(self.op, (PlaceholderOp, ScanOp)) or self.members is not None:
            raise self.refuse(primitive, "it has no loops of its own; schedule the stages that compute it")
        place = find(self.leaf_iter_vars, axis)
        if place is not None:
            return place
        used = self._user_of(axis)
        why = f"it was {used}" if used else "it belongs to another stage"
        raise self.refuse(
            primitive,
            f"{axis.var.name} must be one of its leaves, but {why}; its leaves are {names(self.leaf_iter_vars)}",
        )

    def _user_of(self, axis: IterVar) -> str:
        for a in self.actions:
            if isinstance(a, Split) and a.parent.var is axis.var:
                return f"split into {names((a.outer, a.inner))}"
            if isinstance(a, Fuse) and (a.outer.var is axis.var or a.inner.var is axis.var):
                return f"fused into {a.fused.var.name}"
        return ""

    def attr(self, axis: IterVar) -> IterVarAttr:
        return self.marks.setdefault(axis.var, IterVarAttr())

    def _unmarked(self, primitive: str, axis: IterVar) -> None:
        mark = self.marks.get(axis.var)
        if mark is not None and (mark.kind is not None or mark.bind_thread is not None or mark.tensor_intrin):
            done = mark.kind or ("tensorized" if mark.tensor_intrin else f"bound to {_tag(mark.bind_thread)}")
            raise self.refuse(primitive, f"{axis.var.name} must be a plain axis, but is {done} already")

    # ---- loops

    def split(
        self, parent: IterVar, factor: Any = None, nparts: Any = None, disable_predication: bool = False
    ) -> tuple[IterVar, IterVar]:
        """for i in n   -->   for i.outer in n / factor: for i.inner in factor

        Give either `factor` (the extent of the inner axis) or `nparts` (the extent of the outer one). If they do not
        divide the extent, the last part gets a predicate; `disable_predication` promises that they divide it. Returns
        (outer, inner).
        """
        place = self._leaf("split", parent)
        if (factor is None) == (nparts is None):
            raise ValueError(f"split: stage {self.name}: give one of factor and nparts, not both and not none")
        what, size = ("factor", factor) if nparts is None else ("nparts", nparts)
        if isinstance(size, IntImm):
            size = size.value
        if isinstance(size, bool) or not isinstance(size, (int, PrimExpr)):
            raise TypeError(f"split: stage {self.name}: {what} must be an integer, but is {size!r}")
        if isinstance(size, int) and size <= 0:
            raise self.refuse("split", f"{what} must be positive, but is {size}")
        self._unmarked("split", parent)
        dtype, kind = parent.var.dtype, parent.iter_type
        known = Range(0, size)
        outer = IterVar(None if nparts is None else known, Var(f"{parent.var.name}.outer", dtype), kind)
        inner = IterVar(known if nparts is None else None, Var(f"{parent.var.name}.inner", dtype), kind)
        self.leaf_iter_vars[place : place + 1] = [outer, inner]
        self.all_iter_vars += [outer, inner]
        self.actions.append(Split(parent, outer, inner, factor, nparts, disable_predication))
        return outer, inner

    def fuse(self, *args: IterVar) -> IterVar:
        """for i in n: for j in m   -->   for i.j.fused in n * m

        The axes must be adjacent, and are given outermost first. Without axes: makes a new outermost axis of extent
        one.
        """
        if not args:
            unit = IterVar(Range(0, 1), Var("singleton", "int32"), IterVar.DataPar)
            self.leaf_iter_vars.insert(0, unit)
            self.all_iter_vars.append(unit)
            self.actions.append(Singleton(unit))
            return unit
        fused = args[0]
        self._leaf("fuse", fused)
        for inner in args[1:]:
            fused = self._fuse(fused, inner)
        return fused

    def _fuse(self, outer: IterVar, inner: IterVar) -> IterVar:
        i, j = self._leaf("fuse", outer), self._leaf("fuse", inner)
        if j != i + 1:
            raise self.refuse(
                "fuse",
                f"{inner.var.name} must follow right after {outer.var.name}, but the leaves are"
                f" {names(self.leaf_iter_vars)}; bring them together by reorder",
            )
        if outer.iter_type != inner.iter_type:
            raise self.refuse(
                "fuse",
                f"{outer.var.name} and {inner.var.name} must be of one kind, but one is a reduction axis"
                " and the other is not",
            )
        self._unmarked("fuse", outer)
        self._unmarked("fuse", inner)
        dtype = max(outer.var.dtype, inner.var.dtype, key=lambda d: d.bits)
        fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", dtype), outer.iter_type)
        self.leaf_iter_vars[i : j + 1] = [fused]
        self.all_iter_vars.append(fused)
        self.actions.append(Fuse(outer, inner, fused))
        return fused

    def reorder(self, *args: IterVar) -> None:
        """for i: for j: S   -->   for j: for i: S

        The given axes are put in the new order, at the positions that they had.
        """
        places = [self._leaf("reorder", a) for a in args]
        if len(set(places)) != len(places):
            raise self.refuse("reorder", f"each axis is given once, but the order is {names(args)}")
        for place, axis in zip(sorted(places), args, strict=True):
            self.leaf_iter_vars[place] = axis
        self.actions.append(Reordered(tuple(self.leaf_iter_vars)))

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """for x: for y   -->   for x.outer: for y.outer: for x.inner: for y.inner

        Returns the four axes in this order.
        """
        xo, xi = self.split(x_parent, x_factor)
        yo, yi = self.split(y_parent, y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    # ---- marks

    def _mark(self, primitive: str, axis: IterVar, kind: str) -> None:
        self._leaf(primitive, axis)
        if kind in ("vectorized", "parallel") and axis.iter_type == IterVar.CommReduce:
            raise self.refuse(
                primitive,
                f"{axis.var.name} must not be {kind}: it is a reduction axis, whose iterations update the same"
                " elements; use rfactor to reduce parts of it independently",
            )
        mark = self.attr(axis)
        mark.kind, mark.tensor_intrin = kind, None

    def vectorize(self, var: IterVar) -> None:
        """Make the axis the lanes of vectors. Of several marks of an axis, the last one counts."""
        self._mark("vectorize", var, "vectorized")

    def unroll(self, var: IterVar) -> None:
        """Unroll the axis."""
        self._mark("unroll", var, "unrolled")

    def parallel(self, var: IterVar) -> None:
        """Distribute the axis over threads of the CPU."""
        self._mark("parallel", var, "parallel")

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Run the axis by the threads of `thread_ivar`, which te.thread_axis makes. It is no loop then: other marks have no effect."""
        self._leaf("bind", ivar)
        tag = _tag(thread_ivar) if isinstance(thread_ivar, IterVar) else ""
        if not tag:
            raise self.refuse(
                "bind",
                f"{ivar.var.name} is bound to a thread axis, as te.thread_axis makes it, but was given {thread_ivar!r}",
            )
        for leaf in self.leaf_iter_vars:
            mark = self.marks.get(leaf.var)
            if (
                leaf is not ivar
                and mark is not None
                and _tag(mark.bind_thread) == tag
                and not tag.startswith("vthread")
            ):
                raise self.refuse(
                    "bind", f"{ivar.var.name} must not be bound to {tag}, to which {leaf.var.name} is bound already"
                )
        self.attr(ivar).bind_thread = thread_ivar

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Mark the loop with `pragma_<type>`, such as auto_unroll_max_step and unroll_explicit."""
        self._leaf("pragma", var)
        self.attr(var).pragmas.append((pragma_type, pragma_value))

    def prefetch(self, tensor: Tensor, var: IterVar, offset: Any) -> None:
        """Insert software prefetch for the part of `tensor` that is read `offset` iterations of the axis later. The
        result does not change.
        """
        self._leaf("prefetch", var)
        self.attr(var).prefetches.append((tensor, offset))

    def tensorize(self, var: IterVar, tensor_intrin: Any) -> None:
        """Replace the loops from `var` inwards by an intrinsic of te.decl_tensor_intrin, which must compute the same."""
        self._leaf("tensorize", var)
        if getattr(tensor_intrin, "op", None) is None:
            raise TypeError(
                f"tensorize: stage {self.name}: an intrinsic of te.decl_tensor_intrin is needed, but was given"
                f" {type(tensor_intrin).__name__}"
            )
        mark = self.attr(var)
        mark.kind, mark.tensor_intrin = None, tensor_intrin

    # ---- place

    def _may_move(self, primitive: str) -> None:
        if self.is_output:
            raise self.refuse(primitive, "it is an output of the schedule, which is computed at the root")
        if isinstance(self.op, PlaceholderOp):
            raise self.refuse(primitive, "it is an input, which is not computed")

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute the stage in each iteration of the parent's leaf `scope`, as far as that iteration needs it."""
        self._may_move("compute_at")
        if not isinstance(self.op, BaseComputeOp):
            raise self.refuse(
                "compute_at",
                f"only a compute can be attached, but it is a {type(self.op).__name__}, computed at the root",
            )
        if parent.attach_type == INLINE:
            raise self.refuse(
                "compute_at",
                f"it must not be attached to stage {parent.name}, which is inlined and has no loops; attach it to a"
                " consumer of that, or call compute_root on that first",
            )
        if parent is self:
            raise self.refuse("compute_at", "it must be attached to another stage than itself")
        if isinstance(parent.op, HybridOp):
            raise self.refuse(
                "compute_at",
                f"it must not be attached to stage {parent.name}, whose loops are those of a hybrid script",
            )
        parent._leaf("compute_at", scope)
        self.attach_type, self.attach_stage, self.attach_ivar = SCOPE, parent, scope

    def compute_inline(self) -> None:
        """Compute the elements of this stage in the expressions that read them."""
        self._may_move("compute_inline")
        op = self.op
        if not isinstance(op, ComputeOp):
            raise self.refuse("compute_inline", "only a compute can be inlined")
        if op.reduce_axis:
            raise self.refuse("compute_inline", "it must not be a reduction, which is not an expression of one element")
        if len(op.body) > 1:
            raise self.refuse("compute_inline", f"it must have one output, but has {len(op.body)}")
        self.attach_type, self.attach_stage, self.attach_ivar = INLINE, None, None

    def compute_root(self) -> None:
        """Compute the whole stage before it is used. This is the default."""
        self.attach_type, self.attach_stage, self.attach_ivar = ROOT, None, None

    # ---- storage

    def set_scope(self, scope: str) -> None:
        """Set the storage scope of the stage's buffers: "global", "local", "shared", ..."""
        self._may_move("set_scope")
        self.scope = self.known_scope("set_scope", scope)

    def known_scope(self, primitive: str, scope: str) -> str:
        if not isinstance(scope, str) or scope.split(".")[0] not in SCOPES:
            raise self.refuse(
                primitive, f"the storage scope must be one of {', '.join(SCOPES)}, or a part of one, but is {scope!r}"
            )
        return scope

    def double_buffer(self) -> None:
        """Keep two copies of the buffer: one is filled while the other is used."""
        self._may_move("double_buffer")
        self.double_buffered = True

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Make the stride of `axis` (one of op.axis) equal to `offset` modulo `factor`."""
        op = self.op
        if not isinstance(op, BaseComputeOp) or find(op.axis, axis) is None:
            raise self.refuse("storage_align", f"{axis.var.name} must be one of op.axis")
        if factor <= 0:
            raise self.refuse("storage_align", f"factor must be positive, but is {factor}")
        mark = self.attr(axis)
        mark.dim_align_factor, mark.dim_align_offset = factor, offset

    def rolling_buffer(self) -> None:
        """Make the buffer a ring buffer that keeps only the rows that later iterations of the attaching loop need."""
        self._may_move("rolling_buffer")
        self.rolling = True

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
        """Store T[i, j] at T[f(i, j)]. The map takes the old indices and returns the new ones.

        te.AXIS_SEPARATOR between new indices separates groups; each group is one physical dimension. The map must be
        invertible. The loops of a compute follow its new layout: returns its new axes in that order, and its reduction
        axes follow them. Other stages keep their loops; returns None.
        """
        primitive, op = "transform_layout", self.op
        if op.num_outputs != 1:
            raise self.refuse(primitive, f"it must have one output, but has {op.num_outputs}")
        if isinstance(op, ComputeOp) and self.actions:
            raise self.refuse(primitive, "its axes are changed already; call transform_layout before split and fuse")
        shape = list(op.output(0).shape)
        for before in (*self.layouts, mapping_function):
            try:
                shape = IndexMap.from_func_with_separators(before, len(shape))[0].map_shape(shape)
            except ValueError as error:
                raise self.refuse(primitive, str(error)) from None
        self.layouts.append(mapping_function)
        if not isinstance(op, ComputeOp):
            return None
        made = [
            IterVar(Range.from_min_extent(IntImm(d.dtype, 0), d), Var(f"axis{k}", d.dtype), IterVar.DataPar)
            for k, d in enumerate(shape)
        ]
        self.root_iter_vars = [*made, *op.reduce_axis]
        self.leaf_iter_vars = list(self.root_iter_vars)
        self.all_iter_vars += made
        return made

    def env_threads(self, threads: IterVar | Sequence[IterVar]) -> None:
        """Launch thread axes, with extents, around the stage. Axes inside it can be bound to them."""
        given = (threads,) if isinstance(threads, IterVar) else tuple(threads)
        for t in given:
            if not _tag(t) or t.dom is None:
                raise self.refuse("env_threads", f"{t.var.name} must be a thread axis with an extent")
        self.env_thread_axes += given

    def set_store_predicate(self, predicate: PrimExpr) -> None:
        """Store results only where the predicate holds. It is an expression of bound thread axes and leaves."""
        self.store_predicate = predicate


def _tag(thread: IterVar | None) -> str:
    return thread.thread_tag if thread is not None else ""


class SpecializedCondition:
    """Conditions for choosing the schedule made inside `with`, such as bounds of a dynamic dimension."""

    _stack: ClassVar[list[SpecializedCondition]] = []

    def __init__(self, conditions: Any) -> None:
        self.clauses: list[PrimExpr] = list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]

    @staticmethod
    def current() -> SpecializedCondition | None:
        """The innermost open condition, or None."""
        return SpecializedCondition._stack[-1] if SpecializedCondition._stack else None

    def __enter__(self) -> Self:
        SpecializedCondition._stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        SpecializedCondition._stack.pop()
