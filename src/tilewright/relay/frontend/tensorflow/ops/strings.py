"""Converters of operators on strings, by host functions with TensorFlow's rules. A string is a sequence of bytes."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, broadcast_shapes
from tilewright.relay.frontend.common.host_calls import host_call, host_call_like, host_call_sized
from tilewright.relay.frontend.common.value import StringTensor, Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, string_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import as_bytes, as_string, string_host, string_table
from tilewright.support.errors import ModelError, OpNotImplemented

SPACES = b" \t\n\v\f\r"
ENDS = {"z": r"\Z", "C": "(?s:.)"}
CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z",
    "word": r"0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def each(f: Callable[[str], Any], strings: np.ndarray, dtype: Any = object) -> np.ndarray:
    """An array of f of each string."""
    out = np.empty(strings.shape, dtype)
    out.reshape(-1)[:] = [f(t) for t in strings.reshape(-1).tolist()]
    return out


def _simple(name: str, f: Callable[[Any, str], str]) -> None:
    """Declares an operator that maps each string to a string."""
    string_host(f"tf.{name}")(lambda config, x: each(lambda t: f(config, t), x))

    @string_op(name)
    def _convert(c: NodeCall, x: Value) -> Value:
        return host_call_like(c, f"tf.{name}", [x], x, "string", encoding=c.attr("encoding", ""))


def _ascii(f: Callable[[bytes], bytes], g: Callable[[str], str]) -> Callable[[Any, str], str]:
    return lambda config, t: g(t) if config["encoding"] == "utf-8" else as_string(f(as_bytes(t)))


_simple("StringLower", _ascii(bytes.lower, str.lower))
_simple("StringUpper", _ascii(bytes.upper, str.upper))
_simple("StringStrip", lambda config, t: as_string(as_bytes(t).strip(SPACES)))


@string_op("StringLength")
def _length(c: NodeCall, x: Value) -> Value:
    return host_call_like(c, "tf.StringLength", [x], x, "int32", unit=c.attr("unit", "BYTE"))


@string_host("tf.StringLength")
def _run_length(config: Config, x: np.ndarray) -> np.ndarray:
    return each(lambda t: len(t) if config["unit"] == "UTF8_CHAR" else len(as_bytes(t)), x, np.int32)


@string_op("StringJoin")
def _join(c: NodeCall, *xs: Value) -> Value:
    shape: Sequence[Dim] = ()
    for x in xs:
        shape = broadcast_shapes(shape, x.shape)
    like = next((x for x in xs if x.ndim == len(shape)), xs[0])
    if all([x.ndim in (0, len(shape)) for x in xs]):
        return host_call_like(c, "tf.StringJoin", xs, like, "string", separator=c.attr("separator", ""))
    return host_call(c, "tf.StringJoin", xs, shape, "string", separator=c.attr("separator", ""))


@string_host("tf.StringJoin")
def _run_join(config: Config, *xs: np.ndarray) -> np.ndarray:
    whole = np.broadcast_arrays(*xs)
    out = np.empty(whole[0].shape, object)
    rows = zip(*[w.reshape(-1).tolist() for w in whole], strict=True)
    out.reshape(-1)[:] = [config["separator"].join(row) for row in rows]
    return out


@string_op("ReduceJoin")
def _reduce_join(c: NodeCall, x: Value, axes: Value) -> Value:
    given = [c.axis(a, x.ndim) for a in c.ints(axes, "reduction_indices")]
    keep = bool(c.attr("keep_dims", False))
    gone = given or list(range(x.ndim))[::-1]
    shape = [1 if k in gone else d for k, d in enumerate(x.shape) if keep or k not in gone]
    return host_call(c, "tf.ReduceJoin", [x], shape, "string", axes=gone, keep=keep, separator=c.attr("separator", ""))


@string_host("tf.ReduceJoin")
def _run_reduce_join(config: Config, x: np.ndarray) -> np.ndarray:
    # The axis that is listed first varies fastest.
    axes = config["axes"][::-1]
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = x.transpose([*kept, *axes]).reshape(int(np.prod([x.shape[k] for k in kept], dtype=int)), -1)
    out = np.empty(len(rows), object)
    out[:] = [config["separator"].join(row) for row in rows.tolist()]
    shape = [1 if k in axes else d for k, d in enumerate(x.shape) if config["keep"] or k not in axes]
    return out.reshape(shape)


@string_op("UnsortedSegmentJoin")
def _segment_join(c: NodeCall, x: Value, which: Value, count: Value) -> Value:
    n = int(c.number_of(count, "num_segments"))
    shape = [n, *x.shape[which.ndim :]]
    return host_call(
        c, "tf.UnsortedSegmentJoin", [x, which], shape, "string", count=n, separator=c.attr("separator", "")
    )


@string_host("tf.UnsortedSegmentJoin")
def _run_segment_join(config: Config, x: np.ndarray, which: np.ndarray) -> np.ndarray:
    rows = x.reshape(which.size, -1)
    out = np.full((config["count"], rows.shape[1]), "", object)
    for row, place in zip(rows.tolist(), which.reshape(-1).tolist(), strict=True):
        if place >= 0:
            # No separator follows an empty string.
            out[place] = [
                f"{held}{config['separator']}{t}" if held else t for held, t in zip(out[place], row, strict=True)
            ]
    return out.reshape(config["count"], *x.shape[which.ndim :])


# ---- parts of strings


@string_op("Substr")
def _substr(c: NodeCall, x: Value, first: Value, count: Value) -> Value:
    unit = c.attr("unit", "BYTE")
    if first.ndim > x.ndim:
        return host_call(c, "tf.Substr", [x, first, count], broadcast_shapes(x.shape, first.shape), "string", unit=unit)
    return host_call_like(c, "tf.Substr", [x, first, count], x, "string", unit=unit)


@string_host("tf.Substr")
def _run_substr(config: Config, x: np.ndarray, first: np.ndarray, count: np.ndarray) -> np.ndarray:
    def part(t: str, begin: int, n: int) -> str:
        data: Any = t if config["unit"] == "UTF8_CHAR" else as_bytes(t)
        if not -len(data) <= begin <= len(data):
            raise ValueError(f"pos {begin} out of range for string of length {len(data)}: {t!r}")
        begin = begin + len(data) if begin < 0 else begin
        found = data[begin : begin + max(n, 0)]
        return found if isinstance(found, str) else as_string(found)

    whole = np.broadcast_arrays(x, first, count)
    out = np.empty(whole[0].shape, object)
    out.reshape(-1)[:] = [part(*row) for row in zip(*[w.reshape(-1).tolist() for w in whole], strict=True)]
    return out


@string_op("StringSplit")
def _split_old(c: NodeCall, x: Value, delimiter: Value) -> list[Value]:
    by = str(_known_text(c, delimiter, "delimiter"))
    return _split(c, x, old=True, by=by, skip=bool(c.attr("skip_empty", True)), most=-1)


@string_op("StringSplitV2")
def _split_new(c: NodeCall, x: Value, by: Value) -> list[Value]:
    return _split(c, x, old=False, by=_known_text(c, by, "sep"), skip=False, most=int(c.attr("maxsplit", -1)))


def _split(c: NodeCall, x: Value, **config: Any) -> list[Value]:
    """The parts of a list of strings, as a sparse tensor: indices, parts, shape."""
    places = host_call_sized(c, "tf.split.places", [x], 2, "int64", **config)
    parts = host_call_sized(c, "tf.split.parts", [x], 1, "string", **config)
    return [places, parts, host_call(c, "tf.split.size", [x], (2,), "int64", **config)]


def _known_text(c: NodeCall, x: Value, what: str) -> Any:
    return string_table.decode(c.known(x, what)).reshape(-1)[0]


def _pieces(config: Config, strings: np.ndarray) -> list[list[bytes]]:
    def cut(t: str) -> list[bytes]:
        data, by = as_bytes(t), as_bytes(config["by"])
        if config["old"]:
            parts = re.split(b"[" + re.escape(by) + b"]", data) if by else [data[k : k + 1] for k in range(len(data))]
            return [p for p in parts if p] if config["skip"] else parts
        return data.split(by or None, config["most"]) if config["most"] >= 0 else data.split(by or None)

    return [cut(t) for t in strings.reshape(-1).tolist()]


@string_host("tf.split.places", sized=True)
def _split_places(config: Config, x: np.ndarray) -> np.ndarray:
    found = [(row, k) for row, parts in enumerate(_pieces(config, x)) for k in range(len(parts))]
    return np.array(found, np.int64).reshape(-1, 2)


@string_host("tf.split.parts", sized=True)
def _split_parts(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([as_string(p) for parts in _pieces(config, x) for p in parts], object)


@string_host("tf.split.size")
def _split_size(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([x.size, max([len(p) for p in _pieces(config, x)], default=0)], np.int64)


@string_op("StringNGrams")
def _ngrams(c: NodeCall, x: Value, splits: Value) -> list[Value]:
    widths = c.attr("ngram_widths")
    config = {
        "separator": c.attr("separator", ""), "widths": widths if isinstance(widths, list) else [widths], "left": c.attr("left_pad", ""),
        "right": c.attr("right_pad", ""), "pad": int(c.attr("pad_width", 0)), "short": bool(c.attr("preserve_short_sequences", False)),
    }  # fmt: skip
    made = host_call_sized(c, "tf.ngrams", [x, splits], 1, "string", **config)
    return [made, host_call_like(c, "tf.ngrams.splits", [x, splits], splits, splits.dtype, **config)]


def _grams(config: Config, x: np.ndarray, splits: np.ndarray) -> Iterator[list[str]]:
    for a, b in zip(splits, splits[1:], strict=False):
        row, found = x[a:b].tolist(), []
        for width in config["widths"]:
            pad = width - 1 if config["pad"] < 0 else min(config["pad"], width - 1)
            whole = [config["left"]] * pad + row + [config["right"]] * pad
            found += [config["separator"].join(whole[k : k + width]) for k in range(len(whole) - width + 1)]
        if config["short"] and not found and row:
            pad = max([w - 1 for w in config["widths"]]) if config["pad"] < 0 else config["pad"]
            found = [config["separator"].join([config["left"]] * pad + row + [config["right"]] * pad)]
        yield found


@string_host("tf.ngrams", sized=True)
def _run_ngrams(config: Config, x: np.ndarray, splits: np.ndarray) -> np.ndarray:
    return np.array([g for found in _grams(config, x, splits) for g in found], object)


@string_host("tf.ngrams.splits")
def _ngram_splits(config: Config, x: np.ndarray, splits: np.ndarray) -> np.ndarray:
    return np.cumsum([0, *[len(found) for found in _grams(config, x, splits)]])


# ---- patterns


def pattern(text: str) -> re.Pattern[str]:
    """A pattern in RE2's syntax, converted to the syntax of `re`. Raises OpNotImplemented if `re` has no equivalent."""
    out, k, inside, lines = "", 0, False, "(?m" in text
    while k < len(text):
        at = text[k]
        if at == "\\" and k + 1 < len(text):
            after = text[k + 1]
            if after in "pP":
                raise OpNotImplemented(f"its pattern {text!r} names a class of Unicode (\\{after})")
            if after == "Q":
                end = text.find("\\E", k)
                end = len(text) if end < 0 else end
                out, k = out + re.escape(text[k + 2 : end]), end + 2
                continue
            out, k = out + ENDS.get(after, at + after), k + 2
            continue
        if inside and (named := re.match(r"\[:(\^?)(\w+):\]", text[k:])) and named[2] in CLASSES and not named[1]:
            out, k = out + CLASSES[named[2]], k + len(named[0])
            continue
        if at == "[" and not inside:
            inside = True
            # A bracket at the start belongs to the class.
            first = re.match(r"\[\^?\]?", text[k:])
            assert first is not None
            out, k = out + first[0].replace("]", r"\]"), k + len(first[0])
            continue
        inside = inside and at != "]"
        out += r"\[" if inside and at == "[" else r"\Z" if at == "$" and not inside and not lines else at
        k += 1
    try:
        return re.compile(out, re.ASCII)
    except re.error as error:
        raise OpNotImplemented(f"its pattern {text!r} is none of Python's re: {error}") from None


