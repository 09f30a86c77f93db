import json

import numpy as np
import tvm
from tvm import relay
from tvm.runtime.profiler_vm import VirtualMachineProfiler

x = relay.var("x", shape=(3, 4))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.dense(x, relay.const(np.ones((2, 4), "float32"))))))
exe = relay.vm.compile(mod, "llvm")
vm = VirtualMachineProfiler(exe, tvm.cpu())
report = vm.profile(tvm.nd.array(np.ones((3, 4), "float32")), func_name="main")
assert any("dense" in str(call["Name"]) for call in report.calls)
data = json.loads(report.json())
assert {"calls", "device_metrics"} <= set(data)
assert "Duration (us)" in report.csv().splitlines()[0]
