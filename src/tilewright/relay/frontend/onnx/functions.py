"""Functions: those of the model, and ONNX's own definitions of operators without a converter here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tilewright.formats.onnx_messages import Message
from tilewright.relay.cards.relations import known_equal
from tilewright.relay.frontend.onnx.kinds import numpy_dtype
from tilewright.relay.frontend.onnx.value import EmptyOptional, ListValue, OnnxNode, Packed, Value
from tilewright.support.errors import DiagnosticError


@cache
def schema_of(op_type: str, opset: int, domain: str) -> Any:
    """The operator's schema at an opset; None if ONNX has none."""
    from onnx import defs

    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def is_function(op_type: str, opset: int, domain: str) -> bool:
    """Whether ONNX defines the operator as a function of others."""
    schema = schema_of(op_type, opset, domain)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def type_proto(value: Any) -> Any:
    """The ONNX type of a value, for functions whose body depends on the context."""
    from onnx import TypeProto, helper

    if value is None:
        return TypeProto()
    if isinstance(value, (ListValue, Packed, EmptyOptional)):
        inner = type_proto(value.items[0]) if isinstance(value, ListValue) and value.items else _element(value.element)
        made = TypeProto()
        holder = made.optional_type if isinstance(value, EmptyOptional) else made.sequence_type
        holder.elem_type.CopyFrom(inner)
        return made
    shape = [d if isinstance(d, int) else None for d in value.shape]
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(numpy_dtype(value.element)), shape)


def _element(name: str) -> Any:
    from onnx import helper

    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(numpy_dtype(name)), None)


def need_mask(keys: Value, values: Value, mask: Any = None, past: Value | None = None) -> None:
    """Raises DiagnosticError for an Attention's mask without axes of queries and keys, or with a single key for several keys. The body
    applies such a mask to all keys; ONNX's reference only to the first."""
    if not isinstance(mask, Value):
        return
    if mask.ndim < 2:
        raise DiagnosticError(f"its mask has {mask.ndim} axes, and needs one of queries and one of keys")
    if known_equal(mask.shape[-1], 1) and (past is not None or not known_equal(keys.shape[-2], 1)):
        raise DiagnosticError("its mask is of one key, and there are several")


def schema_function(node: OnnxNode, proto: Message, inputs: list[Any], opsets: Mapping[str, int]) -> Any:
    """The FunctionProto that defines a node's operator."""
    from onnx import FunctionProto

    if node.op_type == "Attention":
        need_mask(*inputs[1:5])
        if len(inputs) > 6 and isinstance(inputs[6], Value) and inputs[6].ndim != 1:
            raise DiagnosticError(f"its numbers of keys have {inputs[6].ndim} axes; there is one for each example")
    schema = schema_of(node.op_type, node.opset, proto.domain)
    version = opsets.get("", 1)
    made = FunctionProto()
    if schema.has_function:
        at = _body_version(schema.function_opset_versions, version)
        made.ParseFromString(schema.get_function_with_opset_version(at))
        return made
    at = _body_version(schema.context_dependent_function_opset_versions, version)
    types = [type_proto(v).SerializeToString() for v in inputs]
    made.ParseFromString(schema.get_context_dependent_function_with_opset_version(at, proto.SerializeToString(), types))
    return made


def _body_version(versions: list[int], opset: int) -> int:
    fitting = [v for v in versions if v <= opset]
    return max(fitting) if fitting else min(versions)


def default_attributes(proto: Message, function: Message) -> dict[str, Any]:
    """Attribute name -> AttributeProto for the body of a function: the node's, then the function's, then the schema's."""
    found = {a.name: a for a in function.attribute_proto}
    version = max([o.version for o in function.opset_import if o.domain == proto.domain], default=1)
    schema = schema_of(proto.op_type, version, proto.domain)
    if schema is not None:
        for name, a in schema.attributes.items():
            if a.default_value.name:
                found.setdefault(name, a.default_value)
    return found | {a.name: a for a in proto.attribute}


def bound_nodes(function: Message, attributes: Mapping[str, Any]) -> list[Any]:
    """A function's nodes with references to the function's attributes replaced by their values. References without a value are left out."""
    return [_bound(n, attributes) for n in function.node]


def _bound(node: Message, attributes: Mapping[str, Any]) -> Any:
    from onnx import NodeProto

    if not any([a.ref_attr_name or a.HasField("g") for a in node.attribute]):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for a in node.attribute:
        if a.ref_attr_name:
            source = attributes.get(a.ref_attr_name)
            if source is None:
                continue
            copy.attribute.add().CopyFrom(source)
            copy.attribute[-1].name = a.name
            continue
        copy.attribute.add().CopyFrom(a)
        if a.HasField("g"):
            inner = copy.attribute[-1].g
            nodes = [_bound(n, attributes) for n in a.g.node]
            del inner.node[:]
            inner.node.extend(nodes)
    return copy


def result_kinds(op_type: str, opset: int, domain: str, inputs: list[Any], count: int) -> list[str]:
    """The kinds of a node's results. Results with an input's type by the schema have its kind."""
    schema = schema_of(op_type, opset, domain)
    kinds = [""] * count
    if schema is None or not schema.inputs:
        return kinds
    types: dict[str, str] = {}
    for k, v in enumerate(inputs):
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        if isinstance(v, Value) and v.kind:
            types.setdefault(formal.type_str, v.kind)
    for k in range(count):
        formal = schema.outputs[min(k, len(schema.outputs) - 1)]
        kinds[k] = types.get(formal.type_str, "")
    return kinds
