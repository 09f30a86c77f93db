"""States: programs as classic scripts change them, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.auto_scheduler import steps
from tilewright.auto_scheduler.loops import ANNOTATIONS, Iterator, Stage, StateObject
from tilewright.support.errors import TVMError
from tilewright.te.operation import Operation
from tilewright.te.tensor import Tensor

if TYPE_CHECKING:
    from tilewright.auto_scheduler.compute_dag import ComputeDAG

Name = Operation | Tensor | int
"""A stage: its operation, as `stage_ops` has it or as it was at the start; its tensor; its number."""


class State:
    """A program: stages with their loops. `state[C].iters` are the loops of a stage; methods add steps.

    Raises TVMError for stages and loops that are not of the state, and for steps that are refused.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[dict[str, int]] = ANNOTATIONS

    def __init__(self, state_object: StateObject, dag: ComputeDAG) -> None:
        self.state_object = state_object
        self.compute_dag = dag

    @property
    def stages(self) -> list[Stage]:
        return self.state_object.stages

    @property
    def stage_ops(self) -> list[Operation]:
        """The operations of the stages."""
        return [stage.op for stage in self.stages]

    @property
    def transform_steps(self) -> list[steps.Step]:
        return self.state_object.transform_steps

    def bind(self, stage: Name, iterator: Iterator, thread_name: str) -> Iterator:
        """Runs a loop by the threads "vthread", "blockIdx.x", "threadIdx.x", ..."""
        if not (thread_name == "vthread" or thread_name in ANNOTATIONS and "Idx" in thread_name):
            raise TVMError(
                f"loops are bound to {', '.join([a for a in ANNOTATIONS if 'Idx' in a])} or vthread, not {thread_name}"
            )
        return self._annotate(stage, iterator, thread_name)

    def parallel(self, stage: Name, iterator: Iterator) -> Iterator:
        """Distributes a loop over threads of the CPU."""
        return self._annotate(stage, iterator, "parallel")

    def vectorize(self, stage: Name, iterator: Iterator) -> Iterator:
        """Makes a loop the lanes of vectors."""
        return self._annotate(stage, iterator, "vectorize")

    def unroll(self, stage: Name, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Unrolls a loop, but not one that is longer than max_unroll."""
        if max_unroll is not None and (iterator.extent or 0) > max_unroll:
            return iterator
        return self._annotate(stage, iterator, "unroll")

    def pragma(self, stage: Name, iterator: Iterator, pragma_type: str) -> None:
        """A hint for a loop, such as "auto_unroll_max_step$64"."""
        number = self._number(stage)
        self.add(steps.Pragma(number, self._place(number, iterator), pragma_type))

    def fuse(self, stage: Name, iters: Sequence[Iterator]) -> Iterator:
        """Makes loops, one in the other, a single one."""
        number = self._number(stage)
        places = [self._place(number, it) for it in iters]
        self.add(steps.Fuse(number, tuple(places)))
        return self.stages[number].iters[places[0]]

    def reorder(self, stage: Name, order: Sequence[Iterator]) -> None:
        """All loops of a stage in a new order."""
        number = self._number(stage)
        self.add(steps.Reorder(number, tuple([self._place(number, it) for it in order])))

    def split(
        self, stage: Name, iterator: Iterator, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator]:
        """Makes a loop several. lengths: of the inner ones, or, unless inner_to_outer, of the outer ones; None: still to be chosen."""
        number = self._number(stage)
        place = self._place(number, iterator)
        self.add(steps.Split(number, place, iterator.extent, tuple(lengths), bool(inner_to_outer)))
        return list(self.stages[number].iters[place : place + len(lengths) + 1])

    def follow_split(self, stage: Name, iterator: Iterator, src_step_id: int, n_split: int) -> list[Iterator]:
        """Splits a loop into n_split + 1 with the lengths of an earlier split, the last of them taken together."""
        number = self._number(stage)
        place = self._place(number, iterator)
        self.add(steps.FollowSplit(number, place, src_step_id, n_split))
        return list(self.stages[number].iters[place : place + n_split + 1])

    def follow_fused_split(
        self, stage: Name, iterator: Iterator, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> list[Iterator]:
        """Splits a loop in two by the product of the lengths, at one level, of earlier splits."""
        number = self._number(stage)
        place = self._place(number, iterator)
        self.add(steps.FollowFusedSplit(number, place, tuple(src_step_ids), level, bool(factor_or_nparts)))
        return list(self.stages[number].iters[place : place + 2])

    def storage_align(self, stage: Name, iterator: Iterator, factor: int, offset: int) -> None:
        """Makes the stride of the dimension before a loop a multiple of `factor`, plus `offset`."""
        number = self._number(stage)
        self.add(steps.StorageAlign(number, self._place(number, iterator), factor, offset))

    def compute_at(self, stage: Name, target_stage: Name, target_iter: Iterator) -> None:
        """Computes a stage in a loop of another one. Ranges of its loops are known again after `ComputeDAG.infer_bound_from_state`."""
        target = self._number(target_stage)
        self.add(steps.ComputeAt(self._number(stage), target, self._place(target, target_iter)))

    def compute_inline(self, stage: Name) -> None:
        """Computes a stage in the expressions that read it."""
        self.add(steps.ComputeInline(self._number(stage)))

    def compute_root(self, stage: Name) -> None:
        """Computes a stage on its own."""
        self.add(steps.ComputeRoot(self._number(stage)))

    def cache_read(self, stage: Name, scope_name: str, reader_stages: Sequence[Name]) -> Operation:
        """Copies a tensor for some of its readers. Returns the copy's operation."""
        number = self._number(stage)
        self.add(steps.CacheRead(number, scope_name, tuple([self._number(r) for r in reader_stages])))
        return self.stages[number + 1].op

    def cache_write(self, stage: Name, scope_name: str) -> Operation:
        """Computes a stage in other storage first. Returns the operation that does so; the stage itself copies from there."""
        number = self._number(stage)
        self.add(steps.CacheWrite(number, scope_name))
        return self.stages[number].op

    def rfactor(self, stage: Name, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Divides a reduction into partial results along a loop, which becomes axis factor_iter_id. Returns their operation."""
        number = self._number(stage)
        self.add(steps.Rfactor(number, self._place(number, iterator), factor_iter_id))
        return self.stages[number].op

    def copy(self) -> State:
        """A state that changes on its own."""
        return State(self.state_object, self.compute_dag)

    def add(self, step: steps.Step) -> None:
        """One more step."""
        self.state_object = self.compute_dag.added(self.state_object, step)

    def _annotate(self, stage: Name, iterator: Iterator, word: str) -> Iterator:
        number = self._number(stage)
        place = self._place(number, iterator)
        self.add(steps.Annotation(number, place, ANNOTATIONS[word]))
        return self.stages[number].iters[place]

    def _number(self, stage: Name) -> int:
        if isinstance(stage, int):
            if 0 <= stage < len(self.stages):
                return stage
            raise TVMError(f"the state has {len(self.stages)} stages, and no stage {stage}")
        op = stage.op if isinstance(stage, Tensor) else stage
        for same in (lambda a: a is op, lambda a: a.name == getattr(op, "name", None)):
            for i, other in enumerate(self.stage_ops):
                if same(other):
                    return i
        known = ", ".join([other.name for other in self.stage_ops])
        raise TVMError(f"{getattr(op, 'name', op)} is no stage of the state, whose stages are {known}")

    def _place(self, stage: int, iterator: Iterator) -> int:
        iters = self.stages[stage].iters
        for i, it in enumerate(iters):
            if it is iterator:
                return i
        names = ", ".join([it.name for it in iters])
        raise TVMError(f"{iterator} is no loop of stage {self.stages[stage].op.name}, whose loops are {names}")

    def __getitem__(self, key: Name) -> Stage:
        return self.stages[self._number(key)]

    def __str__(self) -> str:
        return str(self.state_object)

    __repr__ = __str__

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, State) and self.state_object == other.state_object

    __hash__ = None  # type: ignore[assignment]


__all__ = ["Iterator", "Stage", "State", "StateObject"]
