"""Changes to the scores of tokens by the options of a search, before a token is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.value import OnnxNode, Value

NEVER = float(np.finfo(np.float32).min)
"""The score of excluded tokens."""


class Tensors:
    """Operator calls and constants for scores."""

    def __init__(self, node: OnnxNode) -> None:
        self.node = node

    def __call__(self, key: str, *args: object, **attrs: Any) -> Value:
        return self.node.value(key, *args, **attrs)

    @staticmethod
    def number(value: float, dtype: str) -> Value:
        """A constant without axes."""
        return Value(array=np.array(value, dtype))


def shaped(
    c: Tensors,
    scores: Value,
    sequences: Value,
    length: Value,
    first: bool,
    given: Mapping[str, Value | None],
    eos: int,
) -> Value:
    """Scores (rows, words) of the tokens after sequences (rows, most) of this length, changed by the node's options."""
    never = c.number(NEVER, "float32")
    penalty = given.get("repetition_penalty")
    if penalty is not None and (penalty.array is None or float(penalty.array.reshape(-1)[0]) != 1):
        scores = repeated_less(c, scores, sequences, length, c("reshape", penalty, newshape=()))
    size = int(c.node.get("no_repeat_ngram_size", 0))
    if size > 0:
        scores = without_repeats(c, scores, sequences, length, size)
    for name in ("vocab_mask", "prefix_vocab_mask"):
        mask = given.get(name)
        if mask is not None and (first or name == "vocab_mask"):
            rows = mask
            if mask.ndim == 2 and mask.known_extent(0) != scores.known_extent(0):
                rows = c("repeat", mask, repeats=scores.known_extent(0) // mask.known_extent(0), axis=0)
            scores = c("where", c("equal", rows, c.number(0, "int32")), never, scores)
    least = given.get("min_length")
    if least is not None:
        early = c("less", length, c.node.cast(c("reshape", least, newshape=()), "int64"))
        end = Value(array=(np.arange(scores.known_extent(1)) == eos).reshape(1, -1))
        scores = c("where", c("logical_and", end, early), never, scores)
    return scores


def repeated_less(c: Tensors, scores: Value, sequences: Value, length: Value, penalty: Value) -> Value:
    """Scores with a penalty on tokens that the row already has: positive scores are divided by it, others multiplied."""
    most = sequences.known_extent(1)
    inside = c("less", Value(array=np.arange(most, dtype=np.int64).reshape(1, -1)), length)
    start = c("strided_slice", sequences, begin=(0,), end=(1,), strides=(1,), axes=(1,))
    places = c("where", inside, sequences, start)
    now = c("gather", scores, places, axis=1)
    changed = c("where", c("less", now, c.number(0, "float32")), c("multiply", now, penalty), c("divide", now, penalty))
    return c("scatter_elements", scores, places, changed, axis=1)


def without_repeats(c: Tensors, scores: Value, sequences: Value, length: Value, size: int) -> Value:
    """Scores without tokens that would repeat an n-gram of `size` tokens of the row."""
    rows, most = sequences.known_extent(0), sequences.known_extent(1)
    if most < size:
        return scores
    starts = np.arange(most - size + 1)
    follows = starts + size - 1
    again = c(
        "broadcast_to",
        c("less", Value(array=follows.astype(np.int64).reshape(1, -1)), length),
        shape=(rows, len(starts)),
    )
    if size > 1:
        windows = (starts[:, None] + np.arange(size - 1)).astype(np.int64)
        earlier = c("take", sequences, Value(array=windows), axis=1)
        back = Value(array=np.arange(size - 1, dtype=np.int64) - (size - 1))
        last = c("take", sequences, c("add", back, length), axis=1, mode="clip")
        same = c("all", c("equal", earlier, c("expand_dims", last, axis=1)), axis=(2,))
        again = c("logical_and", again, same)
    following = c("take", sequences, Value(array=follows.astype(np.int64)), axis=1)
    bound = c("where", again, c.number(NEVER, "float32"), c.number(np.inf, "float32"))
    return c("scatter_elements", scores, following, bound, axis=1, reduction="min")