def _substitute(rewrite: str) -> Callable[[re.Match[str]], str]:
    parts = re.split(r"\\(\\|\d)", rewrite)

    def made(found: re.Match[str]) -> str:
        return "".join([p if k % 2 == 0 else p if p == "\\" else found[int(p)] or "" for k, p in enumerate(parts)])

    return made


@string_op("RegexReplace", "StaticRegexReplace")
def _replace(c: NodeCall, x: Value, *rest: Value) -> Value:
    by, to = [_known_text(c, v, "pattern") for v in rest] if rest else (c.attr("pattern", ""), c.attr("rewrite", ""))
    groups = pattern(by).groups
    wrong = next((g for g in re.findall(r"\\(\d)", to.replace("\\\\", "")) if int(g) > groups), None)
    if wrong is not None:
        raise ModelError(f"its rewrite {to!r} names group {wrong}, but its pattern {by!r} has {groups}")
    return host_call_like(c, "tf.replace", [x], x, "string", by=by, to=to, all=bool(c.attr("replace_global", True)))


@string_host("tf.replace")
def _run_replace(config: Config, x: np.ndarray) -> np.ndarray:
    by, to = pattern(config["by"]), _substitute(config["to"])
    return each(lambda t: by.sub(to, t, count=0 if config["all"] else 1), x)


