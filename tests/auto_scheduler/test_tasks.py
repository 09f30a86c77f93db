"""Tasks, searches and records. Measurements are by a formula: they need no machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tilewright as tvm
from tests.auto_scheduler.workloads import same_results
from tilewright import TVMError, auto_scheduler
from tilewright.auto_scheduler import classic_log, feature, measure_record
from tilewright.auto_scheduler.cost_model import PythonBasedModel
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.measure import MeasureErrorNo, ProgramBuilder, ProgramRunner, PythonBasedMeasureCallback
from tilewright.tuning.measure import Builder, Built, Failure, Measured, Run, Runner, Source

TARGET = "llvm -mcpu=x86-64-v3"
MACHINE = auto_scheduler.HardwareParams(num_cores=4, vector_unit_bytes=32)


class Sizes(Builder):
    """The name of a library is the length of its program."""

    def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
        return [Built(folder / f"{i}-{len(str(s.program))}", 0.5) for i, s in enumerate(sources)]


class ByName(Runner):
    """Longer programs are slower. fails: places in a round of those that die."""

    def __init__(self, fails: Sequence[int] = ()) -> None:
        self.fails = fails
        self.references: set[Path | None] = set()

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        found = []
        for run in runs:
            self.references.add(run.reference)
            place, size = run.library.name.split("-")
            died = int(place) in self.fails
            found.append(Measured((), (), Failure.RUN, "died") if died else Measured((int(size) * 1e-6,) * 2))
        return found


class Seen(PythonBasedMeasureCallback):
    def __init__(self) -> None:
        self.rounds: list[int] = []

    def callback(self, policy: Any, inputs: Any, results: Any) -> None:
        self.rounds.append(len(inputs))


def task_of(name: str = "tests.matmul_add", *args: int) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(name, args or (32, 32, 32), target=TARGET, hardware_params=MACHINE)


def options(path: Path, trials: int, fails: Sequence[int] = (), **other: Any) -> auto_scheduler.TuningOptions:
    return auto_scheduler.TuningOptions(
        trials,
        num_measures_per_round=4,
        verbose=0,
        builder=ProgramBuilder(Sizes()),
        runner=ProgramRunner(ByName(fails)),
        measure_callbacks=[auto_scheduler.RecordToFile(str(path))],
        **other,
    )


def policy_of(task: auto_scheduler.SearchTask, model: Any = None, **other: Any) -> auto_scheduler.SketchPolicy:
    small = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1, "sample_init_min_population": 4}
    return auto_scheduler.SketchPolicy(task, model, small, seed=1, **other)


def test_a_task_is_tuned_and_its_best_program_is_used(tmp_path: Path) -> None:
    log, task, seen = tmp_path / "log.json", task_of(), Seen()
    tuning = options(log, 7)
    tuning.measure_callbacks.append(seen)
    task.tune(tuning, policy_of(task))
    assert seen.rounds == [4, 3]
    entries = list(classic_log.entries(log))
    assert len(entries) == 7 and len({str(e.steps) for e in entries}) == 7
    best, result = auto_scheduler.load_best_record(str(log), task.workload_key, TARGET)
    assert best is not None and result is not None
    assert statistics.mean(result.costs) == min(e.seconds for e in entries)
    schedule, args = task.apply_best(str(log))
    state = State(task.compute_dag.state_of(best.state.transform_steps), task.compute_dag)
    assert str(tvm.lower(schedule, args)) == str(tvm.lower(*task.compute_dag.apply_steps_from_state(state)))
    assert task.print_best(str(log)) == task.compute_dag.print_python_code_from_state(state)
    same_results(task.compute_dag, state)


def test_records_have_the_classic_form(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    task.tune(options(log, 2), policy_of(task))
    line = json.loads(log.read_text().splitlines()[0])
    (key, target, hardware, host, layout, names), (stages, steps) = line["i"]
    assert (key, host, layout, names, stages) == ('["tests.matmul_add", 32, 32, 32]', "", 1, [], [])
    assert tvm.target.Target(target) == task.target and hardware == [4, 32, 64, 0, 0, 0, 0, 0]
    assert all([isinstance(step, list) and isinstance(step[0], str) for step in steps])
    costs, error, all_cost, when = line["r"]
    assert len(costs) == 2 and error == 0 and all_cost >= 0.5 and isinstance(when, int) and line["v"] == "v0.6"
    inp, res = next(auto_scheduler.load_records(str(log)))
    assert json.loads(measure_record.dump_record_to_string(inp, res)) == line
    again, _ = measure_record.load_record_from_string(json.dumps(line))
    whole = measure_record.recover_measure_input(again, rebuild_state=True)
    copies = sum([step[0] == "CHR" for step in steps])
    assert whole.state == inp.state and len(whole.state.stages) == 5 + copies


def test_a_record_of_another_program_is_applied() -> None:
    steps = [
        ["SP", 2, 0, 32, [2, 4, 2], 1],
        ["FSP", 4, 0, 0, 2],
        ["CA", 2, 4, 1],
        ["AN", 4, 0, 3],
        ["PR", 2, 0, "auto_unroll_max_step$64"],
    ]
    line = {
        "i": [
            ['["tests.matmul_add", 32, 32, 32]', "llvm -keys=cpu", [8, 64, 64, 0, 0, 0, 0, 0], "", 1, []],
            [[], steps],
        ],
        "r": [[1e-4], 0, 0.1, 1],
    }
    inp, _ = measure_record.load_record_from_string(json.dumps({**line, "v": "v0.6"}))
    whole = measure_record.recover_measure_input(inp, rebuild_state=True)
    assert "parallel i.0 (0,2)" in str(whole.state)
    same_results(whole.task.compute_dag, whole.state)


def test_failures_are_recorded_and_not_used(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    task.tune(options(log, 4, fails=(0, 2)), policy_of(task))
    numbers = [e.error_no for e in classic_log.entries(log)]
    assert numbers == [MeasureErrorNo.RUNTIME_DEVICE, 0, MeasureErrorNo.RUNTIME_DEVICE, 0]
    with pytest.raises(TVMError, match="none of 4 programs"):
        task.tune(options(log, 4, fails=range(4)), policy_of(task))


def test_a_search_goes_on_from_a_log(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of("tests.row_sum", 2, 4)
    preload = auto_scheduler.PreloadMeasuredStates(str(log))
    for _ in range(2):
        task.tune(options(log, 6), policy_of(task, init_search_callbacks=[preload]))
    found = [str(e.steps) for e in classic_log.entries(log)]
    assert len(found) == len(set(found)) == 12


def test_results_are_compared_with_those_of_the_plain_program(tmp_path: Path) -> None:
    task, runner = task_of(), ByName()
    tuning = auto_scheduler.TuningOptions(2, verbose=0, builder=ProgramBuilder(Sizes()), runner=ProgramRunner(runner))
    task.tune(tuning, policy_of(task))
    assert len(runner.references) == 1 and None not in runner.references


def test_it_ends_early(tmp_path: Path) -> None:
    class Same(ByName):
        def run(self, runs: Sequence[Run]) -> list[Measured]:
            return [Measured((1.0,)) for _ in runs]

    log, task = tmp_path / "log.json", task_of()
    tuning = options(log, 100, early_stopping=8)
    tuning.runner = ProgramRunner(Same())
    task.tune(tuning, policy_of(task))
    assert len(log.read_text().splitlines()) == 12


def test_a_users_model_guides_the_search() -> None:
    class Short(PythonBasedModel):
        def __init__(self) -> None:
            self.learned: list[float] = []

        def predict(self, task: Any, states: Sequence[State]) -> list[float]:
            return [-float(len(s.transform_steps)) for s in states]

        def update(self, inputs: Any, results: Any) -> None:
            self.learned += [r.costs[0] for r in results]

    task, model = task_of(), Short()
    policy = policy_of(task, model)
    drawn = policy.sample_initial_population()
    assert len(drawn) == 4
    best = policy.evolutionary_search(drawn, 2)
    assert len(best[0].transform_steps) <= min([len(s.transform_steps) for s in drawn])
    tuning = auto_scheduler.TuningOptions(2, verbose=0, builder=ProgramBuilder(Sizes()), runner=ProgramRunner(ByName()))
    task.tune(tuning, policy)
    assert len(model.learned) == 2


def test_rules_of_users() -> None:
    def meets(policy: Any, state: Any, stage: int) -> int:
        rule = auto_scheduler.PreloadCustomSketchRule
        return rule.APPLY_AND_SKIP_REST if state.stages[stage].op.name == "matmul" else rule.PASS

    def apply(policy: Any, state: Any, stage: int) -> list[Any]:
        made = State(state, policy.search_task.compute_dag)
        made.split(stage, made[stage].iters[2], [None])
        return [[made.state_object, stage - 1]]

    task = task_of()
    rule = auto_scheduler.PreloadCustomSketchRule(meets, apply)
    (sketch,) = policy_of(task, init_search_callbacks=[rule]).generate_sketches()
    assert [step.word for step in sketch.transform_steps] == ["SP"]


def test_the_program_to_which_nothing_is_done(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    task.tune(options(log, 10), auto_scheduler.EmptyPolicy(task))
    (entry,) = classic_log.entries(log)
    assert entry.steps == ()


def test_a_log_with_only_the_best(tmp_path: Path) -> None:
    log, out = tmp_path / "log.json", tmp_path / "best.json"
    for task in (task_of(), task_of("tests.row_sum", 4, 64)):
        task.tune(options(log, 3), policy_of(task))
    log.write_text("# a comment\n" + log.read_text() + '{"i": 1}\n')
    measure_record.distill_record_file(str(log), str(out))
    kept = list(classic_log.entries(out))
    assert [e.workload_key for e in kept] == ['["tests.matmul_add", 32, 32, 32]', '["tests.row_sum", 4, 64]']
    for entry in kept:
        assert entry.seconds == min(
            [e.seconds for e in classic_log.entries(log) if e.workload_key == entry.workload_key]
        )
    with pytest.raises(TVMError, match="over themselves"):
        measure_record.distill_record_file(str(out), str(out))


def test_contexts_answer_with_the_best(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    task.tune(options(log, 3), policy_of(task))
    larger = task_of("tests.matmul_add", 64, 32, 32)

    def query(of: auto_scheduler.SearchTask) -> Any:
        context = auto_scheduler.DispatchContext.current
        assert context is not None
        return context.query(of.target, of.workload_key, True, of.compute_dag, "f")

    best, _ = auto_scheduler.load_best_record(str(log))
    assert best is not None and query(task) is None
    with auto_scheduler.ApplyHistoryBest(str(log)):
        assert query(task).transform_steps == best.state.transform_steps
        assert query(larger) is None
        with auto_scheduler.ApplyHistoryBest(list(auto_scheduler.load_records(str(log))), include_compatible=True):
            assert query(larger).transform_steps == best.state.transform_steps
    assert query(task) is None


def test_what_is_refused(tmp_path: Path) -> None:
    task = task_of()
    with pytest.raises(TVMError, match="needs a function"):
        auto_scheduler.SearchTask(target=TARGET)
    with pytest.raises(TVMError, match="sketches are for CPUs"):
        auto_scheduler.SearchTask("tests.matmul", (4, 4, 4), target="cuda")
    with pytest.raises(TVMError, match="no parameter steps"):
        auto_scheduler.SketchPolicy(task, params={"steps": 1})
    with pytest.raises(TVMError, match="must be 'local'"):
        auto_scheduler.TuningOptions(1, builder="remote")
    (tmp_path / "log.json").write_text("")
    with pytest.raises(TVMError, match="has no record"):
        task.apply_best(tmp_path / "log.json")
    for bad in (
        "",
        "[]",
        '{"i": [], "r": []}',
        '{"i": [["k", "llvm", [1], "", 0, []], [[], [["XX"]]]], "r": [[1.0], 0, 1, 1]}',
    ):
        with pytest.raises(TVMError):
            measure_record.load_record_from_string(bad)


def test_features_of_programs(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    task.tune(options(log, 4, fails=(1,)), policy_of(task))
    names = feature.get_per_store_feature_names()
    rows, throughputs, numbers = feature.get_per_store_features_from_file(log, 10)
    assert [r.shape[1] for r in rows] == [len(names)] * 4 and all([len(r) >= 2 for r in rows])
    assert max(throughputs) == 1.0 and throughputs[1] == 0.0 and list(numbers) == [0] * 4
    (plain,) = feature.get_per_store_features_from_states([task.compute_dag.get_init_state()], task)
    assert len(plain) == 2 and plain[:, names.index("parallel_count")].max() == 0.0
    fewer = feature.get_per_store_feature_names(2)
    assert len(fewer) < len(names)
    (narrow,) = feature.get_per_store_features_from_states([task.compute_dag.init_state], task, 2)
    assert narrow.shape == (2, len(fewer))


@pytest.mark.slow
def test_trees_learn_from_logs_and_are_saved(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    model = auto_scheduler.XGBModel()
    task.tune(options(log, 16), policy_of(task, model))
    dag = task.compute_dag
    states = [State(dag.state_of(e.steps), dag) for e in classic_log.entries(log)]
    scores = model.predict(task, states)
    parts = model.predict_stages(task, states)
    assert parts[: len(states)] == list(scores)
    left = parts[len(states) :]
    for score in scores:
        count = int(left[0])
        assert count and sum(left[1 : count + 1]) == pytest.approx(score, abs=1e-5)
        left = left[count + 1 :]
    assert not left
    from_log = auto_scheduler.XGBModel()
    before = from_log.predict(task, states)
    from_log.update_from_file(log)
    model.save(tmp_path / "model")
    loaded = auto_scheduler.XGBModel(model_file=tmp_path / "model")
    assert list(from_log.predict(task, states)) == list(scores) == list(loaded.predict(task, states)) != list(before)
    (tmp_path / "model").write_text("nothing")
    with pytest.raises(TVMError, match="no file of a cost model"):
        loaded.load(tmp_path / "model")


def test_load_on_the_machine_does_not_decide(tmp_path: Path) -> None:
    class Loaded(ByName):
        """Everything is slower at each call."""

        load = 1.0

        def run(self, runs: Sequence[Run]) -> list[Measured]:
            self.load *= 3
            besides = super().run([r._replace(library=r.beside) for r in runs if r.beside is not None])
            found = super().run(runs)
            for i, beside in enumerate(besides):
                found[i] = found[i]._replace(beside=tuple([s * self.load for s in beside.seconds]))
            return [m._replace(seconds=tuple([s * self.load for s in m.seconds])) for m in found]

    log, task = tmp_path / "log.json", task_of()
    tuning = options(log, 12)
    tuning.runner = ProgramRunner(Loaded())
    task.tune(tuning, policy_of(task))
    dag = task.compute_dag
    for entry in classic_log.entries(log):
        schedule, args = dag.apply_steps_from_state(dag.state_of(entry.steps))
        size = len(str(tvm.IRModule.from_expr(schedule.to_prim_func(args))))
        # The load of the first round is in all times.
        assert entry.seconds == pytest.approx(size * 3e-6)
