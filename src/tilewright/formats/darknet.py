"""Networks of Darknet: a configuration of sections, one for each layer, and a file of weights, which follow each other in the order of the
layers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path

import numpy as np

from tilewright.formats.files import readable
from tilewright.support.errors import ModelError

Array = np.ndarray
Shape = tuple[int, int, int]
"""Channels, rows, columns of a layer's result."""


class LAYERTYPE(IntEnum):
    """Kinds of layers, with Darknet's numbers."""

    CONVOLUTIONAL = 0
    DECONVOLUTIONAL = 1
    CONNECTED = 2
    MAXPOOL = 3
    SOFTMAX = 4
    DETECTION = 5
    DROPOUT = 6
    CROP = 7
    ROUTE = 8
    COST = 9
    NORMALIZATION = 10
    AVGPOOL = 11
    LOCAL = 12
    SHORTCUT = 13
    ACTIVE = 14
    RNN = 15
    GRU = 16
    LSTM = 17
    CRNN = 18
    BATCHNORM = 19
    NETWORK = 20
    XNOR = 21
    REGION = 22
    YOLO = 23
    REORG = 24
    UPSAMPLE = 25
    LOGXENT = 26
    L2NORM = 27
    BLANK = 28


MOST = 2**31 - 1
"""The largest integer of an option."""
SECTIONS = {
    "conv": "convolutional", "deconv": "deconvolutional", "conn": "connected", "max": "maxpool", "avg": "avgpool", "soft": "softmax",
    "lrn": "normalization", "activation": "active", "network": "net", "logistic": "logxent",
}  # fmt: skip
"""Short and other names of sections."""


class Section:
    """A section of a configuration: `kind`, and its options as text."""

    __slots__ = ("kind", "line", "options", "title")

    def __init__(self, title: str, kind: str, line: int) -> None:
        self.title, self.kind, self.line = title, kind, line
        self.options: dict[str, str] = {}

    def text(self, name: str, default: str = "") -> str:
        """An option as text."""
        return self.options.get(name, default)

    def whole(self, name: str, default: int = 0, least: int | None = None) -> int:
        """An option as an integer. Raises ModelError for what is none, or is below `least`."""
        found = self._number(name, default)
        low = -MOST if least is None else least
        if not (low <= found <= MOST and found == int(found)):
            raise self.wrong(name, "an integer of 32 bits" if least is None else f"an integer of {least} or more")
        return int(found)

    def real(self, name: str, default: float = 0.0) -> float:
        """An option as a number."""
        return self._number(name, default)

    def wholes(self, name: str) -> list[int]:
        """An option as a list of integers."""
        found = self.numbers(name)
        if not all(abs(v) <= MOST and v == int(v) for v in found):
            raise self.wrong(name, "integers with commas between them")
        return [int(v) for v in found]

    def numbers(self, name: str) -> list[float]:
        """An option as a list of numbers, with commas between them."""
        parts = [p.strip() for p in self.text(name).split(",")]
        try:
            return [float(p) for p in parts if p]
        except ValueError:
            raise self.wrong(name, "numbers with commas between them") from None

    def _number(self, name: str, default: float) -> float:
        try:
            return float(self.options[name]) if name in self.options else default
        except ValueError:
            raise self.wrong(name, "a number") from None

    def wrong(self, name: str, wanted: str) -> ModelError:
        """The error for an option of another kind."""
        return ModelError(
            f"{self.title}, line {self.line}: [{self.kind}] has {name}={self.options.get(name)}; it must be {wanted}"
        )


def read_sections(path: Path) -> list[Section]:
    """The sections of a configuration in order. Raises ModelError for a line that is neither a section nor an option."""
    found: list[Section] = []
    with readable(path):
        lines = path.read_text(errors="replace").splitlines()
    for number, raw in enumerate(lines, 1):
        line = "".join(raw.split())
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1]
            found.append(Section(str(path), SECTIONS.get(name, name), number))
        elif "=" in line and found:
            key, _, value = line.partition("=")
            found[-1].options[key] = value
        else:
            raise ModelError(f"{path}, line {number}: {raw.strip()!r} is neither a section nor an option (name=value)")
    if not found or found[0].kind != "net":
        raise ModelError(f"{path}: the first section must be [net]; this is no configuration of Darknet")
    return found


