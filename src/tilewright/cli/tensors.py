"""Inputs and outputs of a model: reading, random values, checks, writing."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.options import Feed
from tilewright.cli.screen import told
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.formats import TensorInfo
from tilewright.runtime.host_functions.strings import decode_strings, encode_strings
from tilewright.support.errors import DAMAGED, TVMError, said
from tilewright.support.files import write_whole

Array = np.ndarray[Any, Any]
STRING = "string"
"""The type of inputs and outputs that hold strings."""
LIKELY_EXTENTS = (16, 32, 64, 128, 224, 256, 320, 512, 640, 8, 4, 2, 1, 48, 96, 24, 100, 3, 5)
"""Extents to try for dynamic dimensions. The first axis is a batch of one."""
IMAGE_SIZES = (224, 256, 320, 512, 640, 64, 32, 16, 128, 8, 4, 2, 1, 48, 96, 24, 100, 3, 5)
"""The same for inputs of four axes and more."""


def likely_extent(axis: int, rank: int, turn: int) -> int:
    """The extent to try for a dynamic dimension at each turn, from 0."""
    if axis == 0 and rank > 1:
        return 1
    return (IMAGE_SIZES if rank >= 4 else LIKELY_EXTENTS)[turn]


def facts_of(executor: Any) -> dict[str, Any]:
    """The metadata of the library that an executor runs."""
    found: dict[str, Any] = (
        executor.facts if hasattr(executor, "facts") else json.loads(executor.module["get_metadata"]())
    )
    return found


def tensor_info(facts: Mapping[str, Any]) -> TensorInfo:
    """An input or output of the metadata."""
    return TensorInfo(facts["name"], STRING if facts.get("strings") else facts["dtype"], facts["shape"])


def input_table(executor: Any) -> dict[str, TensorInfo]:
    """Inputs of an executor by name."""
    return {i["name"]: tensor_info(i) for i in facts_of(executor)["inputs"]}


def described(name: str, dtype: str, shape: Sequence[int | str] | None) -> str:
    """An input for messages: `x float32 1x3x48x192`."""
    return f"{name} {dtype} {'x'.join(map(str, shape or ())) or 'scalar'}"


def described_table(table: Mapping[str, TensorInfo]) -> str:
    """Inputs for messages, in one line."""
    return ", ".join([described(i.name, i.dtype, i.shape) for i in table.values()])


def given_inputs(table: Mapping[str, TensorInfo], given: Mapping[str, Array], cast: bool) -> dict[str, Array]:
    """The given arrays in native byte order, checked against names, shapes and types of the model's inputs; `cast` converts types."""
    found = {}
    for name, value in given.items():
        if name not in table:
            raise TVMError(f"the model has no input {name!r}; its inputs are: {described_table(table)}")
        info = table[name]
        wanted = np.dtype(object) if info.dtype == STRING else numpy_dtype(info.dtype)
        shape = info.shape or []
        fits = value.ndim == len(shape) and all(
            [not isinstance(d, int) or d == n for d, n in zip(shape, value.shape, strict=False)]
        )
        # Byte order is how numbers are stored, not what they are.
        native = value.astype(value.dtype.newbyteorder("="), copy=False) if value.dtype.kind in "biufc" else value
        if native.dtype.kind in "US":
            native = native.astype(object)
        # The imaginary part would be lost.
        converts = fits and native.dtype.kind in ("biufc" if wanted.kind == "c" else "biuf")
        if converts and native.dtype != wanted and cast:
            native = converted(name, native, wanted)
        if not fits or native.dtype != wanted:
            remedy = "; --cast converts the type" if converts else ""
            raise TVMError(
                f"input {described(name, value.dtype.name, value.shape)} does not fit the model, which takes"
                f" {described(name, info.dtype, info.shape)}{remedy}"
            )
        found[name] = native
    return found


def converted(name: str, value: Array, wanted: np.dtype[Any]) -> Array:
    """An input in another element type. Raises TVMError if that has no such numbers."""
    kinds = wanted.kind in "iu" and value.dtype.kind in "iu"
    try:
        with np.errstate(invalid="raise", over="raise"):
            made = value.astype(wanted)
    except FloatingPointError:
        made = None
    if made is None or (kinds and not np.array_equal(made, value)):
        raise TVMError(f"input {name}: --cast does not convert it, since {wanted} does not hold all its numbers")
    return made


