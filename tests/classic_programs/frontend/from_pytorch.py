import numpy as np
import torch
import tvm
from torch import nn
from tvm import relay
from tvm.contrib import graph_executor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return torch.softmax(self.fc(x), dim=1)


model = Net().eval()
data = torch.rand(1, 3, 16, 16)
scripted = torch.jit.trace(model, data).eval()
mod, params = relay.frontend.from_pytorch(scripted, [("input0", (1, 3, 16, 16))])
assert sum(v.shape == (8, 3, 3, 3) for v in params.values()) == 1
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm", params=params)
m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
m.set_input("input0", tvm.nd.array(data.numpy()))
m.run()
with torch.no_grad():
    want = model(data).numpy()
np.testing.assert_allclose(m.get_output(0).numpy(), want, rtol=1e-4, atol=1e-6)
assert "nn.batch_norm" in mod.astext(show_meta_data=False)
