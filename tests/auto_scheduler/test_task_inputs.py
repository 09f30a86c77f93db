"""Values that tasks are measured with, and parameters that programs copy to layouts of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.auto_scheduler.test_tasks import MACHINE, TARGET, ByName, Sizes
from tilewright import TVMError, auto_scheduler, te
from tilewright.auto_scheduler import LayoutRewriteOption, classic_log, search_task
from tilewright.auto_scheduler.measure import MeasureInput
from tilewright.auto_scheduler.measure_programs import ProgramBuilder, ProgramRunner, packings_of, program_of
from tilewright.auto_scheduler.measurer import ProgramMeasurer
from tilewright.auto_scheduler.task_inputs import TASK_INPUT_CHECK_FUNC_REGISTRY
from tilewright.tuning.measure import Measured, Run


@auto_scheduler.register_workload("tests.gathered")
def gathered(count: int) -> list[te.Tensor]:
    places, data = te.placeholder((count,), "int32", name="places"), te.placeholder((count,), name="data")
    return [places, data, te.compute((count,), lambda i: data[places[i]] + 1.0, name="out")]


class Values(ByName):
    """Notes what parameters hold."""

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        self.seen = [run.signature.values for run in runs]
        return super().run(runs)


def task_with(values: Any, **other: Any) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(
        "tests.gathered", (4,), target=TARGET, hardware_params=MACHINE, task_inputs=values, **other
    )


def tuned(task: auto_scheduler.SearchTask, log: Path) -> Values:
    runner = Values()
    callbacks = [auto_scheduler.RecordToFile(log)]
    options = auto_scheduler.TuningOptions(
        1, verbose=0, builder=ProgramBuilder(Sizes()), runner=ProgramRunner(runner), measure_callbacks=callbacks
    )
    task.tune(options, auto_scheduler.EmptyPolicy(task))
    return runner


def test_programs_are_measured_with_the_values_of_a_task(tmp_path: Path) -> None:
    places = np.array([3, 1, 0, 2], "int32")
    task = task_with({"places": places}, task_inputs_overwrite=True)
    (held,) = tuned(task, tmp_path / "log.json").seen
    assert held[0] == places.tobytes() and len(held) == 3 and len(held[1]) == 16
    (entry,) = classic_log.entries(tmp_path / "log.json")
    assert entry.input_names == ("places",)
    inp, _ = next(auto_scheduler.load_records(tmp_path / "log.json"))
    assert inp.task.task_input_names == ["places"]
    # Values stay, unless they are to be replaced.
    assert task_with({"places": places * 0}).task_input_names == ["places"]
    kept = search_task.get_task_input_buffer(task.workload_key, "places")
    np.testing.assert_array_equal(kept.numpy(), places)


def test_values_are_kept_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.arange(6, dtype="float32").reshape(2, 3)
    search_task.register_task_input_buffer("tests.key", "weights", values, save_to_file=True)
    assert [p.name for p in tmp_path.iterdir()] == ["weights.2_3_float32.npy"]
    search_task.TASK_INPUT_BUFFER_TABLE.pop("tests.key")
    np.testing.assert_array_equal(search_task.get_task_input_buffer("tests.key", "weights").numpy(), values)
    with pytest.raises(TVMError, match="no values are known of the input bias"):
        search_task.get_task_input_buffer("tests.key", "bias")


def test_inputs_by_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_scheduler.task_inputs, "TASK_INPUT_CHECK_FUNC_REGISTRY", {})

    @auto_scheduler.register_task_input_check_func
    def found(args: Any) -> dict[Any, str]:
        return {t: "indices" for t in args if t.dtype == "int32"}

    with pytest.raises(TVMError, match="registered already"):
        auto_scheduler.register_task_input_check_func(found)
    (held,) = tuned(task_with({"indices": np.zeros(4, "int32")}), tmp_path / "log.json").seen
    assert held[0] == bytes(16)
    assert not TASK_INPUT_CHECK_FUNC_REGISTRY


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TVMError, match="has no input rows; it has places, data"):
        tuned(task_with({"rows": np.zeros(4, "int32")}), tmp_path / "log.json")
    with pytest.raises(TVMError, match=r"the input data is float32 of \[4\], but its values are float64 of \[4\]"):
        tuned(task_with({"data": np.zeros(4)}), tmp_path / "log.json")


def test_parameters_of_free_layouts_are_copied_first() -> None:
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 32), name="B")
    k = te.reduce_axis((0, 16), name="k")
    attrs = {"layout_free_placeholders": [b]}
    c = te.compute((8, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs)
    dag = auto_scheduler.ComputeDAG([a, b, c])
    state = dag.get_init_state()
    j0, j1 = state.split(2, state[2].iters[1], [8])
    state.reorder(2, [j0, state[2].iters[0], state[2].iters[3], j1])
    task = auto_scheduler.SearchTask(compute_dag=dag, target=TARGET, hardware_params=MACHINE)
    assert task.layout_rewrite_option == LayoutRewriteOption.INSERT_TRANSFORM_STAGE
    assert "B_layout" in str(program_of(MeasureInput(task, state)))
    plain = auto_scheduler.SearchTask(compute_dag=dag, target=TARGET, layout_rewrite_option=0)
    assert "B_layout" not in str(program_of(MeasureInput(plain, state)))


def test_programs_are_measured_on_packed_parameters() -> None:
    """With REWRITE_FOR_PRE_TRANSFORMED: their results are still compared with those of the plain program, on the same values."""
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 32), name="B")
    k = te.reduce_axis((0, 16), name="k")
    attrs = {"layout_free_placeholders": [b]}
    dag = auto_scheduler.ComputeDAG(
        [a, b, te.compute((8, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs)]
    )
    task = auto_scheduler.SearchTask(compute_dag=dag, target=TARGET, hardware_params=MACHINE, layout_rewrite_option=2)
    states = []
    for width in (8, 4):
        state = dag.get_init_state()
        j0, j1 = state.split(2, state[2].iters[1], [width])
        state.reorder(2, [j0, state[2].iters[0], state[2].iters[3], j1])
        states.append(MeasureInput(task, state))
    assert [packings_of(inp)[0].new[-1].extent for inp in states] == [8, 4]
    assert "(4, 16, 8)" in str(program_of(states[0]))
    measurer = ProgramMeasurer(auto_scheduler.LocalBuilder(), auto_scheduler.LocalRunner(min_repeat_ms=1), verbose=0)
    try:
        # The second one runs beside the first, which takes its parameters in another layout.
        results = [measurer.measure(task, None, [inp])[0] for inp in states]
    finally:
        measurer.builder.close()
        measurer.runner.close()
    assert [r.error_no for r in results] == [0, 0], results
