"""Bring your own code generation: annotate by hand and by operator attributes, partition, generate C, run in all executors."""

import os
import tempfile

import numpy as np
import tvm
from tvm import relay, runtime
from tvm.contrib import graph_executor
from tvm.relay import transform
from tvm.relay.backend import te_compiler
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm.relay.expr_functor import ExprMutator, ExprVisitor
from tvm.relay.op.annotation import compiler_begin, compiler_end
from tvm.relay.op.contrib.register import get_pattern_table, register_pattern_table


class AllowedListAnnotator(ExprMutator):
    """Puts borders around the listed operators, one region each."""

    def __init__(self, op_list, compiler):
        super().__init__()
        self.op_list = op_list
        self.compiler = compiler

    def visit_call(self, call):
        op_name = call.op.name
        args = [super(AllowedListAnnotator, self).visit(arg) for arg in call.args]
        if op_name not in self.op_list:
            return relay.Call(call.op, args, call.attrs)
        new_args = [compiler_begin(arg, self.compiler) for arg in args]
        return compiler_end(relay.Call(call.op, new_args, call.attrs, call.type_args), self.compiler)


class CodegenC(ExprVisitor):
    """Element-wise operators of one shape to C++, in the form that TVM's own example writes."""

    OPERATORS = {"add": "+", "subtract": "-", "multiply": "*"}

    def __init__(self, symbol):
        super().__init__()
        self.symbol, self.buffers, self.body, self.names = symbol, [], [], {}

    def visit_var(self, var):
        self.names[var] = var.name_hint

    def visit_call(self, call):
        for arg in call.args:
            self.visit(arg)
        name = f"buf_{len(self.buffers)}"
        self.buffers.append(name)
        left, right = (self.names[a] for a in call.args)
        sign = self.OPERATORS[call.op.name]
        self.body.append(f"for (int i = 0; i < 100; ++i) {name}[i] = {left}[i] {sign} {right}[i];")
        self.names[call] = name

    def source(self, func):
        self.visit(func.body)
        args = [p.name_hint for p in func.params]
        declared = ", ".join([f"float* {a}" for a in args] + ["float* out"])
        tensors = ", ".join([f"DLTensor* arg{i}" for i in range(len(args) + 1)])
        casts = ", ".join([f"static_cast<float*>(arg{i}->data)" for i in range(len(args) + 1)])
        body = "\n  ".join([f"float {b}[100];" for b in self.buffers] + self.body)
        return f"""
#include <cstring>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/packed_func.h>
#include <dlpack/dlpack.h>
extern "C" void {self.symbol}_({declared}) {{
  {body}
  std::memcpy(out, {self.names[func.body]}, sizeof(float) * 100);
}}
extern "C" int {self.symbol}_wrapper_({tensors}) {{
  {self.symbol}_({casts});
  return 0;
}}
TVM_DLL_EXPORT_TYPED_FUNC({self.symbol}, {self.symbol}_wrapper_);
"""


@tvm._ffi.register_func("relay.ext.ccompiler_example")
def ccompiler(func):
    assert isinstance(func, tvm.relay.function.Function)
    symbol = func.attrs["global_symbol"]
    return tvm.get_global_func("runtime.CSourceModuleCreate")(CodegenC(symbol).source(func), "cc", [symbol], [])


def check_result(mod, map_inputs, out_shape, result, target="llvm"):
    device = tvm.cpu()

    def update_lib(lib, folder):
        path = os.path.join(folder, "lib.so")
        lib.export_library(path, fcompile=False, options=["-O0", "-std=c++17"])
        return runtime.load_module(path)

    te_compiler.get().clear()
    with tvm.transform.PassContext(opt_level=3), tempfile.TemporaryDirectory() as folder:
        exe = relay.vm.compile(mod, target=target)
        code, lib = exe.save()
        loaded = update_lib(exe, folder)
        out = runtime.vm.VirtualMachine(loaded, device).run(**map_inputs)
        np.testing.assert_allclose(out.numpy(), result, rtol=1e-5)
    with tvm.transform.PassContext(opt_level=3), tempfile.TemporaryDirectory() as folder:
        built = relay.build(mod, target=target)
        rt_mod = graph_executor.GraphModule(update_lib(built, folder)["default"](device))
        for name, data in map_inputs.items():
            rt_mod.set_input(name, data)
        rt_mod.run()
        out = rt_mod.get_output(0, tvm.nd.empty(out_shape, device=device))
        np.testing.assert_allclose(out.numpy(), result, rtol=1e-5)


def graph():
    shape = (10, 10)
    x, y, z, p, q = (relay.var(n, shape=shape) for n in "xyzpq")
    return relay.Function(
        [x, y, z, p, q], relay.multiply(relay.subtract(relay.add(x, y), z), relay.exp(relay.add(p, q)))
    )


inputs = {n: np.random.rand(10, 10).astype("float32") for n in "xyzpq"}
expected = (inputs["x"] + inputs["y"] - inputs["z"]) * np.exp(inputs["p"] + inputs["q"])

# Borders by hand.
mod = tvm.IRModule()
mod["main"] = AllowedListAnnotator(["subtract", "multiply"], "ccompiler_example").visit(graph())
mod = transform.PartitionGraph()(mod)
assert len(mod.functions) == 3
mod = transform.InferType()(mod)
check_result(mod, inputs, (10, 10), expected)


# Borders by attributes and patterns.
def _register_external_op_helper(op_name, supported=True):
    @tvm.ir.register_op_attr(op_name, "target.ccompiler_example")
    def _func_wrapper(expr):
        return supported

    return _func_wrapper


for op in ("add", "subtract", "multiply"):
    _register_external_op_helper(op)

mod = tvm.IRModule.from_expr(graph())
seq = tvm.transform.Sequential(
    [
        transform.AnnotateTarget(["ccompiler_example"]),
        transform.MergeCompilerRegions(),
        transform.PartitionGraph(mod_name="mod_0"),
    ]
)
with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
    mod = seq(mod)
names = sorted(gv.name_hint for gv in mod.get_global_vars())
assert names[0] == "main" and all(n.startswith("tvmgen_mod_0_ccompiler_example_main_") for n in names[1:])
for gv, func in mod.functions.items():
    if gv.name_hint != "main":
        assert func.attrs["Compiler"] == "ccompiler_example" and func.attrs["global_symbol"] == gv.name_hint
        assert int(func.attrs["Primitive"]) == int(func.attrs["Inline"]) == 1
check_result(mod, inputs, (10, 10), expected)


@register_pattern_table("classic_test")
def pattern_table():
    def make():
        return is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))

    def check(extract):
        return extract.checked_type.shape[0] == 10

    return [("classic_test.add_relu", make(), check)]


a, b = relay.var("a", shape=(10, 10)), relay.var("b")
func = bind_params_by_name(relay.Function([a, relay.var("c", shape=(10, 10))], relay.nn.relu(relay.add(a, a))), {})
mod = transform.MergeComposite(get_pattern_table("classic_test"))(tvm.IRModule.from_expr(func))
composite = mod["main"].body.op
assert composite.attrs["Composite"] == "classic_test.add_relu"
assert composite.attrs["PartitionedFromPattern"] == "add_nn.relu_"
