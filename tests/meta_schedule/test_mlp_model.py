"""The cost model that is a network: it learns to rank schedules, is saved, and says what is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.test_features import drawn
from tilewright import meta_schedule as ms
from tilewright.meta_schedule.cost_model import MLPModel
from tilewright.meta_schedule.cost_model import mlp_model as M
from tilewright.meta_schedule.cost_model.groups import FeatureGroup
from tilewright.meta_schedule.feature_extractor import PerStoreFeature, RandomFeatureExtractor
from tilewright.meta_schedule.runner import RunnerResult
from tilewright.support.errors import TVMError

torch = pytest.importorskip("torch")

SMALL = M.SegmentSumMLPConfig(input_dim=6, hidden_dim=16)


def schedules(count: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Features of schedules, and costs that follow from the first column."""
    random = np.random.default_rng(seed)
    features = [random.random((random.integers(1, 4), 6)).astype("float32") for _ in range(count)]
    return features, np.array([1e-3 * (0.1 + f[:, 0].sum()) for f in features], "float32")


def trainer(**config: Any) -> Any:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    np.random.seed(0)
    return M.SegmentSumMLPTrainer(M.TrainerConfig(**config), M.State(SMALL))


def order(scores: np.ndarray, costs: np.ndarray) -> float:
    """The part of the pairs of schedules that the scores bring in the right order."""
    faster = costs[:, None] < costs[None, :]
    return float((scores[:, None] > scores[None, :])[faster].mean())


def test_it_learns_to_rank() -> None:
    made = trainer(learning_rate=1e-2, num_epoch_full=60)
    features, costs = schedules(64)
    made.update(features, costs, "kernel")
    others, known = schedules(32, seed=1)
    assert order(made.predict_incremental(others), known) > 0.85
    # A few more are learned from alone; twice as many, with all others.
    before = made.predict_incremental(others)
    more, seconds = schedules(16, seed=2)
    made.update(more, seconds, "kernel")
    assert made.state.data_size == 80 == len(made.state.data["kernel"].costs)
    after = made.predict_incremental(others, np.asarray(known.min() / known, "float32"))
    assert (before != after).any() and order(after, known) > 0.85


def test_a_frozen_one_does_not_learn() -> None:
    made = trainer(frozen=True)
    features, costs = schedules(8)
    before = made.predict_incremental(features)
    made.update(features, costs, "kernel")
    np.testing.assert_array_equal(made.predict_incremental(features), before)


def test_losses_and_scores() -> None:
    labels = torch.tensor([1.0, 0.5, 0.25, 0.0])
    right, wrong = (float(M.lambda_rank_loss(p, labels)) for p in (labels * 10, -labels * 10))
    assert 0 <= right < 0.01 < wrong
    assert float(M.lambda_rank_loss(-labels * 10, labels, k=2)) != wrong
    assert float(M.lambda_rank_loss(torch.ones(1), torch.ones(1))) == 0
    costs = torch.tensor([4.0, 2.0, 8.0])
    assert M.topk_score(costs, costs, 1) == 1 and M.topk_score(-costs, costs, 1) == 0.25
    assert M.topk_score(-costs, costs, 5) == 1
    group = FeatureGroup("kernel", [np.zeros((1, 2))], np.array([2.0]))
    group.append([np.zeros((1, 2))] * 2, np.array([1.0, 1e10]))
    assert group.min_cost == 1 and group.scores.tolist() == [0.5, 1, 0]
    with pytest.raises(ValueError, match="but there are 1 and 2"):
        group.append([np.zeros((1, 2))], np.array([1.0, 2.0]))


def test_the_sum_is_over_the_rows_of_a_schedule() -> None:
    features, costs = schedules(5)
    (sizes, rows, results), rest = M.SegmentDataLoader(features, costs, batch_size=4, shuffle=False)
    assert sizes.tolist() == [len(f) for f in features[:4]] and len(rows) == sum(sizes.tolist())
    assert results.tolist() == costs[:4].tolist() and len(rest[0]) == 1
    for norm, sigmoid in ((False, False), (True, True)):
        model = M.SegmentSumMLP(6, 8, 1, norm, sigmoid).to(rows.device)
        whole = model(sizes, rows)
        assert whole.shape == (4,) and (not sigmoid or bool(((whole > 0) & (whole < 1)).all()))
        alone = model(sizes[:1], rows[: int(sizes[0])])
        torch.testing.assert_close(whole[:1], alone)


def test_it_scores_schedules(tmp_path: Path) -> None:
    context, candidates = drawn(6)
    small = M.TrainerConfig(num_epoch_full=2)
    assert M.SegmentSumMLPConfig().input_dim == 2 * PerStoreFeature().feature_vector_length
    model = MLPModel(trainer=M.SegmentSumMLPTrainer(small))
    assert model.predict(context, candidates).tolist() == [0.0] * 6 and len(model.predict(context, [])) == 0
    results = [RunnerResult([1e-3 * (i + 1)], None) for i in range(5)] + [RunnerResult(None, "failed")]
    model.update(context, candidates, results)
    scores = model.predict(context, candidates)
    assert scores.shape == (6,) and np.isfinite(scores).all() and len(set(scores)) > 1
    path = str(tmp_path / "model")
    model.save(path)
    again = ms.CostModel.create("mlp")
    again.load(path)
    np.testing.assert_array_equal(again.predict(context, candidates), scores)
    again.update(context, candidates, results)
    assert again.trainer.state.data_size == 12  # type: ignore[attr-defined]
    # A file that ends early, and one of something else.
    data = Path(path).read_bytes()
    for left in (data[: len(data) // 2], data[:10], b""):
        Path(path).write_bytes(left)
        with pytest.raises(TVMError, match="is no saved state of an MLPModel"):
            again.load(path)
    torch.save({"config": {"columns": 3}}, path)
    with pytest.raises(TVMError, match="is no saved state of an MLPModel"):
        again.load(path)
    with pytest.raises(TVMError, match="No such file"):
        again.load(str(tmp_path / "missing"))
    np.testing.assert_array_equal(again.predict(context, candidates).shape, (6,))


def test_other_features() -> None:
    context, candidates = drawn(2)
    extractor = RandomFeatureExtractor(feature_size=6, max_block_num=2)
    model = MLPModel(trainer=M.SegmentSumMLPTrainer(M.TrainerConfig(num_epoch_full=1), M.State(SMALL, extractor)))
    results = [RunnerResult([1.0], None)] * 2
    model.update(context, candidates, results)
    assert model.predict(context, candidates).shape == (2,)
    wrong = MLPModel(trainer=M.SegmentSumMLPTrainer(state=M.State(SMALL)))
    with pytest.raises(TVMError, match=r"rows of 6 features, but a schedule has an array of shape \(.*, 328\)"):
        wrong.update(context, candidates, results)


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("mlp_network", "mlp_trainer"):
        monkeypatch.delitem(sys.modules, f"tilewright.meta_schedule.cost_model.{name}", raising=False)
    for make in (lambda: ms.CostModel.create("mlp"), M.State):
        with pytest.raises(TVMError, match="PyTorch is missing: install it"):
            make()
    assert M.TrainerConfig().to_dict()["batch_size"] == 128 and SMALL.to_dict()["hidden_dim"] == 16
