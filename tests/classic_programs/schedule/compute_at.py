from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((32, 32), "float32"), C: T.Buffer((30, 30), "float32")):
    B = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i, j in T.grid(30, 30):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj + 1] + B[vi + 2, vj + 2]


sch = tir.Schedule(f)
b, c = sch.get_block("B"), sch.get_block("C")
i, j = sch.get_loops(c)
sch.compute_at(b, i)
text = sch.mod.script()
assert "for ax0, ax1 in T.grid(3, 32):" in text
assert "vi = T.axis.spatial(32, i + ax0)" in text
assert [sch.get(p).name_hint for p in sch.get_producers(c)] == ["B"]
assert [sch.get(p).name_hint for p in sch.get_consumers(b)] == ["C"]
