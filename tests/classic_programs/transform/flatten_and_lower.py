import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0


mod = tvm.IRModule({"main": f})
mod = tir.transform.LowerInitBlock()(mod)
mod = tir.transform.PlanAndUpdateBufferAllocationLocation()(mod)
mod = tir.transform.ConvertBlocksToOpaque()(mod)
assert 'with T.block("B"):' in mod.script()
mod = tir.transform.CompactBufferAllocation()(mod)
mod = tir.transform.LowerOpaqueBlock()(mod)
assert "T.block" not in mod.script().replace('# with T.block("root")', "")
mod = tir.transform.FlattenBuffer()(mod)
text = mod.script()
assert "A_1 = T.Buffer((32,), data=A.data)" in text
assert "B_1[i * 8 + j] = A_1[i * 8 + j] + T.float32(1)" in text
