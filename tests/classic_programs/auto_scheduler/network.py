"""The kernels of a network as tasks, tuned together, and a build that uses what was found."""

import numpy as np
import tvm
from tvm import auto_scheduler, relay
from tvm.contrib import graph_executor

random = np.random.default_rng(2)
data = relay.var("data", shape=(1, 3, 12, 12))
net = relay.nn.conv2d(data, relay.var("w0", shape=(8, 3, 3, 3)), padding=(1, 1), channels=8, kernel_size=(3, 3))
net = relay.nn.relu(relay.nn.bias_add(net, relay.var("b0", shape=(8,))))
net = relay.nn.dense(relay.nn.batch_flatten(net), relay.var("w1", shape=(10, 1152)))
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(net), net)))
params = {
    v.name_hint: tvm.nd.array(0.1 * random.standard_normal([int(d) for d in v.checked_type.shape]).astype("float32"))
    for v in mod["main"].params
    if v.name_hint != "data"
}

target = tvm.target.Target("llvm")
log_file = "network.json"
tasks, task_weights = auto_scheduler.extract_tasks(mod["main"], params, target)
assert len(tasks) == len(task_weights) == 2
for task in tasks:
    assert task.compute_dag.flop_ct > 0 and ("conv2d" in task.desc or "dense" in task.desc)

tuner = auto_scheduler.TaskScheduler(tasks, task_weights, callbacks=[])
options = auto_scheduler.TuningOptions(
    num_measure_trials=4,
    num_measures_per_round=2,
    runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1, timeout=60),
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=0,
)
small = {"evolutionary_search_population": 4, "evolutionary_search_num_iters": 1, "sample_init_min_population": 2}
tuner.tune(options, search_policy="sketch.random", search_policy_params=small)

with (
    auto_scheduler.ApplyHistoryBest(log_file),
    tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}),
):
    lib = relay.build(mod, target=target, params=params)
with tvm.transform.PassContext(opt_level=3):
    plain = relay.build(mod, target=target, params=params)

image = random.standard_normal((1, 3, 12, 12)).astype("float32")
results = []
for library in (lib, plain):
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("data", image)
    module.run()
    results.append(module.get_output(0).numpy())
np.testing.assert_allclose(results[0], results[1], rtol=1e-3, atol=1e-4)
