"""`python -m tests.fuzz.files.sweep --formats onnx`: sound model files with one number, word or list in them changed, each attribute and
option of each operator once.

`mutations` draws its damage; this goes through all places of one kind: attributes of ONNX's operators (set or left out), options of
TFLite's and their constants of a few numbers. What becomes of a file is judged as there.
"""

from __future__ import annotations

import argparse
import collections
import gc
import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz.caches import own_cache
from tests.fuzz.files import damage
from tests.fuzz.files.model_files import corpus
from tests.fuzz.files.mutations import Worker, is_expected, load_all
from tests.fuzz.progress import Progress

INTEGERS = (0, -1, 1, -2, 2, 3, 7, 255, 1 << 31, (1 << 63) - 1, -(1 << 63))
REALS = (0.0, -1.0, 0.5, float("nan"), float("inf"), float("-inf"), 1e38)
WORDS = ("", "x", "SAME_LOWER", "update", "mean", "reflect", "linear")
FEW = 8
"""Constants of more numbers are weights, which stay."""


Seen = dict[tuple[str, ...], str]
"""The first file that has a place: (domain, operator, attribute, whether it is set), or (operator, option or input)."""


class Variant(NamedTuple):
    """A changed file: its name, what was changed, and its bytes."""

    file: str
    what: str
    data: bytes


def lists_of(values: list[Any], odd: tuple[Any, ...]) -> Iterator[list[Any]]:
    """Lists like this one: empty, shorter, longer, and with odd values in the first place, the last, and all of them."""
    yield from ([], values[:-1], [*values, *(values[-1:] or odd[2:3])])
    for v in odd:
        yield from ([v, *values[1:]], [*values[:-1], v], [v] * len(values))


# ---- ONNX


def onnx_variants(path: Path, seen: Seen) -> Iterator[Variant]:
    """The model with an attribute of one node changed."""
    import onnx

    sound = onnx.load_from_string(path.read_bytes())
    for place, node in enumerate(nodes_of(sound)):
        given = {a.name: a for a in node.attribute}
        for name, kind in attribute_kinds(sound, node).items():
            if seen.setdefault((node.domain, node.op_type, name, str(name in given)), path.name) != path.name:
                continue
            for value in attribute_values(kind, given.get(name)):
                model = type(sound)()
                model.CopyFrom(sound)
                try:
                    set_attribute(nodes_of(model)[place], name, kind, value)
                except ValueError:  # a number that the field does not hold
                    continue
                yield Variant(path.name, f"{node.op_type}.{name} = {value!r}", model.SerializeToString())


def nodes_of(model: Any) -> list[Any]:
    """Its nodes in all graphs and functions."""
    return [n for g in damage.all_graphs(model.graph) for n in g.node] + [n for f in model.functions for n in f.node]


def attribute_kinds(model: Any, node: Any) -> dict[str, int]:
    """The kinds of a node's attributes, by name: of those that are set, and those that its schema has."""
    from onnx import defs

    version = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return {a.name: a.type for a in node.attribute}
    return {n: int(a.type.value) for n, a in schema.attributes.items()} | {a.name: a.type for a in node.attribute}


def attribute_values(kind: int, attribute: Any) -> list[Any]:
    """Values of an attribute of this kind that few expect."""
    from onnx import AttributeProto as A

    if kind == A.INT:
        return list(INTEGERS)
    if kind == A.FLOAT:
        return list(REALS)
    if kind == A.STRING:
        return list(WORDS)
    if kind == A.INTS:
        return list(lists_of(list(attribute.ints) if attribute is not None else [1, 1], INTEGERS))
    if kind == A.FLOATS:
        return list(lists_of(list(attribute.floats) if attribute is not None else [1.0], REALS))
    return []


def set_attribute(node: Any, name: str, kind: int, value: Any) -> None:
    """Gives a node's attribute this value. Raises ValueError for a number that no field holds."""
    from onnx import AttributeProto as A

    for a in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(a)
    made = node.attribute.add(name=name, type=kind)
    if kind in (A.INTS, A.FLOATS):
        (made.ints if kind == A.INTS else made.floats).extend(value)
    elif kind == A.STRING:
        made.s = value.encode()
    else:
        setattr(made, "i" if kind == A.INT else "f", value)


# ---- TFLite


def tflite_variants(path: Path, seen: Seen) -> Iterator[Variant]:
    """The model with an option or a constant of one operator changed."""
    from ai_edge_litert import schema_py_generated as schema

    data = path.read_bytes()
    sound = schema.ModelT.InitFromPackedBuf(data, 0)
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    for g, graph in enumerate(sound.subgraphs):
        for o, operator in enumerate(graph.operators or []):
            code = sound.operatorCodes[operator.opcodeIndex]
            name = names.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")
            for what, change in [*option_changes(operator, g, o), *constant_changes(sound, graph, operator)]:
                if seen.setdefault((name, what.partition(" = ")[0]), path.name) != path.name:
                    continue
                model = schema.ModelT.InitFromPackedBuf(data, 0)
                if (changed := packed(model, change)) is not None:
                    yield Variant(path.name, f"{name}: {what}", changed)