class Weights:
    """A file of weights, read in order. Without a file it gives zeros."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.at, self.transposed = path, 0, False
        self.values: Array | None = None
        if path is None:
            return
        with readable(path):
            raw = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        if len(raw) < 16:
            raise ModelError(f"{path}: the file has {len(raw)} bytes; the header of a file of weights has 16 or more")
        major, minor, _ = (int(v) for v in raw[:12].view("<i4"))
        # The number of images seen has 64 bits since version 0.2.
        start = 20 if major * 10 + minor >= 2 and major < 1000 and minor < 1000 else 16
        self.transposed = major > 1000 or minor > 1000
        rest = raw[start:]
        self.values = rest[: len(rest) // 4 * 4].view("<f4")

    def take(self, *shape: int) -> Array:
        """The next numbers, in this shape. Raises ModelError at the file's end."""
        count = math.prod(shape)
        if count > MOST:
            raise ModelError(f"the configuration asks for {count} weights in one array, more than {MOST}")
        if self.values is None:
            try:
                return np.zeros(shape, np.float32)
            except MemoryError:
                raise ModelError(
                    f"the configuration asks for {count} weights in one array, too many for this memory"
                ) from None
        if self.at + count > len(self.values):
            raise ModelError(
                f"{self.path}: the configuration asks for {self.at + count} weights or more, but the file has {len(self.values)}."
                " The two files belong to different networks, or the file is cut off"
            )
        self.at += count
        return np.asarray(self.values[self.at - count : self.at]).reshape(shape)


class Layer:
    """A layer: its kind, its section, the shape of its input and result, and its weights by name."""

    __slots__ = ("c", "h", "inner", "n", "out_c", "out_h", "out_w", "section", "type", "w", "weights")

    def __init__(self, kind: LAYERTYPE, section: Section, shape: Shape) -> None:
        self.type, self.section = kind, section
        self.c, self.h, self.w = self.out_c, self.out_h, self.out_w = shape
        self.n = 0
        self.weights: dict[str, Array] = {}
        self.inner: dict[str, dict[str, Array]] = {}
        """Weights of the connected layers inside of a recurrent one."""

    @property
    def inputs(self) -> int:
        """The number of elements of the input."""
        return self.c * self.h * self.w

    @property
    def outputs(self) -> int:
        """The number of elements of the result."""
        return self.out_c * self.out_h * self.out_w

    @property
    def shape(self) -> Shape:
        """The result's channels, rows and columns."""
        return self.out_c, self.out_h, self.out_w

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self.out_c, self.out_h, self.out_w = shape


class Network:
    """A network: `c`, `h`, `w` of its input, or only `inputs`; its `layers`."""

    def __init__(self, title: str, section: Section) -> None:
        self.title, self.section = title, section
        self.c, self.h, self.w = (section.whole(k, least=0) for k in ("channels", "height", "width"))
        self.inputs = section.whole("inputs", self.c * self.h * self.w, 0)
        self.batch, self.time_steps = section.whole("batch", 1), section.whole("time_steps", 1)
        self.layers: list[Layer] = []
        if self.inputs <= 0:
            raise ModelError(f"{title}: [net] has neither height, width and channels nor inputs")

    @property
    def n(self) -> int:
        """The number of layers."""
        return len(self.layers)

    def source(self, index: int, k: int) -> Layer:
        """The layer to which layer k refers: by its number, or, below zero, counted back from k."""
        at = index + k if index < 0 else index
        if not 0 <= at < k:
            raise ModelError(f"{self.title}: layer {k} refers to the layer {index}, which does not come before it")
        return self.layers[at]


def load_network(
    cfg: str | bytes | os.PathLike[str], weights: str | bytes | os.PathLike[str] | None = None, clear: int = 0
) -> Network:
    """A network from its configuration and its weights (without a file: zeros). clear: accepted, as in Darknet. Raises ModelError."""
    if not isinstance(cfg, (str, bytes, os.PathLike)):
        raise ModelError(f"cfg is a {type(cfg).__name__}; it must be the path of a configuration")
    if not (weights is None or isinstance(weights, (str, bytes, os.PathLike))):
        raise ModelError(f"weights is a {type(weights).__name__}; it must be the path of a file of weights, or None")
    path = Path(os.fsdecode(cfg))
    first, *sections = read_sections(path)
    network = Network(str(path), first)
    given = os.fsdecode(weights) if weights else ""
    stream = Weights(Path(given) if given else None)
    shape = (network.c, network.h, network.w) if network.c else (network.inputs, 1, 1)
    for k, section in enumerate(sections):
        kind = LAYERTYPE.__members__.get(section.kind.upper())
        if kind is None or kind is LAYERTYPE.NETWORK:
            raise ModelError(f"{path}, line {section.line}: [{section.kind}] is no layer of Darknet that is known")
        layer = Layer(kind, section, shape)
        check_strides(layer)
        _RULES.get(kind, _same)(network, layer, stream, k)
        if min(layer.shape) <= 0:
            raise ModelError(f"{path}, line {section.line}: the result of [{section.kind}] has the shape {layer.shape}")
        network.layers.append(layer)
        shape = layer.shape
    return network


