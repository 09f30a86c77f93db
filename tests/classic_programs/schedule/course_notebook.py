"""As in a course on machine learning compilation: a two-layer network by hand, in NumPy's low-level form and in TensorIR."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import te, tir
from tvm.ir.module import IRModule
from tvm.script import tir as T

dtype = "float32"
rng = np.random.default_rng(2)
image = rng.random((1, 96), dtype)
params = {
    "w0": rng.standard_normal((40, 96)).astype(dtype), "b0": rng.standard_normal(40).astype(dtype),
    "w1": rng.standard_normal((10, 40)).astype(dtype), "b1": rng.standard_normal(10).astype(dtype),
}  # fmt: skip


def high_level(x, w0, b0, w1, b1):
    return np.maximum(x @ w0.T + b0, 0) @ w1.T + b1


def lnumpy_linear(X: np.ndarray, W: np.ndarray, B: np.ndarray, Z: np.ndarray):
    for i in range(X.shape[0]):
        for j in range(W.shape[0]):
            Z[i, j] = B[j]
            for k in range(X.shape[1]):
                Z[i, j] = Z[i, j] + X[i, k] * W[j, k]


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def linear0(
        X: T.Buffer((1, 96), "float32"),
        W: T.Buffer((40, 96), "float32"),
        B: T.Buffer((40,), "float32"),
        Z: T.Buffer((1, 40), "float32"),
    ):
        T.func_attr({"global_symbol": "linear0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 40), "float32")
        for i, j, k in T.grid(1, 40, 96):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 40):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear1(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n, k = T.int32(), T.int32(), T.int32()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Z"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Z[vi, vj] = B[vj]
                Z[vi, vj] = Z[vi, vj] + X[vi, vk] * W[vj, vk]


assert isinstance(MyModule, IRModule) and len(MyModule.functions) == 3
assert type(MyModule["linear0"]) is tir.PrimFunc

want = high_level(image, **params)
z0, z1 = np.empty((1, 40), dtype), np.empty((1, 10), dtype)
lnumpy_linear(image, params["w0"], params["b0"], z0)
lnumpy_linear(np.maximum(z0, 0), params["w1"], params["b1"], z1)
np.testing.assert_allclose(z1, want, rtol=1e-3, atol=1e-3)


def network(lib):
    w = {name: tvm.nd.array(value) for name, value in params.items()}
    hidden, active, out = (tvm.nd.empty((1, n), dtype) for n in (40, 40, 10))
    lib["linear0"](tvm.nd.array(image), w["w0"], w["b0"], hidden)
    lib["relu0"](hidden, active)
    lib["linear1"](active, w["w1"], w["b1"], out)
    return out.numpy()


np.testing.assert_allclose(network(tvm.build(MyModule, target="llvm")), want, rtol=1e-3, atol=1e-3)


# One transformation after the other; each is a function from a module and a choice to a module.
def transformed(mod, factor):
    sch = tvm.tir.Schedule(mod)
    Y = sch.get_block("Y", func_name="linear0")
    i, j, k = sch.get_loops(Y)
    j0, j1 = sch.split(j, factors=[None, factor])
    sch.reorder(j0, k, j1)
    Z = sch.get_block("Z", "linear0")
    sch.reverse_compute_at(Z, j0)
    sch.decompose_reduction(Y, k)
    relu = sch.get_block("Y", "relu0")
    sch.parallel(sch.get_loops(relu)[1])
    return sch.mod


for factor in (1, 4, 8, 40):
    mod = transformed(MyModule, factor)
    text = mod["linear0"].script()
    assert 'T.block("Y_init")' in text and f"T.grid(1, {40 // factor})" in text, text
    lib = tvm.build(mod, target="llvm")
    np.testing.assert_allclose(network(lib), want, rtol=1e-3, atol=1e-3)
    args = [tvm.nd.array(v) for v in (image, params["w0"], params["b0"])]
    timer = lib.time_evaluator("linear0", tvm.cpu(), number=3, repeat=2)
    assert timer(*args, tvm.nd.empty((1, 40), dtype)).mean > 0

# A search that draws its choices, over traces that can be replayed.
best, times = None, []
for seed in range(4):
    sch = tvm.tir.Schedule(MyModule, seed=seed)
    block = sch.get_block("Y", "linear0")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=sch.sample_perfect_tile(j, n=2))
    sch.reorder(j0, k, j1)
    again = tvm.tir.Schedule(MyModule)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    tvm.ir.assert_structural_equal(again.mod, sch.mod)
    times.append(
        tvm.build(sch.mod, target="llvm")
        .time_evaluator("linear0", tvm.cpu(), number=3)(*args, tvm.nd.empty((1, 40)))
        .mean
    )
assert min(times) > 0

# The same from tensor expressions; the function is the same but for its names.
A, B = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
k = te.reduce_axis((0, 8), name="k")
C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
D = te.compute((8, 8), lambda i, j: tir.max(C[i, j], 0.0), name="D")
from_te = IRModule({"mm_relu": te.create_prim_func([A, B, D]).with_attr({"global_symbol": "mm_relu"})})


@tvm.script.ir_module
class Written:
    @T.prim_func
    def mm_relu(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        C = T.alloc_buffer((8, 8))
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(8, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))


tvm.ir.assert_structural_equal(from_te, Written)
