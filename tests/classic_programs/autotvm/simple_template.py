"""A template with two knobs, tuned on this machine: the tutorial of AutoTVM."""

import logging
import sys

import numpy as np
import tvm
import tvm.testing
from tvm import autotvm, te


def matmul_basic(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    yo, yi = s[C].split(y, 8)
    xo, xi = s[C].split(x, 8)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


@autotvm.template("tutorial/matmul_v1")
def matmul_v1(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_knob("tile_y", [1, 2, 4, 8, 16])
    cfg.define_knob("tile_x", [1, 2, 4, 8, 16])
    yo, yi = s[C].split(y, cfg["tile_y"].val)
    xo, xi = s[C].split(x, cfg["tile_x"].val)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


@autotvm.template("tutorial/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


if __name__ == "__main__":
    N, L, M = 64, 64, 64
    a_np = np.random.uniform(size=(N, L)).astype(np.float32)
    b_np = np.random.uniform(size=(L, M)).astype(np.float32)
    c_np = a_np.dot(b_np)

    def check(s, arg_bufs):
        c_tvm = tvm.nd.empty(c_np.shape)
        tvm.build(s, arg_bufs)(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
        tvm.testing.assert_allclose(c_np, c_tvm.numpy(), rtol=1e-4)

    with tvm.target.Target("llvm"):
        check(*matmul_basic(N, L, M, "float32"))

    knobs = autotvm.task.create("tutorial/matmul_v1", args=(N, L, M, "float32"), target="llvm")
    assert len(knobs.config_space) == 25

    task = autotvm.task.create("tutorial/matmul", args=(N, L, M, "float32"), target="llvm")
    print(task.config_space)
    assert len(task.config_space) == 49

    logging.getLogger("autotvm").setLevel(logging.DEBUG)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))

    measure_option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(
        n_trial=4,
        measure_option=measure_option,
        callbacks=[autotvm.callback.log_to_file("matmul.log")],
    )

    guided = autotvm.tuner.XGBTuner(task, loss_type="rank", plan_size=2)
    guided.tune(
        n_trial=4,
        measure_option=measure_option,
        callbacks=[autotvm.callback.log_to_file("matmul.log"), autotvm.callback.progress_bar(4)],
    )

    with autotvm.apply_history_best("matmul.log"), tvm.target.Target("llvm"):
        check(*matmul(N, L, M, "float32"))

    records = list(autotvm.record.load_from_file("matmul.log"))
    assert len(records) == 8 and all(result.error_no == 0 for _, result in records)
    best = min(records, key=lambda pair: np.mean(pair[1].costs))[0].config
    assert str(best) in (str(tuner.best_config), str(guided.best_config))
