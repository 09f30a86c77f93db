import numpy as np
import tvm
from tvm import relay, te, tir
from tvm.relay import testing
from tvm.relay.testing import dcgan
from tvm.tir.schedule.instruction import Instruction, InstructionKind

# A layer of the generator alone, and the whole of it.
x = relay.var("data", shape=(1, 8, 4, 4))
net = dcgan.deconv2d_bn_relu(x, "g", ishape=(8, 4, 4), oshape=(6, 8, 8), kshape=(4, 4), layout="NCHW")
mod, params = testing.create_workload(relay.Function(relay.analysis.free_vars(net), net))
assert [int(d) for d in mod["main"].ret_type.shape] == [1, 6, 8, 8] and "g_deconv_weight" in params
assert {"g_batch_beta", "g_batch_moving_mean"} <= set(params)
odd = dcgan.deconv2d(x, (8, 4, 4), (6, 8, 8), (3, 3), "NCHW", "odd", stride=(2, 2))
odd = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(odd), odd)))
assert [int(d) for d in odd["main"].ret_type.shape] == [1, 6, 8, 8]
whole, _ = dcgan.get_workload(1, ngf=4, random_len=10)
assert [int(d) for d in whole["main"].ret_type.shape] == [1, 3, 64, 64]

# Programs of the virtual machine tell their parameters when they are loaded, too.
small = tvm.IRModule.from_expr(
    relay.Function([a := relay.var("a", shape=(2,)), b := relay.var("b", shape=(2,))], a + b)
)
exe = relay.vm.compile(small, target="llvm")
loaded = tvm.runtime.vm.Executable.load_exec(*exe.save())
assert exe.get_function_params("main") == loaded.get_function_params("main") == ["a", "b"]
ones = np.ones(2, "float32")
np.testing.assert_array_equal(tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu()).run(ones, ones).numpy(), 2 * ones)

assert isinstance(tir.Var("n", "int32") + 1, tir.expr.ExprOp)
y = te.compute((8,), lambda i: i * 2, name="y")
sch = tir.Schedule(te.create_prim_func([y]))
sch.split(sch.get_loops(sch.get_block("y"))[0], [2, None])
assert all(isinstance(i, Instruction) for i in sch.trace.insts)
assert sch.trace.insts[-1].kind.name == "Split" and InstructionKind.get("Split").name == "Split"
