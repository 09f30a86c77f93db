"""A library with kernels for whole patterns, as oneDNN has them: composites become its calls, constants are in the code."""

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.op.contrib import get_pattern_table, register_pattern_table

LIBRARY = """
#include <cmath>
#include <cstring>
#include <dlpack/dlpack.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/packed_func.h>
static void lib_conv_bias_relu(const float* x, const float* w, const float* b, float* y, int c, int h, int o, int k, int pad) {
  int out = h + 2 * pad - k + 1;
  for (int f = 0; f < o; ++f) for (int i = 0; i < out; ++i) for (int j = 0; j < out; ++j) {
    float sum = b[f];
    for (int g = 0; g < c; ++g) for (int p = 0; p < k; ++p) for (int q = 0; q < k; ++q) {
      int r = i + p - pad, s = j + q - pad;
      if (r >= 0 && r < h && s >= 0 && s < h) sum += x[(g * h + r) * h + s] * w[((f * c + g) * k + p) * k + q];
    }
    y[(f * out + i) * out + j] = sum > 0 ? sum : 0;
  }
}
"""


@register_pattern_table("classic_library")
def table():
    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    pattern = is_op("nn.relu")(is_op("nn.bias_add")(conv, is_constant()))

    def square(call):
        conv = call.args[0].args[0]
        return list(conv.attrs.strides) == [1, 1] and conv.attrs.groups == 1 and conv.args[0].checked_type.shape[0] == 1

    return [("classic_library.conv_bias_relu", pattern, square)]


def numbers(value):
    return ", ".join(f"{v:.9g}f" for v in value.flatten())


@tvm.register_func("relay.ext.classic_library")
def compile_region(func):
    symbol, composite = func.attrs["global_symbol"], func.body.op
    assert composite.attrs["Composite"] == "classic_library.conv_bias_relu"
    add = composite.body.args[0]
    conv, bias = add.args[0], add.args[1]
    weight = conv.args[1].data.numpy()
    channels, rows = [int(d) for d in func.params[0].checked_type.shape[1:3]]
    source = f"""{LIBRARY}
static const float {symbol}_w[] = {{{numbers(weight)}}};
static const float {symbol}_b[] = {{{numbers(bias.data.numpy())}}};
extern "C" int {symbol}_wrapper_(DLTensor* x, DLTensor* y) {{
  lib_conv_bias_relu((const float*)x->data, {symbol}_w, {symbol}_b, (float*)y->data,
                     {channels}, {rows}, {weight.shape[0]}, {weight.shape[2]}, {int(conv.attrs.padding[0])});
  return 0;
}}
TVM_DLL_EXPORT_TYPED_FUNC({symbol}, {symbol}_wrapper_);
"""
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "cc", [symbol], [])


rng = np.random.default_rng(0)
x = relay.var("x", shape=(1, 3, 8, 8))
w1, w2 = rng.random((4, 3, 3, 3), "float32") - 0.5, rng.random((6, 4, 3, 3), "float32") - 0.5
y = relay.nn.conv2d(x, relay.const(w1), padding=(1, 1), channels=4, kernel_size=(3, 3))
y = relay.nn.relu(relay.nn.bias_add(y, relay.const(rng.random(4, "float32"))))
y = relay.nn.conv2d(y, relay.const(w2), channels=6, kernel_size=(3, 3))
y = relay.nn.relu(relay.nn.bias_add(y, relay.const(rng.random(6, "float32"))))
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.nn.global_avg_pool2d(y))))
passes = [
    relay.transform.MergeComposite(get_pattern_table("classic_library")),
    relay.transform.AnnotateTarget("classic_library"),
    relay.transform.PartitionGraph(),
]
parts = tvm.transform.Sequential(passes)(mod)
assert len([g for g in parts.get_global_vars() if "classic_library" in g.name_hint]) == 2
data = rng.random((1, 3, 8, 8), "float32")
want = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(data).numpy()
lib = relay.build(parts, "llvm")
lib.export_library("deploy.so")
runner = graph_executor.GraphModule(tvm.runtime.load_module("deploy.so")["default"](tvm.cpu()))
runner.run(x=data)
np.testing.assert_allclose(runner.get_output(0).numpy(), want, rtol=1e-4)