def extents(
    table: Mapping[str, TensorInfo], given: Mapping[str, Array], shapes: Mapping[str, Sequence[int]], turn: int
) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs that are not given. Dynamic extents are taken from `shapes`, else from dimensions of the same name in other
    inputs, else from `likely_extent`."""
    known: dict[str, int] = {}
    for name, info in table.items():
        chosen = given[name].shape if name in given else shapes.get(name, ())
        for d, n in zip(info.shape or (), chosen, strict=False):
            if isinstance(d, str) and d != "?":
                known.setdefault(d, n)
    found = {}
    for name, info in table.items():
        dims = info.shape or []
        if name in given:
            continue
        if name in shapes:
            if len(shapes[name]) != len(dims) or any(
                [isinstance(d, int) and d != n for d, n in zip(dims, shapes[name], strict=False)]
            ):
                raise TVMError(
                    f"--run-shape {name}={','.join(map(str, shapes[name]))} does not fit the model, which takes"
                    f" {described(name, info.dtype, dims)}"
                )
            found[name] = tuple(shapes[name])
            continue
        found[name] = tuple(
            [d if isinstance(d, int) else known.get(d, likely_extent(k, len(dims), turn)) for k, d in enumerate(dims)]
        )
    return found


def feed_model(executor: Any, feed: Feed, tell: bool = True) -> dict[str, Array]:
    """Sets every input, from files or at random, and reports random ones; see `fill_inputs`."""
    return fill_inputs(executor, read_inputs(feed.files), feed, tell)


def fill_inputs(
    executor: Any, given: Mapping[str, Array], feed: Feed | None = None, tell: bool = False
) -> dict[str, Array]:
    """Sets every input, from `given` or at random; returns them. Raises TVMError if names, shapes or types are not the model's.

    Dynamic dimensions of random inputs get the first extents with which the model runs.
    """
    feed = feed or Feed()
    table = input_table(executor)
    values = given_inputs(table, given, feed.cast)
    for name in feed.run_shapes:
        if name not in table:
            raise TVMError(f"--run-shape: the model has no input {name!r}; its inputs are: {described_table(table)}")
    missing = [name for name in table if name not in values]
    if missing and feed.strict:
        raise TVMError(
            f"--strict: missing inputs: {described_table({n: table[n] for n in missing})}; give them by --input"
        )
    made = random_inputs(executor, table, values, feed)
    if missing and tell:
        what = ", ".join([described(n, table[n].dtype, made[n].shape) for n in missing])
        guessed = [n for n in missing if table[n].dynamic_axes and n not in feed.run_shapes]
        sizes = f"; the shape of {', '.join(guessed)} is a guess, --run-shape sets it" if guessed else ""
        told(f"random inputs, --seed {feed.seed}: {what}; --input sets them{sizes}")
    found = {name: values[name] if name in values else made[name] for name in table}
    for name, value in found.items():
        set_checked(executor, name, value)
    return found


def set_checked(executor: Any, name: str, value: Array) -> None:
    """Sets an input. Raises TVMError with the runtime's message if it is refused."""
    try:
        executor.set_input(name, carried(value))
    except (ValueError, TypeError) as error:
        raise TVMError(str(error)) from error


def random_inputs(
    executor: Any, table: Mapping[str, TensorInfo], values: Mapping[str, Array], feed: Feed
) -> dict[str, Array]:
    """Arrays for the inputs that are not given."""
    tried: list[dict[str, tuple[int, ...]]] = []
    failed: Exception | None = None
    for turn in range(len(LIKELY_EXTENTS)):
        shapes = extents(table, values, feed.run_shapes, turn)
        if shapes in tried:
            continue
        tried.append(shapes)
        rng = np.random.default_rng(feed.seed)
        made = {name: random_input(shape, table[name].dtype, rng) for name, shape in shapes.items()}
        if not any([table[name].dynamic_axes for name in shapes if name not in feed.run_shapes]):
            return made
        try:
            for name in table:
                executor.set_input(name, carried(values[name] if name in values else made[name]))
            executor.run()
        except (ValueError, TypeError, RuntimeError) as error:
            failed = failed or error
            continue
        return made
    raise TVMError(
        f"the model runs with no random inputs that were tried; give inputs by --input, or their shapes by --run-shape. Its"
        f" inputs are: {described_table(table)}. With {', '.join([f'{n} {s}' for n, s in tried[0].items()])} it failed: {failed}"
    )


def carried(value: Array) -> Array:
    """An array as programs take it: contiguous, with numbers in place of strings."""
    return encode_strings(value) if value.dtype.kind == "O" else np.asarray(value, order="C")


def run_checked(executor: Any) -> None:
    """Runs. Raises TVMError with the runtime's message if it fails."""
    try:
        executor.run()
    except (ValueError, TypeError, RuntimeError) as error:
        raise TVMError(f"the model does not run on these inputs: {said(error)}") from error


def output_names(executor: Any) -> list[str]:
    """Names of the outputs in order."""
    return [str(o["name"]) for o in facts_of(executor)["outputs"]]


