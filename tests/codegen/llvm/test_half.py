"""float16 on CPUs without instructions for it: linked, and rounded as the program says."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te

TARGET = "llvm -mcpu=x86-64"


@pytest.mark.parametrize("n", [5, 8])
def test_functions_in_float64_whose_results_are_float16(n: int) -> None:
    """tanh is computed in float64 and becomes float32, then float16. LLVM joins the two where it takes vectors apart."""
    x, w = (relay.var(name, shape=(rows, 16), dtype="float16") for name, rows in (("x", 4), ("w", n)))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.tanh(relay.nn.dense(x, w))))
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((rows, 16)).astype("float16") for rows in (4, n))
    run = tvm.contrib.graph_executor.GraphModule(relay.build(mod, TARGET)["default"](tvm.cpu()))
    run.run(x=a, w=b)
    want = np.tanh(a.astype("float64") @ b.astype("float64").T)
    np.testing.assert_allclose(run.get_output(0).numpy(), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("n", [1, 4, 7, 16])
def test_float64_is_rounded_twice(n: int) -> None:
    """1 + 2**-11 + 2**-40 is half way between two of float16 once it is float32, and above that before."""
    a = te.placeholder((n,), "float64", "a")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i].astype("float16"), name="b")])
    s = tvm.tir.Schedule(func)
    s.vectorize(s.get_loops(s.get_block("b"))[0])
    values = np.resize(
        [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, -(1 + 3 * 2.0**-11 - 2.0**-40), 7e4, 1e-7, np.nan, 0.1], n
    )
    out = tvm.nd.empty((n,), "float16")
    tvm.build(s.mod, target=TARGET)(tvm.nd.array(values), out)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out.numpy(), values.astype("float32").astype("float16"))
