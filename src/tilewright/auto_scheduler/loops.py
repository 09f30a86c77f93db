"""The loops of a program, as its steps leave them: stages with iterators. Nothing here is code yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.ir import IntImm, Range
from tilewright.te.operation import BaseComputeOp, Operation, PlaceholderOp
from tilewright.tir.expr import IterVar

if TYPE_CHECKING:
    from tilewright.auto_scheduler.step import Step

SPATIAL, REDUCTION, MIXED, SPECIAL = range(4)
"""Kinds of iterators: mixed ones are fused of the first two."""
PLACEHOLDER, COMPUTE = range(2)
"""Kinds of stages."""
ROOT, INLINED, ITER = range(3)
"""Places of stages: on their own, in their readers, in a loop of another stage."""
ANNOTATIONS = {
    "none": 0,
    "unroll": 1,
    "vectorize": 2,
    "parallel": 3,
    "vthread": 4,
    "blockIdx.x": 5,
    "threadIdx.x": 6,
    "blockIdx.y": 7,
    "threadIdx.y": 8,
    "blockIdx.z": 9,
    "threadIdx.z": 10,
    "tensorize": 11,
}
ANNOTATION_NAMES = list(ANNOTATIONS)


def clean(name: str) -> str:
    """The name of an axis as states and printed programs have it."""
    for old, new in ((".", "_"), ("@", "_"), ("outer", "o"), ("inner", "i")):
        name = name.replace(old, new)
    return name


@dataclass(eq=False, frozen=True)
class Iterator:
    """A loop. range: None while it is not known. annotation: a number of ANNOTATIONS."""

    name: str
    range: Range | None
    iter_kind: int
    annotation: int = 0

    @property
    def extent(self) -> int | None:
        """The number of iterations; None if it is not known, or is no constant."""
        size = None if self.range is None else self.range.extent
        return size.value if isinstance(size, IntImm) else None

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, frozen=True)
class Stage:
    """An operation with its loops, outermost first. auto_unroll_max_step, storage_offset: 0 where nothing is said."""

    op: Operation
    iters: tuple[Iterator, ...]
    compute_at: int = ROOT
    auto_unroll_max_step: int = 0
    storage_offset: int = 0

    @property
    def op_type(self) -> int:
        return PLACEHOLDER if isinstance(self.op, PlaceholderOp) else COMPUTE

    @classmethod
    def of(cls, op: Operation) -> Stage:
        """The stage of an operation to which nothing was done."""
        kinds = {IterVar.CommReduce: REDUCTION, IterVar.Opaque: SPECIAL}
        axes = [*getattr(op, "axis", ()), *getattr(op, "reduce_axis", ())] if isinstance(op, BaseComputeOp) else []
        return cls(op, tuple([Iterator(clean(a.var.name), a.dom, kinds.get(a.iter_type, SPATIAL)) for a in axes]))


@dataclass
class StateObject:
    """The stages of a program in the order of computation, and the steps that made them.

    attached: for each stage in a loop of another one, the number of that stage and of its iterator. ops: the operations of the stages after
    steps that change the graph. concrete: whether all lengths of splits are known.
    """

    stages: list[Stage]
    transform_steps: list[Step] = field(default_factory=list)
    attached: dict[int, tuple[int, int]] = field(default_factory=dict)
    concrete: bool = True
    FIELDS: ClassVar[tuple[str, ...]] = ("stages", "transform_steps", "concrete")

    def copy(self) -> StateObject:
        return StateObject(list(self.stages), list(self.transform_steps), dict(self.attached), self.concrete)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateObject) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> list[list[Any]]:
        """The steps as records hold them."""
        return [step.to_json() for step in self.transform_steps]

    def attached_to(self, stage: int, iterator: int | None = None) -> list[int]:
        """The stages in the loops of a stage, or in one of them."""
        return sorted([s for s, (t, i) in self.attached.items() if t == stage and iterator in (None, i)])

    def change(self, stage: int, **fields: Any) -> None:
        self.stages[stage] = replace(self.stages[stage], **fields)

    def replace_iters(self, stage: int, first: int, count: int, made: list[Iterator]) -> None:
        """New iterators for `count` ones. What was attached to these is attached to the innermost of the new ones."""
        iters = self.stages[stage].iters
        self.change(stage, iters=(*iters[:first], *made, *iters[first + count :]))
        grown = len(made) - count
        for other, (target, place) in self.attached.items():
            if target == stage and place >= first:
                self.attached[other] = (
                    target,
                    place + grown if place >= first + count else first + len(made) - 1,
                )

    def insert(self, at: int, stage: Stage) -> None:
        """One more stage. The numbers of those from `at` on grow by one."""
        self.stages.insert(at, stage)
        self.attached = {s + (s >= at): (t + (t >= at), i) for s, (t, i) in self.attached.items()}

    def text(self, delete_trivial_loop: bool = True) -> str:
        """The program in the classic form."""
        inputs = [s.op.name for s in self.stages if s.op_type == PLACEHOLDER]
        lines = [f"Placeholder: {', '.join(inputs)}"]
        for i, stage in enumerate(self.stages):
            if stage.op_type != PLACEHOLDER and stage.compute_at == ROOT:
                self._print(i, 0, delete_trivial_loop, lines)
        return "\n".join(lines) + "\n"

    __str__ = text

    def _print(self, number: int, indent: int, delete_trivial_loop: bool, lines: list[str]) -> None:
        stage = self.stages[number]
        for what, value in (
            ("auto_unroll", stage.auto_unroll_max_step),
            ("storage_offset", stage.storage_offset),
        ):
            if value:
                lines.append(f"{' ' * indent}{stage.op.name} {what}: {value}")
        for i, it in enumerate(stage.iters):
            if not (delete_trivial_loop and it.extent == 1 and it.range is not None):
                word = "for" if not it.annotation else ANNOTATION_NAMES[it.annotation]
                known = "(None)" if it.range is None else f"({it.range.min},{it.range.extent})"
                lines.append(f"{' ' * indent}{word} {it.name} {known}")
                indent += 2
            for other in self.attached_to(number, i):
                self._print(other, indent, delete_trivial_loop, lines)
        lines.append(f"{' ' * indent}{stage.op.name} = ...")