@string_op("RegexFullMatch", "StaticRegexFullMatch")
def _full_match(c: NodeCall, x: Value, by: Value | None = None) -> Value:
    wanted = str(c.attr("pattern", "") if by is None else _known_text(c, by, "pattern"))
    pattern(wanted)
    return host_call_like(c, "tf.full_match", [x], x, "bool", by=wanted)


@string_host("tf.full_match")
def _run_full_match(config: Config, x: np.ndarray) -> np.ndarray:
    by = pattern(config["by"])
    return each(lambda t: by.fullmatch(t) is not None, x, bool)


# ---- strings and numbers


@string_op("StringToNumber")
def _to_number(c: NodeCall, x: Value) -> Value:
    return host_call_like(
        c, "tf.StringToNumber", [x], x, c.attr("out_type", "float32"), type=c.attr("out_type", "float32")
    )


@string_host("tf.StringToNumber")
def _run_to_number(config: Config, x: np.ndarray) -> np.ndarray:
    kind = np.dtype(config["type"])
    return each(int if kind.kind in "iu" else float, x, kind)


@string_op("AsString")
def _as_string(c: NodeCall, x: Value) -> Value:
    config = {
        k: c.attr(k, d)
        for k, d in (("precision", -1), ("scientific", False), ("shortest", False), ("width", -1), ("fill", ""))
    }
    return host_call_like(c, "tf.AsString", [x], x, "string", **config)


