import tvm
from tvm.script import tir as T


@T.prim_func
def f(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4, 4), "float32", strides=[8, 1], elem_offset=0)
    B = T.match_buffer(b, (2, 2), "float32")
    with T.block("root"):
        for i, j in T.grid(2, 2):
            with T.block("x"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 2 : vi * 2 + 2, vj * 2 : vj * 2 + 2])
                T.writes(B[vi, vj])
                S = T.match_buffer(A[vi * 2 : vi * 2 + 2, vj * 2 : vj * 2 + 2], (2, 2), strides=[8, 1], offset_factor=1)
                B[vi, vj] = S[0, 0] + S[1, 1]


text = f.script()
assert "strides=(8, 1)" in text and "S = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2]" in text
tvm.ir.assert_structural_equal(tvm.script.from_source(text), f)
assert (
    "match_buffer(A["
    not in tvm.tir.transform.LowerMatchBuffer()(
        tvm.tir.transform.ConvertBlocksToOpaque()(tvm.IRModule({"main": f}))
    ).script()
)
