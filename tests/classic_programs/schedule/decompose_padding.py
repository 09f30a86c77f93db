from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.block("pad"):
            vi = T.axis.spatial(32, i)
            B[vi] = T.if_then_else(1 <= vi and vi < 31, A[vi - 1], T.float32(0))


sch = tir.Schedule(f)
block = sch.get_block("pad")
init = sch.decompose_padding(block, sch.get_loops(block)[0])
assert sch.get(init).name_hint == "pad_pad_const"
assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == ["pad_pad_const", "pad"]
text = sch.mod.script()
assert "B[vi] = T.float32(0)" in text and "for i in range(30):" in text
assert "T.if_then_else" not in text
