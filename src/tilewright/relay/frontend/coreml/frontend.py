"""from_coreml: the entry of the importer of Core ML's neural networks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.coreml_messages import OTHER_MODELS, Message, layer_of, message, unknown_fields
from tilewright.formats.files import readable
from tilewright.ir import IRModule
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.listed import ListedImporter
from tilewright.relay.frontend.common.names import checked_shapes
from tilewright.relay.frontend.common.unsupported import Problem
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.coreml.node import CoreMLLayer, converters
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError, OpNotImplemented

NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
REMEDY = "Copy or convert it again"
TYPES = {65568: "float32", 65600: "float64", 131104: "int32", 65552: "float16"}
"""Element types of arrays by their numbers."""
GREY = (10, 40)
"""Numbers of the color spaces of one channel."""


@paused_collection()
def from_coreml(model: Any, shape: Mapping[str, Sequence[Any]] | None = None) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a neural network of Core ML.

    model: an MLModel of coremltools or its specification, the bytes of one, or the path of a `.mlmodel` file, which needs no coremltools.
    shape: extents by input name; default: those that the model declares, with a batch of 1 for images and arrays of three axes.

    Parameters of main are the inputs, then the weights (as float32), whose values the dictionary holds. Models before version 4 of
    the format have tensors (batch, channels, rows, columns). Raises ModelError and OpNotImplemented, which lists all unsupported layers.
    """
    spec, title = opened(model)
    with guarded(title, REMEDY):
        kind = next((k for k in NETWORKS if spec.HasField(k)), None)
        if kind is None:
            numbers = unknown_fields(spec)
            named = next((OTHER_MODELS[n] for n in numbers if n in OTHER_MODELS), "no neural network")
            raise OpNotImplemented(
                f"{title}: it is of the kind {named}; neural networks are supported"
                " (coremltools writes them with convert_to='neuralnetwork')"
            )
        return CoreMLImporter(title, spec, getattr(spec, kind)).run(checked_shapes(title, "shape", shape))


def opened(model: Any) -> tuple[Message, str]:
    """(a model as a message, its name in messages). Raises ModelError for what is none."""
    title = "the model"
    if isinstance(model, (str, os.PathLike)):
        title = os.fspath(model)
        with readable(model) as file:
            model = file.read_bytes()
    if hasattr(model, "get_spec"):
        model = model.get_spec()
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, bytes):
        raise ModelError(
            f"model is a {type(model).__name__}; it must be an MLModel of coremltools, its specification, or the path of a .mlmodel file"
        )
    found = message("Model")()
    try:
        found.ParseFromString(model)
    except Exception as error:  # protobuf's own exception is none of Python's
        raise ModelError(f"{title}: it is no model of Core ML, or it is damaged ({error}). {REMEDY}") from error
    return found, title


class CoreMLImporter(ListedImporter):
    """One import of a network. exact: arrays have the ranks that the model declares."""

    noun = "layer"

    def __init__(self, title: str, spec: Message, network: Message) -> None:
        super().__init__(title, converters)
        self.spec, self.network = spec, network
        self.exact = network.arrayInputShapeMapping == 1

    def run(self, shapes: Mapping[str, Sequence[Any]]) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports the network."""
        layers = [(layer, *layer_of(layer)) for layer in self.network.layers]
        uses: dict[str, list[str]] = {}
        for layer, kind, params in layers:
            uses.setdefault(kind, []).append(layer.name)
            self.check_fields(kind, layer.name, params)
        self.check_supported(uses)
        self.check_names(shapes, [f.name for f in self.spec.description.input])
        for feature in self.spec.description.input:
            self.feature(feature, shapes.get(feature.name))
        for p in self.network.preprocessing:
            self.preprocess(p)
        for layer, kind, params in layers:
            node = CoreMLLayer(kind, params, layer.name, self, self.exact)
            self.convert(node, [self.read(n, layer.name) for n in layer.input], list(layer.output))
        self.finish()
        # A classifier's outputs are also labels, which no layer makes.
        names = [f.name for f in self.spec.description.output if f.name in self.values]
        if not names and len(layers):
            names = list(layers[-1][0].output)
        return self.module([self.read(n, "the output") for n in names], names), dict(self.params)

    def check_fields(self, kind: str, name: str, params: Message | None) -> None:
        """Reports parameters of a layer that the tables of the format do not have, since they may change its result."""
        numbers = [] if params is None else sorted(set(unknown_fields(params)))
        if numbers:
            text = f"{kind} {name!r}: it has parameters that are not supported (fields of the numbers {', '.join(map(str, numbers))})"
            self.problems.append(Problem(text, kind, [name]))

    def feature(self, feature: Message, given: Sequence[Any] | None) -> None:
        """An input of the model."""
        kind = feature.type
        if kind.HasField("imageType"):
            channels = 1 if kind.imageType.colorSpace in GREY else 3
            extents: list[Any] | None = [None, channels, int(kind.imageType.height), int(kind.imageType.width)]
            dtype = "float32"
        elif kind.HasField("multiArrayType"):
            extents = [int(d) for d in kind.multiArrayType.shape] or None
            dtype = TYPES.get(kind.multiArrayType.dataType, "float32")
            dtype = "float32" if dtype == "float64" else dtype
            if not self.exact and extents is not None:
                extents = [None, *extents]
        else:
            raise OpNotImplemented(f"the input {feature.name!r} is neither an image nor an array of numbers")
        if given is None and extents is not None and extents[0] is None:
            given = [1, *extents[1:]]
        if given is not None and extents is not None and len(given) != len(extents):
            extents = None  # flexible ranks: the user's word counts
        value = self.input(feature.name, extents, given, dtype)
        if not self.exact and value.ndim == 2:
            builder = Builder(feature.name, self.sizes)
            self.values[feature.name] = builder.reshape(value, [*value.shape, 1, 1])

    def preprocess(self, p: Message) -> None:
        """The scale and shift, or the mean, that the model gives for an image."""
        name = p.featureName or next((f.name for f in self.spec.description.input), "")
        x: Value = self.read(name, "the preprocessing")
        c = Builder(f"{name}.preprocessing", self.sizes)
        if p.HasField("scaler"):
            s = p.scaler
            feature = next(f for f in self.spec.description.input if f.name == name)
            colors = [s.grayBias] if x.shape[1] == 1 else [s.redBias, s.greenBias, s.blueBias]
            if x.shape[1] == 3 and feature.type.imageType.colorSpace == 30:
                colors = colors[::-1]
            scaled = c.call("multiply", x, float(s.channelScale))
            self.values[name] = c.call("add", scaled, Value(array=np.array(colors, "float32").reshape(1, -1, 1, 1)))
        elif p.HasField("meanImage"):
            extents = c.static(x.shape[1:], "the extents of the image")
            mean = np.array(p.meanImage.meanImage, "float32").reshape((1, *extents))
            self.values[name] = c.call("subtract", x, Value(array=mean))
