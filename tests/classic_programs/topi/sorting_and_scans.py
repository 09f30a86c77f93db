import numpy as np
import tvm
from tvm import te, topi

A = te.placeholder((4, 10), name="A")
a = np.random.rand(4, 10).astype("float32")


def run(outs, *arrays):
    outs = outs if isinstance(outs, (list, tuple)) else [outs]
    with tvm.target.Target("llvm"):
        s = topi.generic.schedule_extern(outs)
    f = tvm.build(s, [A, *outs], "llvm")
    results = [tvm.nd.empty([int(d) for d in o.shape], o.dtype) for o in outs]
    f(*[tvm.nd.array(v) for v in arrays], *results)
    return [r.numpy() for r in results]


np.testing.assert_allclose(run(topi.sort(A, axis=1, is_ascend=False), a)[0], -np.sort(-a, axis=1))
np.testing.assert_array_equal(run(topi.argsort(A, axis=1, dtype="int32"), a)[0], np.argsort(a, 1, kind="stable"))
values, places = run(topi.topk(A, k=3, axis=-1, ret_type="both", is_ascend=False, dtype="int64"), a)
np.testing.assert_allclose(values, -np.sort(-a, 1)[:, :3])
np.testing.assert_allclose(np.take_along_axis(a, places, 1), values)
np.testing.assert_allclose(run(topi.cumsum(A, axis=1), a)[0], a.cumsum(1), rtol=1e-5)
np.testing.assert_allclose(
    run(topi.cumprod(A, axis=0, exclusive=True), a)[0], np.vstack([np.ones((1, 10)), a.cumprod(0)[:-1]]), rtol=1e-5
)
