import numpy as np
import tvm
from tvm import relay
from tvm.relay import testing

mod, params = testing.mlp.get_workload(batch_size=2, num_classes=5, image_shape=(1, 6, 6))
assert testing.count_ops(mod["main"].body)[relay.op.get("nn.dense")] == 3
lib = relay.build(mod, "llvm", params=params)
m = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
m.set_input("data", np.random.rand(2, 1, 6, 6).astype("float32"))
m.run()
out = m.get_output(0).numpy()
assert out.shape == (2, 5)
np.testing.assert_allclose(out.sum(1), 1, rtol=1e-4)
net, p = testing.resnet.get_workload(num_layers=18, batch_size=1, image_shape=(3, 32, 32), num_classes=10)
assert relay.analysis.list_op_freqs(net)["nn.conv2d"] >= 17
assert net["main"].ret_type == relay.TensorType((1, 10))
