"""from_caffe2: the entry of the importer of Caffe2's networks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.caffe2_messages import Message, filled, message
from tilewright.formats.files import readable
from tilewright.ir import IRModule
from tilewright.relay.frontend.caffe2.node import OperatorNode, converters
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.listed import ListedImporter
from tilewright.relay.frontend.common.names import checked_shapes
from tilewright.relay.frontend.common.value import use_text
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError, OpNotImplemented

REMEDY = "Copy or save the networks again"
RANDOM = ("XavierFill", "MSRAFill", "GaussianFill", "UniformFill", "UniformIntFill", "UniqueUniformFill")
"""Operators that make random weights."""


@paused_collection()
def from_caffe2(
    init_net: Any,
    predict_net: Any,
    shape: Mapping[str, Sequence[Any]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from two networks of Caffe2.

    init_net: the network that fills the weights; predict_net: the one that computes. Each is a NetDef, its bytes, or the path of a file
    of it; Caffe2 need not be installed. shape: extents by input name; -1 or None: symbolic. dtype: of all inputs, or by input name.

    Parameters of main are the inputs, then the weights, whose values the dictionary holds. Raises ModelError and OpNotImplemented,
    which lists all unsupported operators.
    """
    fill, net = opened(init_net, "init_net"), opened(predict_net, "predict_net")
    title = net.name or "the network"
    with guarded(title, REMEDY):
        importer = ListedImporter(title, converters)
        importer.noun = "operator"
        shapes = checked_shapes(title, "shape", shape)
        weights = initial(title, fill)
        inputs = [n for n in net.external_input if n not in weights]
        importer.check_names(shapes, inputs)
        for name in inputs:
            kind = dtype if isinstance(dtype, str) else dtype.get(name, "float32")
            importer.input(name, None, shapes.get(name), kind)
        names = [op.name or next(iter(op.output), f"{op.type}_{k}") for k, op in enumerate(net.op)]
        uses: dict[str, list[str]] = {}
        for op, name in zip(net.op, names, strict=True):
            uses.setdefault(op.type, []).append(name)
        importer.check_supported(uses)
        read = {n for op in net.op for n in op.input} | set(net.external_output)
        for name, array in weights.items():
            if name in read:
                importer.values[name] = importer.weight(name, array)
        for op, name in zip(net.op, names, strict=True):
            importer.convert(
                OperatorNode(op, name, importer), [importer.read(n, name) for n in op.input], list(op.output)
            )
        importer.finish()
        outputs = list(net.external_output) or list(net.op[-1].output if len(net.op) else [])[:1]
        results = [importer.read(n, "the output") for n in outputs]
        return importer.module(results, outputs), dict(importer.params)


def opened(net: Any, argument: str) -> Message:
    """A network as a message. Raises ModelError for what is none."""
    if isinstance(net, (str, os.PathLike)):
        with readable(net, f"{argument}: ") as file:
            net = file.read_bytes()
    if hasattr(net, "SerializeToString"):
        net = net.SerializeToString()
    if not isinstance(net, bytes):
        raise ModelError(
            f"{argument} is a {type(net).__name__}; it must be a NetDef, its bytes, or the path of a file of it"
        )
    found = message("NetDef")()
    with guarded(argument, REMEDY):
        try:
            found.ParseFromString(net)
        except Exception as error:  # protobuf's own exception is none of Python's
            raise ModelError(f"{argument}: it is no NetDef of Caffe2, or it is damaged ({error}). {REMEDY}") from error
    return found


def initial(title: str, net: Message) -> dict[str, np.ndarray]:
    """The tensors that a network fills, by name. Raises OpNotImplemented for random ones, and for other operators."""
    found: dict[str, np.ndarray] = {}
    wrong: dict[str, list[str]] = {}
    for op in net.op:
        array = filled(op)
        if array is None:
            wrong.setdefault(op.type, []).extend(op.output)
        else:
            found.update(dict.fromkeys(op.output, array))
    if wrong:
        parts = [
            use_text(kind, names, "tensor") + (": random weights, before training" if kind in RANDOM else "")
            for kind, names in wrong.items()
        ]
        raise OpNotImplemented(
            f"{title}: init_net fills weights with operators that are not supported:\n  " + "\n  ".join(parts)
        )
    return found
