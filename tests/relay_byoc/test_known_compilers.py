"""Tables of known compilers: what partition_for_* takes, and that it runs with a code generator of the program's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_byoc.helpers import interpreted, registered
from tilewright import relay
from tilewright.relay.op.contrib import arm_compute_lib, dnnl, get_pattern_table, partition_for_dnnl
from tilewright.relay.op.contrib.arm_compute_lib import partition_for_arm_compute_lib

RNG = np.random.default_rng(0)


def weights(*shape: int) -> relay.Constant:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def external(mod: tvm.IRModule) -> list[relay.Function]:
    return [f for f in mod.functions.values() if "Compiler" in f.attrs]


def composites(mod: tvm.IRModule) -> list[str]:
    found = []
    for f in external(mod):
        relay.analysis.post_order_visit(f, lambda e: found.append(e))
    return [str(e.attrs["Composite"]) for e in found if isinstance(e, relay.Function) and "Composite" in e.attrs]


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    found: np.ndarray = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(x).numpy()
    return found


def gelu(x: relay.Expr) -> relay.Expr:
    half = relay.erf(x * relay.const(2**-0.5)) * relay.const(0.5)
    return (half + relay.const(0.5)) * x


AFTER = {
    "relu": relay.nn.relu,
    "tanh": relay.tanh,
    "gelu": gelu,
    "swish": lambda x: x * relay.sigmoid(x),
    "clip": lambda x: relay.clip(x, 0.0, 6.0),
}


@pytest.mark.parametrize("after", [*AFTER, ""])
@pytest.mark.parametrize("bias", [True, False])
def test_dnnl_convolutions(after: str, bias: bool) -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    y = relay.nn.conv2d(x, weights(6, 4, 3, 3))
    y = relay.nn.bias_add(y, weights(6)) if bias else y
    y = AFTER[after](y) if after else y
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    taken = partition_for_dnnl(mod, alter_layout=False)
    assert len(external(taken)) == 1
    name = "_".join(["dnnl.conv2d", *(["bias"] if bias else []), *([after] if after else [])])
    assert composites(taken) == ([name] if bias or after else [])
    data = RNG.standard_normal((1, 4, 8, 8)).astype("float32")
    with registered(dnnl=interpreted):
        np.testing.assert_allclose(run(taken, data), run(mod, data), rtol=1e-4, atol=1e-5)


def test_dnnl_dense_with_parameters_and_what_is_left() -> None:
    x, w, b = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8)), relay.var("b", shape=(4,))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), b))
    mod = tvm.IRModule.from_expr(relay.Function([x, w, b], relay.sinh(relay.exp(y))))
    params = {"w": tvm.nd.array(np.ones((4, 8), "float32")), "b": tvm.nd.array(np.ones(4, "float32"))}
    taken = dnnl.partition_for_dnnl(mod, params)
    assert composites(taken) == ["dnnl.dense_bias_relu"]
    assert "sinh" in str(taken["main"]) and len(taken["main"].params) == 1
    # Without products there is nothing that is worth a call.
    x = relay.var("x", shape=(2, 8))
    light = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.tanh(x))))
    assert not external(partition_for_dnnl(light))
    assert len(external(partition_for_dnnl(light, prune_subgraphs=False))) == 1
    ints = tvm.IRModule.from_expr(relay.Function([v := relay.var("v", shape=(2, 8), dtype="int32")], relay.add(v, v)))
    assert not external(partition_for_dnnl(ints, prune_subgraphs=False))


def test_the_code_is_made_elsewhere() -> None:
    x = relay.var("x", shape=(2, 8))
    taken = partition_for_dnnl(tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weights(4, 8)))))
    with pytest.raises(
        tvm.TVMError, match=r'no code generator is registered for it: .* @register_func\("relay.ext.dnnl"\)'
    ):
        relay.build(taken, "llvm")


def nhwc(after: Any = lambda y: y, **attrs: Any) -> tvm.IRModule:
    x = relay.var("x", shape=(1, 8, 8, 4))
    conv = relay.nn.conv2d(
        x, weights(3, 3, 4, 6), data_layout="NHWC", kernel_layout="HWIO", channels=6, kernel_size=(3, 3), **attrs
    )
    return tvm.IRModule.from_expr(relay.Function([x], after(conv)))


def test_arm_compute_lib() -> None:
    mod = nhwc(lambda y: relay.nn.relu(relay.nn.bias_add(y, weights(6), axis=3)))
    taken = partition_for_arm_compute_lib(mod)
    assert composites(taken) == ["arm_compute_lib.conv2d"]
    data = RNG.standard_normal((1, 8, 8, 4)).astype("float32")
    with registered(arm_compute_lib=interpreted):
        assert arm_compute_lib.is_arm_compute_runtime_enabled()
        np.testing.assert_allclose(run(taken, data), run(mod, data), rtol=1e-4, atol=1e-5)
    assert not external(partition_for_arm_compute_lib(nhwc(dilation=(2, 2))))
    assert not external(partition_for_arm_compute_lib(mod, disabled_ops=["conv2d"]))


def test_arm_compute_lib_disabled_operators() -> None:
    x = relay.var("x", shape=(1, 8, 8, 4))
    both = relay.concatenate([relay.nn.max_pool2d(x, (2, 2), (2, 2), layout="NHWC")] * 2, 3)
    mod = tvm.IRModule.from_expr(relay.Function([x], both))

    def names(taken: tvm.IRModule) -> set[str]:
        return {
            n
            for f in external(taken)
            for n in relay.analysis.list_op_freqs(tvm.IRModule.from_expr(f.replace(attrs={})))
        }

    assert names(partition_for_arm_compute_lib(mod)) == {"nn.max_pool2d"}
    assert names(partition_for_arm_compute_lib(mod, disabled_ops=[])) == {"nn.max_pool2d", "concatenate"}
    assert names(partition_for_arm_compute_lib(mod)) == {"nn.max_pool2d"}


def test_tables_are_found_by_name() -> None:
    assert any([name == "dnnl.conv2d_bias_relu" for name, *_ in get_pattern_table("dnnl")])
    x = relay.var("x", shape=(2, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    marked = relay.transform.AnnotateTarget(["dnnl"])(mod)
    assert "compiler_begin" in str(marked["main"])
    assert tvm.target.Target("dnnl").kind.name == "dnnl"
