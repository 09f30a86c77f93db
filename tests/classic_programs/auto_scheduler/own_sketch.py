"""A sparse product: its inputs must hold real places, and its sketches are made by a rule of the program."""

import numpy as np
import tvm
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.loop_state import State

ROWS, COLUMNS, DEPTH, COUNT = 8, 32, 16, 5


@auto_scheduler.register_workload
def sparse_layer(rows, columns, depth, count):
    """Each column of the result has `count` weights, at places of their own."""
    x = te.placeholder((rows, depth), name="x")
    data = te.placeholder((columns, count), name="w_data")
    places = te.placeholder((columns, count), "int32", name="w_places")
    k = te.reduce_axis((0, count), name="k")
    product = te.compute(
        (rows, columns), lambda i, j: te.sum(x[i, places[j, k]] * data[j, k], axis=k), name="sparse_dense"
    )
    return [x, data, places, topi.nn.relu(product)]


random = np.random.default_rng(3)
places = np.stack([random.choice(DEPTH, COUNT, replace=False) for _ in range(COLUMNS)]).astype("int32")
data = random.standard_normal((COLUMNS, COUNT)).astype("float32")
dense = np.zeros((COLUMNS, DEPTH), "float32")
np.put_along_axis(dense, places, data, axis=1)
task = auto_scheduler.SearchTask(
    func=sparse_layer,
    args=(ROWS, COLUMNS, DEPTH, COUNT),
    target=tvm.target.Target("llvm"),
    task_inputs={"w_data": tvm.nd.array(data), "w_places": tvm.nd.array(places)},
    task_inputs_save_to_file=True,
)
reduction = next(i for i, op in enumerate(task.compute_dag.ops) if op.name == "sparse_dense")


def meet_condition_func(search_policy, state, stage_id):
    rule = auto_scheduler.PreloadCustomSketchRule
    return rule.APPLY_AND_SKIP_REST if stage_id == reduction else rule.PASS


def apply_func(search_policy, state, stage_id):
    made = State(state, search_policy.search_task.compute_dag)
    made.split(stage_id, made[stage_id].iters[0], [None])
    return [[made.state_object, stage_id - 1]]


log_file = "sparse.json"
small = {"evolutionary_search_population": 4, "evolutionary_search_num_iters": 1, "sample_init_min_population": 2}
policy = auto_scheduler.SketchPolicy(
    task,
    program_cost_model=auto_scheduler.RandomModel(),
    params=small,
    init_search_callbacks=[auto_scheduler.PreloadCustomSketchRule(meet_condition_func, apply_func, "Rows")],
)
sketches = policy.generate_sketches()
assert sketches and all(any(step.word == "SP" for step in s.transform_steps) for s in sketches)
options = auto_scheduler.TuningOptions(
    num_measure_trials=3,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    runner=auto_scheduler.LocalRunner(min_repeat_ms=1, timeout=60),
    verbose=0,
)
task.tune(options, policy)
sch, args = task.apply_best(log_file)
func = tvm.build(sch, args, task.target)
x = np.random.default_rng(4).standard_normal((ROWS, DEPTH)).astype("float32")
out = tvm.nd.empty((ROWS, COLUMNS))
func(*[tvm.nd.array(a) for a in (x, data, places)], out)
np.testing.assert_allclose(out.numpy(), np.maximum(x @ dense.T, 0), rtol=1e-4, atol=1e-5)
