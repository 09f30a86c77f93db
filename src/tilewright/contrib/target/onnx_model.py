"""A model of ONNX while it is written: its nodes, constants, inputs and outputs, and what converters of operators share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx import __version__ as installed

from tilewright.relay import Call
from tilewright.support.version import VERSION

ONNX_OPSET_VERSONS_SUPPORTED = [11, 12, 13, 14, 15, 16, 17]
"""Versions of the operator set in which models are written."""

Entry = dict[str, Any]
"""An expression: relay_node, name, input_names, output_names, types (of the outputs)."""
Attributes = dict[str, Any]


def get_onnx_version() -> str:
    """The version of the package onnx."""
    return str(installed)


def ints(values: Iterable[Any]) -> list[int]:
    """Numbers of an attribute as ints."""
    return [int(v) for v in values]


class ModelContainer:
    """A model that is being written. Names of what `constant` and `node` add begin with a prefix that they get."""

    def __init__(self, name: str, opset_version: int) -> None:
        if opset_version not in ONNX_OPSET_VERSONS_SUPPORTED:
            raise NotImplementedError(
                f"models are written in versions {', '.join(map(str, ONNX_OPSET_VERSONS_SUPPORTED))} of ONNX's operators, "
                f"not {opset_version}"
            )
        self._name, self.opset = name, opset_version
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._nodes: list[NodeProto] = []
        self._initializers: list[TensorProto] = []

    def add_inputs(self, inputs: Sequence[ValueInfoProto]) -> None:
        """Adds inputs of the model."""
        self._inputs += inputs

    def add_outputs(self, outputs: Sequence[ValueInfoProto]) -> None:
        """Adds outputs of the model."""
        self._outputs += outputs

    def add_nodes(self, nodes: Sequence[NodeProto]) -> None:
        """Adds nodes, after those that they need."""
        self._nodes += nodes

    def add_initializers(self, initializers: Sequence[TensorProto]) -> None:
        """Adds constants."""
        self._initializers += initializers

    def make_model(self) -> ModelProto:
        """The model. Raises onnx.checker.ValidationError if it is no valid one."""
        from onnx import checker

        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, self._initializers)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            producer_name="tilewright",
            producer_version=VERSION,
            ir_version=8,
        )
        checker.check_model(model)
        return model

    def constant(self, prefix: str, value: Any) -> str:
        """Adds a constant, and returns its name."""
        name = f"{prefix}_{len(self._initializers)}"
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], prefix: str, attributes: Mapping[str, Any] | None = None) -> str:
        """Adds a node with one output, and returns the name of that."""
        name = f"{prefix}_{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name, **(attributes or {})))
        return name

    def with_axes(
        self,
        kind: str,
        data: str,
        axes: Sequence[int],
        outputs: Sequence[str],
        name: str,
        since: int,
        **attributes: Any,
    ) -> None:
        """Adds a node whose axes are an attribute before version `since`, and an input from then on."""
        if self.opset >= since:
            given = self.constant(f"{name}_axes", np.array(axes, np.int64))
            self._nodes.append(helper.make_node(kind, [data, given], list(outputs), name, **attributes))
        else:
            self._nodes.append(helper.make_node(kind, [data], list(outputs), name, axes=list(axes), **attributes))


class OpConverter:
    """Writes calls of an operator as one node of ONNX, `onnx_name`, with converted attributes."""

    onnx_name = ""

    @classmethod
    def convert_attributes(cls, attrs: Any) -> Attributes:
        """The attributes of the node."""
        del attrs
        return {}

    @classmethod
    def convert(
        cls, node_entry: Entry, model_container: ModelContainer, node_dict: Mapping[Any, Sequence[Entry]]
    ) -> None:
        """Adds the nodes of a call."""
        del node_dict
        call: Call = node_entry["relay_node"]
        attributes = cls.convert_attributes(call.attrs)
        made = helper.make_node(
            cls.onnx_name, node_entry["input_names"], node_entry["output_names"], node_entry["name"], **attributes
        )
        model_container.add_nodes([made])


def rename(op_name: str) -> type[OpConverter]:
    """The converter of an operator that differs from ONNX's only by name."""
    return type(f"Rename{op_name}", (OpConverter,), {"onnx_name": op_name})
