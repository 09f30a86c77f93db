"""A small network for x86: its tasks are tuned one by one, a graph tuner picks layouts, and the build uses what was found."""

import os

import numpy as np
import tvm
from tvm import autotvm, relay
from tvm.autotvm.graph_tuner import DPTuner, PBQPTuner
from tvm.autotvm.tuner import GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tvm.contrib import graph_executor
from tvm.relay import testing

target = "llvm"
dtype = "float32"
log_file, graph_opt_sch_file = "network.log", "network_graph_opt.log"
input_name, data_shape = "data", (1, 8, 8, 8)
os.environ["TVM_NUM_THREADS"] = "2"


def get_network():
    data = relay.var(input_name, shape=data_shape, dtype=dtype)
    net = relay.nn.conv2d(data, relay.var("conv0_weight"), channels=16, kernel_size=(3, 3), padding=(1, 1))
    net = relay.nn.relu(testing.layers.batch_norm_infer(net, name="bn0"))
    net = relay.nn.conv2d(net, relay.var("conv1_weight"), channels=16, kernel_size=(1, 1))
    net = relay.nn.global_avg_pool2d(relay.nn.relu(net))
    net = relay.nn.dense(relay.nn.batch_flatten(net), relay.var("fc_weight"), units=8)
    net = relay.Function(relay.analysis.free_vars(net), net)
    return testing.create_workload(net)


tuning_option = {
    "log_filename": log_file,
    "tuner": "random",
    "early_stopping": None,
    "measure_option": autotvm.measure_option(
        builder=autotvm.LocalBuilder(),
        runner=autotvm.LocalRunner(
            number=1, repeat=2, min_repeat_ms=0, cooldown_interval=0, enable_cpu_cache_flush=True
        ),
    ),
}


def tune_kernels(tasks, measure_option, tuner="gridsearch", early_stopping=None, log_filename="tuning.log"):
    for i, task in enumerate(tasks):
        prefix = f"[Task {i + 1:2d}/{len(tasks):2d}] "
        if tuner in ("xgb", "xgb-rank"):
            tuner_obj = XGBTuner(task, loss_type="rank")
        elif tuner == "ga":
            tuner_obj = GATuner(task, pop_size=50)
        elif tuner == "random":
            tuner_obj = RandomTuner(task)
        elif tuner == "gridsearch":
            tuner_obj = GridSearchTuner(task)
        else:
            raise ValueError("Invalid tuner: " + tuner)
        n_trial = min(2, len(task.config_space))
        tuner_obj.tune(
            n_trial=n_trial,
            early_stopping=early_stopping,
            measure_option=measure_option,
            callbacks=[
                autotvm.callback.progress_bar(n_trial, prefix=prefix),
                autotvm.callback.log_to_file(log_filename),
            ],
        )


def tune_graph(graph, dshape, records, opt_sch_file, use_DP=True):
    target_op = [relay.op.get("nn.conv2d")]
    Tuner = DPTuner if use_DP else PBQPTuner
    executor = Tuner(graph, {input_name: dshape}, records, target_op, target)
    executor.benchmark_layout_transform(min_exec_num=2)
    executor.run()
    executor.write_opt_sch2record_file(opt_sch_file)


def evaluate_performance(lib, data_shape):
    dev = tvm.cpu()
    data_tvm = tvm.nd.array(np.random.RandomState(0).uniform(size=data_shape).astype(dtype))
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input(input_name, data_tvm)
    print(module.benchmark(dev, number=2, repeat=2))
    module.run()
    return module.get_output(0).numpy()


mod, params = get_network()
tasks = autotvm.task.extract_from_program(mod["main"], target=target, params=params, ops=(relay.op.get("nn.conv2d"),))
assert [t.name for t in tasks] == ["conv2d_NCHWc.x86", "conv2d_NCHWc.x86"]
tune_kernels(tasks, tuning_option["measure_option"], tuning_option["tuner"], None, log_file)

with tvm.transform.PassContext(opt_level=3):
    lib = relay.build_module.build(mod, target=target, params=params)
expected = evaluate_performance(lib, data_shape)

with autotvm.apply_history_best(log_file), tvm.transform.PassContext(opt_level=3):
    lib = relay.build_module.build(mod, target=target, params=params)
np.testing.assert_allclose(evaluate_performance(lib, data_shape), expected, rtol=1e-3, atol=1e-4)

for use_DP in (True, False):
    tune_graph(mod["main"], data_shape, log_file, graph_opt_sch_file, use_DP)
    with autotvm.apply_graph_best(graph_opt_sch_file), tvm.transform.PassContext(opt_level=3):
        lib = relay.build_module.build(mod, target=target, params=params)
    np.testing.assert_allclose(evaluate_performance(lib, data_shape), expected, rtol=1e-3, atol=1e-4)
