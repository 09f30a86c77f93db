"""Eight-bit floats natively: LLVM has no such types; values are bytes, computed with in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te
from tilewright.codegen import interp
from tilewright.contrib import graph_executor

KINDS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
def test_sums_and_casts(dtype: str, vectors: bool) -> None:
    x, y = te.placeholder((64,), "float32", name="x"), te.placeholder((64,), dtype, name="y")
    z = te.compute((64,), lambda i: x[i].astype(dtype) * y[i] + te.const(0.5, dtype), name="z")
    s = tvm.tir.Schedule(te.create_prim_func([x, y, z]))
    if vectors:
        s.vectorize(s.split(s.get_loops("z")[0], [None, 16])[1])
    rng = np.random.default_rng(3)
    a = rng.standard_normal(64).astype("float32") * 8
    a[:3] = [np.inf, np.nan, 1e9]
    b = rng.standard_normal(64).astype(KINDS[dtype])
    wanted = np.zeros(64, KINDS[dtype])
    with np.errstate(all="ignore"):
        interp.run(s.mod, [a, b, wanted])
    out = tvm.nd.empty((64,), dtype)
    tvm.build(s.mod, target="llvm")(tvm.nd.array(a), tvm.nd.array(b), out)
    np.testing.assert_array_equal(out.numpy().astype("float32"), wanted.astype("float32"))


def test_whole_programs() -> None:
    v = relay.var("v", shape=(3, 4), dtype="float32")
    narrow = relay.cast(relay.cast(v, "float8_e4m3fn"), "float32")
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([v], narrow)), "llvm")
    run = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    a = np.arange(12, dtype="float32").reshape(3, 4) * 37.3 - 100
    run.set_input("v", a)
    run.run()
    wanted = a.astype(ml_dtypes.float8_e4m3fn).astype("float32")
    np.testing.assert_array_equal(run.get_output(0).numpy(), wanted)
