from tvm import tir
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Two:
    @T.prim_func
    def first(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("fill"):
                vi = T.axis.spatial(8, i)
                A[vi] = 1.0

    @T.prim_func
    def second(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("fill"):
                vi = T.axis.spatial(8, i)
                A[vi] = 2.0


sch = tir.Schedule(Two, debug_mask="all")
a = sch.get_block("fill", func_name="first")
sch.work_on("second")
b = sch.get_block("fill")
sch.unroll(sch.get_loops(b)[0])
text = sch.mod.script()
assert text.count("T.unroll(8)") == 1
assert sorted(g.name_hint for g in sch.mod.get_global_vars()) == ["first", "second"]
assert isinstance(sch.state, tir.schedule.ScheduleState)
assert sch.get_sref(a).stmt.name_hint == "fill"
