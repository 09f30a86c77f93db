import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def dot_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for k in range(4):
            with T.block("update"):
                vk = T.axis.reduce(4, k)
                C[0] = C[0] + A[vk] * B[vk]


@T.prim_func
def dot_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        C[0] = C[0] + A[0] * B[0] + A[1] * B[1] + A[2] * B[2] + A[3] * B[3]


tir.TensorIntrin.register("classic_programs.dot4", dot_desc, dot_impl)
assert tir.TensorIntrin.get("classic_programs.dot4").desc is not None


@T.prim_func
def f(A: T.Buffer((6, 16), "float32"), B: T.Buffer((5, 16), "float32"), C: T.Buffer((6, 5), "float32")):
    for i, j, k in T.grid(6, 5, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


sch = tir.Schedule(f)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
ko, ki = sch.split(k, [None, 4])
sch.decompose_reduction(block, ko)
update = sch.get_block("C_update")
blocked = sch.blockize(ki)
assert sch.get(blocked).name_hint == "C_update_o"
sch.tensorize(blocked, "classic_programs.dot4")
fn = tvm.build(sch.mod, target="llvm")
a, b = np.random.rand(6, 16).astype("float32"), np.random.rand(5, 16).astype("float32")
c = tvm.nd.empty((6, 5))
fn(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-4)
