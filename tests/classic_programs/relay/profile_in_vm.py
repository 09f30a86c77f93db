import json

import numpy as np
import tvm
from tvm import relay
from tvm.runtime import profiler_vm
from tvm.runtime.profiling import Report

x = relay.var("x", shape=(relay.Any(), 8))
w = relay.const(np.random.rand(4, 8).astype("float32"))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, w))))
exe = relay.vm.compile(mod, "llvm")
assert profiler_vm.enabled()
vm = profiler_vm.VirtualMachineProfiler(exe, tvm.cpu())
data = tvm.nd.array(np.random.rand(3, 8).astype("float32"))
report = vm.profile(data, func_name="main")
assert "dense" in str(report) and "Duration" in str(report) and "Total" in str(report)
assert "softmax" in report.csv()
again = Report.from_json(report.json())
assert len(again.calls) == len(report.calls) and json.loads(report.json())
