"""Relay programs as models of ONNX: `to_onnx(mod, params, "name", path="model.onnx")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper, save_model

from tilewright import relay
from tilewright.contrib.target.onnx_converters import call_node_infer_type, infer_type, relay_to_onnx_op_mapping
from tilewright.contrib.target.onnx_model import (
    ONNX_OPSET_VERSONS_SUPPORTED,
    Entry,
    ModelContainer,
    OpConverter,
    get_onnx_version,
    rename,
)
from tilewright.ir import IRModule
from tilewright.runtime import NDArray
from tilewright.support import lazy
from tilewright.support.errors import OpNotImplemented


def add_input(data: np.ndarray[Any, Any], name: str, prefix: str, model_container: ModelContainer) -> str:
    """Adds a constant under a name that begins with `prefix`, and returns that name."""
    return model_container.constant(f"{prefix}_{name}", data)


class RelayToONNXConverter:
    """Writes a function as a model. params: values of parameters, which become constants."""

    def __init__(self, name: str, params: Mapping[str, Any] | None, opset_version: int) -> None:
        self._name, self._params = name, dict(params or {})
        self._model = ModelContainer(name, opset_version)
        self._entries: dict[Any, list[Entry]] = {}

    def convert_to_onnx(self, func: relay.Function) -> ModelProto:
        """The model of a function. Raises OpNotImplemented for operators that have no converter."""
        typed = infer_type(func)
        for expr in relay.analysis.post_order(typed.body):
            self.visit(expr)
        for var in typed.params:
            if var not in self._entries:
                self.visit_var(var)
        names = [n for e in self._entries[typed.body] for n in e["output_names"]]
        for name, kind in zip(names, call_node_infer_type(typed.body), strict=True):
            self._model.add_outputs([self._value(name, kind)])
        return self._model.make_model()

    @staticmethod
    def _value(name: str, kind: Any) -> Any:
        dtype = helper.np_dtype_to_tensor_dtype(np.dtype(str(kind.dtype)))
        shape = [int(d) if str(d).isdigit() else str(d) for d in kind.shape]
        return helper.make_tensor_value_info(name, dtype, shape)

    def visit(self, expr: Any) -> None:
        """Writes an expression whose operands are written."""
        match expr:
            case relay.Var():
                self.visit_var(expr)
            case relay.Constant():
                self.visit_constant(expr)
            case relay.Tuple():
                self.visit_tuple(expr)
            case relay.TupleGetItem():
                self.visit_tuple_getitem(expr)
            case relay.Call():
                self.visit_call(expr)

    def _entry(self, expr: Any, name: str, outputs: Sequence[str], inputs: Sequence[str] = ()) -> Entry:
        made = {
            "relay_node": expr,
            "name": name,
            "input_names": list(inputs),
            "output_names": list(outputs),
            "types": call_node_infer_type(expr),
        }
        self._entries[expr] = [made]
        return made

    def visit_var(self, var: relay.Var) -> None:
        """An input of the model, or a constant."""
        name = var.name_hint
        self._entry(var, name, [name])
        value = self._params.get(name)
        if value is None:
            self._model.add_inputs([self._value(name, call_node_infer_type(var)[0])])
        else:
            held = value.numpy() if isinstance(value, NDArray) else np.asarray(value)
            self._model.add_initializers([numpy_helper.from_array(held, name)])

    def visit_constant(self, const: relay.Constant) -> None:
        """A constant."""
        name = self._model.constant("constant", const.data.numpy())
        self._entry(const, name, [name])

    def visit_tuple(self, tup: relay.Tuple) -> None:
        """The fields' values."""
        self._entries[tup] = [e for field in tup.fields for e in self._entries[field]]

    def visit_tuple_getitem(self, t: relay.TupleGetItem) -> None:
        """One of several results."""
        names = [n for e in self._entries[t.tuple_value] for n in e["output_names"]]
        self._entry(t, names[t.index], [names[t.index]])

    def visit_call(self, call: relay.Call) -> None:
        """A call, by the converter of its operator."""
        op_name = getattr(call.op, "name", type(call.op).__name__)
        converter = relay_to_onnx_op_mapping.get(op_name)
        if converter is None:
            raise OpNotImplemented(
                f"to_onnx has no converter of {op_name}; there are {len(relay_to_onnx_op_mapping)} (relay_to_onnx_op_mapping)"
            )
        inputs = [n for a in call.args for e in self._entries[a] for n in e["output_names"]]
        name = f"{op_name.replace('.', '_')}_{len(self._entries)}"
        count = len(call_node_infer_type(call))
        entry = self._entry(call, name, [name] if count == 1 else [f"{name}_{k}" for k in range(count)], inputs)
        converter.convert(entry, self._model, self._entries)


def to_onnx(
    relay_ir: IRModule | relay.Function,
    params: Mapping[str, Any] | None,
    name: str,
    opset_version: int = 11,
    path: str | None = None,
) -> ModelProto:
    """A relay program as a model of ONNX, which is also written to `path`. params: values of parameters, which become constants. Raises
    OpNotImplemented for operators that have no converter."""
    func = relay_ir["main"] if isinstance(relay_ir, IRModule) else relay_ir
    model = RelayToONNXConverter(name, params, opset_version).convert_to_onnx(func)
    if path is not None:
        save_model(model, path)
    return model


def save_to_file(hex_str: str, path: str | None = None, fmt: str = "onnx") -> None:
    """Writes a model, given in hexadecimal digits, into a file. fmt: "onnx"."""
    if fmt != "onnx":
        raise ValueError(f'models are written in the form "onnx", but fmt is {fmt!r}')
    with open(path or "model.onnx", "wb") as file:
        file.write(bytes.fromhex(hex_str))


# Programs name converters by this module.
__getattr__, __dir__ = lazy.late(__name__, otherwise=lazy.names_of("tilewright.contrib.target.onnx_converters"))

__all__ = [
    "ONNX_OPSET_VERSONS_SUPPORTED",
    "ModelContainer",
    "OpConverter",
    "get_onnx_version",
    "relay_to_onnx_op_mapping",
    "rename",
    "to_onnx",
]