def outputs_of(executor: Any) -> dict[str, Array]:
    """The outputs of the last run, by name; strings as an array of objects."""
    found = {}
    for i, o in enumerate(facts_of(executor)["outputs"]):
        value = executor.get_output(i).numpy()
        found[str(o["name"])] = decode_strings(value) if o.get("strings") else value
    return found


def random_input(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> Array:
    """Random values that a model can take: normal for floats, 0 or 1 for integers, ones for masks, empty strings."""
    if dtype == STRING:
        return np.full(shape, "", object)
    kind = numpy_dtype(dtype)
    if np.issubdtype(kind, np.integer):
        return rng.integers(0, 2, size=shape).astype(kind)
    if kind == np.bool_:
        return np.ones(shape, kind)
    return np.asarray(rng.standard_normal(shape)).astype(kind)


def read_arrays(path: Path) -> dict[str, Array]:
    """Arrays by name from an .npz archive, or from an .npy file by its stem."""
    if path.exists() and not path.is_file():
        raise TVMError(f"{path} is no file; numpy.savez({path.stem + '.npz'!r}, name=array) writes one")
    with path.open("rb") as file:
        mark = file.read(6)
    # NumPy would take other content for pickled objects, and propose to load them unsafely.
    if mark != b"\x93NUMPY" and mark[:2] != b"PK":
        raise TVMError(
            f"{path} is not an .npz or .npy file; numpy.savez({path.stem + '.npz'!r}, name=array) writes one"
        )
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {path.stem: loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # zipfile, tokenize and NumPy raise many kinds
        told = isinstance(error, (OSError, MemoryError)) or "Object arrays" in str(error)
        raise TVMError(f"{path} cannot be read as an .npz or .npy file: {said(error) if told else DAMAGED}") from error


def read_inputs(paths: Sequence[Path]) -> dict[str, Array]:
    """Arrays by input name from all files. Raises TVMError if an input is given twice."""
    sets = read_sets(paths)
    if len(sets) > 1:
        twice = next(name for name in sets[1] if name in sets[0])
        raise TVMError(f"the input {twice!r} is given twice, by two files of --input; only compare takes several sets")
    return sets[0]


def read_sets(paths: Sequence[Path]) -> list[dict[str, Array]]:
    """Sets of inputs: a file that gives an input again begins the next set."""
    sets: list[dict[str, Array]] = [{}]
    for path in paths:
        arrays = read_arrays(path)
        if arrays.keys() & sets[-1].keys():
            sets.append({})
        sets[-1].update(arrays)
    return sets


def samples_of(paths: Sequence[Path], inputs: Sequence[TensorInfo]) -> list[dict[str, Array]]:
    """Samples for calibration. An array of the input's shape is one sample; one with an axis more in front, or with a multiple of the
    first extent, holds many."""
    table = {i.name: i for i in inputs}
    samples: list[dict[str, Array]] = []
    for path in paths:
        arrays = read_arrays(path)
        absent = [n for n in table if n not in arrays]
        if absent:
            raise TVMError(f"--calibrate {path}: missing inputs: {described_table({n: table[n] for n in absent})}")
        parts = {name: list(_parts(path, table[name], arrays[name])) for name in table}
        counts = {name: len(p) for name, p in parts.items()}
        if len(set(counts.values())) > 1:
            raise TVMError(
                f"--calibrate {path}: the arrays hold different numbers of samples:"
                f" {', '.join([f'{n} {c}' for n, c in counts.items()])}"
            )
        samples += [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
    return samples


def _parts(path: Path, info: TensorInfo, value: Array) -> Iterator[Array]:
    shape = tuple([int(d) for d in info.shape or ()])
    if value.dtype != numpy_dtype(info.dtype) or not (
        value.shape == shape
        or value.shape[1:] == shape
        or (shape and value.shape[1:] == shape[1:] and value.shape[0] % shape[0] == 0)
    ):
        raise TVMError(
            f"--calibrate {path}: {described(info.name, value.dtype.name, value.shape)} holds no samples of the input"
            f" {described(info.name, info.dtype, shape)}: arrays have its shape, or one more axis in front"
        )
    if value.shape == shape:
        yield value
    elif value.shape[1:] == shape:
        yield from value
    else:
        yield from np.split(value, value.shape[0] // shape[0])


def write_outputs(path: Path, results: Mapping[str, Array]) -> None:
    """Writes the results as an .npz file, which holds no Python objects."""
    plain = {name: value.astype(str) if value.dtype == object else value for name, value in results.items()}
    data = io.BytesIO()
    np.savez(data, **plain)  # type: ignore[arg-type]
    write_whole(path, data.getvalue())
