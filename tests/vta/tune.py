"""A convolution of `vta.top` tuned by the cycles of simulated boards, as a program for TVM v0.18."""

import sys

from tvm import autotvm, te, topi

import vta

env = vta.get_env()


@autotvm.template("tests.tuned_conv2d.vta")
def conv2d(size, channels, filters):
    ic, oc = channels // env.BLOCK_IN, filters // env.BLOCK_OUT
    data = te.placeholder((1, ic, size, size, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
    weight = te.placeholder((oc, ic, 3, 3, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
    layout = f"NCHW{env.BATCH}n{env.BLOCK_IN}c"
    res = vta.top.conv2d_packed(data, weight, (1, 1), (1, 1, 1, 1), (1, 1), layout, env.acc_dtype)
    res = topi.cast(topi.right_shift(res, te.const(8, env.acc_dtype)), env.out_dtype)
    return vta.top.schedule_conv2d_packed([res]), [data, weight, res]


if __name__ == "__main__":
    task = autotvm.task.create("tests.tuned_conv2d.vta", args=(14, 64, 64), target=env.target)
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(n_parallel=1),
        runner=autotvm.LocalRunner(number=1, repeat=1, module_loader=vta.module_loader()),
    )
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=10, measure_option=measure, callbacks=[autotvm.callback.log_to_file(sys.argv[1])])
    best = [r for i, r in autotvm.record.load_from_file(sys.argv[1]) if r.error_no == 0]
    print("measured", len(best), "cycles", *sorted([round(r.costs[0] * 100e6) for r in best]))
