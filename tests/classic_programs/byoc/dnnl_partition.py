import numpy as np
import tvm
from tvm import relay
from tvm.relay.op.contrib import dnnl

x = relay.var("x", shape=(1, 8, 10, 10))
w = relay.const(np.random.rand(16, 8, 3, 3).astype("float32"))
b = relay.const(np.random.rand(16).astype("float32"))
y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1), channels=16, kernel_size=(3, 3)), b))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.max_pool2d(y, (2, 2), (2, 2)))))
mod = relay.transform.InferType()(mod)
seq = tvm.transform.Sequential(
    [
        relay.transform.MergeComposite(dnnl.pattern_table()),
        relay.transform.AnnotateTarget("dnnl"),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
    ]
)
with tvm.transform.PassContext(opt_level=3):
    mod = seq(mod)
regions = [f for g, f in mod.functions.items() if f.attrs and f.attrs.get("Compiler") == "dnnl"]
assert len(regions) >= 1
composites = []


def note(e):
    if isinstance(e, relay.Function) and e.attrs and "Composite" in e.attrs:
        composites.append(str(e.attrs["Composite"]))


for f in regions:
    relay.analysis.post_order_visit(f, note)
assert "dnnl.conv2d_bias_relu" in composites, composites
