import tvm
from tvm import te

A = te.placeholder((16,), name="A")
B = te.compute((16,), lambda i: A[i] + 1, name="B")
C = te.compute((16,), lambda i: B[i] * 2, name="C")
s = te.create_schedule(C.op)
assert [st.op.name for st in s.stages] == ["A", "B", "C"]
assert s[C].is_output and not s[B].is_output
assert s.outputs[0].same_as(C.op)
x, y = s[C].split(C.op.axis[0], 4)
assert list(s[C].leaf_iter_vars) == [x, y]
assert len(s[C].all_iter_vars) == 3
(relation,) = s[C].relations
assert isinstance(relation, te.schedule.Split) and relation.factor.value == 4
s[B].set_scope("local")
assert s[B].scope == "local"
s = s.normalize()
bounds = te.schedule.InferBound(s)
assert bounds[x].extent.value == 4 and bounds[y].extent.value == 4
assert bounds[B.op.axis[0]].extent.value == 16
stmt = te.schedule.ScheduleOps(s, bounds)
assert isinstance(stmt, tvm.tir.Stmt)
