from tvm import tir
from tvm.script import tir as T


@T.prim_func
def resize(A: T.Buffer((1, 3, 40, 40), "float32"), B: T.Buffer((1, 3, 80, 80), "float32")):
    for n, c, h, w in T.grid(1, 3, 80, 80):
        with T.block("B"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            B[vn, vc, vh, vw] = A[vn, vc, vh // 4 + vw // 4, vw // 4]


sch = tir.Schedule(resize)
sch.cache_index(sch.get_block("B"), "global", 0)
text = sch.mod.script()
assert 'index_var_0 = T.alloc_buffer((80, 80), "int32")' in text or "index_var_0" in text


@T.prim_func
def pools(A: T.Buffer((12,), "int8"), C: T.Buffer((8,), "int8")):
    B = T.alloc_buffer((10,), "int8")
    for i, k in T.grid(10, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.int8(-128)
            B[vi] = T.max(B[vi], A[vi + vk])
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.int8(-128)
            C[vi] = T.max(C[vi], B[vi + vk])


sch = tir.Schedule(pools)
b, c = sch.get_block("B"), sch.get_block("C")
i, _ = sch.get_loops(c)
io, ii = sch.split(i, [None, 4])
sch.compute_at(b, io)
sch.rolling_buffer(b, 0)
text = sch.mod.script()
assert 'B = T.alloc_buffer((6,), "int8")' in text and "% 6" in text
