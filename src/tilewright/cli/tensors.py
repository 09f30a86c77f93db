"""Inputs and outputs of a model: read from files or random, checked, set, written."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.node.leaves import numpy_dtype
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole

Array = np.ndarray[Any, Any]


def input_table(executor: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype by input name."""
    shapes, dtypes = executor.get_input_info()
    return {name: (tuple([int(d) for d in shape]), str(dtypes[name])) for name, shape in shapes.items()}


def describe_inputs(table: Mapping[str, tuple[tuple[int, ...], str]]) -> str:
    """`x float32 1x3x48x192, ...`, for messages."""
    return ", ".join(
        [f"{name} {dtype} {'x'.join(map(str, shape)) or 'scalar'}" for name, (shape, dtype) in table.items()]
    )


def fill_inputs(executor: Any, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Sets every input, from `given` or at random; names, shapes and dtypes must be the model's."""
    table = input_table(executor)
    for name, value in given.items():
        if name not in table:
            raise TVMError(f"the model has no input {name!r}; its inputs are: {describe_inputs(table)}")
        shape, dtype = table[name]
        if value.shape != shape or value.dtype != numpy_dtype(dtype):
            found = describe_inputs({name: (value.shape, value.dtype.name)})
            raise TVMError(
                f"input {found} does not fit the model, which takes {describe_inputs({name: (shape, dtype)})}"
            )
    rng = np.random.default_rng(seed)
    values = {
        name: given[name] if name in given else random_input(shape, dtype, rng)
        for name, (shape, dtype) in table.items()
    }
    for name, value in values.items():
        executor.set_input(name, np.asarray(value, order="C"))
    return values


def output_names(executor: Any) -> list[str]:
    """Names of the outputs in order."""
    if hasattr(executor, "names"):
        return list(executor.names)
    return [str(executor.module["get_output_name"](i)) for i in range(executor.get_num_outputs())]


def random_input(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> Array:
    """Values a model can take: normal for floats, small indices for integers, ones for masks."""
    kind = numpy_dtype(dtype)
    if np.issubdtype(kind, np.integer):
        return rng.integers(0, 2, size=shape).astype(kind)
    if kind == np.bool_:
        return np.ones(shape, kind)
    return rng.standard_normal(shape).astype(kind)


def read_inputs(paths: Sequence[Path]) -> dict[str, Array]:
    """Arrays by input name from .npz archives, and from .npy files by the file's stem."""
    inputs: dict[str, Array] = {}
    for path in paths:
        with path.open("rb") as file:
            mark = file.read(6)
        # NumPy would take anything else for pickled objects, and propose to load them unsafely.
        if mark != b"\x93NUMPY" and mark[:2] != b"PK":
            raise TVMError(
                f"{path} is no .npz or .npy file; numpy.savez({path.stem + '.npz'!r}, name=array) writes one"
            )
        try:
            loaded = np.load(path, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                inputs[path.stem] = loaded
            else:
                with loaded:
                    inputs.update({name: loaded[name] for name in loaded.files})
        except Exception as error:  # zipfile, pickle and NumPy raise many kinds
            raise TVMError(f"{path} is no .npz or .npy file that can be read: {error}") from error
    return inputs


def write_outputs(path: Path, results: Mapping[str, Array]) -> None:
    """An .npz of the results."""
    data = io.BytesIO()
    np.savez(data, **results)  # type: ignore[arg-type]
    write_whole(path, data.getvalue())