STRIDED = (LAYERTYPE.CONVOLUTIONAL, LAYERTYPE.DECONVOLUTIONAL, LAYERTYPE.LOCAL, LAYERTYPE.MAXPOOL)
"""Layers with a window that moves by strides."""
POSITIVE = (
    "size",
    "stride",
    "stride_x",
    "stride_y",
    "groups",
    "filters",
    "output",
    "dilation",
    "crop_height",
    "crop_width",
)
"""Options that count something; all are 1 or more."""


def check_strides(layer: Layer) -> None:
    """Raises ModelError for counts below 1, and for what the layers do not have: different strides of rows and columns."""
    s = layer.section
    for name in POSITIVE:
        if name in s.options:
            s.whole(name, least=1)
    across, down = (s.whole(k, s.whole("stride", 1)) for k in ("stride_x", "stride_y"))
    if layer.type in STRIDED and ("stride_x" in s.options or "stride_y" in s.options):
        if across != down:
            raise ModelError(
                f"{s.title}, line {s.line}: [{s.kind}] has stride_x={across} and stride_y={down}; different strides are not supported"
            )
        s.options["stride"] = str(across)


Rule = Callable[[Network, Layer, Weights, int], None]
"""What gives a layer its result's shape and its weights."""
_RULES: dict[LAYERTYPE, Rule] = {}


def _rule(*kinds: LAYERTYPE) -> Callable[[Rule], Rule]:
    def register(f: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, f))
        return f

    return register


