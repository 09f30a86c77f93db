import numpy as np
import tvm
from tvm import relay
from tvm.micro.testing.aot_test_utils import AOT_DEFAULT_RUNNER
from tvm.testing.aot import (
    AOTDataLinkage,
    AOTTestModel,
    AOTTestRunner,
    compile_and_run,
    compile_models,
    generate_ref_data,
    get_dtype_range,
)

rng = np.random.default_rng(0)
x, w = relay.var("x", shape=(2, 5)), relay.var("w", shape=(3, 5))
y = relay.nn.relu(relay.nn.dense(x, w))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.Tuple([y, relay.exp(y)])))
params = {"w": rng.standard_normal((3, 5)).astype("float32")}
inputs = {"x": rng.standard_normal((2, 5)).astype("float32")}
wanted = generate_ref_data(mod, inputs, params)
assert list(wanted) == ["output0", "output1"]
np.testing.assert_allclose(wanted["output0"], np.maximum(inputs["x"] @ params["w"].T, 0), rtol=1e-5)

# As a C program of this machine, and as packed functions.
model = AOTTestModel(module=mod, inputs=inputs, outputs=wanted, params=params)
assert compile_and_run(model, AOT_DEFAULT_RUNNER, interface_api="c", use_unpacked_api=True)
assert compile_and_run(model, AOT_DEFAULT_RUNNER, interface_api="packed", use_unpacked_api=False)

# Outputs are found by their names; a list has them in order.
turned = model._replace(outputs=dict(reversed(list(wanted.items()))))
assert compile_and_run(turned, AOT_DEFAULT_RUNNER, interface_api="packed", use_unpacked_api=False)
relu, powers = wanted.values()


def refused(changed, *words):
    for interface in ("packed", "c"):
        try:
            compile_and_run(changed, AOT_DEFAULT_RUNNER, interface, interface == "c")
        except ValueError as error:
            for word in words:
                assert word in str(error), (word, error)
        else:
            raise RuntimeError("values of another kind are not noticed")


refused(model._replace(outputs={"output0": relu}), "outputs of default are output0, output1", "given of output0")
refused(model._replace(outputs={"output0": relu, "other": powers}), "given of output0, other")
refused(model._replace(outputs=[relu]), "2 outputs (output0, output1)", "1 are expected")
refused(model._replace(outputs=[relu[:1], powers]), "output output0 of default is Tensor[(2, 3), float32]", "(1, 3)")
refused(model._replace(outputs=[relu, powers.astype("float64")]), "output output1", "given is float64 of shape (2, 3)")
refused(model._replace(inputs={"x": inputs["x"].T}), "input x of default is Tensor[(2, 5), float32]", "(5, 2)")
refused(model._replace(inputs={}), "inputs of default are x", "given of none")

# Two models in one program, with statements of its own; and one that computes something else.
a = relay.var("a", shape=(4,), dtype="int8")
whole = tvm.IRModule.from_expr(relay.Function([a], relay.cast(a, "int32") * relay.const(3)))
numbers = np.array([-128, -1, 7, 127], "int8")
second = AOTTestModel(whole, {"a": numbers}, [numbers.astype("int32") * 3], name="second")
runner = AOTTestRunner(
    prologue="int x = SEVEN; if (abs(-x) != 7) return 3;", includes=["<stdlib.h>"], parameters={"SEVEN": "7"}
)
linkage = AOTDataLinkage(section=".data.fast", alignment=64)
assert compile_and_run(
    [model, second], runner, "c", True, data_linkage=linkage, test_dir="made", checker=lambda folder: folder == "made"
)
wrong = second._replace(outputs=[np.zeros(4, "int32")])
try:
    compile_and_run(wrong, AOT_DEFAULT_RUNNER, "c", True)
except AssertionError as error:
    assert "output 0 of second" in str(error)
else:
    raise RuntimeError("other outputs are not noticed")

(compiled,) = compile_models(second, "c", True)
assert compiled.model.name == "second" and compiled.executor_factory.libmod_name == "second"
assert get_dtype_range("int8") == (-128, 127)
