"""From schedules to rows of numbers, for cost models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tilewright.ir import IRModule
from tilewright.runtime import NDArray, ndarray
from tilewright.support.errors import TVMError
from tilewright.tuning.features.columns import features_of, host_threads, names
from tilewright.tuning.weight_layouts import without_copies

if TYPE_CHECKING:
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
    from tilewright.meta_schedule.tune_context import TuneContext


class FeatureExtractor(ABC):
    """Makes features of schedules."""

    kinds: ClassVar[dict[str, Callable[..., FeatureExtractor]]] = {}
    """The extractors by the names that `create` takes."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            FeatureExtractor.kinds[kind] = cls

    @abstractmethod
    def extract_from(self, context: TuneContext, candidates: list[MeasureCandidate]) -> list[NDArray]:
        """An array of (rows, columns) for each schedule."""

    @staticmethod
    def create(kind: str = "per-store-feature", *args: Any, **kwargs: Any) -> FeatureExtractor:
        """An extractor by its name: "per-store-feature" or "random". Raises ValueError for others."""
        if kind not in FeatureExtractor.kinds:
            known = ", ".join(sorted(FeatureExtractor.kinds))
            raise ValueError(f"a feature extractor is one of {known}, but {kind!r} was given")
        return FeatureExtractor.kinds[kind](*args, **kwargs)


class PyFeatureExtractor(FeatureExtractor):
    """The base of extractors of users, which define extract_from."""


class PerStoreFeature(FeatureExtractor, kind="per-store-feature"):
    """A row for each statement that stores: the columns of Ansor (OSDI 2020), float32, counts and sizes as log2(1 + x).

    buffers_per_store: buffers of a statement that have columns. arith_intensity_curve_num_samples: columns of the arithmetic intensity.
    cache_line_bytes: of the processor. extract_workload: each row is followed by the sums of the rows of the unscheduled module.
    """

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64,
        extract_workload: bool = False,
    ) -> None:
        self.buffers_per_store, self.cache_line_bytes = buffers_per_store, cache_line_bytes
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.extract_workload = extract_workload
        self.feature_vector_length = len(names(buffers_per_store, arith_intensity_curve_num_samples))

    def extract_from(self, context: TuneContext, candidates: list[MeasureCandidate]) -> list[NDArray]:
        if context.target is None:
            raise TVMError("the features of programs depend on the target: give TuneContext one")
        rows = [self._rows(context, candidate.sch.mod) for candidate in candidates]
        if self.extract_workload:
            if context.mod is None:
                raise TVMError("the features of the workload need a module: give TuneContext one")
            whole = self._rows(context, context.mod).sum(axis=0)
            rows = [np.concatenate([r, np.tile(whole, (len(r), 1))], axis=1) for r in rows]
        return [ndarray.array(r) for r in rows]

    def _rows(self, context: TuneContext, mod: IRModule) -> np.ndarray[Any, Any]:
        assert context.target is not None
        found = features_of(
            without_copies(mod),
            context.target,
            min(context.target.cpu.threads, host_threads()),
            self.buffers_per_store,
            self.arith_intensity_curve_num_samples,
            self.cache_line_bytes,
        )
        return found[:, : self.feature_vector_length]


class RandomFeatureExtractor(FeatureExtractor, kind="random"):
    """Random rows, from 1 to max_block_num of them, of feature_size columns from [0, 1)."""

    def __init__(self, *, feature_size: int = 30, max_block_num: int = 5, seed: int = 0) -> None:
        self.feature_size, self.max_block_num = feature_size, max_block_num
        self.random = np.random.default_rng(seed)

    def extract_from(self, context: TuneContext, candidates: list[MeasureCandidate]) -> list[NDArray]:
        counts = self.random.integers(1, self.max_block_num + 1, len(candidates))
        return [ndarray.array(self.random.random((count, self.feature_size)).astype("float32")) for count in counts]


create = FeatureExtractor.create
