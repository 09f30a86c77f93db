"""Converters of tokenizers, of embeddings of words by their letters, and of comparisons in decoding: tokens and frames."""

from __future__ import annotations

import re

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.runtime.host_functions.strings import string_table
from tilewright.support.errors import OpNotImplemented

BEGIN, END = "\x02", "\x03"
"""The marks of the start and the end of a string."""


@onnx_op("Tokenizer", domain=DOMAIN, typed=True)
def _tokens(node: OnnxNode, x: Value) -> Value:
    separators, expression = node.get("separators"), node.get("tokenexp")
    for pattern in [*(separators or []), *([expression] if expression else [])]:
        try:
            re.compile(pattern)
        except re.error as error:
            raise node.refuse(
                "tokenexp" if expression else "separators", pattern, f"regular expressions ({error})"
            ) from None
    config = {
        "separators": separators,
        "tokenexp": expression,
        "least": node.get("mincharnum"),
        "pad": node.get("pad_value"),
        "mark": bool(node.get("mark")),
    }
    return node.host_call_sized("text.tokens", [x.plain()], x.ndim + 1, "string", config)


def _cut(config: Config, string: str) -> list[str]:
    separators, least = config["separators"], config["least"]
    if config["tokenexp"] == "." or separators == [""]:
        found = list(string)
    elif separators:
        found = [string]
        for pattern in separators:
            found = [part for t in found for part in re.split(f"(?:{pattern})", t)]
    else:
        found = [m.group() for m in re.finditer(config["tokenexp"], string)]
    return [t for t in found if t and len(t) >= least]


def _all_tokens(config: Config, x: np.ndarray) -> list[list[str]]:
    return [_cut(config, str(t)) for t in string_table.decode(x).reshape(-1)]


@host_function("text.tokens.shape")
def _tokens_shape(config: Config, x: np.ndarray) -> np.ndarray:
    most = max([len(p) for p in _all_tokens(config, x)], default=0)
    return np.array([*x.shape, most + 2 * config["mark"]] if x.size else x.shape + (0,), np.int64)


@host_function("text.tokens")
def _run_tokens(config: Config, x: np.ndarray) -> np.ndarray:
    rows = _all_tokens(config, x)
    most = max([len(p) for p in rows], default=0)
    if config["mark"]:
        rows = [[BEGIN, *p, END] for p in rows]
        most += 2
    strings = [t for p in rows for t in [*p, *[config["pad"]] * (most - len(p))]]
    return string_table.encode(np.array(strings, object)).reshape(*x.shape, most if x.size else 0)


@onnx_op("WordConvEmbedding", domain=DOMAIN)
def _words(node: OnnxNode, words: Value, weight: Value, bias: Value, table: Value) -> Expr:
    if words.ndim != 2:
        raise OpNotImplemented(f"its words have {words.ndim} axes; supported: two, the words and their letters")
    count, _, window, width = node.static(weight)
    rows, letters = node.static(words)
    codes = node.call("take", table, words, axis=0)
    # The code 0 is padding: windows that begin after the last letter do not count.
    image = node.call("reshape", codes, newshape=(rows, 1, letters, width))
    made = node.call("nn.conv2d", image, weight, channels=count, kernel_size=(window, width))
    made = node.call("tanh", node.call("nn.bias_add", made, bias, axis=1))
    made = node.call("reshape", made, newshape=(rows, count, letters - window + 1))
    there = node.call("not_equal", words, node.scalar(0, words))
    lengths = node.call("sum", node.call("cast", there, dtype="int32"), axis=(1,), keepdims=True)
    starts = Value(array=np.arange(letters - window + 1, dtype=np.int32).reshape(1, -1))
    last = node.call("maximum", node.call("subtract", lengths, node.scalar(window, "int32")), node.scalar(0, "int32"))
    seen = node.call("expand_dims", node.call("less_equal", starts, last), axis=1)
    return node.call("max", node.call("where", seen, made, node.scalar(-np.inf, "float32")), axis=(2,))


@onnx_op("DynamicTimeWarping", domain=DOMAIN)
def _warped(node: OnnxNode, costs: Value) -> Value:
    return node.host_call_sized("warping.path", [costs], 2, "int32")


@host_function("warping.path")
def _path(config: Config, costs: np.ndarray) -> np.ndarray:
    table = costs.reshape(costs.shape[-2:]).astype(np.float32)
    rows, columns = len(table), len(table[0])
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    origin = np.zeros((rows + 1, columns + 1), np.int8)
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            # If two paths have the same cost, the one along the row is taken.
            before = (total[i - 1, j - 1], total[i - 1, j], total[i, j - 1])
            k = 0 if before[0] < min(before[1:]) else 1 if before[1] < min(before[0], before[2]) else 2
            total[i, j], origin[i, j] = table[i - 1, j - 1] + before[k], k
    i, j = rows, columns
    path: list[tuple[int, int]] = []
    while i or j:
        path.append((i - 1, j - 1))
        k = 2 if not i else 1 if not j else int(origin[i, j])
        i, j = i - (k != 2), j - (k != 1)
    return np.array(path[::-1], np.int32).T


@host_function("warping.path.shape")
def _path_shape(config: Config, costs: np.ndarray) -> np.ndarray:
    return np.array(_path(config, costs).shape, np.int64)


@onnx_op("BifurcationDetector", domain=DOMAIN)
def _forked(
    node: OnnxNode, source: Value, current: Value, matched: Value, predicted: Value | None = None
) -> list[Value]:
    config = {"least": node.get("min_ngram_size", 1), "most": node.get("max_ngram_size", 3)}
    inputs = [source, current, matched, *([] if predicted is None else [predicted])]
    tokens = node.host_call_sized("fork.tokens", inputs, 1, "int64", config)
    return [tokens, node.host_call_sized("fork.match", inputs, matched.ndim, "int64", config)]


@host_function("fork.tokens")
def _fork(
    config: Config, source: np.ndarray, current: np.ndarray, matched: np.ndarray, *predicted: np.ndarray
) -> np.ndarray:
    if not predicted:
        return current
    start, guess = int(matched.reshape(-1)[0]), predicted[0]
    rest = source[start:]
    differ = np.flatnonzero(rest[: len(guess)] != guess[: len(rest)])
    same = int(differ[0]) if len(differ) else min(len(rest), len(guess))
    return np.concatenate([current, guess[: same + 1]])


@host_function("fork.tokens.shape")
def _fork_shape(config: Config, *inputs: np.ndarray) -> np.ndarray:
    return np.array(_fork(config, *inputs).shape, np.int64)


@host_function("fork.match")
def _fork_match(config: Config, source: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    tokens = _fork(config, source, *inputs)
    found = -1
    for size in range(config["least"], config["most"] + 1):
        if size > len(tokens) or size > len(source):
            break
        windows = np.lib.stride_tricks.sliding_window_view(source, size)
        places = np.flatnonzero((windows == tokens[-size:]).all(axis=1))
        if len(places) == 0:
            break
        if len(places) == 1:
            found = int(places[0]) + size
            break
    return np.full(inputs[1].shape, found, np.int64)


@host_function("fork.match.shape")
def _fork_match_shape(
    config: Config, source: np.ndarray, current: np.ndarray, matched: np.ndarray, *more: object
) -> np.ndarray:
    return np.array(matched.shape, np.int64)
