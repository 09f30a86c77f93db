import numpy as np
import tvm
from tvm import relay


def run(expr, *arrays):
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    return relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(*arrays)


x = relay.var("x", shape=(1, 4, 4, 2))
a = np.random.rand(1, 4, 4, 2).astype("float32")
up = run(
    relay.image.resize2d(
        x, size=(8, 8), layout="NHWC", method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
    ),
    a,
)
np.testing.assert_allclose(up.numpy(), a.repeat(2, 1).repeat(2, 2))
boxes = relay.const(np.array([[0.0, 0.0, 1.0, 1.0]], "float32"))
crop = run(relay.image.crop_and_resize(x, boxes, relay.const(np.array([0], "int32")), (4, 4), "NHWC", "bilinear"), a)
np.testing.assert_allclose(crop.numpy(), a, rtol=1e-5)

found = np.array(
    [[[0, 0.9, 0, 0, 10, 10], [0, 0.8, 1, 1, 10, 10], [1, 0.7, 20, 20, 30, 30], [0, 0.01, 5, 5, 6, 6]]], "float32"
)
d = relay.var("d", shape=(1, 4, 6))
valid = relay.vision.get_valid_counts(d, score_threshold=0.1, id_index=0, score_index=1)
kept = relay.vision.non_max_suppression(
    valid[1],
    valid[0],
    valid[2],
    relay.const(-1),
    iou_threshold=0.5,
    force_suppress=False,
    top_k=-1,
    return_indices=False,
)
out = run(kept, found).numpy()[0]
assert [round(float(row[1]), 2) for row in out if row[0] >= 0] == [0.9, 0.7]
c, r = relay.var("c", shape=(1, 1, 4, 4)), relay.var("r", shape=(1, 5))
image = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
pooled = run(
    relay.vision.roi_pool(c, r, pooled_size=(2, 2), spatial_scale=1.0), image, np.array([[0, 0, 0, 3, 3]], "float32")
)
np.testing.assert_array_equal(pooled.numpy().reshape(2, 2), [[5, 7], [13, 15]])
