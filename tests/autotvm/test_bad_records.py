"""Records that cannot be true, logs that cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.autotvm import templates
from tests.autotvm.test_measure import board
from tests.autotvm.test_tuners import hill, option
from tilewright import autotvm
from tilewright.autotvm import record
from tilewright.autotvm.tuner import GridSearchTuner
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.running import rpc


def pairs(*seconds: float) -> list[record.Pair]:
    task = templates.task(64)
    return [
        (autotvm.MeasureInput(task.target, task, task.config_space.get(i)), templates.result(s, 0, float(i)))
        for i, s in enumerate(seconds)
    ]


def chosen(records: object) -> int:
    task = templates.task(64)
    with autotvm.apply_history_best(records) as context:
        found = [context.query(Target("llvm"), task.workload) for _ in range(2)]
    assert found[0] is found[1]
    return int(found[0].index)


def test_impossible_times_displace_no_good_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = pairs(1e-4, 0.0, -1.0, 1e-10, 2e-9, 9e-5)
    log = tmp_path / "log"
    record.write(log, found)
    assert chosen(str(log)) == 5
    whys = [m.partition("is not used: ")[2] for m in caplog.messages]
    assert whys[:3] == ["-1 s is no time of a call", "0 s is no time of a call", "1e-10 s is less than any call takes"]
    assert whys[3].startswith(
        "2e-09 s for 524288 operations are 2.62e+05 GFLOPS, and machines of the target have at most"
    )
    assert len(whys) == 4
    assert chosen(pairs(float("nan"), 1e-4)) == 1
    record.pick_best(log, tmp_path / "best")
    assert [pair[0].config.index for pair in record.load_from_file(tmp_path / "best")] == [5]
    caplog.clear()
    assert autotvm.apply_history_best(pairs(0.0))._query_inside(Target("llvm"), templates.task(64).workload) is None


def test_a_log_on_a_full_device_ends_tuning_with_its_reason() -> None:
    tuner = GridSearchTuner(templates.task(8))
    with pytest.raises(TVMError, match=r"records cannot be added to the log /dev/full: the disk is full"):
        tuner.tune(8, option(hill)[1], callbacks=[autotvm.callback.log_to_file("/dev/full")])
    assert tuner.best_config is not None and not autotvm.GLOBAL_SCOPE.in_tuning
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "w") as file:
        GridSearchTuner(templates.task(8)).tune(8, option(hill)[1], callbacks=[autotvm.callback.log_to_file(file)])


def test_a_board_that_dies_ends_tuning_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured before is in the log."""
    monkeypatch.setattr(rpc, "COMES_BACK", 1.0)
    log, task = tmp_path / "log", templates.task(16)
    with board() as (tracker, server):
        runner = autotvm.RPCRunner(
            "board", "127.0.0.1", tracker.port, timeout=5, number=1, repeat=1, cooldown_interval=0
        )

        def die(tuner: Any, inputs: Any, results: Any) -> None:
            server.terminate()

        options = autotvm.measure_option(autotvm.LocalBuilder(60, 1), runner)
        with pytest.raises(TVMError, match=r"there is no board .*board"):
            GridSearchTuner(task).tune(8, options, callbacks=[autotvm.callback.log_to_file(log), die])
    (pair,) = record.load_from_file(log)
    assert pair[1].error_no == 0
