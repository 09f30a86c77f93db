import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + 1.0


sch = tir.Schedule(f, seed=1)
block = sch.get_block("B")
(i,) = sch.get_loops(block)
tile = sch.sample_perfect_tile(i, n=2, decision=[4, 16])
o, n = sch.split(i, factors=tile)
sch.parallel(o)
assert [int(sch.get(v)) for v in tile] == [4, 16]
lines = str(sch.trace).splitlines()
assert lines[-1].strip() == "sch.parallel(loop=l4)"
assert "v2, v3 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[4, 16])" in str(sch.trace)
assert [inst.kind.name for inst in sch.trace.insts] == [
    "GetBlock",
    "GetLoops",
    "SamplePerfectTile",
    "Split",
    "Parallel",
]
other = tir.Schedule(f)
sch.trace.apply_to_schedule(other, remove_postproc=False)
tvm.ir.assert_structural_equal(other.mod, sch.mod)
third = tir.Schedule(f)
tir.schedule.Trace.apply_json_to_schedule(sch.trace.as_json(), third)
tvm.ir.assert_structural_equal(third.mod, sch.mod)
copied = sch.copy()
copied.vectorize(copied.get_loops("B")[1])
assert "vectorized" in copied.mod.script() and "vectorized" not in sch.mod.script()
