import numpy as np
import tvm
from tvm import relay
from tvm.contrib import utils
from tvm.contrib.debugger import debug_executor

x = relay.var("x", shape=(4,))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(relay.exp(x))))
with tvm.transform.PassContext(opt_level=0):
    lib = relay.build(mod, "llvm")
tmp = utils.tempdir()
m = debug_executor.GraphModuleDebug(
    lib["debug_create"]("default", tvm.cpu()), [tvm.cpu()], lib.get_graph_json(), tmp.path
)
a = np.array([0, 0.1, 0.2, 0.3], "float32")
m.set_input("x", a)
m.run()
np.testing.assert_allclose(m.get_output(0).numpy(), np.tanh(np.exp(a)), rtol=1e-5)
report = m.profile()
assert "exp" in str(report) and "Duration" in report.table() and len(report.calls) >= 1