@string_host("tf.AsString")
def _run_as_string(config: Config, x: np.ndarray) -> np.ndarray:
    width, fill, precision = config["width"], config["fill"], config["precision"]
    flags = {"": "", " ": " ", "0": "0", "-": "-", "+": "+"}.get(fill, fill)
    size = str(width) if width > -1 else ""
    if x.dtype.kind == "f":
        kind = "e" if config["scientific"] else "g" if config["shortest"] else "f"
        form = f"%{flags}{size}{f'.{precision}' if precision > -1 else ''}{kind}"
    else:
        form = f"%{flags}{size}{'s' if x.dtype == bool or x.dtype == object else 'd'}"

    def shown(v: Any) -> str:
        return form % (("true" if v else "false") if isinstance(v, bool) else v)

    out = np.empty(x.shape, object)
    out.reshape(-1)[:] = [shown(v) for v in x.reshape(-1).tolist()]
    return out


# ---- encodings


_simple(
    "DecodeBase64", lambda config, t: as_string(base64.urlsafe_b64decode(as_bytes(t) + b"=" * (-len(as_bytes(t)) % 4)))
)


@string_op("EncodeBase64")
def _base64(c: NodeCall, x: Value) -> Value:
    return host_call_like(c, "tf.EncodeBase64", [x], x, "string", pad=bool(c.attr("pad", False)))


