import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        A[i] = 0.0


mod = tvm.IRModule({"main": f.with_attr("global_symbol", "main")})
mod = tir.transform.BindTarget(tvm.target.Target("llvm", host="llvm"))(mod)
packed = tir.transform.MakePackedAPI()(mod)["main"]
assert packed.attrs["calling_conv"] == 1
assert "num_args == 1" in packed.script()
fixed = tvm.IRModule({"main": mod["main"].specialize({mod["main"].params[0]: tir.decl_buffer((8,))})})
unpacked = tir.transform.MakeUnpackedAPI()(fixed)["main"]
assert len(unpacked.params) == 1
