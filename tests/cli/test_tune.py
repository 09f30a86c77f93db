"""`tilewright tune`: records that builds use, a log that is continued, Ctrl-C, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import command, dense_model
from tilewright.tuning.record import load
from tilewright.tuning.session import Session


def test_a_model_is_tuned_and_goes_on(tmp_path: Path) -> None:
    model, log, library = dense_model(tmp_path / "m.onnx"), tmp_path / "m.records", tmp_path / "m.so"
    first = command("tune", model, "--trials", "4", "--threads", "1", "-o", library, "--json")
    assert first.code == 0, first.err
    facts = json.loads(first.out)
    records, refused = load(log)
    assert facts["measured"] == len(records) == 4 and not refused
    assert facts["ratio"] > 0 and [c["contestant"] for c in facts["milliseconds"]] == ["untuned", "tuned"]
    assert all([k["us"] > 0 and k["calls"] == 1 for k in facts["kernels"]])
    assert command("run", library).code == 0
    second = command("tune", model, "--trials", "2", "--threads", "1", "--log", log)
    assert second.code == 0, second.err
    assert "% of peak" in second.out and f"records: {log}" in second.out
    texts = [json.dumps(r.candidate, sort_keys=True) + r.task for r in load(log)[0]]
    assert len(texts) == len(set(texts)) == 6
    assert command("bench", model, "--records", log, "--no-peer", "--duration", "0.1").code == 0


def test_what_was_measured_before_ctrl_c_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, real, rounds = dense_model(tmp_path / "m.onnx"), Session._measure, []

    def measure(*args: object) -> object:
        rounds.append(args)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "_measure", measure)
    done = command("tune", model, "--time", "60s", "--threads", "1")
    count = len(load(tmp_path / "m.records")[0])
    assert count > 0
    assert done.code == 130
    assert f"interrupted: {count} records are in {tmp_path / 'm.records'}; the same command goes on" in done.err
    assert "milliseconds" not in done.out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--time", "soon"], "'soon' is no duration, such as 90s, 10m or 2h"),
        (["--time", "0s"], "'0s' is no duration"),
        (["--log", "none/x"], "the folder none does not exist"),
        (["--target", "llvm -mtriple=aarch64-linux-gnu"], "give --tracker HOST:PORT and --key of a board"),
        (["--tracker", "farm"], "'farm' is no address HOST:PORT"),
        (["--tracker", "farm:9190"], "--tracker needs --key"),
        (["--tracker", "farm:9190", "--ray", "auto"], "exclude each other"),
    ],
)
def test_bad_input(tmp_path: Path, options: list[str], text: str) -> None:
    done = command("tune", dense_model(tmp_path / "m.onnx"), *options)
    assert done.code != 0 and text in done.err
