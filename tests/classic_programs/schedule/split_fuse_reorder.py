from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16, 12), "float32"), B: T.Buffer((16, 12), "float32")):
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


sch = tir.Schedule(f)
block = sch.get_block("B")
i, j = sch.get_loops(block)
i0, i1, i2 = sch.split(i, factors=[2, None, 4])
assert [int(sch.get(l).extent) for l in (i0, i1, i2)] == [2, 2, 4]
sch.reorder(i2, j, i0)
assert [sch.get(l).loop_var.name for l in sch.get_loops(block)] == ["i_2", "i_1", "j", "i_0"]
fused = sch.fuse(*sch.get_loops(block)[:2])
assert int(sch.get(fused).extent) == 8
sch.vectorize(sch.get_loops(block)[-1])
text = sch.mod.script()
assert "for i_2_i_1_fused in range(8):" in text or "for i_2_i_1_fused, j in T.grid(8, 12):" in text
assert "for i_0 in T.vectorized(2):" in text
sch.annotate(fused, "note", "outer")
assert 'annotations={"note": "outer"}' in sch.mod.script()
sch.unannotate(fused, "note")
assert "annotations" not in sch.mod.script()
