"""Knobs for marks of axes, for places of cached reads, and for values that a template uses as it likes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.task.space.transforms import Entity, TransformSpace

THREADS = {
    "bind_gpu": {6: ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x"),
                 4: ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"),
                 2: ("blockIdx.x", "threadIdx.x")},
    "bind_gpu_virtual": {9: ("blockIdx.z", "blockIdx.y", "blockIdx.x", "vthread", "vthread", "vthread",
                             "threadIdx.z", "threadIdx.y", "threadIdx.x"),
                         6: ("blockIdx.y", "blockIdx.x", "vthread", "vthread", "threadIdx.y", "threadIdx.x"),
                         3: ("blockIdx.x", "vthread", "threadIdx.x")},
}  # fmt: skip
"""By policy and number of axes: what the innermost ones are bound to. Those before are fused."""

MARKS = ("none", "unroll", "vec")
TAGS = tuple([f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"])
ALL_MARKS = (*MARKS, *TAGS, "vthread", "fuse")


class AnnotateEntity(Entity):
    """anns: a mark for each axis; for the policy locate_cache, for each cached read the number of the axis where it is computed."""

    kind = "an"

    def __init__(self, anns: Sequence[Any]) -> None:
        super().__init__(list(anns))

    @property
    def anns(self) -> list[Any]:
        return self.value  # type: ignore[no-any-return]

    def apply(
        self,
        sch: te.Schedule,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Marks axes of a stage. Returns the axes; one that is fused with the next keeps its place.

        axis_lens: their extents. max_unroll: an axis that is longer is not unrolled, vec_size: one that has none of these extents is not
        vectorised: either is an error of `cfg`. source: the cached reads that are moved to axes of the stage, a list for each mark.
        """
        axes, stage = list(axes), sch[op]
        if source is not None:
            for tensors, place in zip(source, self.anns, strict=False):
                for tensor in tensors:
                    sch[tensor].compute_at(stage, axes[place])
            return axes
        for i, mark in enumerate(self.anns):
            length = axis_lens[i] if axis_lens is not None else None
            if mark == "unroll":
                if max_unroll and length is not None and length > max_unroll:
                    cfg.raise_error(f"an axis of {length} is too long to be unrolled; at most {max_unroll}")
                stage.unroll(axes[i])
            elif mark == "vec":
                if vec_size and length is not None and length not in vec_size:
                    cfg.raise_error(
                        f"an axis of {length} is not vectorised; its extent must be one of {list(vec_size)}"
                    )
                stage.vectorize(axes[i])
            elif mark == "fuse":
                axes[i + 1] = stage.fuse(axes[i], axes[i + 1])
            elif mark in TAGS or mark == "vthread":
                stage.bind(axes[i], te.thread_axis(mark))
            elif mark != "none":
                raise RuntimeError(f"{mark!r} is no mark of an axis, which are {', '.join(ALL_MARKS)}")
        return axes


class AnnotateSpace(TransformSpace):
    """How axes can be marked. Policies:

    try_unroll, try_vec, try_unroll_vec   each axis has one of these marks or none; at most one is vectorised (without try_: always marked)
    bind_gpu, bind_gpu_virtual            the innermost axes are bound to blocks and threads, those before are fused
    locate_cache                          at which of the axes cached reads are computed, with `num_anchor` = the number of the reads
    """

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any) -> None:
        super().__init__()
        self.num_output, self.policy = len(axes), policy
        self.entities = [AnnotateEntity(marks) for marks in self._marks(len(axes), kwargs)]

    def _marks(self, count: int, kwargs: dict[str, Any]) -> Iterator[Sequence[Any]]:
        if self.policy in THREADS:
            bound = max([n for n in THREADS[self.policy] if n <= count], default=0)
            if not bound:
                raise RuntimeError(
                    f"{self.policy} needs {min(THREADS[self.policy])} axes or more, but was given {count}"
                )
            yield ["fuse"] * (count - bound) + list(THREADS[self.policy][bound])
        elif self.policy == "locate_cache":
            yield from itertools.combinations(range(count), kwargs["num_anchor"])
        else:
            choices = self.policy.replace("try", "none").split("_")
            wrong = [c for c in choices if c not in MARKS]
            if wrong:
                raise ValueError(
                    f"{self.policy!r} is no policy of marks, which are bind_gpu, bind_gpu_virtual, locate_cache, and try_ with unroll,"
                    " vec or both"
                )
            for marks in itertools.product(choices, repeat=count):
                if marks.count("vec") <= 1:
                    yield marks

    @staticmethod
    def get_num_output(axes: Sequence[Any] = (), policy: str = "", **kwargs: Any) -> int:
        return len(axes)

    def __repr__(self) -> str:
        return f"Annotate(policy={self.policy}) len={len(self.entities)}"


class OtherOptionEntity(Entity):
    """val: a value that the template uses as it likes."""

    kind = "ot"

    def __init__(self, val: Any) -> None:
        super().__init__(val)

    @property
    def val(self) -> Any:
        return self.value


class OtherOptionSpace(TransformSpace):
    """Values to choose from, which are given as `candidate`."""

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any) -> None:
        super().__init__()
        self.entities = [OtherOptionEntity(value) for value in kwargs["candidate"]]

    @staticmethod
    def get_num_output(axes: Sequence[Any] = (), policy: str = "", **kwargs: Any) -> int:
        return 0

    def __repr__(self) -> str:
        return f"OtherOption({self.entities}) len={len(self.entities)}"
