"""Features of schedules for cost models, and the modules of classic programs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.meta_schedule.kernels import context, gemm
from tilewright import meta_schedule as ms
from tilewright.meta_schedule import feature_extractor as F
from tilewright.meta_schedule import mutator as M
from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.search_strategy import MeasureCandidate
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import Trace
from tilewright.tuning.features import features


def drawn(count: int) -> tuple[ms.TuneContext, list[MeasureCandidate]]:
    ctx = context(gemm(16, 16, 16))
    space, random = TraceSpace(ctx), Random(1)
    assert ctx.mod is not None
    infos = ArgInfo.from_entry_func(ctx.mod)
    return ctx, [MeasureCandidate(space.schedule(space.draw(random)), infos) for _ in range(count)]


def test_rows_of_statements() -> None:
    ctx, candidates = drawn(3)
    extractor = ms.FeatureExtractor.create("per-store-feature")
    found = [a.numpy() for a in extractor.extract_from(ctx, candidates)]
    assert ctx.target is not None
    stores = [len(features(c.sch.mod, ctx.target)) for c in candidates]
    assert [len(a) for a in found] == stores and {a.shape[1] for a in found} == {164}
    assert all([np.isfinite(a).all() for a in found])
    whole = F.PerStoreFeature(extract_workload=True).extract_from(ctx, candidates)[0].numpy()
    assert (
        whole.shape == (stores[0], 328)
        and (whole[:, :164] == found[0]).all()
        and (whole[:, 164:] == whole[0, 164:]).all()
    )
    fewer = F.PerStoreFeature(buffers_per_store=2, arith_intensity_curve_num_samples=4)
    assert fewer.extract_from(ctx, candidates)[0].shape[1] == fewer.feature_vector_length < 164
    ctx.target = None
    with pytest.raises(TVMError, match="the features of programs depend on the target"):
        extractor.extract_from(ctx, candidates)


def test_random_rows() -> None:
    ctx, candidates = drawn(4)
    found = F.RandomFeatureExtractor(feature_size=7, max_block_num=3, seed=2).extract_from(ctx, candidates)
    assert len(found) == 4 and all([1 <= a.shape[0] <= 3 and a.shape[1] == 7 for a in found])
    with pytest.raises(ValueError, match="a feature extractor is one of per-store-feature, random"):
        ms.FeatureExtractor.create("other")


def test_modules_of_single_classes() -> None:
    assert ms.database.json_database.JSONDatabase is ms.database.JSONDatabase
    assert ms.mutator.mutate_unroll.MutateUnroll is M.MutateUnroll
    assert ms.postproc.verify_gpu_code.VerifyGPUCode is ms.postproc.VerifyGPUCode
    assert ms.task_scheduler.round_robin.RoundRobin is ms.task_scheduler.RoundRobin
    wide = ms.schedule_rule.MultiLevelTilingWideVector
    assert ms.schedule_rule.multi_level_tiling.MultiLevelTilingWideVector is wide


def test_mutators_of_users_may_take_a_seed() -> None:
    seeds = []

    @ms.derived_object
    class Seeded(M.PyMutator):
        def apply(self, trace: Trace, seed: int) -> Trace | None:  # type: ignore[override]
            seeds.append(seed)
            return trace

    ctx = context(gemm(), space=ms.space_generator.PostOrderApply(mutator_probs={Seeded(): 1.0}))
    space = TraceSpace(ctx)
    space.neighbour(space.draw(Random(1)), Random(2))
    assert len(seeds) == 1 and seeds[0] > 0
