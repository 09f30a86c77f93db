"""The classic interface for users' converters: a class with `convert_map` from names to methods, and functions for these methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.formats.flatbuffer import Record
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import make_call
from tilewright.relay.frontend.tflite.graph import Importer
from tilewright.relay.frontend.tflite.node import Value, converters
from tilewright.relay.frontend.tflite.reader import shape_of, type_name


def get_tensor_name(subgraph: Any, tensor_idx: int) -> str:
    """The name of a tensor of a subgraph."""
    return str(subgraph.tensors[tensor_idx].name or f"tensor_{tensor_idx}")


class TensorWrapper:
    """A tensor for converters: its number, its table in the model, its buffer's bytes, its quantisation (dict or None)."""

    __slots__ = ("buffer", "qnn_params", "tensor", "tensor_idx")

    def __init__(self, tensor_idx: int, tensor: Any, buffer: Any, qnn_params: dict[str, Any] | None = None) -> None:
        self.tensor_idx, self.tensor, self.buffer, self.qnn_params = tensor_idx, tensor, buffer, qnn_params


class OperatorConverter:
    """Base of users' converters: fill `convert_map` (operator or custom operator -> f(op) -> expression) in `__init__`.

    `op` is the model's table of the operator: `op.inputs`, `op.outputs` (arrays), `op.builtin_options`, `op.custom_options` (bytes).
    """

    def __init__(self, model: Any, subgraph: Any, exp_tab: Importer) -> None:
        self.model, self.subgraph, self.exp_tab = model, subgraph, exp_tab
        self.allow_custom_ops = False
        self.convert_map: dict[str, Callable[[Any], Any]] = dict.fromkeys(converters, self.convert_builtin)

    def convert_builtin(self, op: Any) -> Any:
        """The importer's own conversion of an operator."""
        importer = self.exp_tab
        name = self.get_op_code_str(op)
        custom = importer.custom.pop(name, None)
        scope: dict[int, Any] = dict(importer.scope)
        importer.node(self.subgraph, scope, op, 0)
        if custom is not None:
            importer.custom[name] = custom
        return [scope[i].expr for i in op.outputs.tolist()]

    def get_op_code_str(self, op: Any) -> str:
        """The name of an operator in the schema, or a custom operator's own name."""
        name, custom = self.exp_tab.model.operator_name(op)
        return str(custom if name == "CUSTOM" else name)

    def get_input_tensors(self, op: Any) -> list[TensorWrapper]:
        """An operator's inputs."""
        return self.get_tensors(op.inputs)

    def get_output_tensors(self, op: Any) -> list[TensorWrapper]:
        """An operator's results."""
        return self.get_tensors(op.outputs)

    def get_tensors(self, tensors_idx_list: Any) -> list[TensorWrapper]:
        """Tensors by number; -1 stands for an omitted one."""
        return [self._wrapped(int(i)) for i in tensors_idx_list]

    def _wrapped(self, index: int) -> TensorWrapper:
        if index < 0:
            return TensorWrapper(index, None, None)
        tensor = self.exp_tab.tensor(self.subgraph, index)
        quant = self.exp_tab.quant(tensor)
        params = None
        if quant is not None:
            scale, zero = (quant.scale[0], quant.zero[0]) if quant.single else (quant.scale, quant.zero)
            params = {
                "scale": _constant(scale, np.float32),
                "zero_point": _constant(zero, np.int32),
                "axis": quant.axis,
            }
        return TensorWrapper(index, tensor, self.exp_tab.model.content(tensor), params)

    def get_tensor_value(self, tensor_wrapper: TensorWrapper) -> np.ndarray | None:
        """The elements of a constant tensor; None for other tensors."""
        return self.exp_tab.model.array(tensor_wrapper.tensor)

    def get_tensor_shape(self, tensor_wrapper: TensorWrapper) -> tuple[int, ...]:
        """A tensor's declared shape."""
        return shape_of(tensor_wrapper.tensor)

    def get_tensor_type_str(self, tensor_type: int) -> str:
        """The dtype of one of the schema's element types."""
        from tilewright.formats.tflite_schema import TYPES

        return TYPES[tensor_type].lower()

    def get_tensor_type(self, tensor_wrapper: TensorWrapper) -> str:
        """A tensor's dtype."""
        return type_name(tensor_wrapper.tensor).lower()

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Whether a tensor is an input, or the result of an earlier operator."""
        return input_tensor_idx in self.exp_tab.scope

    def get_expr(self, input_tensor_idx: int) -> Expr:
        """The expression of an input or of an earlier operator's result."""
        value: Value = self.exp_tab.scope[input_tensor_idx]
        return value.expr

    def get_tensor_expr(self, tensor: TensorWrapper, is_sparse: bool = False) -> Expr:
        """The expression of a tensor, which may be a constant."""
        value: Value = self.exp_tab.find(self.subgraph, self.exp_tab.scope, tensor.tensor_idx, "a converter")
        return value.expr

    def has_same_qnn_params(self, lhs_tensor: TensorWrapper, rhs_tensor: TensorWrapper) -> bool:
        """Whether two tensors have the same scale and zero point."""
        quants = [self.exp_tab.quant(t.tensor) for t in (lhs_tensor, rhs_tensor)]
        return quants[0] is not None and quants[0].same(quants[1])

    def is_quantized(self, op: Any) -> bool:
        """Whether an operator's first input is quantised."""
        return self.get_input_tensors(op)[0].qnn_params is not None

    def quantize(self, expr: Expr, tensor_to_quantize: TensorWrapper) -> Expr:
        """float32 quantised to a tensor's integers."""
        params = tensor_to_quantize.qnn_params or {}
        attrs = {"out_dtype": self.get_tensor_type(tensor_to_quantize)}
        return make_call("qnn.quantize", [expr, params["scale"], params["zero_point"]], attrs)

    def dequantize(self, expr: Expr, tensor: TensorWrapper) -> Expr:
        """A tensor's integers dequantised to float32."""
        params = tensor.qnn_params or {}
        return make_call("qnn.dequantize", [expr, params["scale"], params["zero_point"]], {"axis": params["axis"]})


def _constant(value: Any, dtype: Any) -> Expr:
    from tilewright.relay.expr import Constant, const_array

    return Constant(const_array(np.asarray(value, dtype)))


def overridden(op_converter: Any, importer: Importer, subgraph: int) -> Mapping[str, Callable[[Record], Any]]:
    """The converters of a user's class that replace the importer's."""
    made = op_converter(importer.model.root, importer.model.root.subgraphs[subgraph], importer)
    plain = OperatorConverter.convert_builtin
    return {
        name: f
        for name, f in made.convert_map.items()
        if getattr(f, "__func__", f) is not plain and (name in converters or made.allow_custom_ops)
    }
