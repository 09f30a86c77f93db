"""Keras files for the command line: description, import, and Keras as the reference."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.keras.frontend import from_keras, guarded
from tilewright.relay.frontend.keras.graph import MODELS, all_layers, is_operation, model_inputs, output_names
from tilewright.relay.frontend.keras.reader import open_model
from tilewright.relay.frontend.keras.weights import FileStore, LegacyFile, name_of
from tilewright.runtime.host_functions.strings import decode_strings
from tilewright.support.errors import ModelError, TVMError

BACKENDS = ("torch", "tensorflow", "jax")
"""Keras's backends, in the order of preference if no backend is configured."""
LAYOUT = "NHWC"
"""The layout of the command line's programs: that of the file."""


class KerasFormat(formats.ModelFormat):
    """.keras archives and .h5 files."""

    name, title, suffixes, runtimes = "keras", "Keras", (".keras", ".h5", ".hdf5"), ("keras",)

    def load(self, path: Path, shapes: formats.Shapes) -> tuple[IRModule, dict[str, np.ndarray]]:
        """The module, with inputs in Keras's layout, channels last."""
        return from_keras(path, shape=dict(shapes) or None, layout=LAYOUT)

    def survey(self, path: Path, shapes: formats.Shapes) -> formats.Survey:
        """The description of the file, with unsupported layers."""
        with guarded(str(path)):
            opened = open_model(path)
            operators: dict[str, list[str]] = {}
            for spec in all_layers(opened.spec):
                kind = str(spec.get("class_name", ""))
                if kind not in (*MODELS, "InputLayer"):
                    title = f"keras.ops.{kind}" if is_operation(spec) else kind
                    operators.setdefault(title, []).append(name_of(spec))
            inputs = [
                formats.TensorInfo(n, t, ["?" if d is None else int(d) for d in s])
                for n, s, t in model_inputs(opened.spec)
            ]
            group: Any = opened.store.group if isinstance(opened.store, (FileStore, LegacyFile)) else None
            weights: list[formats.TensorInfo] = []

            if group is not None:
                weights += [formats.TensorInfo(name, w.dtype.name, list(w.shape)) for name, w in group.datasets()]
            count = len(output_names(opened.spec, 0)) or 1
            names = output_names(opened.spec, count)
        version = f"Keras {opened.version}"
        return formats.Survey(
            self.title, version, operators, inputs, [formats.TensorInfo(n, "", None) for n in names], weights
        )

    def reference(self, path: Path, runtime: str, shapes: formats.Shapes) -> formats.Reference:
        """Keras on its configured backend."""
        return KerasReference(path)


class KerasReference(formats.Reference):
    """A model in Keras. A model with more outputs gives the results of its layers."""

    title = "Keras"

    def __init__(self, path: Path) -> None:
        there = next((b for b in BACKENDS if importlib.util.find_spec(b)), "torch")
        os.environ.setdefault("KERAS_BACKEND", there)
        try:
            import keras
        except ImportError:
            raise ModelError("--reference keras needs Keras and one of its backends: pip install keras torch") from None
        self.keras = keras
        try:
            self.model = keras.models.load_model(path, compile=False)
        except Exception as error:  # Keras's own exceptions have no common base
            raise TVMError(f"Keras does not take {path}: {error}") from error
        self.nodes = {
            x.name: type(x).__name__
            for x in self.model.layers
            if type(x).__name__ != "InputLayer" and hasattr(x, "output")
        }

    def run(self, inputs: Mapping[str, formats.Array], nodes: Sequence[str] = ()) -> formats.Results:
        """Outputs, and the results of layers."""
        keras = self.keras
        strings = [str(x.dtype) == "string" for x in self.model.inputs]
        data = [self.strings(v) if is_string else v for is_string, v in zip(strings, inputs.values(), strict=True)]
        wanted = {n: self.model.get_layer(n).output for n in nodes}
        model = keras.Model(self.model.inputs, [self.model.outputs, wanted])
        made, inner = model(data, training=False)

        def arrays(x: Any) -> list[formats.Array]:
            return [np.asarray(keras.ops.convert_to_numpy(v)) for v in keras.tree.flatten(x)]

        return arrays(made), {n: arrays(inner[n]) for n in nodes}

    def strings(self, numbers: formats.Array) -> Any:
        """Strings in the form that Keras takes."""
        return self.keras.ops.convert_to_tensor(decode_strings(numbers).tolist(), dtype="string")


formats.register_format(KerasFormat())
