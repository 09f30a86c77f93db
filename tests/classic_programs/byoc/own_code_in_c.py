import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.op.contrib import register_pattern_table

WRITTEN = {"add": "({} + {})", "multiply": "({} * {})", "nn.relu": "fmaxf({}, 0)"}


@register_pattern_table("classic_chains")
def table():
    return [
        ("classic_chains.chain", is_op("nn.relu")(is_op("add")(is_op("multiply")(wildcard(), wildcard()), wildcard())))
    ]


class Writer(relay.ExprVisitor):
    """Element-wise operators as one expression of C."""

    def __init__(self, params):
        super().__init__()
        self.text = {p: f"a{i}[i]" for i, p in enumerate(params)}

    def visit_call(self, call):
        for arg in call.args:
            self.visit(arg)
        if isinstance(call.op, relay.Function):
            self.text.update({p: self.text[a] for p, a in zip(call.op.params, call.args, strict=True)})
            self.visit(call.op.body)
            self.text[call] = self.text[call.op.body]
        else:
            self.text[call] = WRITTEN[call.op.name].format(*[self.text[a] for a in call.args])

    def visit_var(self, var):
        pass


@tvm.register_func("relay.ext.classic_chains")
def compile_region(func):
    symbol = func.attrs["global_symbol"]
    writer = Writer(func.params)
    writer.visit(func.body)
    size = int(np.prod([int(d) for d in func.ret_type.shape]))
    count = len(func.params)
    tensors = ", ".join(f"DLTensor* t{i}" for i in range(count + 1))
    data = "\n  ".join(f"float* a{i} = static_cast<float*>(t{i}->data);" for i in range(count + 1))
    source = f"""
#include <cmath>
#include <dlpack/dlpack.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/packed_func.h>
extern "C" int {symbol}_wrapper_({tensors}) {{
  {data}
  for (int i = 0; i < {size}; ++i) a{count}[i] = {writer.text[func.body]};
  return 0;
}}
TVM_DLL_EXPORT_TYPED_FUNC({symbol}, {symbol}_wrapper_);
"""
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "cc", [symbol], [])


x, y, z = (relay.var(n, shape=(4, 4)) for n in "xyz")
out = relay.tanh(relay.nn.relu(relay.add(relay.multiply(x, y), z)))
mod = tvm.IRModule.from_expr(relay.Function([x, y, z], out))
mod = tvm.transform.Sequential(
    [
        relay.transform.InferType(),
        relay.transform.MergeComposite(table()),
        relay.transform.AnnotateTarget("classic_chains"),
        relay.transform.PartitionGraph(),
    ]
)(mod)
lib = relay.build(mod, "llvm")
m = graph_executor.GraphModule(lib["default"](tvm.cpu()))
a, b, c = np.random.rand(3, 4, 4).astype("float32") - 0.5
m.run(x=a, y=b, z=c)
np.testing.assert_allclose(m.get_output(0).numpy(), np.tanh(np.maximum(a * b + c, 0)), rtol=1e-5)
