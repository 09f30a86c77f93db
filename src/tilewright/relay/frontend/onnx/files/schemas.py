"""Schemas of the operators of ONNX and ONNX Runtime at every opset: numbers of inputs and outputs, attributes, types of inputs.

The table `schema_table` replaces ONNX's own schemas, since loading these takes longer than most models. A test compares it
with them (`--update` writes it).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from tilewright.formats.onnx_messages import Message
from tilewright.relay.frontend.onnx.files.schema_table import OPERATORS, TYPES
from tilewright.relay.frontend.onnx.value import Value

DEFINED_BY = {
    "": "ONNX", "ai.onnx.ml": "ONNX", "ai.onnx.preview": "ONNX", "ai.onnx.preview.training": "ONNX", "com.microsoft": "ONNX Runtime",
}  # fmt: skip
KINDS = ("undefined", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings", "tensors", "graphs", "sparse_tensor",
         "sparse_tensors", "type_proto", "type_protos")  # fmt: skip
"""The kinds of attributes, indexed by their numbers in ONNX's format."""
TOLERANT = {"Constant", "LayerNormalization", "SimplifiedLayerNormalization"}
"""Operators that ONNX Runtime accepts with undefined attributes, or without required ones."""
MANY = "*"
"""Any number of inputs or outputs."""
REMEDY = "The file is damaged, or says a wrong opset; export the model again"


class Schema(NamedTuple):
    """An operator from opset `since` on. `attributes`: their kinds; `types`: the allowed types of each input, the last repeated; empty
    if all types are allowed."""

    since: int
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: dict[str, str]
    required: list[str]
    types: list[frozenset[str]]


@cache
def _rows() -> dict[tuple[str, str], list[list[str]]]:
    found: dict[tuple[str, str], list[list[str]]] = {}
    for domain, text in OPERATORS.items():
        for row in text.split(";"):
            name, *rest = row.split()
            found.setdefault((domain, name), []).append(rest)
    return found


@cache
def _types(index: str) -> frozenset[str]:
    return frozenset(TYPES[int(index)].split())


@cache
def schema(op_type: str, opset: int, domain: str) -> Schema | None:
    """The definition of an operator at an opset; None if it does not exist."""
    rows = [r for r in _rows().get((domain, op_type), ()) if int(r[0]) <= opset]
    if not rows:
        return None
    since, inputs, outputs, types, *attributes = rows[-1]
    pairs = [a.rstrip("!").split(":") for a in attributes]
    return Schema(
        int(since),
        _bounds(inputs),
        _bounds(outputs),
        {name: KINDS[int(kind)] for name, kind in pairs},
        [a.partition(":")[0] for a in attributes if a.endswith("!")],
        [_types(t) for t in types.split(",")] if types != "-" else [],
    )


def _bounds(text: str) -> tuple[int, int]:
    least, most = text.split("-")
    return int(least), 1 << 31 if most == MANY else int(most)


def wrong_node(proto: Message, opset: int, domain: str, inputs: list[Any]) -> str:
    """The violation of an operator's definition by a node; "" if there is none."""
    known = schema(proto.op_type, opset, domain)
    if known is None:
        return ""
    return (
        _wrong_counts(proto, known, opset)
        or _wrong_attributes(proto, known, opset, domain)
        or _wrong_types(proto, known, domain, inputs)
    )


def _wrong_counts(proto: Message, known: Schema, opset: int) -> str:
    for what, (least, most), count in (
        ("input", known.inputs, len(proto.input)),
        ("output", known.outputs, len(proto.output)),
    ):
        if not least <= count <= most:
            takes = str(least) if least == most else f"at least {least}" if count < least else f"at most {most}"
            verb = "takes" if what == "input" else "makes"
            return f"it has {count} {what}{'s' * (count != 1)}, and {proto.op_type} {verb} {takes} in opset {opset}"
    return ""


def _wrong_attributes(proto: Message, known: Schema, opset: int, domain: str) -> str:
    for a in proto.attribute:
        kind = known.attributes.get(a.name)
        # Attributes with this prefix are for tools. Files of ONNX's first version do not give kinds.
        if kind is None and not a.name.startswith("__") and proto.op_type not in TOLERANT:
            names = ", ".join(sorted(known.attributes)) or "none"
            return f"its attribute {a.name!r} is none that {DEFINED_BY[domain]} defines for it in opset {opset} (it has {names}). {REMEDY}"
        if kind is not None and a.type and kind != KINDS[a.type]:
            return f"its attribute {a.name!r} is of the kind {KINDS[a.type]}, and {DEFINED_BY[domain]} defines it as {kind}. {REMEDY}"
    given = {a.name for a in proto.attribute}
    missing = [name for name in known.required if name not in given and proto.op_type not in TOLERANT]
    return f"its attribute {missing[0]!r} is missing" if missing else ""


def _wrong_types(proto: Message, known: Schema, domain: str, inputs: list[Any]) -> str:
    """Checks only computed inputs. Known inputs, above all sizes, may be held in a type that differs from the model's."""
    for k, value in enumerate(inputs):
        allowed = known.types[min(k, len(known.types) - 1)] if known.types else ()
        if allowed and isinstance(value, Value) and value.array is None and value.element not in allowed:
            return (
                f"its input {proto.input[k]!r} has elements of type {value.element}, and {DEFINED_BY[domain]} defines it as"
                f" {' or '.join(sorted(allowed))}"
            )
    return ""


def wrong_axis(proto: Message, inputs: list[Any]) -> str:
    """The error in the axis of a node that could not be converted; "" if the axis is valid."""
    axis = next((a.i for a in proto.attribute if a.name == "axis"), None)
    if axis is None or not inputs or not isinstance(inputs[0], Value) or -inputs[0].ndim <= axis < inputs[0].ndim:
        return ""
    return f"its attribute 'axis' is {axis}, and its input {proto.input[0]!r} has {inputs[0].ndim} axes"
