"""The loop of tuning under its classic names: strategies, schedulers, callbacks, cost models. Times are computed, not measured."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.kernels import context, elementwise, gemm
from tests.meta_schedule.test_trace_space import vector_length
from tilewright import meta_schedule as ms
from tilewright import register_func
from tilewright.ir import GlobalVar, IRModule
from tilewright.meta_schedule import builder as B
from tilewright.meta_schedule import cost_model as C
from tilewright.meta_schedule import database as D
from tilewright.meta_schedule import measure_callback as K
from tilewright.meta_schedule import runner as R
from tilewright.meta_schedule import search_strategy as S
from tilewright.meta_schedule import task_scheduler as T
from tilewright.meta_schedule.logging import create_loggers, get_logging_func
from tilewright.meta_schedule.tir_integration import compile_tir
from tilewright.meta_schedule.utils import cpu_count, fork_seed, get_global_func_with_default_on_worker
from tilewright.node import structural_equal
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule


@ms.derived_object
class Written(B.PyBuilder):
    """The library of a program is a file with the length of its longest vector. fails: which builds fail, by their number."""

    def __init__(self, folder: Path, fails: Sequence[int] = ()) -> None:
        self.folder, self.fails, self.count = folder, fails, 0

    def build(self, build_inputs: Sequence[B.BuilderInput]) -> list[B.BuilderResult]:
        made = []
        for given in build_inputs:
            self.count += 1
            if self.count in self.fails:
                made.append(B.BuilderResult(None, "refused by the test"))
                continue
            path = self.folder / str(self.count) / "kernel.so"
            path.parent.mkdir(parents=True)
            path.write_text(str(vector_length(given.mod)))
            made.append(B.BuilderResult(str(path), None))
        return made


@ms.derived_object
class Formula(R.PyRunner):
    """Long vectors are fast. fails: which runs fail, by their number."""

    def __init__(self, fails: Sequence[int] = ()) -> None:
        self.fails, self.count = fails, 0

    def run(self, runner_inputs: Sequence[R.RunnerInput]) -> list[R.RunnerFuture]:
        return [self._future(given) for given in runner_inputs]

    def _future(self, given: R.RunnerInput) -> R.RunnerFuture:
        self.count += 1
        assert given.device_type == "llvm" and [info.dtype for info in given.args_info] == ["float32"] * len(
            given.args_info
        )  # type: ignore[attr-defined]
        if self.count in self.fails:
            return R.RunnerFuture(lambda: True, lambda: R.RunnerResult(None, "killed by the test"))
        seconds = 1.0 / int(Path(given.artifact_path).read_text())
        return R.RunnerFuture(lambda: True, lambda: R.RunnerResult([seconds, seconds], None))


@ms.derived_object
class Knowing(C.PyCostModel):
    """Knows the formula."""

    def __init__(self) -> None:
        self.learned: list[int] = []

    def load(self, path: str) -> None: ...

    def save(self, path: str) -> None: ...

    def update(self, context: ms.TuneContext, candidates: list[Any], results: list[R.RunnerResult]) -> None:
        assert len(candidates) == len(results)
        self.learned.append(len(candidates))

    def predict(self, context: ms.TuneContext, candidates: list[Any]) -> np.ndarray[Any, Any]:
        return np.array([vector_length(c.sch.mod) for c in candidates], np.float64)


def small_search() -> S.EvolutionarySearch:
    return S.EvolutionarySearch(population_size=16, genetic_num_iters=2)


def searching(func: PrimFunc, strategy: Any, **given: Any) -> ms.TuneContext:
    return ms.TuneContext(
        func,
        target="llvm",
        space_generator="post-order-apply",
        search_strategy=strategy,
        rand_state=3,
        num_threads=2,
        **given,
    )


@pytest.mark.parametrize("strategy", ["replay-trace", "replay-func"])
def test_replays(strategy: str) -> None:
    ctx = searching(gemm(), strategy)
    with pytest.raises(ValueError, match="tuning has not begun"):
        ctx.generate_measure_candidates()
    ctx.pre_tuning(10, num_trials_per_iter=4)
    with pytest.raises(ValueError, match="tuning has begun already"):
        ctx.pre_tuning(10)
    ctx.clone().pre_tuning(10)
    counts = []
    while (candidates := ctx.generate_measure_candidates()) is not None:
        counts.append(len(candidates))
        ctx.notify_runner_results(candidates, [R.RunnerResult([1.0], None)] * len(candidates))
        assert all(["EnterPostproc" in str(c.sch.trace.as_json()) for c in candidates])
    assert counts == [4, 4, 2]
    ctx.post_tuning()


def test_the_search_follows_the_model() -> None:
    ctx = searching(gemm(32, 64, 8), small_search())
    ctx.pre_tuning(8, 4, cost_model=Knowing())
    first = ctx.generate_measure_candidates()
    # The compiler's own schedule is the first; the model chooses the others.
    assert first is not None and [vector_length(c.sch.mod) for c in first][1:3] == [64, 64]
    ctx.notify_runner_results(first, [R.RunnerResult(None, "failed")] * 4)
    second = ctx.generate_measure_candidates()
    assert second is not None
    keys = [str(c.sch.trace.as_json()) for c in [*first, *second]]
    assert len(set(keys)) == 8 and ctx.generate_measure_candidates() is None
    with pytest.raises(ValueError, match="the list of design spaces of main is empty"):
        ctx.clone().pre_tuning(8, 4, [])
    with pytest.raises(ValueError, match="a search strategy is one of evolutionary, replay-func, replay-trace"):
        ms.SearchStrategy.create("other")


def test_what_is_in_the_database_is_not_measured_again() -> None:
    db = D.MemoryDatabase()
    scheduler = T.RoundRobin()
    seen: list[str] = []
    for _ in range(2):
        ctx = searching(elementwise(), small_search())
        ctx.pre_tuning(3, 3, database=db)
        candidates = ctx.generate_measure_candidates() or []
        seen += [str(c.sch.trace.as_json(remove_postproc=True)) for c in candidates]
        results = [R.RunnerResult([1.0], None)] * len(candidates)
        scheduler.tasks_, scheduler.database_ = [T.TaskRecord(ctx)], db
        K.AddToDatabase().apply(scheduler, 0, candidates, [B.BuilderResult("", None)] * len(candidates), results)
    assert len(seen) == len(set(seen)) == len(db) > 3 - 1


@pytest.mark.parametrize("kind", ["round-robin", "gradient"])
def test_tasks_in_turn(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tasks = [
        searching(gemm(8, 16, 4), "replay-trace", task_name="a"),
        searching(elementwise(), "replay-trace", task_name="b"),
    ]
    db, model, scheduler = D.MemoryDatabase(), Knowing(), ms.TaskScheduler.create(kind)
    builder, runner = Written(tmp_path, fails=[2]), Formula(fails=[3])
    scheduler.tune(tasks, [1.0, 2.0], 20, 8, 4, builder, runner, ms.MeasureCallback.create(), db, model)
    a, b = scheduler.tasks_
    assert (len(a.latency_ms), len(b.latency_ms), len(db)) == (8, 8, 16) and a.is_terminated and b.is_terminated
    assert (a.build_error_count, a.run_error_count) == (1, 1)
    assert sum(model.learned) == 15  # not what was not built
    assert sum([not r.is_valid for r in db.get_all_tuning_records()]) == 2
    assert a.latency_ms == sorted(a.latency_ms, reverse=True) and a.fastest == a.latency_ms[-1] / 1e3
    assert list(tmp_path.rglob("*.so")) == []
    failures = [r.getMessage() for r in caplog.records if "schedules failed" in r.getMessage()]
    assert failures == [f"1 of 4 schedules failed: {why} by the test" for why in ("refused", "killed")]
    lines = scheduler.print_tuning_statistics().splitlines()
    assert lines[0].split() == ["task", "weight", "trials", "us", "weighted", "us", "not", "built", "failed", "done"]
    assert len(lines) == 4 and lines[2].split()[:3] == ["a", "1", "8"]
    with pytest.raises(ValueError, match="there are 2 tasks, but 1 weights"):
        scheduler.tune(tasks, [1.0], 1, 1, 1, builder, runner)
    with pytest.raises(ValueError, match="a task scheduler is one of gradient, round-robin"):
        ms.TaskScheduler.create("other")


def test_the_limit_of_all_trials(tmp_path: Path) -> None:
    scheduler = T.RoundRobin()
    scheduler.tune([searching(gemm(), "replay-trace")], [1.0], 5, 100, 4, Written(tmp_path), Formula())
    assert len(scheduler.tasks_[0].latency_ms) == 5


def test_gradients() -> None:
    scheduler = T.GradientBased(seed=1)
    ctx = context(elementwise())
    records = [T.TaskRecord(ctx, weight) for weight in (1.0, 1.0, 100.0)]
    for record, best in zip(records, ([8.0, 8.0], [8.0, 2.0], [1e-3]), strict=True):
        record.best, record.latency_ms = best, [b * 1e3 for b in best]
    scheduler.tasks_ = records
    assert [round(scheduler.gain(r), 3) for r in records] == [3.2, 1.2, 0.08]
    assert scheduler.next_task_id() == 0
    records[0].is_terminated = True
    assert scheduler.next_task_id() == 1
    records[1].is_terminated = records[2].is_terminated = True
    assert scheduler.next_task_id() == -1


def test_schedulers_of_users(tmp_path: Path) -> None:
    @ms.derived_object
    class Backwards(T.PyTaskScheduler):
        def next_task_id(self) -> int:
            for task_id in reversed(range(len(self.tasks_))):
                self.touch_task(task_id)
                if not self.tasks_[task_id].is_terminated:
                    return task_id
            return -1

    seen: list[int] = []

    @ms.derived_object
    class Seen(K.PyMeasureCallback):
        def apply(self, task_scheduler: Any, task_id: int, *results: Any) -> None:
            seen.append(task_id)

    tasks = [searching(elementwise(), "replay-func") for _ in range(2)]
    Backwards().tune(tasks, [1.0, 1.0], 8, 4, 2, Written(tmp_path), Formula(), [Seen()])
    assert seen == [1, 1, 0, 0]


def test_tune_tir(tmp_path: Path) -> None:
    functions = {GlobalVar("first"): gemm(8, 16, 4), GlobalVar("second"): elementwise()}
    halved: list[str] = []

    def halves(sch: Schedule) -> None:
        halved.append("second")
        sch.split(sch.get_loops(sch.get_block("Y"))[0], [None, 2])

    given: dict[str, Any] = {
        "builder": Written(tmp_path), "runner": Formula(), "cost_model": Knowing(), "strategy": small_search(),
        "num_trials_per_iter": 4, "seed": 1, "special_space": {"second": halves},
    }  # fmt: skip
    with ms.Profiler() as profiler:
        db = ms.tune_tir(IRModule(functions), "llvm", str(tmp_path / "work"), 8, **given)
    assert set(profiler.get()) == {"pre_tuning", "search", "build", "run", "Total"} and "share" in profiler.table()
    assert halved == ["second"] and len(db) > 4
    # The records are in files, and found again.
    again = D.JSONDatabase(work_dir=str(tmp_path / "work"))
    sch = compile_tir(again, gemm(8, 16, 4), "llvm")
    assert sch is not None and vector_length(sch.mod) == 16
    best = compile_tir(db, gemm(8, 16, 4), "llvm")
    assert best is not None and structural_equal(best.mod, sch.mod)
    assert compile_tir(again, gemm(4, 4, 4), "llvm") is None
    logs = sorted([p.name for p in (tmp_path / "work" / "logs").iterdir()])
    root = "tilewright.meta_schedule"
    assert logs == [f"{root}.task_0_first.log", f"{root}.task_1_second.log", f"{root}.task_scheduler.log"]
    with pytest.raises(TypeError, match="an IRModule or a PrimFunc is tuned, but int was given"):
        ms.tune_tir(3, "llvm", str(tmp_path), 1)  # type: ignore[arg-type]


def test_random_scores(tmp_path: Path) -> None:
    ctx = context(elementwise())
    model = ms.CostModel.create("random", seed=1, max_range=2)
    model.save(str(tmp_path / "state"))
    scores = model.predict(ctx, [None] * 5)  # type: ignore[list-item]
    assert ((scores >= 0) & (scores < 2)).all()
    again = C.RandomModel(path=str(tmp_path / "state"), max_range=2)
    assert (again.predict(ctx, [None] * 5) == scores).all()  # type: ignore[list-item]
    (tmp_path / "other").write_text("x")
    with pytest.raises(TVMError, match="is no saved state of a RandomModel"):
        model.load(str(tmp_path / "other"))
    with pytest.raises(ValueError, match="a cost model is one of mlp, random, xgb, but 'other' was given"):
        ms.CostModel.create("other")


def test_loggers(tmp_path: Path) -> None:
    config = {
        "handlers": {"{logger_name}.file": {"class": "logging.FileHandler", "filename": "{log_dir}/{task_name}.txt"}},
        "loggers": {"{logger_name}": {"handlers": ["{logger_name}.file"], "level": "DEBUG"}},
    }
    create_loggers(str(tmp_path), [{"logger_name": "tilewright.test_loggers", "task_name": "mine"}], config)
    get_logging_func(logging.getLogger("tilewright.test_loggers"))(logging.INFO, "a/b.cc", 7, "hello")
    assert (tmp_path / "mine.txt").read_text() == "b.cc:7: hello\n"


def test_helpers() -> None:
    assert 1 <= cpu_count(logical=False) <= cpu_count()
    assert fork_seed(1, 3) == fork_seed(1, 3) and len(set(fork_seed(None, 9))) == 9
    register_func("test_meta_schedule.helper", lambda: 3, override=True)
    assert get_global_func_with_default_on_worker("test_meta_schedule.helper", None)() == 3
    assert get_global_func_with_default_on_worker(None, len) is len
    with pytest.raises(TVMError, match="there is no function 'missing'"):
        get_global_func_with_default_on_worker("missing", None)
