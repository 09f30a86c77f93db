import tvm
from tvm import meta_schedule as ms
from tvm import te
from tvm.tir import Schedule

A = te.placeholder((64, 64), name="A")
B = te.placeholder((64, 64), name="B")
k = te.reduce_axis((0, 64), name="k")
C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
mod = tvm.IRModule({"main": te.create_prim_func([A, B, C])})
context = ms.TuneContext(
    mod=mod, target=tvm.target.Target("llvm -num-cores=4"), space_generator="post-order-apply", task_name="mm"
)
spaces = context.generate_design_space()
assert len(spaces) >= 1 and all(isinstance(s, Schedule) for s in spaces)
assert any("SamplePerfectTile" == i.kind.name for s in spaces for i in s.trace.insts)
db = ms.database.MemoryDatabase()
workload = db.commit_workload(mod)
assert db.has_workload(mod) and len(db) == 0
record = ms.database.TuningRecord(
    spaces[0].trace, workload, [0.5], context.target, ms.arg_info.ArgInfo.from_prim_func(mod["main"])
)
db.commit_tuning_record(record)
assert len(db) == 1 and float(db.get_top_k(workload, 1)[0].run_secs[0]) == 0.5
assert db.query_schedule(mod, context.target, "main") is not None
