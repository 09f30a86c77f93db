from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 128):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


sch = tir.Schedule(f)
block = sch.get_block("B")
i, k = sch.get_loops(block)
ko, ki = sch.split(k, [None, 16])
rf = sch.rfactor(ki, 0)
text = sch.mod.script()
assert sch.get(rf).name_hint == "B_rf"
assert "B_rf = T.alloc_buffer((16, 8))" in text
assert 'with T.block("B_rf"):' in text and "vk_1 = T.axis.spatial" in text or "vk" in text
sch = tir.Schedule(f)
block = sch.get_block("B")
init = sch.decompose_reduction(block, sch.get_loops(block)[1])
assert sch.get(init).name_hint == "B_init"
assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == ["B_init", "B_update"]
merged = sch.mod.script()
assert 'with T.block("B_update"):' in merged and "T.init()" not in merged