@string_host("tf.EncodeBase64")
def _run_base64(config: Config, x: np.ndarray) -> np.ndarray:
    def made(t: str) -> str:
        found = base64.urlsafe_b64encode(as_bytes(t)).decode()
        return found if config["pad"] else found.rstrip("=")

    return each(made, x)


@string_op("DecodeRaw", "DecodePaddedRaw")
def _decode_raw(c: NodeCall, x: Value, length: Value | None = None) -> Value:
    kind = c.attr("out_type")
    config = {"type": kind, "little": bool(c.attr("little_endian", True))}
    if length is None:
        return host_call_sized(c, "tf.DecodeRaw", [x], x.ndim + 1, kind, **config)
    n = int(c.number_of(length, "fixed_length"))
    shape = [*x.shape, n // np.dtype(kind).itemsize]
    return host_call(c, "tf.DecodeRaw", [x], shape, kind, **config, bytes=n)


@string_host("tf.DecodeRaw", sized=True)
def _run_decode_raw(config: Config, x: np.ndarray) -> np.ndarray:
    kind = np.dtype(config["type"]).newbyteorder("<" if config["little"] else ">")
    most = config.get("bytes")
    rows = [as_bytes(t) if most is None else as_bytes(t)[:most].ljust(most, b"\0") for t in x.reshape(-1).tolist()]
    if len({len(r) for r in rows}) > 1:
        raise ValueError("strings of different lengths are no tensor of numbers")
    return np.array([np.frombuffer(r, kind) for r in rows]).reshape(*x.shape, -1).astype(config["type"])


@string_op("UnicodeDecode", "UnicodeDecodeWithOffsets")
def _unicode_decode(c: NodeCall, x: Value) -> list[Value]:
    if str(c.attr("input_encoding", "UTF-8")).upper() not in ("UTF-8", "UTF8"):
        raise c.refuse("input_encoding", c.attr("input_encoding"), "UTF-8")
    config = {"errors": c.attr("errors", "replace"), "char": int(c.attr("replacement_char", 65533))}
    places = c.attr("Tsplits", "int64")
    flat = c.reshape(x, [-1])
    given = [StringTensor(flat.expr)]
    n = c.sizes.named(flat, 0)
    made = [host_call(c, "tf.unicode.splits", given, [n + 1], "int64", **config)]
    made += [host_call_sized(c, "tf.unicode.codes", given, 1, "int32", **config)]
    made[0] = c.cast(made[0], places)
    if c.op.endswith("Offsets"):
        made.append(host_call_sized(c, "tf.unicode.starts", given, 1, "int64", **config))
    return made


def _codes(config: Config, t: str) -> list[tuple[int, int]]:
    """(code, first byte) of each character."""
    found, at = [], 0
    for ch in as_bytes(t).decode("utf-8", "surrogateescape"):
        broken = 0xDC80 <= ord(ch) <= 0xDCFF
        if broken and config["errors"] == "strict":
            raise ValueError(f"the string {t!r} is no UTF-8")
        if not (broken and config["errors"] == "ignore"):
            found.append((config["char"] if broken else ord(ch), at))
        at += 1 if broken else len(ch.encode())
    return found


@string_host("tf.unicode.splits")
def _unicode_splits(config: Config, x: np.ndarray) -> np.ndarray:
    return np.cumsum([0, *[len(_codes(config, t)) for t in x.tolist()]])


@string_host("tf.unicode.codes", sized=True)
def _unicode_codes(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([code for t in x.tolist() for code, _ in _codes(config, t)], np.int32)


@string_host("tf.unicode.starts", sized=True)
def _unicode_starts(config: Config, x: np.ndarray) -> np.ndarray:
    return np.array([at for t in x.tolist() for _, at in _codes(config, t)], np.int64)


@string_op("UnicodeTranscode")
def _transcode(c: NodeCall, x: Value) -> Value:
    config = {
        "source": c.attr("input_encoding"), "target": c.attr("output_encoding"), "errors": c.attr("errors", "replace"),
        "char": int(c.attr("replacement_char", 65533)), "controls": bool(c.attr("replace_control_characters", False)),
    }  # fmt: skip
    try:
        codecs.lookup(str(config["source"]))
    except LookupError:
        raise c.refuse("input_encoding", config["source"], "the encodings of Python") from None
    return host_call_like(c, "tf.UnicodeTranscode", [x], x, "string", **config)


@string_host("tf.UnicodeTranscode")
def _run_transcode(config: Config, x: np.ndarray) -> np.ndarray:
    def put(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        if config["errors"] == "strict":
            raise ValueError(f"{error.object!r} is no {config['source']}")
        return "" if config["errors"] == "ignore" else chr(config["char"]), error.end

    codecs.register_error("tilewright.replace", put)

    def made(t: str) -> str:
        plain = as_bytes(t).decode(config["source"], "tilewright.replace")
        if config["controls"]:
            instead = "" if config["errors"] == "ignore" else chr(config["char"])
            plain = re.sub("[\x00-\x1f]", instead, plain)
        return as_string(plain.encode(config["target"]))

    return each(made, x)


@string_op("StringFormat")
def _format(c: NodeCall, *xs: Value) -> Value:
    config = {
        "template": c.attr("template", "%s"), "place": c.attr("placeholder", "%s"), "most": int(c.attr("summarize", 3)),
    }  # fmt: skip
    return host_call(c, "tf.StringFormat", xs, [], "string", **config)


@string_host("tf.StringFormat")
def _run_format(config: Config, *xs: np.ndarray) -> np.ndarray:
    def number(v: Any) -> str:
        if isinstance(v, str):
            return f'"{v}"'
        if isinstance(v, (bool, np.bool_, int, np.integer)):
            return str(int(v))
        short, long = (6, 9) if v.itemsize < 8 else (15, 17)
        return f"{v:.{short}g}" if type(v)(f"{v:.{short}g}") == v else f"{v:.{long}g}"

    def shown(x: Any, depth: int = 1) -> str:
        if not isinstance(x, np.ndarray) or not x.ndim:
            return number(x[()] if isinstance(x, np.ndarray) else x)
        if not x.size:
            return "[]"
        most, n = config["most"], len(x)
        if most < 0 or n <= 2 * most:
            parts = [shown(v, depth + 1) for v in x]
        else:
            parts = [*[shown(v, depth + 1) for v in x[:most]], "...", *[shown(v, depth + 1) for v in x[n - most :]]]
        between = " " if x.ndim == 1 else "\n" * (x.ndim - 1) + " " * depth
        return f"[{between.join(parts)}]"

    first, *rest = config["template"].split(config["place"])
    return np.array("".join([first, *[shown(x) + t for x, t in zip(xs, rest, strict=True)]]), object)


@string_op("UnicodeEncode")
def _unicode_encode(c: NodeCall, codes: Value, splits: Value) -> Value:
    if str(c.attr("output_encoding", "UTF-8")) != "UTF-8":
        raise c.refuse("output_encoding", c.attr("output_encoding"), "UTF-8")
    config = {"errors": c.attr("errors", "replace"), "char": int(c.attr("replacement_char", 65533))}
    return host_call(c, "tf.unicode.strings", [codes, splits], [c.sizes.named(splits, 0) - 1], "string", **config)


@string_host("tf.unicode.strings")
def _unicode_texts(config: Config, codes: np.ndarray, splits: np.ndarray) -> np.ndarray:
    def made(code: int) -> str:
        if 0 <= code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code)
        if config["errors"] == "strict":
            raise ValueError(f"{code} is no character")
        return "" if config["errors"] == "ignore" else chr(config["char"])

    chars = [made(code) for code in codes.tolist()]
    return np.array(["".join(chars[a:b]) for a, b in zip(splits, splits[1:], strict=False)], object)
