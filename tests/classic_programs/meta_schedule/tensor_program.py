"""A TensorIR script tuned by its design space, by a rule and a database of one's own, and as part of a model."""

import logging
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import meta_schedule as ms
from tvm import relay
from tvm.ir import IRModule
from tvm.meta_schedule.database import PyDatabase, TuningRecord, Workload
from tvm.script import tir as T
from tvm.target import Target
from tvm.tir.schedule import BlockRV, Schedule

logging.basicConfig(level=logging.WARNING)
target = Target("llvm --num-cores=2")


@tvm.script.ir_module
class Matmul:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (32, 32), "float32")
        B = T.match_buffer(b, (32, 32), "float32")
        C = T.match_buffer(c, (32, 32), "float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.block("matmul"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def check(mod):
    func = tvm.build(mod, target=target)
    a, b = (np.random.default_rng(i).random((32, 32)).astype("float32") for i in (0, 1))
    c = tvm.nd.array(np.zeros((32, 32), "float32"))
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


# The default design space, and the best schedule that was found in it.
config = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=1)
parts = {"builder": ms.builder.LocalBuilder(timeout_sec=100), "runner": ms.runner.LocalRunner(100, config)}
with tempfile.TemporaryDirectory() as work_dir:
    database = ms.tune_tir(
        mod=Matmul,
        target=target,
        work_dir=work_dir,
        max_trials_global=4,
        num_trials_per_iter=2,
        strategy="replay-trace",
        **parts,
    )
    sch = ms.tir_integration.compile_tir(database, Matmul, target)
    assert len(database) == 4 and sch.trace.as_python()
    check(sch.mod)


# A design space that a function describes.
def space(sch: Schedule) -> None:
    block = sch.get_block("matmul")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, sch.sample_perfect_tile(i, n=2))
    sch.reorder(i_0, k, i_1, j)
    sch.vectorize(j)


# A rule of one's own, and a database of one's own, which remembers in a list.
@ms.derived_object
class Rows(ms.schedule_rule.PyScheduleRule):
    def __init__(self):
        super().__init__()
        self.applied = 0

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        self.target = context.target

    def apply(self, sch: Schedule, block: BlockRV):
        if sch.get(block).name_hint != "matmul":
            return [sch]
        self.applied += 1
        other = sch.copy()
        other.parallel(other.get_loops(block)[0])
        return [sch, other]

    def clone(self):
        return self


@ms.derived_object
class Listed(PyDatabase):
    def __init__(self):
        super().__init__()
        self.records, self.workloads = [], []

    def _of(self, mod: IRModule):
        return next((w for w in self.workloads if tvm.ir.structural_equal(w.mod, mod)), None)

    def has_workload(self, mod: IRModule) -> bool:
        return self._of(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        if self._of(mod) is None:
            self.workloads.append(Workload(mod))
        return self._of(mod)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.records.append(record)

    def get_all_tuning_records(self):
        return self.records

    def get_top_k(self, workload: Workload, top_k: int):
        found = [r for r in self.records if tvm.ir.structural_equal(r.workload.mod, workload.mod)]
        return sorted(found, key=lambda r: np.mean([float(s) for s in r.run_secs]))[:top_k]


rule = Rows()
for given in (space, ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})):
    database = Listed()
    with tempfile.TemporaryDirectory() as work_dir:
        ms.tune_tir(
            Matmul,
            target,
            work_dir,
            2,
            database=database,
            space=given,
            strategy="replay-trace",
            num_trials_per_iter=2,
            **parts,
        )
    assert len(database.records) == 2 and len(database.workloads) == 1
    check(database.query_ir_module(Matmul, target, "main"))
assert rule.applied > 0

# The kernels of a model, and the model with what was found.
x, w = relay.var("x", shape=(8, 32)), relay.var("w", shape=(32, 32))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
params = {"w": np.random.default_rng(2).random((32, 32)).astype("float32")}
(task,) = ms.relay_integration.extract_tasks(mod, target, params)
assert "dense" in task.task_name and task.weight == 1
with tempfile.TemporaryDirectory() as work_dir:
    database = ms.relay_integration.tune_relay(
        mod=mod, target=target, params=params, work_dir=work_dir, max_trials_global=2, strategy="replay-trace", **parts
    )
    lib = ms.relay_integration.compile_relay(database=database, mod=mod, target=target, params=params)
dev = tvm.cpu()
runtime = tvm.contrib.graph_executor.GraphModule(lib["default"](dev))
data = np.random.default_rng(3).random((8, 32)).astype("float32")
runtime.set_input("x", data)
runtime.run()
tvm.testing.assert_allclose(runtime.get_output(0).numpy(), np.maximum(data @ params["w"].T, 0), rtol=1e-4)
