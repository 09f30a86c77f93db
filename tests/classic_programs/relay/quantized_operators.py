import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(2, 4), dtype="float32")
q = relay.qnn.op.quantize(x, output_scale=relay.const(0.5), output_zero_point=relay.const(10), out_dtype="uint8")
d = relay.qnn.op.dequantize(q, input_scale=relay.const(0.5), input_zero_point=relay.const(10))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([q, d])))
a = np.array([[0, 0.5, -3, 100], [1.2, 2.6, -5, 3]], "float32")
got, back = relay.create_executor("graph", mod=mod, device=tvm.cpu(), target="llvm").evaluate()(a)
np.testing.assert_array_equal(got.numpy(), np.clip(np.round(a / 0.5) + 10, 0, 255).astype("uint8"))
np.testing.assert_allclose(back.numpy(), (got.numpy().astype("float32") - 10) * 0.5)
i8 = relay.var("i8", shape=(2, 4), dtype="int8")
w8 = relay.var("w8", shape=(3, 4), dtype="int8")
dense = relay.qnn.op.dense(
    i8, w8, relay.const(1), relay.const(0), relay.const(0.1), relay.const(0.2), units=3, out_dtype="int32"
)
low = relay.qnn.transform.CanonicalizeOps()(
    relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([i8, w8], dense)))
)
assert "qnn" not in low.astext()
p, r = np.random.randint(-5, 5, (2, 4)).astype("int8"), np.random.randint(-5, 5, (3, 4)).astype("int8")
out = relay.create_executor("graph", mod=low, device=tvm.cpu(), target="llvm").evaluate()(p, r).numpy()
np.testing.assert_array_equal(out, (p.astype("int32") - 1) @ r.astype("int32").T)
