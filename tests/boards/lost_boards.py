"""Boards that lose their power while candidates are measured: the others go on; without any, tuning ends, and its records are kept."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright as tvm
from tests.boards.boards import AARCH64
from tests.boards.farm import Farm, farm, until
from tests.boards.tuning import model_file, sketches, templates, traces
from tests.cli.command import Done, command
from tilewright.tuning.record import Record, load


def lines_of(folder: Path) -> list[str]:
    """The records of a classic interface so far."""
    files = [folder / n for n in ("templates.log", "sketches.json", "database_tuning_record.json")]
    return [line for file in files if file.exists() for line in file.read_text().splitlines()]


def records_of(log: Path) -> list[Record]:
    """What is in a file of records so far."""
    return load(log)[0] if log.exists() else []


@contextlib.contextmanager
def dying(found: Farm, when: Callable[[], bool]) -> Iterator[None]:
    """The first board loses its power once something is so."""

    def kill() -> None:
        until(when)
        found.kill(0)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()


def tune(found: Farm, model: Path, trials: int) -> Done:
    """The command line tunes a model for ARM."""
    where = ("--target", AARCH64.target, "--tracker", f"127.0.0.1:{found.port}", "--key", AARCH64.name)
    return command("tune", model, *where, "--trials", str(trials), "--time", "5m")


def test_a_board_dies_and_another_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, log = model_file(tmp_path), tmp_path / "dense.records"
    with farm(AARCH64) as found:
        (address,) = found.addresses(AARCH64)
        found.start(AARCH64)
        with dying(found, lambda: len(records_of(log)) > 1):
            done = tune(found, model, 24)
    assert done.code == 0, done.err
    assert [r.failure for r in records_of(log)] == [None] * 24
    assert caplog.messages == [f"the board {address} is lost; boards with the key '{AARCH64.name}' that are left: 1"]


def test_the_only_board_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.tuning.running.rpc.COMES_BACK", 2.0)
    model, log = model_file(tmp_path), tmp_path / "dense.records"
    with farm(AARCH64) as found:
        address = found.addresses(AARCH64)[0]
        with dying(found, lambda: len(records_of(log)) > 1):
            done = tune(found, model, 200)
        kept = records_of(log)
        where = f"with the key '{AARCH64.name}' at the tracker 127.0.0.1:{found.port}"
        why = f"there is no board {where} any more (lost: {address}), and none came back in 2 s"
        assert done.code == 1
        assert done.err.splitlines()[-1] == f"error: {why}; {len(kept)} records of this run are kept in {log}"
        assert 1 < len(kept) < 200 and [r.failure for r in kept] == [None] * len(kept)
        found.start(AARCH64)
        done = tune(found, model, 2)
        assert done.code == 0, done.err
        assert len(records_of(log)) == len(kept) + 2


def test_the_tracker_dies(tmp_path: Path) -> None:
    model, log = model_file(tmp_path), tmp_path / "dense.records"
    with farm(AARCH64) as found:
        thread = threading.Thread(target=lambda: (until(lambda: len(records_of(log)) > 1), found.kill_tracker()))
        thread.start()
        done = tune(found, model, 200)
        thread.join()
    kept = len(records_of(log))
    assert done.code == 1 and 1 < kept < 200
    last = done.err.splitlines()[-1]
    assert last.startswith(f"error: the tracker of the boards is lost: cannot connect to 127.0.0.1:{found.port}")
    assert last.endswith(f"; {kept} records of this run are kept in {log}")


@pytest.mark.parametrize("interface", [templates, sketches, traces])
def test_classic_interfaces_end_when_the_only_board_dies(
    interface: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was measured before in their files."""
    monkeypatch.setattr("tilewright.tuning.running.rpc.COMES_BACK", 2.0)
    with farm(AARCH64) as found:
        text = f"there is no board .* any more .lost: {found.addresses(AARCH64)[0]}.*none came back in 2 s"
        with (
            pytest.raises(tvm.TVMError, match=text),
            dying(found, lambda: len(lines_of(tmp_path)) > 1),
        ):
            interface(found, AARCH64, tmp_path, trials=200)
    assert len(lines_of(tmp_path)) > 1
