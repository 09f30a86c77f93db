"""Converters of CTC decoders: the most probable sequences of classes, computed by host functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call, host_call_sized
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import string_host


@tf_op("CTCGreedyDecoder")
def _greedy(c: NodeCall, x: Value, lengths: Value) -> list[Value]:
    config: dict[str, Any] = {"merge": bool(c.attr("merge_repeated", False)), "blank": int(c.attr("blank_index", -1))}
    return _decoded(c, "tf.ctc", [x, lengths], 1, **config)


@tf_op("CTCBeamSearchDecoder")
def _beams(c: NodeCall, x: Value, lengths: Value) -> list[Value]:
    paths = int(c.attr("top_paths"))
    config: dict[str, Any] = {"most": paths, "width": int(c.attr("beam_width"))}
    config["merge"] = bool(c.attr("merge_repeated", True))
    return _decoded(c, "tf.beams", [x, lengths], paths, **config)


def _decoded(c: NodeCall, function: str, given: list[Value], paths: int, **config: Any) -> list[Value]:
    """The results of a decoder: the indices, classes and size of each path as a sparse tensor, and the paths' scores.

    The search runs once. It writes a table of int64 (paths, examples, 2 + steps): the bits of the score, the length, the classes.
    """
    steps, examples = given[0].shape[:2]
    table = [host_call(c, function, given, [paths, examples, steps + 2], "int64", **config)]
    groups = [
        [host_call_sized(c, "tf.path.places", table, 2, "int64", path=k) for k in range(paths)],
        [host_call_sized(c, "tf.path.classes", table, 1, "int64", path=k) for k in range(paths)],
        [host_call(c, "tf.path.size", table, [2], "int64", path=k) for k in range(paths)],
    ]
    return [
        *groups[0],
        *groups[1],
        *groups[2],
        host_call(c, "tf.path.scores", table, [examples, paths], given[0].dtype),
    ]


def _table(found: Sequence[Sequence[tuple[Sequence[int], float]]], paths: int, steps: int) -> np.ndarray:
    """The table of (classes, score) for each path of each example."""
    out = np.zeros((paths, len(found), steps + 2), np.int64)
    for b, ranked in enumerate(found):
        if len(ranked) < paths:
            raise ValueError(f"the example {b} has {len(ranked)} paths, fewer than the {paths} of top_paths")
        for k, (classes, score) in enumerate(ranked):
            out[k, b, 0] = np.float64(score).view(np.int64)
            out[k, b, 1 : 2 + len(classes)] = len(classes), *classes
    return out


@string_host("tf.ctc")
def _greedy_table(config: Config, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    blank = config["blank"] % x.shape[2]
    found = []
    for b, n in enumerate(lengths.tolist()):
        best = x[:n, b].argmax(-1).tolist()
        kept = [v for k, v in enumerate(best) if not (config["merge"] and k and v == best[k - 1])]
        found.append([([v for v in kept if v != blank], -float(x[:n, b].max(-1).sum()))])
    return _table(found, 1, len(x))


@string_host("tf.beams")
def _beam_table(config: Config, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The most probable sequences of each example, with the logarithms of their probabilities (prefix search)."""
    blank = x.shape[2] - 1
    found = []
    logs = x.astype(np.float64) - np.logaddexp.reduce(x.astype(np.float64), 2, keepdims=True)
    for b, n in enumerate(lengths.tolist()):
        # Prefix -> (probability that it ends with a blank, probability that it does not).
        beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}
        for row in logs[:n, b]:
            made: dict[tuple[int, ...], list[float]] = {}
            for prefix, (ends, goes) in beams.items():
                total = np.logaddexp(ends, goes)
                held = made.setdefault(prefix, [-np.inf, -np.inf])
                held[0] = np.logaddexp(held[0], total + row[blank])
                if prefix:
                    held[1] = np.logaddexp(held[1], goes + row[prefix[-1]])
                for v in range(blank):
                    longer = made.setdefault((*prefix, v), [-np.inf, -np.inf])
                    before = ends if prefix and v == prefix[-1] else total
                    longer[1] = np.logaddexp(longer[1], before + row[v])
            best = sorted(made.items(), key=lambda p: -float(np.logaddexp(p[1][0], p[1][1])))[: config["width"]]
            beams = {p: (v[0], v[1]) for p, v in best}
        ranked = [(list(p), float(np.logaddexp(*v))) for p, v in beams.items()][: config["most"]]
        if config["merge"]:
            ranked = [([v for k, v in enumerate(p) if not k or v != p[k - 1]], score) for p, score in ranked]
        found.append(ranked)
    return _table(found, config["most"], len(x))


@string_host("tf.path.places", sized=True)
def _path_places(config: Config, table: np.ndarray) -> np.ndarray:
    counts = table[config["path"], :, 1].tolist()
    return np.array([(b, k) for b, n in enumerate(counts) for k in range(n)], np.int64).reshape(-1, 2)


@string_host("tf.path.classes", sized=True)
def _path_classes(config: Config, table: np.ndarray) -> np.ndarray:
    return np.array([v for row in table[config["path"]] for v in row[2 : 2 + row[1]]], np.int64)


@string_host("tf.path.size")
def _path_size(config: Config, table: np.ndarray) -> np.ndarray:
    return np.array([table.shape[1], table[config["path"], :, 1].max(initial=0)], np.int64)


@string_host("tf.path.scores")
def _path_scores(config: Config, table: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(table[:, :, 0]).view(np.float64).T


# ---- boxes
