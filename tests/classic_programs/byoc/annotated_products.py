import numpy as np
import tvm
from tvm import relay
from tvm.relay.testing.byoc import CcompilerAnnotator

x = relay.var("x", shape=(10, 10))
w = [relay.var(f"w{i}", shape=(10, 10)) for i in range(3)]
body = relay.tanh((relay.add(x, w[0]) - w[1]) * w[2])
mod = tvm.IRModule()
mod["main"] = CcompilerAnnotator().visit(relay.Function([x, *w], body))
mod = relay.transform.PartitionGraph()(relay.transform.InferType()(mod))
calls = tvm.ir.analysis.collect_call_map(mod)
assert [(f.name_hint, [g.name_hint for g in called]) for f, called in calls.items()] == [
    ("main", ["tvmgen_default_ccompiler_main_0"]),
    ("tvmgen_default_ccompiler_main_0", []),
]
assert mod["tvmgen_default_ccompiler_main_0"].attrs["Compiler"] == "ccompiler"
a = [np.random.rand(10, 10).astype("float32") for _ in range(4)]
r = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(*a).numpy()
np.testing.assert_allclose(r, np.tanh((a[0] + a[1] - a[2]) * a[3]), rtol=1e-5)
