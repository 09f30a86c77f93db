"""Logs in the classic format, and what is done with them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.autotvm import templates
from tilewright import autotvm
from tilewright.autotvm import database, record
from tilewright.exec import autotvm_log_editor
from tilewright.support.errors import TVMError

CLASSIC = (
    '{"input": ["llvm -keys=cpu -link-params=0 -target=x86_64-linux-gnu", "dense_nopack.x86", [["TENSOR", [1, 512], "float32"],'
    ' ["TENSOR", [1000, 512], "float32"], null, "float32"], {}], "config": {"index": 2, "code_hash": null, "entity": [["tile_y", "sp",'
    ' [-1, 1]], ["tile_k", "sp", [-1, 4]], ["unroll", "ot", false]]}, "result": [[0.000121, 0.000119], 0, 1.52, 1609459200.5],'
    ' "version": 0.2, "tvm_version": "0.8.dev0"}'
)


def pairs() -> list[record.Pair]:
    task, other = templates.task(32), templates.task(16)
    given = [(task, 3, 0.4, 0), (task, 13, 0.1, 0), (other, 2, 0.3, 0), (other, 4, 0.1, 7), (task, 13, 0.2, 0)]
    return [
        (autotvm.MeasureInput(t.target, t, t.config_space.get(i)), templates.result(seconds, error, float(n)))
        for n, (t, i, seconds, error) in enumerate(given)
    ]


def test_a_line_of_a_classic_log() -> None:
    found = record.decode(CLASSIC)
    assert found is not None
    given, result = found
    assert given.task.workload == (
        "dense_nopack.x86", ("TENSOR", (1, 512), "float32"), ("TENSOR", (1000, 512), "float32"), None, "float32",
    )  # fmt: skip
    assert given.target.attrs["mtriple"] == "x86_64-linux-gnu"
    assert given.config["tile_k"].size == [-1, 4] and given.config["unroll"].val is False and given.config.index == 2
    assert result.costs == (0.000121, 0.000119) and result.error_no == 0 and result.timestamp == 1609459200.5
    written = json.loads(record.encode(given, result))
    classic = json.loads(CLASSIC)
    assert (
        written["config"] == classic["config"] and written["result"] == classic["result"] and written["version"] == 0.2
    )
    assert written["input"][1:] == classic["input"][1:]


def test_what_is_no_record() -> None:
    assert record.decode('{"v": 0.1, "i": []}') is None
    for line, why in [
        ("{", "it is no JSON"),
        ("[1]", "it is no object"),
        ('{"version": 5}', "it has the version 5, but records of AutoTVM have 0.2"),
        ('{"version": 0.2, "input": 1}', "it is no record of AutoTVM"),
    ]:
        with pytest.raises(ValueError, match=why):
            record.decode(line)
    with pytest.raises(ValueError, match="records are written as json, not as 'pickle'"):
        record.decode("", protocol="pickle")


def test_lines_that_are_cut_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log"
    record.write(path, pairs()[:2])
    path.write_bytes(path.read_bytes()[:-30])
    record.write(path, pairs()[2:3])
    found = list(record.load_from_file(path))
    assert [p[0].config.index for p in found] == [3, 2]
    assert [r.message.partition(":")[0] for r in caplog.records] == [f"line 2 of {path} is not used"]
    assert len(list(record.load_from_buffer(io.StringIO(f"# words\n\n{CLASSIC}\n")))) == 1


def test_failed_measurements_have_no_costs() -> None:
    failed = autotvm.MeasureResult(("TVMError: no",), autotvm.MeasureErrorNo.COMPILE_HOST, 0.5, 1.0)
    found = record.decode(record.encode(pairs()[0][0], failed))
    assert found is not None
    assert found[1].costs == (1e9,) and found[1].error_no == autotvm.MeasureErrorNo.COMPILE_HOST
    assert repr(found[1]).startswith("MeasureResult(costs=(1000000000.0,), error_no=2, all_cost=0.5")


def test_the_fastest_and_the_workloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, best = tmp_path / "log", tmp_path / "best.log"
    record.write(path, pairs())
    record.pick_best(path, best)
    assert [(p[0].task.args, p[0].config.index) for p in record.load_from_file(best)] == [((32,), 13), ((16,), 2)]
    buffer = io.StringIO()
    record.pick_best(path, buffer)
    assert buffer.getvalue() == best.read_text()
    record.split_workload(path)
    assert [len(list(record.load_from_file(tmp_path / f"{i:03d}.log"))) for i in range(2)] == [2, 1]
    record.split_workload(path, clean=False)
    assert [len(list(record.load_from_file(tmp_path / f"{i:03d}.log"))) for i in range(2)] == [3, 2]
    assert record.main(["--i", str(path), "--end", "1"]) == 0
    assert "test/matmul" in capsys.readouterr().out
    assert record.main(["--i", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


def test_log_editor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i, pair in enumerate(pairs()):
        record.write(tmp_path / "logs" / f"{i}.log", [pair])
    out = tmp_path / "best"
    assert autotvm_log_editor.main(["--act", "pick-best", "--i", str(tmp_path / "logs"), "--o", str(out)]) == 0
    assert [p[0].config.index for p in record.load_from_file(out)] == [13, 2]
    assert autotvm_log_editor.main(["--act", "pick-best", "--i", str(tmp_path / "logs" / "0.log")]) == 0
    assert len((tmp_path / "logs" / "0.log.best.log").read_text().splitlines()) == 1
    assert autotvm_log_editor.main(["--act", "pick-best", "--i", str(tmp_path / "no" / "*")]) == 1
    assert "there are no logs" in capsys.readouterr().err


def test_keys_and_database() -> None:
    (first, result), (second, _), *_ = pairs()
    assert record.measure_str_key(first) != record.measure_str_key(second)
    assert record.measure_str_key(first, False) == record.measure_str_key(second, False)
    db = database.DummyDatabase()
    assert db.load(first) is None
    db.save(first, result)
    db.save(first, templates.result(0.5, timestamp=9.0), extend=True)
    assert db.load(first).costs == (0.5,) and len(db.load(first, get_all=True)) == 2
    db.save(second, templates.result(0.0, error=7))
    third = pairs()[2][0]
    assert database.filter_inputs(db, [first, second, third]) == [second, third]
    assert database.filter_inputs(db, [first, second, third], retry=False) == [third]
    assert len(db.filter(lambda given, found: found.error_no == 7)) == 1
    db.flush()
    assert db.load(first) is None


class Redis:
    """What is used of the package redis."""

    class StrictRedis(dict[str, str]):
        def __init__(self, **options: object) -> None:
            super().__init__()
            self.options = options

        def set(self, key: str, value: str) -> None:
            self[key] = value

        def keys(self, pattern: str = "*") -> list[str]:  # type: ignore[override]
            return list(self)

        def flushdb(self) -> None:
            self.clear()


def test_a_database_in_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(TVMError, match="needs the package redis"):
        database.RedisDatabase()
    monkeypatch.setitem(sys.modules, "redis", Redis)
    db = database.RedisDatabase(database.RedisDatabase.REDIS_TEST)
    assert db.db.options["db"] == 13
    for given, result in pairs():
        db.save(given, result, extend=True)
    assert db.load(pairs()[1][0]).costs == (0.2,) and len(db.load(pairs()[1][0], get_all=True)) == 2
    assert len(db.filter(lambda _, result: result.error_no == 0)) == 4
    db.flush()
    assert db.load(pairs()[1][0]) is None
