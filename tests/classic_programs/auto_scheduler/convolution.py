"""A convolution with a bias and a rectifier: its sketches, a search, and one that goes on from the log."""

import numpy as np
import tvm
from tvm import auto_scheduler, te, topi


@auto_scheduler.register_workload
def conv_layer(batch, size, outs, ins, window, stride, padding):
    data = te.placeholder((batch, ins, size, size), name="data")
    weight = te.placeholder((outs, ins, window, window), name="weight")
    bias = te.placeholder((1, outs, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, weight, stride, padding, dilation=1, out_dtype="float32")
    return [data, weight, bias, topi.nn.relu(conv + bias)]


target = tvm.target.Target("llvm")
sizes = (1, 7, 16, 8, 3, (1, 1), (1, 1))
task = auto_scheduler.SearchTask(func=conv_layer, args=sizes, target=target)
small = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1, "sample_init_min_population": 4}
policy = auto_scheduler.SketchPolicy(task, auto_scheduler.XGBModel(), params=small, seed=1)
assert len(policy.generate_sketches()) >= 3
assert len(policy.sample_initial_population()) == 4

log_file = "conv.json"
task.tune(
    auto_scheduler.TuningOptions(
        num_measure_trials=3,
        runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1, timeout=60),
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
        verbose=0,
    ),
    policy,
)
sch, args = task.apply_best(log_file)
func = tvm.build(sch, args, target)
random = np.random.default_rng(1)
data, weight, bias = (random.uniform(-1, 1, [int(d) for d in t.shape]).astype("float32") for t in args[:3])
out = tvm.nd.empty((1, 16, 7, 7))
func(tvm.nd.array(data), tvm.nd.array(weight), tvm.nd.array(bias), out)
padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
wanted = np.zeros((1, 16, 7, 7), "float32")
for y in range(3):
    for x in range(3):
        wanted += np.einsum("nchw,oc->nohw", padded[:, :, y : y + 7, x : x + 7], weight[:, :, y, x])
np.testing.assert_allclose(out.numpy(), np.maximum(wanted + bias, 0), rtol=1e-4, atol=1e-5)
