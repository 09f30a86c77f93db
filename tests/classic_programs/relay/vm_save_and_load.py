import numpy as np
import tvm
from tvm import relay
from tvm.contrib import utils

x = relay.var("x", shape=(relay.Any(),), dtype="float32")
mod = tvm.IRModule.from_expr(
    relay.Function([x], relay.If(relay.greater(relay.sum(x), relay.const(0.0)), relay.exp(x), relay.negative(x)))
)
exe = relay.vm.compile(mod, "llvm")
code, lib = exe.save()
assert isinstance(bytes(code), bytes) and "main" in exe.bytecode
tmp = utils.tempdir()
lib.export_library(tmp.relpath("lib.so"))
again = tvm.runtime.vm.Executable.load_exec(bytes(code), tvm.runtime.load_module(tmp.relpath("lib.so")))
vm = tvm.runtime.vm.VirtualMachine(again, tvm.cpu())
for a in (np.array([1.0, 2.0], "float32"), np.array([-1.0, -2.0, 0.5], "float32")):
    got = vm.run(tvm.nd.array(a)).numpy()
    np.testing.assert_allclose(got, np.exp(a) if a.sum() > 0 else -a, rtol=1e-5)
vm.set_input("main", x=np.array([3.0], "float32"))
np.testing.assert_allclose(vm.run().numpy(), np.exp([3.0]), rtol=1e-5)
assert exe.globals == ["main"] or "main" in list(exe.globals)
assert exe.get_function_params("main") == ["x"]
assert isinstance(exe.stats, str) and len(exe.primitive_ops) >= 1
