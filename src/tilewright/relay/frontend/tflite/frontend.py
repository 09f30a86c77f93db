"""from_tflite: the entry of the TFLite importer, which selects main's subgraph and the names of its inputs and outputs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.formats.flatbuffer import Record
from tilewright.ir import IRModule
from tilewright.relay.cards.relations import shape_text
from tilewright.relay.frontend.common.damage import guarded
from tilewright.relay.frontend.common.names import by_input, checked_shapes, renamed, unused_name
from tilewright.relay.frontend.tflite import control_flow, ops  # noqa: F401 (register converters)
from tilewright.relay.frontend.tflite.graph import Importer
from tilewright.relay.frontend.tflite.node import converters
from tilewright.relay.frontend.tflite.reader import TFLiteModel, read_model, shape_of, type_name
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError

Names = list[tuple[str, int]]


@paused_collection()
def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
    op_converter: Any = None,
    signature: str | None = None,
    variables: str = "initial",
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """A module with `main`, and its parameters, from a TFLite model.

    model: path, bytes, or tflite.Model. shape_dict: extents by input name. Dynamic axes, and axes with -1 or None, are
    symbolic. dtype_dict: types of inputs, which must be the model's. op_converter: a subclass of `OperatorConverter` with its own
    converters in `convert_map`. signature: the model's signature that becomes main, with its names (default: the first subgraph).
    variables: "initial": every run begins with the variables' initial values; "carried": variables are inputs and outputs of main,
    after the model's own (`initial_variables` gives their initial values).

    Parameters of main are the inputs, then the weights. The dictionary holds the weights' values (mapped, not copied).
    Raises ModelError (unreadable model, unknown names, shapes that do not fit) and OpNotImplemented, which lists all unsupported parts.
    """
    return _imported(model, shape_dict, dtype_dict, op_converter, signature, variables)[0]


def initial_variables(model: Any, signature: str | None = None) -> dict[str, np.ndarray]:
    """The initial values of a model's variables, by the names of their inputs under `variables="carried"`."""
    return _imported(model, None, None, None, signature, "carried")[1].initial


def supported_operators() -> list[str]:
    """Names of the supported operators, including custom ones."""
    return sorted(converters)


def _imported(
    model: Any,
    shape_dict: Mapping[str, Sequence[Any]] | None,
    dtype_dict: Mapping[str, str] | None,
    op_converter: Any,
    signature: str | None,
    variables: str,
) -> tuple[tuple[IRModule, dict[str, Any]], Importer]:
    if variables not in ("initial", "carried"):
        raise ValueError(f'variables is {variables!r}; it must be "initial" or "carried"')
    opened = read_model(model)
    with guarded(opened.name, "Copy or convert it again"):
        subgraph, inputs, outputs = main_of(opened, signature)
        importer = Importer(opened, carried=variables == "carried")
        if op_converter is not None:
            from tilewright.relay.frontend.tflite.classic import overridden

            importer.custom = dict(overridden(op_converter, importer, subgraph))
        shapes: dict[str, Any] = checked_shapes(opened.name, "shape_dict", shape_dict, names=True)
        dtypes: dict[str, Any] = dict(dtype_dict or {})
        graph = opened.root.subgraphs[subgraph]
        known = [(n, other_names(opened, subgraph, n, index)) for n, index in inputs]
        shapes, dtypes = (renamed(given, by_input(opened.name, given, known)) for given in (shapes, dtypes))
        for given, what in ((shapes, "shape_dict"), (dtypes, "dtype_dict")):
            check_names(opened, graph, given, what, inputs)
        return importer.run(subgraph, inputs, outputs, shapes, dtypes), importer


def main_of(model: TFLiteModel, signature: str | None) -> tuple[int, Names, Names]:
    """(subgraph, names and tensors of its inputs, of its outputs). Raises ModelError for an unknown signature."""
    root = model.root
    if signature is not None:
        found = next((s for s in root.signature_defs if s.signature_key == signature), None)
        if found is None:
            keys = [s.signature_key or "" for s in root.signature_defs]
            near = difflib.get_close_matches(signature, keys, n=1)
            raise ModelError(
                f"{model.name}: the model has no signature {signature!r}; its signatures are {', '.join(map(repr, keys)) or 'none'}"
                + (f". Did you mean {near[0]!r}?" if near else "")
            )
        model.item(root.subgraphs, found.subgraph_index, "subgraph")
        maps = [[(m.name or "", int(m.tensor_index)) for m in side] for side in (found.inputs, found.outputs)]
        return int(found.subgraph_index), maps[0], maps[1]
    graph = root.subgraphs[0]
    return 0, tensor_names(model, graph, graph.inputs), tensor_names(model, graph, graph.outputs)


def tensor_names(model: TFLiteModel, graph: Record, indices: Any) -> Names:
    """Tensors with their names, made unique."""
    found: Names = []
    taken: set[str] = set()
    for index in indices.tolist():
        tensor = model.item(graph.tensors, index, "tensor")
        name = unused_name(tensor.name or f"tensor_{index}", taken)
        taken.add(name)
        found.append((name, index))
    return found


def other_names(model: TFLiteModel, subgraph: int, name: str, index: int) -> list[str]:
    """Other names of an input: without the converter's prefix, and in signatures."""
    signatures = [s for s in model.root.signature_defs if s.subgraph_index == subgraph]
    called = [m.name or "" for s in signatures for m in s.inputs if m.tensor_index == index]
    tensor = model.item(model.root.subgraphs[subgraph].tensors, index, "tensor").name or ""
    return [*called, tensor, *[n.removeprefix("serving_default_") for n in (name, tensor)]]


def check_names(model: TFLiteModel, graph: Record, given: Mapping[str, Any], what: str, inputs: Names) -> None:
    """Raises ModelError for names that are not names of inputs."""
    names = [n for n, _ in inputs]
    unknown = [n for n in given if n not in names]
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], names, n=1)

    def described(name: str, index: int) -> str:
        tensor = model.item(graph.tensors, index, "tensor")
        return f"{name!r} {shape_text(list(shape_of(tensor)))} {type_name(tensor).lower()}"

    raise ModelError(
        f"{model.name}: {what} names {', '.join(map(repr, unknown))}, but the model's inputs are"
        f" {', '.join([described(n, i) for n, i in inputs]) or 'none'}"
        + (f". Did you mean {near[0]!r}?" if near else "")
    )
