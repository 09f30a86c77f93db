"""Losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OPAQUE, OpCard, need
from tilewright.relay.cards.relations import dims, may_equal, same_dtype, tensor, tensor_type
from tilewright.relay.expr import Expr, ExprWithOp
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.movement.indexing import integers, need_elements, within


def _probabilities(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.ones(4), 3).astype(np.float32)


class cross_entropy(OpCard, key="nn.cross_entropy"):
    """-sum(targets * log(predictions)) / batch size, a scalar. Both are (batch, classes)."""

    fuse = OPAQUE
    samples = [((_probabilities, _probabilities), {})]

    def infer(self, predictions: TensorType, targets: TensorType) -> Type:
        p, t = tensor(predictions, 0, 2), tensor(targets, 1, 2)
        dtype = same_dtype(p, t)
        need(all(map(may_equal, dims(p), dims(t))), "both must have one shape", f"they are {dims(p)} and {dims(t)}", 1)
        return tensor_type((), dtype)

    def compute(self, predictions: te.Tensor, targets: te.Tensor) -> te.Tensor:
        total = topi.sum(self._terms(predictions, targets))
        batch = topi.utils.to(topi.utils.shape_of(predictions)[0], predictions.dtype)
        loss: te.Tensor = te.compute((), lambda: -total() / batch, name="cross_entropy", tag="injective")
        return loss

    def _terms(self, predictions: te.Tensor, targets: te.Tensor) -> te.Tensor:
        return topi.multiply(topi.log(predictions), targets)

    def ref(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.asarray(-np.sum(np.log(predictions) * targets) / len(predictions), predictions.dtype)

    def _share(self, predictions: Expr, dy: ExprWithOp) -> ExprWithOp:
        """The adjoint of the negative mean over the batch, for the sum."""
        batch = op("take")(op("shape_of")(predictions, dtype="int64"), op_scalar(0))
        return op("negative")(dy) / op("cast")(batch, str(tensor(predictions.checked_type).dtype))

    def grad(
        self, predictions: ExprWithOp, targets: ExprWithOp, result: ExprWithOp, dy: ExprWithOp
    ) -> Sequence[Expr | None]:
        share = self._share(predictions, dy)
        return [share * targets / predictions, share * op("log")(predictions)]


def op_scalar(value: int) -> Expr:
    """A scalar of int64."""
    from tilewright.relay.expr import const

    return const(value, "int64")


class cross_entropy_with_logits(cross_entropy, key="nn.cross_entropy_with_logits"):
    """-sum(predictions * targets) / batch size, a scalar. predictions are logarithms, as from log_softmax."""

    samples = [(((3, 4), _probabilities), {})]

    def _terms(self, predictions: te.Tensor, targets: te.Tensor) -> te.Tensor:
        return topi.multiply(predictions, targets)

    def ref(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.asarray(-np.sum(predictions * targets) / len(predictions), predictions.dtype)

    def grad(
        self, predictions: ExprWithOp, targets: ExprWithOp, result: ExprWithOp, dy: ExprWithOp
    ) -> Sequence[Expr | None]:
        share = self._share(predictions, dy)
        return [share * targets, share * predictions]


class nll_loss(OpCard, key="nn.nll_loss"):
    """-predictions[n, targets[n, ..], ..] * weights[targets[n, ..]], and 0 where the target is `ignore_index`. predictions (batch,
    classes, ..), targets (batch, ..), weights (classes,). Targets out of bounds are clipped. reduction: "mean" divides the sum
    by the sum of the weights, "sum" is the sum, "none" keeps all elements."""

    reduction: str = "mean"
    ignore_index: int = -100
    fuse = OPAQUE
    samples = [
        (((3, 4), np.array([1, 0, 3], np.int32), lambda rng: rng.uniform(0.5, 2, 4).astype(np.float32)), {}),
        (
            (
                (2, 4, 3),
                np.array([[1, 0, 3], [2, 2, 0]], np.int64),
                lambda rng: rng.uniform(0.5, 2, 4).astype(np.float32),
            ),
            {"reduction": "sum", "ignore_index": 2},
        ),
        (
            (
                (2, 4, 3),
                np.array([[1, 0, 3], [2, 2, 0]], np.int64),
                lambda rng: rng.uniform(0.5, 2, 4).astype(np.float32),
            ),
            {"reduction": "none", "ignore_index": 0},
        ),
    ]

    def infer(self, predictions: TensorType, targets: TensorType, weights: TensorType) -> Type:
        p, t, w = tensor(predictions, 0), integers(tensor(targets, 1), 1), tensor(weights, 2, 1)
        need(len(p.shape) >= 2, "predictions must have a batch and classes", f"they are {p}", 0)
        need(
            self.reduction in ("mean", "sum", "none"),
            'reduction must be "mean", "sum" or "none"',
            f"it is {self.reduction!r}",
        )
        batch, classes, *rest = dims(p)
        fits = len(t.shape) == len(rest) + 1 and all(map(may_equal, dims(t), [batch, *rest]))
        need(fits, "targets must have predictions' axes without the classes", f"they are {dims(t)} for {dims(p)}", 1)
        need(may_equal(dims(w)[0], classes), "there must be a weight for each class", f"there are {dims(w)[0]}", 2)
        need_elements([classes], dims(t))
        return tensor_type(t.shape if self.reduction == "none" else (), p.dtype)

    def compute(self, predictions: te.Tensor, targets: te.Tensor, weights: te.Tensor) -> te.Tensor:
        return topi.nn.nll_loss(predictions, targets, weights, self.reduction, self.ignore_index)

    def ref(self, predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        kept = targets != self.ignore_index
        safe = within(np.where(kept, targets, 0), len(weights))
        picked = np.take_along_axis(predictions, safe[:, None], 1)[:, 0]
        shares = np.where(kept, weights[safe], 0).astype(predictions.dtype)
        terms = -picked * shares
        if self.reduction == "none":
            return np.asarray(terms)
        total = terms.sum()
        return np.asarray(total / shares.sum() if self.reduction == "mean" else total, predictions.dtype)

    def grad(
        self, predictions: ExprWithOp, targets: ExprWithOp, weights: ExprWithOp, result: ExprWithOp, dy: ExprWithOp
    ) -> Sequence[Expr | None]:
        dtype = str(tensor(predictions.checked_type).dtype)
        skipped = op("cast")(
            op("full_like")(targets, op("cast")(op_scalar(self.ignore_index), str(tensor(targets.checked_type).dtype))),
            "int64",
        )
        kept = op("cast")(op("not_equal")(op("cast")(targets, "int64"), skipped), dtype)
        safe = op("cast")(targets, "int64") * op("cast")(kept, "int64")
        shares = op("adv_index")([weights, safe]) * kept
        places = op("expand_dims")(safe, axis=1)
        picked = op("squeeze")(op("gather")(predictions, 1, places), axis=[1])
        part = dy
        if self.reduction == "mean":
            part = dy / op("sum")(shares)
        each = op("negative")(op("broadcast_to_like")(part, shares))
        back = op("scatter_elements")(
            op("zeros_like")(predictions), places, op("expand_dims")(each * shares, axis=1), axis=1, reduction="add"
        )
        by_weight = each * picked * kept
        if self.reduction == "mean":
            # The weight is also part of the divisor.
            by_weight = by_weight - op("broadcast_to_like")(part * result, shares) * kept
        flat = op("reshape")(safe, (1, -1))
        to_weights = op("scatter_nd")(op("zeros_like")(weights), flat, op("reshape")(by_weight, (-1,)), mode="add")
        return [back, None, to_weights]
