"""The network of MLPModel, and what it is trained on. Imports PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.support.errors import TVMError

try:
    import torch
except ImportError as error:
    raise TVMError(
        'MLPModel is a network that PyTorch trains, and PyTorch is missing: install it (pip install "tilewright[torch]"),'
        ' or use the cost model "xgb"'
    ) from error

__all__ = ["SegmentDataLoader", "SegmentSumMLP", "device", "lambda_rank_loss", "loaded", "saved", "topk_score", "torch"]

Array = np.ndarray[Any, Any]
Batch = tuple[Any, Any, Any]


class SegmentSumMLP(torch.nn.Module):  # type: ignore[misc]
    """Layers on each row of a schedule's features, the sum over the rows, and layers on the sum.

    input_dim, hidden_dim, output_dim: columns of features, of hidden layers, of the result. use_norm: the sum is normalised (LayerNorm).
    use_sigmoid: the results are between 0 and 1.
    """

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int = 256,
        output_dim: int = 1,
        use_norm: bool = False,
        use_sigmoid: bool = False,
    ) -> None:
        super().__init__()
        nn = torch.nn
        self.encoder = nn.Sequential(
            nn.Linear(input_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, hidden_dim), nn.ReLU()
        )
        self.norm = nn.LayerNorm(hidden_dim) if use_norm else nn.Identity()
        self.layer0 = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU())
        self.decoder = nn.Linear(hidden_dim, output_dim)
        self.sigmoid = nn.Sigmoid() if use_sigmoid else nn.Identity()

    def forward(self, segment_sizes: Any, features: Any) -> Any:
        """The results of schedules, of shape (schedules,) where output_dim is 1.

        segment_sizes: rows of each schedule, int32 (schedules,). features: the rows of all, float32 (rows, input_dim).
        """
        owners = torch.repeat_interleave(torch.arange(len(segment_sizes), device=features.device), segment_sizes.long())
        rows = self.encoder(features)
        sums = torch.zeros((len(segment_sizes), rows.shape[1]), dtype=rows.dtype, device=rows.device)
        hidden = self.norm(sums.index_add(0, owners, rows))
        hidden = self.layer0(hidden) + hidden
        hidden = self.layer1(hidden) + hidden
        return self.sigmoid(self.decoder(hidden).squeeze(-1))


class SegmentDataLoader:
    """Batches of schedules: (rows of each, features of all rows, results) as tensors on the device of the network.

    features: a (rows, columns) array of each schedule. results: float32 (schedules,); None where they are not known.
    """

    def __init__(
        self,
        features: Sequence[Array],
        results: Array | None = None,
        batch_size: int = 128,
        shuffle: bool = True,
    ) -> None:
        self.device = device()
        self.data_size, self.batch_size, self.shuffle = len(features), batch_size, shuffle
        self.features = [np.asarray(f, np.float32) for f in features]
        self.results = None if results is None else np.asarray(results, np.float32)

    def __len__(self) -> int:
        """The number of schedules."""
        return self.data_size

    def __iter__(self) -> Iterator[Batch]:
        order = np.random.permutation(self.data_size) if self.shuffle else np.arange(self.data_size)
        for begin in range(0, self.data_size, self.batch_size):
            yield self._batch(order[begin : begin + self.batch_size])

    def _batch(self, chosen: Array) -> Batch:
        parts = [self.features[int(i)] for i in chosen]
        sizes = torch.tensor([len(p) for p in parts], dtype=torch.int32, device=self.device)
        rows = torch.from_numpy(np.concatenate(parts)).to(self.device)
        known = None if self.results is None else torch.from_numpy(self.results[chosen]).to(self.device)
        return sizes, rows, known


def device() -> Any:
    """Where networks are: a GPU that PyTorch can use, else the CPU."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def lambda_rank_loss(
    preds: Any,
    labels: Any,
    k: int | None = None,
    eps: float = 1e-10,
    sigma: float = 1.0,
) -> Any:
    """How badly predictions rank schedules: LambdaLoss with the weights of LambdaRank (Wang et al., CIKM 2018), a scalar tensor.

    preds, labels: of shape (schedules,); higher is better in both. k: how many of the best count; None: all. eps: the least probability
    that is told from 0. sigma: how steep the probability is in the difference of two predictions.
    """
    preds, labels = preds.reshape(1, -1), labels.reshape(1, -1)
    ranked, order = preds.sort(descending=True, dim=-1)
    best, _ = labels.sort(descending=True, dim=-1)
    by_rank = torch.gather(labels, dim=1, index=order)
    difference = by_rank[:, :, None] - by_rank[:, None, :]
    counted = (difference > 0) & torch.isfinite(difference)
    within = torch.zeros(difference.shape[1:], dtype=torch.bool, device=preds.device)
    within[:k, :k] = True
    gains = torch.pow(2, by_rank.clamp(min=0.0)) - 1
    discount = torch.log2(1.0 + torch.arange(1, preds.shape[1] + 1, dtype=preds.dtype, device=preds.device))[None, :]
    ideal = ((torch.pow(2, best.clamp(min=0.0)) - 1) / discount)[:, :k].sum(dim=-1).clamp(min=eps)
    gains = gains / ideal[:, None]
    weights = torch.abs(1 / discount[:, :, None] - 1 / discount[:, None, :]) * torch.abs(
        gains[:, :, None] - gains[:, None, :]
    )
    scores = (ranked[:, :, None] - ranked[:, None, :]).clamp(min=-1e8, max=1e8).nan_to_num(0.0)
    chances = (torch.sigmoid(sigma * scores).clamp(min=eps) ** weights).clamp(min=eps)
    losses = torch.log2(chances)[counted & within]
    # Equal schedules have no order that could be wrong.
    return -losses.mean() if losses.numel() else 0.0 * preds.sum()


def topk_score(pred_results: Any, gt_results: Any, k: int) -> float:
    """The least cost of all schedules as a part of the least cost of the k that are predicted to be the fastest: 1 is perfect.

    pred_results, gt_results: predicted and measured costs, tensors of shape (schedules,); lower is better in both.
    """
    chosen = torch.topk(pred_results, min(k, len(pred_results)), largest=False).indices
    return float(gt_results.min() / gt_results[chosen].min())


def saved(path: str, what: dict[str, Any]) -> None:
    """Writes tensors, numbers and texts to a file."""
    with open(path, "wb") as file:
        torch.save(what, file)


def loaded(path: str, target: str) -> dict[str, Any]:
    """What `saved` wrote. target: the device of the tensors. Raises TVMError for other files."""
    try:
        found = torch.load(path, map_location=target, weights_only=True)
    except Exception as error:  # what PyTorch raises depends on where the file ends
        raise TVMError(f"{path} is no saved state of an MLPModel: {error}") from error
    if not isinstance(found, dict):
        raise TVMError(f"{path} is no saved state of an MLPModel: it holds {type(found).__name__}")
    return found
