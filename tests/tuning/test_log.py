"""Logs: lines that are cut, written at once by several processes, or cannot be written."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION
from tilewright.tuning import log
from tilewright.tuning.measure import Failure
from tilewright.tuning.record import Record, best, load


def line(**changes: object) -> dict[str, object]:
    return {**Record("k", "dense", "llvm", {"tile": [6, 2]}, (2.0, 1.0, 3.0), untuned=4.0).to_json(), **changes}


def test_a_record_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    good = Record("k", "dense", "llvm", {"tile": [6, 2]}, (2.0, 1.0, 3.0), untuned=4.0)
    bad = Record("k", "dense", "llvm", {"tile": [9, 9]}, failure=Failure.BUILD, message="too large")
    log.append(path, [good.to_json()])
    log.append(path, [bad.to_json()])
    assert load(path) == ([good, bad], [])
    assert (good.median, bad.median) == (2.0, float("inf"))
    assert best([bad, good]) == {("k", "llvm"): good}


def test_a_line_that_was_cut_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    log.append(path, [line(), line(name="cut")])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    log.append(path, [line(name="next")])
    records, refused = load(path)
    assert [r.name for r in records] == ["dense", "next"]
    assert [r.number for r in refused] == [2] and "no JSON" in refused[0].why


def test_a_line_of_brackets_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    log.append(path, [line(), line()])
    path.write_bytes(b"[" * 100000 + b"\n" + b'{"a":' * 100000 + b"\n" + path.read_bytes())
    records, refused = load(path)
    assert len(records) == 2 and [r.number for r in refused] == [1, 2]
    assert {r.why for r in refused} == {"it is no record: its brackets are nested too deep"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
def test_devices_hold_no_records() -> None:
    """Reading /dev/full never ends."""
    assert load("/dev/full") == load("/dev/null") == ([], [])
    with pytest.raises(TVMError, match="^records cannot be added to the log /dev/full: the disk is full$"):
        log.append("/dev/full", [line()])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"version": "0.0.1"},
            f"it was written by version 0.0.1, and this is {VERSION}: candidates may have other meanings",
        ),
        ({"target": 3}, "its field 'target' is missing, or is no text"),
        ({"seconds": [1.0, -1.0]}, "its field 'seconds' is no list of positive numbers"),
        ({"seconds": []}, "it needs either 'seconds', a list of positive numbers, or 'failure'"),
        ({"failure": "run"}, "it needs either 'seconds', a list of positive numbers, or 'failure'"),
        (
            {"failure": "lazy", "seconds": []},
            "its failure 'lazy' is none of refused, build, build timeout, run, run timeout, wrong, lost",
        ),
        ({"untuned": True}, "its field 'untuned' is no positive number"),
        ({"time": "now"}, "its field 'time' is no number"),
    ],
)
def test_lines_are_refused_one_by_one(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    path = tmp_path / "log.json"
    path.write_text("\n".join([json.dumps(line()), "[1]", json.dumps(line(**changes)), ""]))
    records, refused = load(path)
    assert len(records) == 1
    assert [(r.number, r.why) for r in refused] == [(2, "it is a list, not an object"), (3, why)]


def write_many(path: Path, name: str) -> None:
    for i in range(50):
        log.append(path, [line(name=f"{name}{i}-{j}", message="x" * 5000) for j in range(3)])


def test_processes_write_one_log(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    writers = [multiprocessing.get_context("fork").Process(target=write_many, args=(path, n)) for n in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    records, refused = load(path)
    assert not refused
    assert sorted(r.name for r in records) == sorted(f"{n}{i}-{j}" for n in "abc" for i in range(50) for j in range(3))


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TVMError, match=f"^records cannot be added to the log {tmp_path}: Is a directory$"):
        log.append(tmp_path, [line()])
    if os.path.exists("/dev/full"):
        with pytest.raises(TVMError, match=r"the disk is full$"):
            log.append("/dev/full", [line()])
    with pytest.raises(TVMError, match=r"the log .*/none cannot be read: No such file"):
        load(tmp_path / "none")
