"""The network of MLPModel with what it learned from. PyTorch is imported when a state is made."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.meta_schedule.cost_model.groups import FAILED, FeatureGroup
from tilewright.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature
from tilewright.meta_schedule.logging import get_logger
from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
    from tilewright.meta_schedule.tune_context import TuneContext

Array = np.ndarray[Any, Any]
logger = get_logger("tilewright.meta_schedule.mlp_model")


def _network() -> Any:
    """The module that imports PyTorch. Raises TVMError where that is missing."""
    return import_module("tilewright.meta_schedule.cost_model.mlp_network")


class SegmentSumMLPConfig(NamedTuple):
    """The parameters of SegmentSumMLP. input_dim: by default the columns of PerStoreFeature(extract_workload=True)."""

    input_dim: int = 2 * PerStoreFeature().feature_vector_length
    hidden_dim: int = 256
    output_dim: int = 1
    use_norm: bool = False
    use_sigmoid: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The parameters by name."""
        return self._asdict()


class TrainerConfig(NamedTuple):
    """How a network is trained.

    batch_size: schedules of a step. learning_rate, weight_decay: of Adam. num_epoch_full, num_epoch_incremental: passes over all that was
    measured, and over the last batch. grad_clip_norm: the greatest norm of the gradient. train_verbose: steps from one line of the log to
    the next. test_interval: passes from one test to the next. test_split: the part of what was measured that tests it. frozen: it does
    not learn.
    """

    batch_size: int = 128
    learning_rate: float = 7e-4
    weight_decay: float = 1e-6
    num_epoch_full: int = 50
    num_epoch_incremental: int = 3
    grad_clip_norm: float = 0.5
    train_verbose: int = 1000
    test_interval: int = 1
    test_split: float = 0.2
    frozen: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The parameters by name."""
        return self._asdict()


def extract_features(
    context: TuneContext,
    candidates: list[MeasureCandidate],
    results: list[RunnerResult] | None = None,
    extractor: FeatureExtractor | None = None,
) -> tuple[list[Array], Array | None]:
    """The features of schedules, a float32 array of (rows, columns) each, and their costs: seconds, float32 (schedules,), 1e10 for those
    that failed; None without results. extractor: None: PerStoreFeature(extract_workload=True)."""
    used = extractor if extractor is not None else PerStoreFeature(extract_workload=True)
    features = [np.asarray(f.numpy(), np.float32) for f in used.extract_from(context, candidates)]
    if results is None:
        return features, None
    costs = [float(np.median(r.run_secs)) if r.run_secs else FAILED for r in results]
    return features, np.array(costs, np.float32)


class State:
    """A network, and what it learned from. model_config: None: the default. extractor: None: PerStoreFeature(extract_workload=True).

    Raises TVMError where PyTorch is missing.
    """

    def __init__(
        self,
        model_config: SegmentSumMLPConfig | None = None,
        extractor: FeatureExtractor | None = None,
    ) -> None:
        self._network = _network()
        self.config = model_config if model_config is not None else SegmentSumMLPConfig()
        self.extractor = extractor if extractor is not None else PerStoreFeature(extract_workload=True)
        self.model: Any = self._network.SegmentSumMLP(**self.config.to_dict()).to(self._network.device())
        self.data: OrderedDict[str, FeatureGroup] = OrderedDict()
        self.data_size = 0
        self.untrained = True

    def load(self, path: str, target: str = "cpu") -> None:
        """Takes what `save` wrote. target: the device that the file is read to. Raises TVMError for other files."""
        found = self._network.loaded(path, target)
        try:
            config = SegmentSumMLPConfig(**found["config"])
            model = self._network.SegmentSumMLP(**config.to_dict())
            model.load_state_dict(found["model"])
            groups = [
                FeatureGroup(name, [f.numpy() for f in features], costs.numpy())
                for name, features, costs in found["groups"]
            ]
            untrained = bool(found["untrained"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise TVMError(f"{path} is no saved state of an MLPModel: {error}") from error
        self.config, self.model, self.untrained = config, model.to(self._network.device()), untrained
        self.data = OrderedDict([(group.group_hash, group) for group in groups])
        self.data_size = sum([len(group.costs) for group in groups])

    def save(self, path: str) -> None:
        """Writes the network, and the features and costs of all schedules that it learned from, to a file."""
        tensor = self._network.torch.from_numpy
        state = {
            "config": self.config.to_dict(),
            "model": self.model.state_dict(),
            "groups": [
                (group.group_hash, [tensor(f) for f in group.features], tensor(np.asarray(group.costs)))
                for group in self.data.values()
            ],
            "untrained": self.untrained,
        }
        self._network.saved(path, state)

    def add_to_group(self, features: list[Array], costs: Array, group_hash: str) -> None:
        """Keeps the features and the costs of schedules of the kernel with this hash."""
        self.data_size += len(costs)
        if group_hash in self.data:
            self.data[group_hash].append(features, costs)
        else:
            self.data[group_hash] = FeatureGroup(group_hash, features, costs)


def need_columns(features: Sequence[Array], config: SegmentSumMLPConfig) -> None:
    """Raises TVMError for features that have other columns than the network takes."""
    for rows in features:
        if rows.ndim != 2 or rows.shape[1] != config.input_dim:
            raise TVMError(
                f"the network takes rows of {config.input_dim} features, but a schedule has an array of shape {rows.shape}:"
                " give SegmentSumMLPConfig(input_dim=..) the columns of the extractor"
            )
