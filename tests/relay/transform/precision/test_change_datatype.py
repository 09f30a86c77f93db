"""ChangeDatatype, and names of modules that programs import from."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend import ChangeDatatype


def network() -> tvm.IRModule:
    x = relay.var("x", shape=(2, 3))
    w = relay.const(np.float32([[1, 2, 3], [4, 5, 6]]))
    body = relay.nn.dense(relay.cast(relay.cast(x, "int32"), "float32"), w, out_dtype="float32")
    pair = relay.Tuple([body, relay.zeros((2,), "float32")])
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], pair)))


def test_a_model_in_another_type() -> None:
    mod = network()
    infer = relay.transform.InferType()
    found = infer(ChangeDatatype("float32", "float64")(mod))
    assert "float32" not in str(found["main"].checked_type) and "int32" in found.astext()
    data = np.random.default_rng(0).random((2, 3)) * 9
    got = relay.create_executor("graph", found).evaluate()(data)
    want = relay.create_executor("debug", mod).evaluate()(data.astype("float32"))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == "float64"
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-6)
    back = relay.transform.FoldConstant()(infer(ChangeDatatype("float64", "float32")(found)))
    tvm.ir.assert_structural_equal(back, relay.transform.FoldConstant()(mod))


@pytest.mark.parametrize(
    "name",
    ["executor.Executor", "runtime.Runtime", "utils.mangle_module_name", "name_transforms.prefix_name", "te_compiler.get",
     "interpreter.Executor", "vm.VMCompiler"],
)  # fmt: skip
def test_modules_of_the_back_end(name: str) -> None:
    module, _, attribute = name.partition(".")
    found = getattr(relay.backend, module)
    assert import_module(f"tilewright.relay.backend.{module}") is found and hasattr(found, attribute)
