"""Reducers given and made, one value and several: norms, products, argmin, and mean with variance in one pass."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A", dtype="float32")
x = np.random.default_rng(0).standard_normal((9, 33)).astype("float32")


def run(*outputs, dtypes=("float32",), extra=()):
    s = te.create_schedule(outputs[0].op)
    f = tvm.build(s, [A, *extra, *outputs])
    results = [tvm.nd.array(np.zeros(9, d)) for d in dtypes]
    f(tvm.nd.array(x), *results)
    return [r.numpy() for r in results]


def axis():
    return te.reduce_axis((0, m), name="k")


k = axis()
(got,) = run(te.compute((n,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), name="squares"))
tvm.testing.assert_allclose(got, (x * x).sum(1), rtol=1e-5)

for reducer, numpy_one in ((te.max, np.max), (te.min, np.min)):
    k = axis()
    (got,) = run(te.compute((n,), lambda i: reducer(te.abs(A[i, k]), axis=k), name="extreme"))
    tvm.testing.assert_allclose(got, numpy_one(np.abs(x), 1))

k = axis()
(got,) = run(te.compute((n,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] > 0), name="positive"))
tvm.testing.assert_allclose(got, np.where(x > 0, x, 0).sum(1), rtol=1e-5)

product = te.comm_reducer(lambda a, b: a * b, lambda t: tvm.tir.const(1, dtype=t), name="product")
k = axis()
(got,) = run(te.compute((n,), lambda i: product(A[i, k], axis=k), name="products"))
tvm.testing.assert_allclose(got, x.prod(1), rtol=1e-4)


def smaller(a, b):
    keep = tvm.tir.any(a[1] < b[1], tvm.tir.all(a[1] == b[1], a[0] < b[0]))
    return tvm.tir.Select(keep, a[0], b[0]), tvm.tir.Select(keep, a[1], b[1])


argmin = te.comm_reducer(smaller, lambda i, v: (tvm.tir.const(-1, i), te.max_value(v)), name="argmin")
k = axis()
place, value = te.compute((n,), lambda i: argmin((k.var, A[i, k]), axis=k), name="argmin")
places, values = run(place, value, dtypes=("int32", "float32"))
np.testing.assert_array_equal(places, x.argmin(1))
np.testing.assert_array_equal(values, x.min(1))


# Count, mean and sum of squared deviations of two parts give those of the whole.
def merged(a, b):
    count = a[0] + b[0]
    delta, share = b[1] - a[1], b[0] / tvm.tir.max(count, tvm.tir.const(1, "float32"))
    return count, a[1] + delta * share, a[2] + b[2] + delta * delta * a[0] * share


moments = te.comm_reducer(merged, lambda *t: tuple(tvm.tir.const(0, kind) for kind in t), name="moments")
k = axis()
one, zero = tvm.tir.const(1, "float32"), tvm.tir.const(0, "float32")
results = te.compute((n,), lambda i: moments((one, A[i, k], zero), axis=k), name="moments")
count, mean, squares = run(*results, dtypes=("float32",) * 3)
assert (count == 33).all()
tvm.testing.assert_allclose(mean, x.mean(1), rtol=1e-4, atol=1e-6)
tvm.testing.assert_allclose(squares / 33, x.var(1), rtol=1e-4)

# A tuple of tensors that is an intermediate: both are computed where the first is needed.
low, high = te.compute((n, m), lambda i, j: (te.floor(A[i, j]), te.ceil(A[i, j])), name="bounds")
k = axis()
gap = te.compute((n,), lambda i: te.sum(high[i, k] - low[i, k], axis=k), name="gap")
s = te.create_schedule(gap.op)
s[low].compute_at(s[gap], gap.op.axis[0])
out = tvm.nd.array(np.zeros(9, "float32"))
tvm.build(s, [A, gap])(tvm.nd.array(x), out)
tvm.testing.assert_allclose(out.numpy(), (np.ceil(x) - np.floor(x)).sum(1))
