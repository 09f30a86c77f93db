"""Runtime modules: packed functions on NDArrays, sources, refusals of wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.codegen import llvm
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.tir import BufferLoad, BufferStore, For, ForKind, PrimFunc, Var, const, decl_buffer


def scale() -> PrimFunc:
    """C[i] = A[i] * k, in parallel."""
    n, k, i = Var("n"), Var("k", "float32"), Var("i")
    a, c = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "C")
    body = For(i, const(0), n, ForKind.PARALLEL, BufferStore(c, BufferLoad(a, (i,)) * k, (i,)))
    return PrimFunc([a, c, k], body, attrs={"global_symbol": "scale"})


@pytest.fixture(scope="module")
def module() -> Any:
    return tvm.build(scale(), target="llvm")


def test_call(module: Any) -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    a, c = tvm.nd.array(x), tvm.nd.array(np.zeros(1000, np.float32))
    module["scale"](a, c, 2.5)
    np.testing.assert_array_equal(c.numpy(), x * np.float32(2.5))


def test_wrong_arguments(module: Any) -> None:
    a, c = tvm.nd.array(np.zeros(8, np.float32)), tvm.nd.array(np.zeros(9, np.float32))
    with pytest.raises(Exception, match="number of arguments must be 3, but is 2"):
        module["scale"](a, c)
    with pytest.raises(Exception, match="dimension 0 must be equal to n, but is 9"):
        module["scale"](a, c, 1.0)
    with pytest.raises(Exception, match="dtype must be float32"):
        module["scale"](tvm.nd.array(np.zeros(8, np.float64)), c, 1.0)


@pytest.mark.llvm
def test_sources(module: Any) -> None:
    assert "define" in module.get_source("ll")
    assert ".text" in module.get_source("s")


def test_objects_for_other_machines_are_not_loaded() -> None:
    from tilewright.driver import lower
    from tilewright.driver.pipeline import host_pipeline
    from tilewright.target import Target

    target = Target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72")
    other = llvm.build(host_pipeline(target)(lower(scale())), target)
    assert "cortex-a72" in other.get_source("s") or "fmul" in other.get_source("s")


def test_vectors_of_bfloat16_among_scalars() -> None:
    """A masked store of narrowed rows: LLVM's whole pipeline makes of it what its own code generator aborts on."""
    x = relay.var("x", shape=(320, 40))
    mod = IRModule.from_expr(relay.Function([x], relay.cast(relay.nn.softmax(x), "bfloat16")))
    model = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    given = np.random.default_rng(0).standard_normal((320, 40), np.float32)
    model.set_input("x", given)
    model.run()
    wanted = np.exp(given) / np.exp(given).sum(1, keepdims=True)
    np.testing.assert_allclose(model.get_output(0).numpy().astype("float32"), wanted, rtol=1e-2)
