"""Features of schedules for cost models, and the modules of classic programs."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.kernels import context, gemm
from tests.meta_schedule.test_trace_space import vector_length
from tilewright import meta_schedule as ms
from tilewright.meta_schedule import cost_model as C
from tilewright.meta_schedule import feature_extractor as F
from tilewright.meta_schedule import mutator as M
from tilewright.meta_schedule import runner as R
from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.cost_model.metric import max_curve
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


def test_trees_learn(tmp_path: Path) -> None:
    ctx, candidates = drawn(40)
    # Short rows of vectors are fast: not what the prior knows.
    lengths = np.array([vector_length(c.sch.mod) for c in candidates], np.float64)
    results = [R.RunnerResult([length * 1e-6], None) for length in lengths]
    model = ms.CostModel.create("xgb", num_tuning_cores=1)
    before = model.predict(ctx, candidates)
    model.update(ctx, candidates, results)
    after = model.predict(ctx, candidates)

    def agreement(scores: np.ndarray[Any, Any]) -> float:
        pairs = [(i, j) for i in range(40) for j in range(40) if lengths[i] < lengths[j]]
        return float(np.mean([scores[i] > scores[j] for i, j in pairs]))

    assert agreement(after) > max(agreement(before), 0.9)
    model.save(str(tmp_path / "state"))
    again = C.XGBModel(num_tuning_cores=1)
    again.load(str(tmp_path / "state"))
    np.testing.assert_allclose(again.predict(ctx, candidates), after, rtol=1e-4, atol=1e-4)
    assert model.predict(ctx, []).shape == (0,)
    (tmp_path / "other").write_text("x")
    with pytest.raises(TVMError, match="is no saved state of an XGBModel"):
        again.load(str(tmp_path / "other"))
    with pytest.raises(ValueError, match="take the features of PerStoreFeature, but RandomFeatureExtractor was given"):
        C.XGBModel(extractor="random")
    assert list(max_curve(np.array([-1.0, 2.0, 1.0, 3.0]))) == [0.0, 2.0, 2.0, 3.0]


def test_without_xgboost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    ctx, candidates = drawn(3)
    model = ms.CostModel.create("xgb")
    scores = model.predict(ctx, candidates)
    model.update(ctx, candidates, [R.RunnerResult([1.0], None)] * 3)
    assert np.isfinite(scores).all() and (model.predict(ctx, candidates) == scores).all()
    model.save(str(tmp_path / "state"))
    model.load(str(tmp_path / "state"))


def test_parameters_of_trees() -> None:
    assert C.xgb_model.XGBConfig().to_dict()["max_depth"] == 10
    ctx, candidates = drawn(20)
    results = [R.RunnerResult([1e-6 * (i + 1)], None) for i in range(20)]
    scores = []
    for config in (None, C.xgb_model.XGBConfig(max_depth=1, eta=0.01)):
        model = C.XGBModel(config=config, num_tuning_cores=1)
        model.update(ctx, candidates, results)
        scores.append(model.predict(ctx, candidates))
    assert (scores[0] != scores[1]).any()
    pack = C.xgb_model.PackSum([np.ones((2, 3)), np.ones((1, 3))], np.array([1.0, 4.0]))
    assert pack.ids.tolist() == [0, 0, 1] and pack.dmatrix.get_label().tolist() == [1, 1, 4]
    rows = np.array([1.0, 2.0, 2.0])
    assert pack.predict_with_score(rows).tolist() == [3, 2]
    gradient, hessian = pack.obj_square_error(rows)
    assert gradient.tolist() == [2, 2, -2] and hessian.tolist() == [1, 1, 1]
    assert pack.rmse(rows) == ("p-rmse", 2.0) and pack.average_peak_score(rows, 2) == ("a-peak@2", (0.25 + 1) / 2)
    with pytest.raises(ValueError, match="which this PackSum was not given"):
        C.xgb_model.PackSum([np.ones((2, 3))], None).rmse(rows[:2])
    with pytest.raises(ValueError, match="each program has a score, but there are 1 and 2"):
        C.xgb_model.PackSum([np.ones((2, 3))], np.ones(2))
    named = [("b", 1), ("a", 2), ("p-rmse", 3)]
    assert [n for n, _ in sorted(named, key=C.xgb_model.make_metric_sorter("p-rmse"))] == ["p-rmse", "a", "b"]
    assert ms.is_meta_schedule_enabled() is False
