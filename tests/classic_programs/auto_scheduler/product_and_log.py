"""A product with an addition, scheduled without a template: a task, its search, the log, and what was found."""

import os

import numpy as np
import tvm
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def product_plus(rows, depth, columns, dtype):
    left = te.placeholder((rows, depth), name="left", dtype=dtype)
    right = te.placeholder((depth, columns), name="right", dtype=dtype)
    more = te.placeholder((rows, columns), name="more", dtype=dtype)
    k = te.reduce_axis((0, depth), name="k")
    product = te.compute(
        (rows, columns),
        lambda i, j: te.sum(left[i, k] * right[k, j], axis=k),
        name="product",
        attrs={"layout_free_placeholders": [right]},
    )
    return [left, right, more, te.compute((rows, columns), lambda i, j: product[i, j] + more[i, j], name="out")]


target = tvm.target.Target("llvm")
task = tvm.auto_scheduler.SearchTask(func=product_plus, args=(32, 64, 48, "float32"), target=target)
assert "product(i, j) += left[i, k] * right[k, j]" in str(task.compute_dag)

log_file = "product.json"
measure_ctx = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=1, timeout=60)
options = auto_scheduler.TuningOptions(
    num_measure_trials=4,
    num_measures_per_round=4,
    runner=measure_ctx.runner,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=0,
)
params = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1, "sample_init_min_population": 4}
task.tune(options, auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), params=params, seed=3))
measure_ctx.close()

sch, args = task.apply_best(log_file)
assert [t.op.name for t in args] == ["left", "right", "more", "out"]
func = tvm.build(sch, args, target)
random = np.random.default_rng(1)
a, b, c = (random.uniform(size=[int(d) for d in t.shape]).astype("float32") for t in args[:3])
device = tvm.cpu()
out = tvm.nd.empty(c.shape, device=device)
func(tvm.nd.array(a, device), tvm.nd.array(b, device), tvm.nd.array(c, device), out)
np.testing.assert_allclose(out.numpy(), a @ b + c, rtol=1e-4)
assert "= tuple(product.op.axis)" in task.print_best(log_file)


# A search that goes on from the log learns from it first.
def resume(task, path):
    model = auto_scheduler.XGBModel()
    model.update_from_file(path)
    again = auto_scheduler.SketchPolicy(
        task, model, params=params, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(path)]
    )
    more = auto_scheduler.TuningOptions(
        num_measure_trials=2,
        runner=auto_scheduler.LocalRunner(min_repeat_ms=1, timeout=60),
        measure_callbacks=[auto_scheduler.RecordToFile(path)],
        verbose=0,
    )
    task.tune(more, search_policy=again)


resume(task, log_file)
records = list(auto_scheduler.load_records(log_file))
assert len(records) == 6 and os.path.getsize(log_file) > 0
best, result = auto_scheduler.load_best_record(log_file, task.workload_key)
assert result.error_no == 0 and min(r.costs[0] for _, r in records if r.error_no == 0) <= result.costs[0] * 1.001
