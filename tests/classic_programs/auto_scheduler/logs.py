from tvm import auto_scheduler, te
from tvm.contrib import utils


@auto_scheduler.register_workload
def classic_programs_add_one(N):
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: A[i] + 1, name="B")
    return [A, B]


task = auto_scheduler.SearchTask(func=classic_programs_add_one, args=(64,), target="llvm")
state = task.compute_dag.get_init_state()
inp = auto_scheduler.MeasureInput(task, state)
res = auto_scheduler.MeasureResult([0.25], 0, "", 0.5, 1)
tmp = utils.tempdir()
auto_scheduler.save_records(tmp.relpath("log.json"), [inp], [res])
((again, result),) = auto_scheduler.load_records(tmp.relpath("log.json"))
assert float(result.costs[0]) == 0.25 and again.task.workload_key == task.workload_key
best, _ = auto_scheduler.load_best_record(tmp.relpath("log.json"), task.workload_key)
assert best.task.workload_key == task.workload_key