def _same(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    pass


def _scales(layer: Layer, count: int, stream: Weights) -> Iterator[tuple[str, Array]]:
    if layer.section.whole("batch_normalize"):
        for name in ("scales", "mean", "variance"):
            yield name, stream.take(count)


def padding_of(layer: Layer) -> int:
    """The padding of a convolution on each side."""
    size = layer.section.whole("size", 1)
    return size // 2 if layer.section.whole("pad") else layer.section.whole("padding")


@_rule(LAYERTYPE.CONVOLUTIONAL, LAYERTYPE.DECONVOLUTIONAL)
def _convolutional(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    s = layer.section
    n, size, stride, pad = s.whole("filters", 1), s.whole("size", 1), s.whole("stride", 1), padding_of(layer)
    groups = s.whole("groups", 1)
    if min(n, size, stride, groups) < 1 or layer.c % groups or n % groups:
        raise ModelError(
            f"{s.title}, line {s.line}: a convolution of {layer.c} channels with filters={n}, size={size}, stride={stride} and"
            f" groups={groups} does not exist"
        )
    layer.n = n
    layer.weights["biases"] = stream.take(n)
    layer.weights.update(_scales(layer, n, stream))
    if layer.type is LAYERTYPE.DECONVOLUTIONAL:
        layer.weights["weights"] = stream.take(layer.c, n, size, size)
        layer.shape = (n, *((d - 1) * stride + size - 2 * pad for d in (layer.h, layer.w)))  # type: ignore[assignment]
        return
    if s.whole("flipped"):
        turned = stream.take(layer.c // groups * size * size, n)
        layer.weights["weights"] = turned.T.reshape(n, layer.c // groups, size, size)
    else:
        layer.weights["weights"] = stream.take(n, layer.c // groups, size, size)
    reach = (size - 1) * s.whole("dilation", 1) + 1
    layer.shape = (n, *((d + 2 * pad - reach) // stride + 1 for d in (layer.h, layer.w)))  # type: ignore[assignment]


@_rule(LAYERTYPE.LOCAL)
def _local(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    s = layer.section
    layer.n, size, stride = s.whole("filters", 1), s.whole("size", 1), s.whole("stride", 1)
    rows, columns = ((d - (1 if s.whole("pad") else size)) // stride + 1 for d in (layer.h, layer.w))
    layer.shape = layer.n, rows, columns
    layer.weights["biases"] = stream.take(layer.outputs)
    layer.weights["weights"] = stream.take(rows * columns, layer.n, layer.c * size * size)


def _connected_weights(inputs: int, outputs: int, layer: Layer, stream: Weights) -> dict[str, Array]:
    found = {"biases": stream.take(outputs)}
    found["weights"] = stream.take(inputs, outputs).T if stream.transposed else stream.take(outputs, inputs)
    found.update(_scales(layer, outputs, stream))
    return found


@_rule(LAYERTYPE.CONNECTED)
def _connected(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    layer.n = layer.section.whole("output", 1)
    layer.weights = _connected_weights(layer.inputs, layer.n, layer, stream)
    layer.shape = layer.n, 1, 1


INNER = {
    LAYERTYPE.RNN: (("input", "x"), ("self", "h"), ("output", "h")),
    LAYERTYPE.GRU: (("wz", "h"), ("wr", "h"), ("wh", "h"), ("uz", "x"), ("ur", "x"), ("uh", "x")),
    LAYERTYPE.LSTM: (
        ("wi", "h"), ("wf", "h"), ("wo", "h"), ("wg", "h"), ("ui", "x"), ("uf", "x"), ("uo", "x"), ("ug", "x"),
    ),
}  # fmt: skip
"""Connected layers inside of recurrent ones, in the order of the file; "x": of the input, "h": of the state."""


@_rule(*INNER)
def _recurrent(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    layer.n = outputs = layer.section.whole("output", 1)
    for name, side in INNER[layer.type]:
        layer.inner[name] = _connected_weights(layer.inputs if side == "x" else outputs, outputs, layer, stream)
    layer.shape = outputs, 1, 1


@_rule(LAYERTYPE.BATCHNORM)
def _batchnorm(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    for name in ("scales", "mean", "variance"):
        layer.weights[name] = stream.take(layer.c)


@_rule(LAYERTYPE.MAXPOOL)
def _maxpool(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    s = layer.section
    stride = s.whole("stride", 1)
    size = s.whole("size", stride)
    if min(stride, size) < 1:
        raise ModelError(f"{s.title}, line {s.line}: [maxpool] has size={size} and stride={stride}")
    pad = s.whole("padding", size - 1)
    layer.shape = (layer.c, *((d + pad - size) // stride + 1 for d in (layer.h, layer.w)))  # type: ignore[assignment]


@_rule(LAYERTYPE.AVGPOOL)
def _avgpool(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    layer.shape = layer.c, 1, 1


@_rule(LAYERTYPE.CROP)
def _crop(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    s = layer.section
    rows, columns = s.whole("crop_height", 1), s.whole("crop_width", 1)
    if rows > layer.h or columns > layer.w:
        raise ModelError(
            f"{s.title}, line {s.line}: [crop] takes {rows} rows and {columns} columns of an image of {layer.h} and {layer.w}"
        )
    layer.shape = layer.c, rows, columns


@_rule(LAYERTYPE.UPSAMPLE)
def _upsample(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    stride = layer.section.whole("stride", 2)
    if stride < 1:
        raise ModelError(f"{network.title}, line {layer.section.line}: [upsample] has stride={stride}")
    layer.shape = layer.c, layer.h * stride, layer.w * stride


@_rule(LAYERTYPE.REORG)
def _reorg(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    s = layer.section.whole("stride", 1)
    if layer.section.whole("reverse"):
        layer.shape = layer.c // (s * s), layer.h * s, layer.w * s
    else:
        layer.shape = layer.c * s * s, layer.h // s, layer.w // s


def sources(network: Network, layer: Layer, k: int) -> list[int]:
    """The numbers of the layers to which layer k refers."""
    key = "layers" if layer.type is LAYERTYPE.ROUTE else "from"
    found = layer.section.wholes(key)
    if not found:
        raise ModelError(f"{network.title}, line {layer.section.line}: [{layer.section.kind}] has no option {key!r}")
    for index in found:
        network.source(index, k)
    return [index + k if index < 0 else index for index in found]


@_rule(LAYERTYPE.ROUTE)
def _route(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    shapes = [network.layers[at].shape for at in sources(network, layer, k)]
    if len({s[1:] for s in shapes}) > 1:
        raise ModelError(
            f"{network.title}, line {layer.section.line}: [route] joins layers of different rows and columns: {shapes}"
        )
    parts, which = layer.section.whole("groups", 1), layer.section.whole("group_id")
    if not 0 <= which < parts or any(s[0] % parts for s in shapes):
        raise ModelError(
            f"{network.title}, line {layer.section.line}: [route] takes the group {which} of {parts} groups of"
            f" {', '.join(str(s[0]) for s in shapes)} channels, which does not exist"
        )
    layer.shape = sum([s[0] // parts for s in shapes]), *shapes[0][1:]


_DETECTORS = (LAYERTYPE.REGION, LAYERTYPE.YOLO)


@_rule(*_DETECTORS)
def _boxes(network: Network, layer: Layer, stream: Weights, k: int) -> None:
    s = layer.section
    if s.real("scale_x_y", 1.0) != 1 or s.whole("new_coords"):
        raise ModelError(f"{s.title}, line {s.line}: [{s.kind}] has scale_x_y or new_coords, which are not supported")
    coords, classes = s.whole("coords", 4), s.whole("classes", 20)
    masked = s.numbers("mask")
    layer.n = len(masked) if masked else s.whole("num", 1)
    if layer.c != layer.n * (coords + classes + 1):
        raise ModelError(
            f"{s.title}, line {s.line}: [{s.kind}] takes {layer.n} x ({coords} + {classes} + 1) channels, but its input has {layer.c}"
        )
