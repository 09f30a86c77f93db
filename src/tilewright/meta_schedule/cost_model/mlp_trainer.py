"""Training of the network of MLPModel. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.meta_schedule.cost_model.groups import scores_of
from tilewright.meta_schedule.cost_model.mlp_network import SegmentDataLoader, lambda_rank_loss, topk_score, torch
from tilewright.meta_schedule.cost_model.mlp_state import State, TrainerConfig, logger, need_columns

Array = np.ndarray[Any, Any]
BEST = 5
"""How many schedules with the best predictions are looked at when a model is tested: the fastest of them counts."""


class SegmentSumMLPTrainer:
    """Trains the network of a state to rank schedules. Its results are scores: higher is faster.

    train_config: None: the default. state: None: a new one.
    """

    def __init__(self, train_config: TrainerConfig | None = None, state: State | None = None) -> None:
        self.config = train_config if train_config is not None else TrainerConfig()
        self.state = state if state is not None else State()
        self.loss_func = lambda_rank_loss
        self._optimized: Any = None
        self.optimizer: Any = None
        self._prepare()

    def _prepare(self) -> None:
        """Takes the parameters of the network of the state, which another one replaces when a state is loaded."""
        if self._optimized is not self.state.model:
            self._optimized = self.state.model
            self.optimizer = torch.optim.Adam(
                self.state.model.parameters(), lr=self.config.learning_rate, weight_decay=self.config.weight_decay
            )

    def train_step(
        self,
        data: tuple[Any, Any, Any],
        batch: int = 0,
        train_loss: float | None = None,
    ) -> float:
        """Learns from a batch, as SegmentDataLoader gives it; its results are scores. batch: its number. train_loss: the mean loss of
        those before; None for the first one. Returns the mean loss with this one."""
        self._prepare()
        sizes, features, results = data
        self.optimizer.zero_grad()
        loss = self.loss_func(self.state.model(sizes, features), results)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.state.model.parameters(), self.config.grad_clip_norm)
        self.optimizer.step()
        found = float(loss.detach().cpu())
        mean = found if train_loss is None else train_loss * 0.95 + found * 0.05
        if batch % self.config.train_verbose == 0:
            logger.info("batch %d: training loss %.4f", batch, mean)
        return mean

    def predict_step(self, data: tuple[Any, Any, Any]) -> Any:
        """The scores of a batch, a float32 tensor on the CPU."""
        sizes, features, _ = data
        self.state.model.eval()
        with torch.no_grad():
            return self.state.model(sizes, features).float().cpu()

    def train_full(self) -> None:
        """Learns from all that was measured, in num_epoch_full passes; a part of it tests what was learned, and the best pass is kept."""
        if self.config.frozen or not self.state.data:
            return
        train, tests = self._split()
        best: tuple[float, dict[str, Any]] | None = None
        loss: float | None = None
        batch = 0
        for epoch in range(self.config.num_epoch_full):
            self.state.model.train()
            for group in np.random.permutation(len(train)):
                features, scores = train[group]
                for data in SegmentDataLoader(features, scores, self.config.batch_size):
                    loss = self.train_step(data, batch, loss)
                    batch += 1
            if tests and epoch % max(self.config.test_interval, 1) == 0:
                wrong, score = self._tested(tests)
                logger.info("pass %d: test loss %.4f, top-%d score %.4f", epoch, wrong, BEST, score)
                if best is None or wrong < best[0]:
                    best = wrong, {name: value.clone() for name, value in self.state.model.state_dict().items()}
        if best is not None:
            self.state.model.load_state_dict(best[1])
        self.state.model.eval()
        self.state.untrained = False

    def train_incremental(self, features: list[Array], results: Array) -> None:
        """Learns from one batch of schedules of a kernel, in num_epoch_incremental passes. results: scores, of shape (schedules,)."""
        if self.config.frozen:
            return
        need_columns(features, self.state.config)
        self.state.model.train()
        loss: float | None = None
        for epoch in range(self.config.num_epoch_incremental):
            for data in SegmentDataLoader(features, results, batch_size=self.config.batch_size, shuffle=True):
                loss = self.train_step(data, epoch, loss)
        self.state.model.eval()
        self.state.untrained = False

    def predict_incremental(self, features: list[Array], results: Array | None = None) -> Array:
        """The scores of schedules, float32 (schedules,). results: measured scores with which they are compared in the log."""
        need_columns(features, self.state.config)
        loader = SegmentDataLoader(features, results, batch_size=self.config.batch_size, shuffle=False)
        found = [self.predict_step(data) for data in loader]
        scores = torch.cat(found) if found else torch.zeros(0)
        if results is not None and len(features):
            known = torch.from_numpy(np.asarray(results, np.float32))
            logger.info("loss %.4f, top-%d score %.4f", *self._compared(scores, known), BEST)
        values: Array = scores.numpy()
        return values

    def update(self, features: list[Array], costs: Array, group_hash: str) -> None:
        """Keeps the schedules of the kernel with this hash, and learns from them: of all that is known the first time, and whenever it has
        doubled since, and else of the new ones. costs: seconds, of shape (schedules,)."""
        need_columns(features, self.state.config)
        self.state.add_to_group(features, costs, group_hash)
        if self.config.frozen:
            return
        self._prepare()
        trained = getattr(self, "_trained_on", 0)
        if self.state.untrained or self.state.data_size >= 2 * trained:
            self._trained_on = self.state.data_size
            self.train_full()
        else:
            fastest = self.state.data[group_hash].min_cost
            self.train_incremental(features, scores_of(costs, fastest))

    def _split(self) -> tuple[list[tuple[list[Array], Array]], list[tuple[list[Array], Array]]]:
        """The schedules of each kernel to learn from, and those that test; none of kernels with few."""
        train, tests = [], []
        for group in self.state.data.values():
            order = np.random.permutation(len(group.costs))
            count = int(len(order) * self.config.test_split)
            # A single schedule has no rank.
            count = count if 2 <= count <= len(order) - 2 else 0
            parts = [
                ([group.features[int(i)] for i in part], group.scores[part]) for part in (order[count:], order[:count])
            ]
            train.append(parts[0])
            tests += [parts[1]] if count else []
        return train, tests

    def _tested(self, tests: list[tuple[list[Array], Array]]) -> tuple[float, float]:
        """The mean loss and the mean top-k score of schedules that were not learned from."""
        found = []
        for features, scores in tests:
            loader = SegmentDataLoader(features, scores, batch_size=self.config.batch_size, shuffle=False)
            predicted = torch.cat([self.predict_step(data) for data in loader])
            found.append(self._compared(predicted, torch.from_numpy(scores)))
        return float(np.mean([loss for loss, _ in found])), float(np.mean([score for _, score in found]))

    def _compared(self, predicted: Any, scores: Any) -> tuple[float, float]:
        return float(self.loss_func(predicted, scores)), topk_score(-predicted, 1 / scores.clamp(min=1e-10), BEST)
