"""TVMScript made by Python: captured values, macros, symbolic shapes, specialisation, text and back, mistakes."""

import numpy as np
import tvm
import tvm.testing
from tvm import tir
from tvm.script import ir as I
from tvm.script import tir as T


def stencil(weights, dtype):
    radius, taps = len(weights) // 2, len(weights)

    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), dtype)
        B = T.match_buffer(b, (n,), dtype)
        for i in T.serial(radius, n - radius):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = T.Cast(dtype, 0)
                for t in T.unroll(taps):
                    B[vi] += A[vi + t - radius] * T.Cast(dtype, weights[0] if taps == 1 else 0.5)

    return main


for dtype in ("float32", "float64"):
    x = np.random.rand(12).astype(dtype)
    y = tvm.nd.array(np.zeros(12, dtype))
    tvm.build(stencil([1, 1, 1], dtype))(tvm.nd.array(x), y)
    tvm.testing.assert_allclose(y.numpy()[1:-1], (x[:-2] + x[1:-1] + x[2:]) / 2, rtol=1e-6)


@T.macro
def accumulate(out, i, value):
    with T.init():
        out[i] = T.float32(0)
    out[i] = out[i] + value


@I.ir_module
class Sums:
    @T.prim_func
    def rows(A: T.Buffer((4, 6), "float32"), B: T.Buffer(4, "float32")):
        for i, k in T.grid(4, 6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                accumulate(B, vi, A[vi, vk])

    @T.prim_func
    def collatz(A: T.Buffer((1,), "int32"), steps: T.Buffer((1,), "int32")):
        n = T.alloc_buffer((1,), "int32", scope="local")
        n[0] = A[0]
        steps[0] = 0
        while n[0] != 1:
            if n[0] % 2 == 0:
                n[0] = n[0] // 2
            else:
                n[0] = n[0] * 3 + 1
            steps[0] += 1


lib = tvm.build(Sums)
x = np.random.rand(4, 6).astype("float32")
out = tvm.nd.array(np.zeros(4, "float32"))
lib["rows"](tvm.nd.array(x), out)
tvm.testing.assert_allclose(out.numpy(), x.sum(1), rtol=1e-5)
steps = tvm.nd.array(np.zeros(1, "int32"))
lib["collatz"](tvm.nd.array(np.array([27], "int32")), steps)
assert steps.numpy()[0] == 111


@T.prim_func
def product(a: T.handle, b: T.handle, c: T.handle, scale: T.float32):
    n, m, k = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (n, k))
    B = T.match_buffer(b, (k, m))
    C = T.match_buffer(c, (n, m))
    for i, j, l in T.grid(n, m, k):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj] * scale


f = tvm.build(product)
p, q = np.random.rand(3, 5).astype("float32"), np.random.rand(5, 7).astype("float32")
out = tvm.nd.array(np.zeros((3, 7), "float32"))
f(tvm.nd.array(p), tvm.nd.array(q), out, 2.0)
tvm.testing.assert_allclose(out.numpy(), 2 * p @ q, rtol=1e-5)
for wrong, kind, words in (
    ([p, p, out, 2.0], ValueError, ["B", "0"]),
    ([p.astype("float64"), q, out, 2.0], TypeError, ["A", "float32"]),
    ([p, q, out], TypeError, ["4", "3"]),
):
    try:
        f(*[tvm.nd.array(v) if isinstance(v, np.ndarray) else v for v in wrong])
    except kind as error:
        assert all(w in str(error) for w in words), error
    else:
        raise AssertionError(words)

a, b, c, scale = product.params
fixed = product.specialize({a: tir.decl_buffer((3, 5)), b: tir.decl_buffer((5, 7)), scale: tir.const(3, "float32")})
assert "T.grid(3, 7, 5)" in fixed.script(), fixed
out = tvm.nd.array(np.zeros((3, 7), "float32"))
tvm.build(fixed)(tvm.nd.array(p), tvm.nd.array(q), out)
tvm.testing.assert_allclose(out.numpy(), 3 * p @ q, rtol=1e-5)

for func in (product, fixed, Sums["collatz"], stencil([1, 2, 1], "float16")):
    tvm.ir.assert_structural_equal(tvm.script.from_source(func.script()), func)
again = tvm.script.from_source(Sums.script())
tvm.ir.assert_structural_equal(again, Sums)
loaded = tvm.ir.load_json(tvm.ir.save_json(Sums))
tvm.ir.assert_structural_equal(loaded, Sums)
assert tvm.ir.structural_hash(loaded) == tvm.ir.structural_hash(Sums)
assert "class Module" in Sums.script() and Sums.script(show_meta=False) == Sums.script()

text = """
from tvm.script import tir as T

@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = missing[i]
"""
try:
    tvm.script.from_source(text)
except tvm.error.DiagnosticError as error:
    assert "the name missing is not defined" in str(error) and ":7:16" in str(error) and "^^^^^^^" in str(error), error
else:
    raise AssertionError("the name is not defined")
try:

    @T.prim_func
    def wrong(A: T.Buffer((8, 8), "float32")):
        for i in range(8):
            A[i] = T.float32(1)

except tvm.error.DiagnosticError as error:
    assert "scripts_as_values.py" in str(error) and "A[i]" in str(error), error
else:
    raise AssertionError("a buffer of two dimensions has two indices")
