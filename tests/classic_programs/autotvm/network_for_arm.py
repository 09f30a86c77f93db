"""A small network for a board with an ARM processor: its tasks, the task of the faster template of each workload, and a library."""

import tvm
from tvm import autotvm, relay
from tvm.relay import testing

target = tvm.target.Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon")

data = relay.var("data", shape=(1, 4, 8, 8))
net = relay.nn.conv2d(data, relay.var("conv_weight"), channels=8, kernel_size=(3, 3), padding=(1, 1))
net = relay.nn.conv2d(
    relay.nn.relu(net), relay.var("depthwise_weight", shape=(8, 1, 3, 3)), channels=8, groups=8, kernel_size=(3, 3)
)
mod, params = testing.create_workload(relay.Function(relay.analysis.free_vars(net), net))

tasks = autotvm.task.extract_from_program(mod["main"], target=target, params=params, ops=(relay.op.get("nn.conv2d"),))
for task in reversed(tasks):
    print(task.name, len(task.config_space), task.flop)
assert [task.name for task in tasks] == [
    "conv2d_nchw_spatial_pack.arm_cpu",
    "conv2d_nchw_winograd.arm_cpu",
    "depthwise_conv2d_nchw.arm_cpu",
]

# What boards would have measured.
tmp_log_file, log_file = "arm.log.tmp", "arm.log"
for seconds, task in enumerate(tasks, 1):
    for index in (0, len(task.config_space) // 2):
        result = autotvm.MeasureResult((1e-3 * (seconds + bool(index)),), 0, 0.1, 1700000000.0)
        autotvm.record.write(tmp_log_file, [(autotvm.MeasureInput(target, task, task.config_space.get(index)), result)])
autotvm.record.pick_best(tmp_log_file, log_file)
assert len(list(autotvm.record.load_from_file(log_file))) == len(tasks)

with autotvm.apply_history_best(log_file):
    print("Compile...")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
lib.export_library("net.tar")