Change = Callable[[Any], None]


def option_changes(operator: Any, graph: int, number: int) -> Iterator[tuple[str, Change]]:
    """(what, how) of an operator's options."""
    for holder in ("builtinOptions", "builtinOptions2"):
        options = getattr(operator, holder, None)
        for field, old in sorted(vars(options).items()) if options is not None else ():
            if isinstance(old, bool):
                values: list[Any] = [not old]
            elif isinstance(old, (int, np.integer)):
                values = list(INTEGERS)
            elif isinstance(old, (float, np.floating)):
                values = list(REALS)
            else:
                continue
            for v in values:

                def change(model: Any, holder: str = holder, field: str = field, v: Any = v) -> None:
                    setattr(getattr(model.subgraphs[graph].operators[number], holder), field, v)

                yield f"{field} = {v}", change


def constant_changes(model: Any, graph: Any, operator: Any) -> Iterator[tuple[str, Change]]:
    """(what, how) of an operator's constants of a few numbers: sizes, axes, places."""
    types = {0: "float32", 2: "int32", 4: "int64", 7: "int16", 9: "int8"}
    for k, i in enumerate([] if operator.inputs is None else operator.inputs):
        tensor = graph.tensors[i] if i >= 0 else None
        held = None if tensor is None else model.buffers[tensor.buffer].data
        if tensor is None or held is None or tensor.type not in types:
            continue
        sound = np.frombuffer(bytes(held), types[tensor.type])
        if not 0 < len(sound) <= FEW:
            continue
        for v in lists_of(sound.tolist(), REALS if sound.dtype.kind == "f" else INTEGERS):
            content = np.frombuffer(bytes_of(v, sound.dtype), np.uint8)

            def change(model: Any, buffer: int = tensor.buffer, content: np.ndarray = content) -> None:
                model.buffers[buffer].data = content

            yield f"input {k} = {v}", change


def bytes_of(values: list[Any], dtype: np.dtype[Any]) -> bytes:
    """Numbers as a buffer holds them; integers that it does not hold without their upper bits."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype(dtype).tobytes()
    held = (1 << 8 * dtype.itemsize) - 1
    return np.array([v & held for v in values], f"u{dtype.itemsize}").tobytes()


def packed(model: Any, change: Change) -> bytes | None:
    """The changed model's bytes; None for a value that its field does not hold."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    try:
        change(model)
        builder.Finish(model.Pack(builder), b"TFL3")
    except Exception:  # flatbuffers has errors of many kinds for it
        return None
    return bytes(builder.Output())


# ---- the sweep

FORMATS: dict[str, tuple[str, str, Callable[[Path, Seen], Iterator[Variant]]]] = {
    "onnx": ("node", ".onnx", onnx_variants),
    "tflite": ("tflite", ".tflite", tflite_variants),
}
"""The kind of the corpus, the end of names, and what makes variants."""


def variants(format_name: str, whole: bool = True, models: str = "") -> Iterator[Variant]:
    """Each place once, of the first file that has it. models: of files whose names hold this."""
    kind, _, made = FORMATS[format_name]
    seen: Seen = {}
    for path in corpus(whole)[kind]:
        if models in path.name:
            yield from made(path, seen)


def sweep(given: list[Variant], suffix: str, keep: Path | None = None, progress: bool = False) -> list[str]:
    """The finds among variants; their files are copied into `keep`."""
    load_all()
    gc.freeze()  # children share what is not collected
    worker, shown, finds = Worker(), Progress(len(given), "files"), []
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="tilewright-sweep-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / f"model{suffix}"
        for number, variant in enumerate(given):
            path.write_bytes(variant.data)
            text = worker.twice(number, path)
            counts[text if is_expected(text) else "failed"] += 1
            if not is_expected(text):
                name = f"{hashlib.sha1(variant.data, usedforsecurity=False).hexdigest()[:10]}{suffix}"
                finds.append(f"{variant.file}, {variant.what} ({name}): {text}")
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / name).write_bytes(variant.data)
                if progress:
                    shown.clear()
                    print(finds[-1] + "\n", flush=True)
            shown.done, shown.failures = number + 1, len(finds)
            if progress:
                shown.show()
    worker.stop()
    if progress:
        print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())), file=sys.stderr)
    return finds


@own_cache()
def main() -> int:
    summary, details = str(__doc__).split("`: ")[1].split("\n\n", 1)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files.sweep", description=summary, epilog=details)
    parser.add_argument("--formats", nargs="+", choices=sorted(FORMATS), default=sorted(FORMATS), help="only these")
    parser.add_argument("--models", default="", help="only of models whose files' names hold this: Pool, ai_onnx_ml")
    parser.add_argument("--keep", type=Path, help="copy the files of finds into this folder")
    options = parser.parse_args()
    finds = []
    for name in options.formats:
        finds += sweep(list(variants(name, models=options.models)), FORMATS[name][1], options.keep, progress=True)
    return int(bool(finds))


if __name__ == "__main__":
    sys.exit(main())
