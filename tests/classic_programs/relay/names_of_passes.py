"""Names and keywords of programs: passes as functions, quantised products, a function for `debug`, hooks, scopes of traces."""

import numpy as np
import torch
import tvm
from tvm import relay

# Passes as functions on expressions.
x = relay.var("x", shape=(2,))
body = relay.add(relay.exp(x), relay.exp(x))
assert isinstance(relay.transform.ToANormalFormExpr(e=body), relay.Let)
function = relay.Function([x], body)
turned = relay.transform.ToCPS(expr=function, mod=None)
assert len(turned.params) == 2
folded = relay.transform.FoldConstantExpr(relay.add(relay.const(1), relay.const(2)), mod=tvm.IRModule(), fold_qnn=True)
assert folded.data.numpy() == 3
assert function.legacy_repr() == repr(function)

# A function of the program sees each value.
seen = []
shown = relay.Function(
    [x], relay.tanh(relay.op.debug(expr=relay.exp(x), debug_func=lambda value: seen.append(value.numpy())))
)
data = np.array([0.5, -1], "float32")
got = relay.create_executor("debug", tvm.IRModule.from_expr(shown)).evaluate()(data).numpy()
np.testing.assert_allclose(got, np.tanh(np.exp(data)), rtol=1e-5)
np.testing.assert_allclose(seen, [np.exp(data)], rtol=1e-5)

# Quantised products by keyword, and with a packed weight.
points = {"input_zero_point": relay.const(3), "kernel_zero_point": relay.const(0)}
points |= {"input_scale": relay.const(0.5), "kernel_scale": relay.const(0.25)}
images = np.random.randint(0, 9, (1, 2, 4, 4)).astype("uint8")
kernel = np.random.randint(-4, 4, (3, 2, 1, 1)).astype("int8")
q = relay.var("q", shape=images.shape, dtype="uint8")
conv = relay.qnn.op.conv2d(data=q, kernel=relay.const(kernel), kernel_size=(1, 1), channels=3, **points)
got = relay.create_executor("graph", tvm.IRModule.from_expr(relay.Function([q], conv))).evaluate()(images).numpy()
np.testing.assert_array_equal(
    got, np.einsum("nchw,oc->nohw", images.astype("int32") - 3, kernel[:, :, 0, 0].astype("int32"))
)
rows = np.random.randint(0, 9, (3, 8)).astype("uint8")
weight = np.random.randint(-4, 4, (32, 8)).astype("int8")
packed = weight.reshape(2, 16, 2, 4).transpose(0, 2, 1, 3).copy()
q = relay.var("q", shape=rows.shape, dtype="uint8")
dense = relay.qnn.op.contrib_dense_pack(q, relay.const(packed), **points, kernel_layout="NC16n4c", units=32)
got = relay.create_executor("graph", tvm.IRModule.from_expr(relay.Function([q], dense))).evaluate()(rows).numpy()
np.testing.assert_array_equal(got, (rows.astype("int32") - 3) @ weight.T.astype("int32"))


# Exceptions: a kind under its name, and a hook around another one.
class OddError(tvm.TVMError):
    pass


tvm.error.register_error(func_name="OddError", cls=OddError)
calls = []
tvm.tvm_wrap_excepthook(lambda *args: calls.append(args))(OddError, OddError("odd"), None)
assert calls[0][0] is OddError


# Spans of traces with the module that a call is in.
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ReLU()

    def forward(self, value):
        return self.inner(value) + 1


traced = torch.jit.trace(Net(), torch.ones(2))
for preserved in (False, True):
    mod, _ = relay.frontend.from_pytorch(traced, [("x", (2,))], preserve_pytorch_scopes=preserved)
    assert ("inner" in str(mod["main"].body.args[0].span.source_name.name)) == preserved
