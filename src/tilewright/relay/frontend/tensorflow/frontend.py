"""from_tensorflow: the entry of the TensorFlow importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import Message
from tilewright.ir import IRModule, PrimExpr
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Var
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.names import by_input, checked_shapes, renamed
from tilewright.relay.frontend.common.value import StringTensor, Value, near_text
from tilewright.relay.frontend.tensorflow.execution_conditions import split_ref
from tilewright.relay.frontend.tensorflow.graph import Scope, TensorFlowImporter
from tilewright.relay.frontend.tensorflow.ops.media import DECODERS
from tilewright.relay.frontend.tensorflow.reader import REMEDY, Input, OpenedModel, open_model
from tilewright.relay.transform.layout.convert_layout import ConvertLayout
from tilewright.relay.transform.simplify.canonical import SimplifyExprPostAlterOp
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import CARRIER
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError
from tilewright.tir import SizeVar

LAYOUTS = ("NHWC", "NCHW", "NDHWC", "NCDHW")
OPTIONS = ("use_dense", "use_nt_batch_matmul")


@paused_collection()
def from_tensorflow(
    graph: Message,
    layout: str | None = "NHWC",
    shape: Mapping[str, Sequence[Any]] | None = None,
    outputs: Sequence[str] | None = None,
    convert_config: Config | None = None,
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a TensorFlow model.

    graph: a GraphDef (TensorFlow's own or its bytes) or tf.Graph, the path of a frozen graph (.pb), or of a SavedModel's folder, with
    variables from its checkpoint. TensorFlow need not be installed. layout: "NHWC" keeps the layout of convolutions;
    "NCHW" converts them, but not inputs and outputs. shape: extents by input name; dynamic dimensions without one (or with -1 or
    None) stay symbolic. The contents of a picture's file may be given three extents, (rows, columns, channels): the input is then the
    decoded picture, of uint8, and its decoder is left out. outputs: tensors ("name" or "name:1") of a graph; default: the results that no
    node reads. SavedModels have signatures with named inputs and outputs. convert_config: "use_dense" (MatMul as
    nn.dense instead of nn.matmul, True), "use_nt_batch_matmul" (accepted, without effect).

    Parameters of main are the inputs, then the weights. The dictionary holds the weights' values (mapped, not copied). Raises
    ModelError (arguments that do not fit, a damaged file) and OpNotImplemented, which lists all unsupported parts.
    """
    opened, mod, params = import_graph(graph, layout, shape, outputs, convert_config)
    return mod, params


def import_graph(
    graph: Message,
    layout: str | None,
    shape: Mapping[str, Sequence[Any]] | None,
    outputs: Sequence[str] | None = None,
    convert_config: Config | None = None,
    signature: str | None = None,
) -> tuple[OpenedModel, IRModule, dict[str, Any]]:
    """`from_tensorflow`, and the opened model."""
    if layout is not None and layout not in LAYOUTS:
        raise ModelError(f"layout is {layout!r}; it must be one of {', '.join(LAYOUTS)}")
    unknown = [k for k in convert_config or {} if k not in OPTIONS]
    if unknown:
        raise ModelError(f"convert_config has the entry {unknown[0]!r}; known: {', '.join(OPTIONS)}")
    opened = open_model(graph, outputs, signature)
    with guarded(opened.title, REMEDY):
        importer = TensorFlowImporter(opened.title, opened.functions, opened.variable, opened.tables)
        importer.use_dense = bool((convert_config or {}).get("use_dense", True))
        mod, params = _run(importer, opened, checked_shapes(opened.title, "shape", shape))
        if layout in ("NCHW", "NCDHW"):
            wanted = {
                f"nn.conv{n}d{t}": [front, "default"]
                for n, front in ((2, "NCHW"), (3, "NCDHW"))
                for t in ("", "_transpose")
            }
            mod = SimplifyExprPostAlterOp()(ConvertLayout(wanted)(mod))
        return opened, mod, params


