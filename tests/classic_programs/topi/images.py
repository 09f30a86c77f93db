import numpy as np
import tvm
import tvm.topi.testing
from tvm import te, topi

x = np.random.rand(1, 3, 5, 5).astype("float32")
A = te.placeholder(x.shape, name="A")


def run(out, *arrays):
    with tvm.target.Target("llvm"):
        s = topi.generic.schedule_injective(out)
    inputs = [A] if len(arrays) == 1 else [A, B]
    f = tvm.build(s, [*inputs, out], "llvm")
    result = tvm.nd.empty([int(d) for d in out.shape], out.dtype)
    f(*[tvm.nd.array(v) for v in arrays], result)
    return result.numpy()


size = topi.image.resize2d(
    A, [0.0] * 4, (10, 10), layout="NCHW", method="linear", coordinate_transformation_mode="align_corners"
)
want = tvm.topi.testing.resize2d_python(x, (2.0, 2.0), "NCHW", "bilinear", "align_corners")
np.testing.assert_allclose(run(size, x), want, rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(run(topi.nn.depth_to_space(topi.tile(A, (1, 4, 1, 1)), 2), x).shape, (1, 3, 10, 10))
np.testing.assert_allclose(
    run(topi.nn.space_to_depth(topi.nn.pad(A, (0, 0, 0, 0), (0, 0, 1, 1)), 2), x).shape, (1, 12, 3, 3)
)
grid = np.stack(np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5), indexing="xy")).astype("float32")[None]
B = te.placeholder(grid.shape, name="B")
np.testing.assert_allclose(run(topi.image.grid_sample(A, B, "bilinear", "NCHW"), x, grid), x, rtol=1e-4, atol=1e-5)
