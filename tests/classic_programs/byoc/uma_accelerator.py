import numpy as np
import tvm
from tvm import relay, tir
from tvm.contrib import graph_executor, utils
from tvm.relay.backend.contrib.uma.api.utils import PassPhase
from tvm.relay.backend.contrib.uma.backend import UMABackend
from tvm.relay.dataflow_pattern import is_op, wildcard

HEADER = """
static int own_dense(const float* data, const float* weight, float* out, int rows, int columns, int inner) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float sum = 0;
      for (int k = 0; k < inner; ++k) sum += data[i * inner + k] * weight[j * inner + k];
      out[i * columns + j] = sum > 0 ? sum : 0;
    }
  return 0;
}
"""
folder = utils.tempdir()
with open(folder.relpath("own_dense.h"), "w") as file:
    file.write(HEADER)


@tir.transform.prim_func_pass(opt_level=0)
class CallTheLibrary:
    def transform_function(self, func, mod, ctx):
        buffers = [func.buffer_map[p] for p in func.params]
        (m, k), (n, _) = ([int(d) for d in b.shape] for b in buffers[:2])
        call = tir.call_extern("int32", "own_dense", *[b.data for b in buffers], m, n, k)
        return tir.PrimFunc(func.params, tir.Evaluate(call), func.ret_type, func.buffer_map, func.attrs)


class DenseBackend(UMABackend):
    def __init__(self):
        super().__init__()
        self._register_target_attr("columns", 16)
        dense = is_op("nn.dense")(wildcard(), wildcard())
        self._register_pattern("dense_relu", is_op("nn.relu")(dense), lambda call: call.checked_type.dtype == "float32")
        self._register_tir_pass(PassPhase.TIR_PHASE_0, CallTheLibrary())
        self._register_codegen(fmt="c", includes=lambda: f'#include "{folder.relpath("own_dense.h")}"')

    @property
    def target_name(self):
        return "classic_uma_dense"


backend = DenseBackend()
backend.register()
assert tvm.target.Target("classic_uma_dense -columns=8").attrs["columns"] == 8
x = relay.var("x", shape=(3, 8))
w = relay.var("w", shape=(4, 8))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.exp(relay.nn.relu(relay.nn.dense(x, w)))))
weights = np.random.rand(4, 8).astype("float32") - 0.5
mod = backend.partition(mod, {"w": tvm.nd.array(weights)})
(region,) = [g.name_hint for g in mod.get_global_vars() if g.name_hint != "main"]
assert mod[region].attrs["Compiler"] == "classic_uma_dense"
lib = relay.build(mod, "llvm")
m = graph_executor.GraphModule(lib["default"](tvm.cpu()))
a = np.random.rand(3, 8).astype("float32")
m.set_input("x", a)
m.run()
np.testing.assert_allclose(m.get_output(0).numpy(), np.exp(np.maximum(a @ weights.T, 0)), rtol=1e-5)
