import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i in range(16):
        with T.block("outer"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi, 0:16])
            T.writes(C[vi, 0:16])
            B = T.alloc_buffer((16,), scope="shared")
            for j in range(16):
                with T.block("B"):
                    vj = T.axis.spatial(16, j)
                    B[vj] = A[vi, vj] * 2.0
            for j in range(16):
                with T.block("C"):
                    vj = T.axis.spatial(16, j)
                    C[vi, vj] = B[vj] + 1.0


sch = tir.Schedule(f)
loop = sch.get_loops("outer")[0]
sch.annotate(loop, "software_pipeline_stage", [0, 1])
sch.annotate(loop, "software_pipeline_order", [0, 1])
text = sch.mod.script()
assert 'annotations={"software_pipeline_order": [0, 1], "software_pipeline_stage": [0, 1]}' in text
tvm.ir.assert_structural_equal(tvm.script.from_source(text), sch.mod)
sch.annotate(sch.get_block("B"), "pragma_x", 1)
assert 'T.block_attr({"pragma_x": 1})' in sch.mod.script()
