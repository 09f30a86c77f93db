import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(4):
        for j in T.vectorized(8):
            B[i * 8 + j] = A[i * 8 + j] * 2.0
    for i in T.unroll(2):
        A[i] = 0.0


mod = tvm.IRModule({"main": f})
vec = tir.transform.VectorizeLoop()(mod).script()
assert "B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] * T.Broadcast(T.float32(2), 8)" in vec
unrolled = tir.transform.UnrollLoop()(mod).script()
assert "A[0] = T.float32(0)" in unrolled and "A[1] = T.float32(0)" in unrolled
off = tir.transform.VectorizeLoop(False)(mod).script()
assert "vectorized" not in off and "B[i * 8 + j]" in off


@T.prim_func
def g(A: T.Buffer((100,), "float32")):
    for i in range(13):
        for j in range(8):
            if T.likely(i * 8 + j < 100):
                A[i * 8 + j] = 1.0


with tvm.transform.PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
    parted = tir.transform.LoopPartition()(tvm.IRModule({"main": g}))
    parted = tir.transform.RemoveNoOp()(tir.transform.Simplify()(parted))
assert "T.grid(12, 8)" in parted.script()
