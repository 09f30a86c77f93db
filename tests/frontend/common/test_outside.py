"""Indices outside of their axis in models of all formats: one rule, the check that finds them, and what each format counts from the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tilewright as tvm
from tilewright import relay
from tilewright.support.errors import BoundsError, DivisionByZeroError

X = np.arange(12, dtype="float32").reshape(4, 3)


def onnx_model(kind: str, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray], **attrs: Any) -> Any:
    """A model of one node named "the node"."""
    types = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in inputs.items()}
    given = [helper.make_tensor_value_info(k, types[k], v.shape) for k, v in inputs.items()]
    names = [*inputs, *constants]
    order = sorted(names)
    first = (inputs | constants)[order[0]].dtype
    out = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(first), None)
    node = helper.make_node(kind, order, ["y"], name="the node", **attrs)
    weights = [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()]
    return helper.make_model(
        helper.make_graph([node], "g", given, [out], weights), opset_imports=[helper.make_opsetid("", 18)]
    )


def results(mod: relay.IRModule, params: Any, args: list[np.ndarray], check: bool = False) -> list[np.ndarray]:
    found = []
    for kind in ("debug", "graph", "vm"):
        with tvm.transform.PassContext(opt_level=3, config={"relay.check_bounds": check}):
            bound = relay.build_module.bind_params_by_name(mod["main"], params)
            found.append(relay.create_executor(kind, relay.IRModule.from_expr(bound)).evaluate()(*args).numpy())
    return found


@pytest.mark.parametrize("known", [False, True])
def test_onnx_gather(known: bool) -> None:
    indices = np.array([3, -4, -9, 9], "int64")
    model = onnx_model("Gather", {"a": X} if known else {"a": X, "b": indices}, {"b": indices} if known else {})
    mod, params = relay.frontend.from_onnx(model)
    args = [X] if known else [X, indices]
    for got in results(mod, params, args):
        np.testing.assert_array_equal(got, X[[3, 0, 0, 3]])
    with pytest.raises(
        BoundsError, match=r"the node.*axis 0 must lie in \[-extent, extent\), but the extent is 4 and the index is -9"
    ):
        results(mod, params, args, check=True)


def test_onnx_gather_of_one_known_index_outside() -> None:
    mod, params = relay.frontend.from_onnx(onnx_model("Gather", {"a": X}, {"b": np.array(7, "int64")}))
    for got in results(mod, params, [X]):
        np.testing.assert_array_equal(got, X[3])
    with pytest.raises(BoundsError, match="the extent is 4 and the index is 7"):
        results(mod, params, [X], check=True)


def test_onnx_gather_from_the_end_of_a_dynamic_axis() -> None:
    model = onnx_model("Gather", {"a": X}, {"b": np.array([-1, 0], "int64")})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    mod, params = relay.frontend.from_onnx(model, freeze_params=False)
    with tvm.transform.PassContext(opt_level=3, config={"relay.check_bounds": True}):
        bound = relay.build_module.bind_params_by_name(mod["main"], params)
        got = relay.create_executor("vm", relay.IRModule.from_expr(bound)).evaluate()(X).numpy()
    np.testing.assert_array_equal(got, X[[-1, 0]])


def test_onnx_folds_by_the_rule() -> None:
    for kind, constants, want in (
        ("Gather", {"a": np.array([5, 6, 7], "int64"), "b": np.array([1, 9, -9], "int64")}, [6, 7, 5]),
        ("Div", {"a": np.array([7, -7, 7], "int64"), "b": np.array([0, 2, -2], "int64")}, [0, -3, -3]),
    ):
        model = onnx_model(kind, {}, constants)
        mod, params = relay.frontend.from_onnx(model)
        for got in results(mod, params, []):
            np.testing.assert_array_equal(got, want)


def test_onnx_division_names_its_node() -> None:
    a, b = np.array([6, 7], "int32"), np.array([2, 0], "int32")
    mod, params = relay.frontend.from_onnx(onnx_model("Div", {"a": a, "b": b}, {}))
    for got in results(mod, params, [a, b]):
        np.testing.assert_array_equal(got, [3, 0])
    with pytest.raises(DivisionByZeroError, match=r"^divide \(.*the node.*\): an integer is divided by zero$"):
        results(mod, params, [a, b], check=True)


def test_onnx_scatter() -> None:
    indices, updates = np.array([[1], [4]], "int64"), np.ones((2, 3), "float32")
    mod, params = relay.frontend.from_onnx(onnx_model("ScatterND", {"a": X, "b": indices, "c": updates}, {}))
    for got in results(mod, params, [X, indices, updates]):
        np.testing.assert_array_equal(got, np.where(np.arange(4)[:, None] == 1, 1, X))
    with pytest.raises(BoundsError, match="scatter_nd .*the node.* the extent is 4 and the index is 4"):
        results(mod, params, [X, indices, updates], check=True)


def test_torch_embedding_and_index() -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding.from_pretrained(torch.tensor(X))

        def forward(self, i: Any, k: Any) -> Any:
            return self.table(i) + self.table.weight[k]

    def mod_of(i: np.ndarray, k: np.ndarray) -> tuple[Any, Any]:
        return relay.frontend.from_pytorch(torch.export.export(Model(), (torch.tensor(i), torch.tensor(k))))

    i, k = np.array([0, 3]), np.array([-1, 1])
    mod, params = mod_of(i, k)
    for check in (False, True):
        for got in results(mod, params, [i, k], check):
            np.testing.assert_array_equal(got, X[i] + X[k])
    for got in results(mod, params, [np.array([-1, 9]), np.array([9, -9])]):
        np.testing.assert_array_equal(got, X[[0, 3]] + X[[3, 0]])
    with pytest.raises(BoundsError, match=r"must lie in \[0, extent\), but the extent is 4 and the index is -1"):
        results(mod, params, [np.array([-1, 0]), k], check=True)
    with pytest.raises(BoundsError, match=r"must lie in \[-extent, extent\), but the extent is 4 and the index is -5"):
        results(mod, params, [i, np.array([0, -5])], check=True)
