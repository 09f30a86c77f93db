"""from_darknet: the entry of the importer of Darknet's networks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.darknet import LAYERTYPE, Layer, Network, load_network
from tilewright.ir import IRModule
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.listed import ListedImporter
from tilewright.relay.frontend.common.names import checked_shapes
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.darknet.layers import REASONS, LayerNode, converters
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError

DATA = "data"
"""The name of the input."""
FLOATS = ("float16", "float32", "float64")
"""Types of the input and the weights."""


@paused_collection()
def from_darknet(
    net: Network | str | os.PathLike[str],
    shape: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a network of Darknet.

    net: a network of `relay.testing.darknet.load_network(cfg, weights)`, or the path of a configuration, whose weights lie beside it in a
    file of the same name with the suffix .weights. shape: the extents of the input, (batch, channels, rows, columns), or (batch,
    elements) without an image; default: those of the configuration, with a batch of 1. dtype: of the input and the weights.

    The input's name is "data". Outputs: the last result, where the last layer finds boxes followed by its attributes, then those of the
    detectors before it. Attributes of a YOLO layer: its mask, its anchors (biases), and (n, channels, rows, columns, classes, anchors in
    all); of a region: its anchors, and (n, channels, rows, columns, classes, coordinates, background). Recurrent layers take their
    state as the parameters `rnn1_state`, ..., which are zero, and give the next states as further outputs. Raises ModelError and
    OpNotImplemented, which lists all unsupported layers.
    """
    if not isinstance(net, Network):
        if not isinstance(net, (str, os.PathLike)):
            raise ModelError(
                f"net is a {type(net).__name__}; it must be a network of relay.testing.darknet.load_network(cfg, weights), or the path of"
                " a configuration"
            )
        net = load_network(net, weights_beside(os.fspath(net)))
    check_arguments(net, shape, dtype)
    with guarded(net.title, "Copy the files again"):
        return DarknetImporter(net, dtype).run(shape)


def check_arguments(net: Network, shape: Any, dtype: Any) -> None:
    """Raises ModelError for a user's shape or dtype that is none."""
    if not isinstance(dtype, str) or dtype not in FLOATS:
        raise ModelError(
            f"{net.title}: dtype is {dtype!r}; it must be one of {', '.join(FLOATS)}, the type of the weights"
        )
    if shape is not None:
        checked_shapes(net.title, "shape", shape if isinstance(shape, Mapping) else {DATA: shape})


def weights_beside(cfg: str) -> str:
    """The file of weights beside a configuration. Raises ModelError if there is none."""
    found = os.path.splitext(cfg)[0] + ".weights"
    if not os.path.isfile(found):
        raise ModelError(f"{cfg}: its weights are not beside it: there is no file {found}")
    return found


class DarknetImporter(ListedImporter):
    """One import of a network."""

    noun = "layer"

    def __init__(self, net: Network, dtype: str) -> None:
        super().__init__(net.title, converters)
        self.net, self.dtype = net, dtype
        self.results: list[Value] = []
        """The results of the layers."""
        self.states: list[tuple[str, Value]] = []
        self.found: list[tuple[str, Value]] = []
        """Attributes of detectors, and results of those before the last layer, in the order of the outputs."""

    def run(self, shape: Any) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports the network."""
        net = self.net
        uses: dict[str, list[str]] = {}
        for k, layer in enumerate(net.layers):
            uses.setdefault(layer.section.kind, []).append(name_of(layer, k))
        self.check_supported(uses, REASONS)
        if isinstance(shape, Mapping):
            self.check_names(shape, [DATA])
            shape = shape.get(DATA)
        own = [net.c, net.h, net.w] if net.c else [net.inputs]
        x = self.input(DATA, [None, *own], shape if shape is not None else [1, *own], self.dtype)
        last = net.n - 1
        while last >= 0 and net.layers[last].type is LAYERTYPE.COST:
            last -= 1
        if last < 0:
            raise ModelError("the configuration has no layers")
        for k, layer in enumerate(net.layers[: last + 1]):
            name = name_of(layer, k)
            self.convert(LayerNode(layer, k, name, self), [x], [name])
            self.finish()
            x = self.values[name]
            self.results.append(x)
            self.add_attributes(layer, name, x if k < last else None)
        outputs = [(name_of(net.layers[last], last), x), *self.found, *self.states]
        return self.module([v for _, v in outputs], [n for n, _ in outputs]), dict(self.params)

    def add_attributes(self, layer: Layer, name: str, result: Value | None) -> None:
        """The outputs of a detector, before those of earlier ones."""
        s = layer.section
        if layer.type is LAYERTYPE.YOLO:
            extra = [layer.n, layer.out_c, layer.out_h, layer.out_w, s.whole("classes", 20), s.whole("num", 1)]
            made = {"mask": np.array(masks(layer), "int32"), "bias": anchors(layer), "attr": np.array(extra, "int32")}
        elif layer.type is LAYERTYPE.REGION:
            extra = [
                layer.n,
                layer.out_c,
                layer.out_h,
                layer.out_w,
                s.whole("classes", 20),
                s.whole("coords", 4),
                s.whole("background"),
            ]
            made = {"bias": anchors(layer), "attr": np.array(extra, "int32")}
        else:
            return
        outputs = [(f"{name}_{key}", Value(array=array)) for key, array in made.items()]
        self.found[:0] = [*([(name, result)] if result is not None else []), *outputs]


def name_of(layer: Layer, k: int) -> str:
    """The name of a layer: its kind and its number."""
    return f"{layer.section.kind}{k}"


def masks(layer: Layer) -> list[int]:
    """The numbers of a detector's anchors; without a mask all of them."""
    return [int(v) for v in layer.section.numbers("mask")] or list(range(layer.n))


def anchors(layer: Layer) -> np.ndarray:
    """Widths and heights of the anchors; 0.5 where the configuration gives none."""
    given = layer.section.numbers("anchors")
    count = 2 * layer.section.whole("num", 1)
    return np.array([*given, *[0.5] * (count - len(given))][:count], "float32")