def _run(
    importer: TensorFlowImporter, opened: OpenedModel, shapes: Mapping[str, Sequence[Any]]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    scope = Scope(opened.nodes, {}, "the graph")
    needed = importer.check_supported(scope, [ref for _, ref in opened.outputs])
    names = [i.name for i in opened.inputs]
    called = by_input(importer.title, shapes, [(i.name, [i.ref]) for i in opened.inputs])
    files = picture_files(opened)
    wrong = [n for n in shapes if n not in called]
    if len(wrong) == len(files) == 1 and len(shapes[wrong[0]]) == 3 and files[0] not in called.values():
        # The shape of the picture, under the name that the program has for it.
        called[wrong.pop()] = files[0]
    if wrong:
        listed = (
            ", ".join([f"{i.name!r} {'of any shape' if i.shape is None else tuple(i.shape)}" for i in opened.inputs])
            or "none"
        )
        raise ModelError(
            f"{importer.title}: shape names {', '.join(map(repr, wrong))}, but the model's inputs are {listed}{near_text(wrong[0], names)}"
        )
    shapes = renamed(shapes, called)
    variables: list[Var] = []
    for given in opened.inputs:
        if opened.folder is None and split_ref(given.ref)[0] not in needed:
            continue
        if given.dtype in ("resource", "variant"):
            continue
        pins = shapes.get(given.name)
        is_picture = given.name in files and pins is not None and len(pins) == 3
        is_string = given.dtype == "string" and not is_picture
        extents = _extents(
            importer.title, Input(given.name, given.ref, None, given.dtype) if is_picture else given, pins
        )
        var = Var(given.name, tensor_type(extents, CARRIER if is_string else "uint8" if is_picture else given.dtype))
        importer.sizes.homes.append(var)
        variables.append(var)
        value = StringTensor(var, None, given.name) if is_string else Value(var, None, given.name)
        importer.inputs[given.name] = value
        node, output = split_ref(given.ref)
        held = scope.values.setdefault(node, [])
        held += [None] * (output + 1 - len(held))
        held[output] = value
    found = [importer.value(scope, ref) for _, ref in opened.outputs]
    mod = importer.module(found, [n for n, _ in opened.outputs], variables)
    return mod, dict(importer.params)


def picture_files(opened: OpenedModel) -> list[str]:
    """The inputs that are the bytes of a picture in a file: only decoders read them."""
    readers: dict[str, set[str]] = {}
    for node in opened.nodes.values():
        for ref in node.input:
            readers.setdefault(split_ref(ref)[0], set()).add(node.op)
    found = [i for i in opened.inputs if i.dtype == "string" and readers.get(split_ref(i.ref)[0])]
    return [i.name for i in found if readers[split_ref(i.ref)[0]] <= set(DECODERS)]


def _extents(title: str, given: Input, pins: Sequence[Any] | None) -> list[Any]:
    """An input's extents: pinned ones, the model's, and symbols for dynamic ones. Raises ModelError if pinned and declared ones differ."""
    declared = given.shape
    if declared is None:
        if pins is None:
            raise ModelError(
                f"{title}: the model does not say how many axes its input {given.name!r} has."
                f" Give its shape: shape={{{given.name!r}: [...]}}"
            )
        declared = [-1] * len(pins)
    if pins is not None and len(pins) != len(declared):
        raise ModelError(
            f"{title}: shape gives the input {given.name!r} {len(pins)} extents, {tuple(pins)},"
            f" but it has {len(declared)}: {tuple(declared)}"
        )
    result: list[Any] = []
    for k, d in enumerate(declared):
        pin = pins[k] if pins is not None else None
        if isinstance(pin, (int, np.integer)) and pin >= 0:
            if d >= 0 and int(pin) != d:
                raise ModelError(
                    f"{title}: shape gives axis {k} of the input {given.name!r} the extent {int(pin)}, but the model says {d}."
                    f" It takes {tuple(declared)}"
                )
            result.append(int(pin))
        elif isinstance(pin, PrimExpr) and type(pin).__name__ != "Any":
            result.append(pin)
        else:
            result.append(
                int(d) if d >= 0 else SizeVar(f"{given.name}_{k}".replace("/", "_").replace(":", "_"), "int64")
            )
    return result
