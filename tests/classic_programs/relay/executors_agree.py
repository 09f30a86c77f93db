import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(4, 6))
y = relay.split(relay.sigmoid(x), 2, axis=1)
out = relay.concatenate([y[1], y[0]], axis=1)
mod = tvm.IRModule.from_expr(relay.Function([x], out))
a = np.random.rand(4, 6).astype("float32")
s = 1 / (1 + np.exp(-a))
want = np.concatenate([s[:, 3:], s[:, :3]], 1)
for kind in ("debug", "graph", "vm", "aot"):
    if kind == "aot":
        from tvm.relay.backend import Executor, Runtime

        lib = relay.build(mod, target="llvm", executor=Executor("aot"), runtime=Runtime("cpp"))
        runner = tvm.runtime.executor.AotModule(lib["default"](tvm.cpu()))
        runner.set_input("x", a)
        runner.run()
        got = runner.get_output(0).numpy()
    else:
        got = relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm").evaluate()(a).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=kind)
