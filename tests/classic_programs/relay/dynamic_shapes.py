import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(relay.Any(), 4), dtype="float32")
y = relay.reshape(relay.nn.relu(x), newshape=(-1, 2))
mod = tvm.IRModule.from_expr(relay.Function([x], y))
mod = relay.transform.InferType()(mod)
assert "Tensor[(?, 4), float32]" in mod.astext()
exe = relay.vm.compile(mod, target="llvm")
vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
for rows in (1, 5):
    data = np.random.rand(rows, 4).astype("float32") - 0.5
    got = vm.invoke("main", tvm.nd.array(data)).numpy()
    np.testing.assert_allclose(got, np.maximum(data, 0).reshape(-1, 2))
ev = relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()
assert ev(np.zeros((3, 4), "float32")).shape == (6, 2)
