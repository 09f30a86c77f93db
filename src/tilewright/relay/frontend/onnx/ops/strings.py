"""Converters of operators on strings, as host operators. A string is a number (`host_functions/strings.py`), so kernels can compare."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.kinds import numpy_dtype
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.runtime.host_functions.strings import string_table
from tilewright.support.errors import DiagnosticError, said


def parsed(node: OnnxNode, x: Value, element: str) -> Value:
    """The numbers that strings spell, in float64, or in int64 for integer types."""
    wanted = element if element in ("float64", "int64", "uint64") else "float32"
    if element != "bool" and np.dtype(numpy_dtype(element)).kind in "iu" and element not in ("int64", "uint64"):
        wanted = "int64"
    return node.host_call("text.parse", [x], x.shape, wanted)


def printed(node: OnnxNode, x: Value) -> Value:
    """Numbers converted to strings."""
    return node.host_call("text.print", [x.plain()], x.shape, "string", {"kind": x.kind})


@host_function("text.parse")
def _parse(config: Config, numbers: np.ndarray) -> np.ndarray:
    strings = string_table.decode(numbers).reshape(-1).tolist()
    values = [int(t) if re.fullmatch(r"\s*[+-]?\d+\s*", t) else float(t) for t in strings]
    whole = all([isinstance(v, int) for v in values])
    return np.array(values, object if whole else np.float64).reshape(numbers.shape)


@host_function("text.print")
def _print(config: Config, x: np.ndarray) -> np.ndarray:
    from tilewright.relay.frontend.onnx.kinds import decode

    values = decode(x, config["kind"]) if config["kind"] else x
    return string_table.encode([_text(v) for v in values.reshape(-1)]).reshape(x.shape)


def _text(v: Any) -> str:
    if isinstance(v, np.bool_):
        return "1" if v else "0"
    if isinstance(v, np.integer) or not hasattr(v, "dtype"):
        return str(v)
    number = v if v.dtype in (np.float32, np.float64, np.float16) else np.float32(v)
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "INF" if number > 0 else "-INF"
    return str(np.asarray(number).astype(np.str_))


@onnx_op("StringConcat", since=20, typed=True)
def _concat(node: OnnxNode, x: Value, y: Value) -> Value:
    plain = [v.plain() for v in (x, y)]
    shape = Value(node.call("add", *plain)).shape
    return node.host_call("text.concat", plain, shape, "string")


@host_function("text.concat")
def _run_concat(config: Config, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(string_table.decode(x), string_table.decode(y))
    return string_table.encode(
        np.array([p + q for p, q in zip(a.reshape(-1), b.reshape(-1), strict=True)], object)
    ).reshape(a.shape)


@onnx_op("RegexFullMatch", since=20, typed=True)
def _full_match(node: OnnxNode, x: Value) -> Value:
    pattern = node.get("pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        raise DiagnosticError(f"its pattern {pattern!r} is no regular expression: {said(error)}") from None
    return node.host_call("text.full_match", [x], x.shape, "bool", {"pattern": pattern})


@host_function("text.full_match")
def _run_full_match(config: Config, x: np.ndarray) -> np.ndarray:
    pattern = re.compile(config["pattern"])
    strings = string_table.decode(x).reshape(-1)
    return np.array([pattern.fullmatch(t) is not None for t in strings], bool).reshape(x.shape)


@onnx_op("StringSplit", since=20, typed=True)
def _split(node: OnnxNode, x: Value) -> list[Value]:
    config = {"delimiter": node.get("delimiter", ""), "maxsplit": node.get("maxsplit", -1)}
    parts = node.host_call_sized("text.split", [x], x.ndim + 1, "string", config)
    return [parts, node.host_call("text.split.count", [x], x.shape, "int64", config)]


def _pieces(config: Config, x: np.ndarray) -> list[list[str]]:
    by, most = config["delimiter"] or None, config["maxsplit"]
    return [t.split(by, -1 if most is None else most) for t in string_table.decode(x).reshape(-1)]


@host_function("text.split.shape")
def _split_shape(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([*x.shape, max([len(p) for p in _pieces(config, x)], default=0)], np.int64)


@host_function("text.split.count")
def _split_count(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([len(p) for p in _pieces(config, x)], np.int64).reshape(x.shape)


@host_function("text.split")
def _run_split(config: Config, x: np.ndarray) -> np.ndarray:
    pieces = _pieces(config, x)
    longest = max([len(p) for p in pieces], default=0)
    strings = [t for p in pieces for t in [*p, *[""] * (longest - len(p))]]
    return string_table.encode(np.array(strings, object)).reshape(*x.shape, longest)


@onnx_op("StringNormalizer", typed=True)
def _normalizer(node: OnnxNode, x: Value) -> Value:
    config = {
        "stopwords": node.get("stopwords") or [],
        "sensitive": bool(node.get("is_case_sensitive", 0)),
        "action": node.get("case_change_action", "NONE"),
    }
    if not config["stopwords"]:
        return node.host_call("text.normalize", [x], x.shape, "string", config)
    return node.host_call_sized("text.normalize", [x], x.ndim, "string", config)


def _normalized(config: Config, x: np.ndarray) -> list[str]:
    strings = string_table.decode(x).reshape(-1).tolist()
    if config["sensitive"]:
        kept = [t for t in strings if t not in set(config["stopwords"])]
    else:
        stops = {s.lower() for s in config["stopwords"]}
        kept = [t for t in strings if t.lower() not in stops]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(config["action"], str)
    return [change(t) for t in kept] or [""]


@host_function("text.normalize.shape")
def _normalize_shape(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([*x.shape[:-1], len(_normalized(config, x))], np.int64)


@host_function("text.normalize")
def _normalize(config: Config, x: np.ndarray) -> np.ndarray:
    return string_table.encode(np.array(_normalized(config, x), object)).reshape(*x.shape[:-1], -1)


@onnx_op("TfIdfVectorizer", typed=True)
def _tf_idf(node: OnnxNode, x: Value) -> Value:
    names = ("mode", "ngram_indexes", "weights", "ngram_counts", "pool_int64s", "pool_strings", "max_skip_count")
    config = {n: node.get(n) for n in (*names, "min_gram_length", "max_gram_length")}
    config["strings"] = x.kind == "string"
    check_n_grams(node, config)
    width = max(config["ngram_indexes"]) + 1
    return node.host_call("text.tf_idf", [x.plain()], [*x.shape[:-1], width], "float32", config)


def check_n_grams(node: OnnxNode, config: Config) -> None:
    """Raises DiagnosticError for n-grams without an index or a weight, and for invalid positions or lengths."""
    pool = config["pool_strings" if config["strings"] else "pool_int64s"] or []
    starts = [*config["ngram_counts"], len(pool)]
    if min(starts) < 0 or sorted(starts) != starts:
        raise DiagnosticError(f"its ngram_counts are {starts[:-1]}, which are no places in its pool of {len(pool)}")
    for name in ("ngram_indexes", "max_skip_count", "min_gram_length"):
        if np.min(config[name]) < 0:
            raise node.refuse(name, config[name], "numbers from 0 on")
    count, weights = len(config["ngram_indexes"]), config["weights"] or ()
    needed = max([number for _, number in _n_grams(config)], default=-1) + 1
    if needed > count or weights and len(weights) != count:
        raise DiagnosticError(f"it has {needed} n-grams, {count} ngram_indexes and {len(weights)} weights")


def _n_grams(config: Config) -> list[tuple[tuple[Any, ...], int]]:
    """(n-gram, its number among the indexes), for the n-grams of a length in range."""
    pool = config["pool_strings"] if config["strings"] else config["pool_int64s"]
    starts = [*config["ngram_counts"], len(pool)]
    found, number = [], 0
    for length, (a, b) in enumerate(zip(starts, starts[1:], strict=False), 1):
        for k in range(a, b, length):
            if config["min_gram_length"] <= length <= config["max_gram_length"]:
                found.append((tuple(pool[k : k + length]), number))
            number += 1
    return found


@host_function("text.tf_idf")
def _run_tf_idf(config: Config, x: np.ndarray) -> np.ndarray:
    rows = (string_table.decode(x) if config["strings"] else x).reshape(-1, x.shape[-1])
    places = dict(_n_grams(config))
    lengths = {len(g) for g in places}
    indexes, weights = config["ngram_indexes"], config["weights"] or [1.0] * len(config["ngram_indexes"])
    out = np.zeros((len(rows), max(indexes) + 1), np.float32)
    for row, tokens in zip(out, rows.tolist(), strict=True):
        for length in lengths:
            # Single tokens have no gaps.
            for skip in range((min(config["max_skip_count"], len(tokens)) if length > 1 else 0) + 1):
                step = skip + 1
                for first in range(len(tokens) - step * (length - 1)):
                    at = places.get(tuple(tokens[first : first + step * (length - 1) + 1 : step]))
                    if at is not None:
                        row[indexes[at]] += 1
        if config["mode"] != "TF":
            held = np.minimum(row, 1) if config["mode"] == "IDF" else row.copy()
            row[:] = 0
            for i, w in zip(indexes, weights, strict=True):
                row[i] = held[i] * w
    return out.reshape(*x.shape[:-1], -1)
