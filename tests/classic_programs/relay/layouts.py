import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(1, 8, 8, 4))
w = relay.var("w", shape=(3, 3, 4, 8))
y = relay.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", kernel_size=(3, 3), channels=8, padding=(1, 1))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(y)))
seq = tvm.transform.Sequential([relay.transform.ConvertLayout({"nn.conv2d": ["NCHW", "OIHW"]})])
with tvm.transform.PassContext(opt_level=3):
    new = seq(mod)
text = new.astext()
assert text.count("layout_transform(") == 3, text
assert 'src_layout="NHWC", dst_layout="NCHW"' in text
a, b = np.random.rand(1, 8, 8, 4).astype("float32"), np.random.rand(3, 3, 4, 8).astype("float32")
run = lambda m: relay.create_executor("graph", mod=m, device=tvm.cpu(), target="llvm").evaluate()(a, b).numpy()
np.testing.assert_allclose(run(new), run(mod), rtol=1e-4)
