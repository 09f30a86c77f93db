import numpy as np
import tvm
from tvm import autotvm, te


@autotvm.template("classic_programs/matmul")
def matmul(n, dtype):
    A = te.placeholder((n, n), name="A", dtype=dtype)
    B = te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_knob("unroll", [False, True])
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, s[C].op.reduce_axis[0], yi, xi)
    if cfg["unroll"].val:
        s[C].unroll(yi)
    return s, [A, B, C]


task = autotvm.task.create("classic_programs/matmul", args=(16, "float32"), target="llvm")
assert len(task.config_space) == 5 * 5 * 2 and task.name == "classic_programs/matmul"
assert task.workload == ("classic_programs/matmul", 16, "float32")
assert task.flop == 2 * 16**3
cfg = task.config_space.get(7)
assert cfg.index == 7 and "tile_y" in cfg.to_json_dict()["entity"][0]
with tvm.target.Target("llvm"):
    s, args = task.instantiate(cfg)
    f = tvm.build(s, args)
a, b = np.random.rand(2, 16, 16).astype("float32")
c = tvm.nd.empty((16, 16))
f(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
measured = autotvm.MeasureInput(task.target, task, cfg)
result = autotvm.MeasureResult((0.1,), 0, 0.2, 0.0)
line = autotvm.record.encode(measured, result)
inp, res = autotvm.record.decode(line)
assert inp.config.index == 7 and tuple(res.costs) == (0.1,)
