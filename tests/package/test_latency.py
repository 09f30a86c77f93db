"""The latency benchmark: what rounds come to, its options, workers that take turns, ONNX files as PyTorch modules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import models
from benchmarks.contests import standing
from benchmarks.contests.contest import contest, reason
from benchmarks.peers import PEERS, relative_error
from benchmarks.whole_models import latency


def result(**times: list[list[float]]) -> dict[str, Any]:
    return {"model": "m", "threads": 1, "peers": {peer: {"rounds": rounds} for peer, rounds in times.items()}}


def test_ratios_are_of_rounds_and_to_the_best_peer_of_the_same_precision() -> None:
    # The machine is ten times slower in the second round, for everybody.
    rounds = result(
        tilewright=[[1.0, 1.0], [10.0]],
        onnxruntime=[[2.0, 2.0], [20.0]],
        openvino=[[1.6], [16.0]],
        openvino_bf16=[[0.1], [1.0]],
    )
    row = standing.standing(rounds, list(rounds["peers"]))
    assert row["ratios"] == {
        "tilewright": {"best": "onnxruntime", "ratio": 0.5, "to": {"onnxruntime": 0.5, "openvino": 0.625}}
    }
    assert "| m | 0.50 | 0.62 |" in standing.markdown([row])
    (mean,) = standing.geometric_means([row, row | {"ratios": {"tilewright": {"best": "openvino", "ratio": 2.0}}}])
    assert mean["mean"] == pytest.approx(1.0) and mean["worst"] == 2.0 and mean["models"] == 2


def test_an_earlier_version_is_the_best_peer_only_where_it_is_alone() -> None:
    rounds = result(tilewright=[[1.0]], onnxruntime=[[4.0]], tilewright_before=[[2.0]])
    row = standing.standing(rounds, list(rounds["peers"]))
    assert row["ratios"]["tilewright"] == {
        "best": "onnxruntime", "ratio": 0.25, "to": {"onnxruntime": 0.25, "tilewright_before": 0.5}
    }  # fmt: skip
    row = standing.standing(rounds, ["tilewright", "tilewright_before"])
    assert row["ratios"]["tilewright"]["best"] == "tilewright_before"


def test_an_earlier_version_runs_in_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = PEERS["tilewright_before"]
    monkeypatch.delenv("TILEWRIGHT_BEFORE", raising=False)
    assert before.missing() == "tilewright_before needs TILEWRIGHT_BEFORE=PYTHON, the Python of its environment"
    monkeypatch.setenv("TILEWRIGHT_BEFORE", "/somewhere/python")
    assert before.missing() is None and before.executable() == "/somewhere/python"
    assert PEERS["tilewright"].executable() == sys.executable


def test_a_contestant_that_failed_has_no_ratio() -> None:
    rounds = result(tilewright=[[1.0]], onnxruntime=[[2.0]])
    rounds["peers"]["openvino"] = {"error": "it broke"}
    row = standing.standing(rounds, ["tilewright", "onnxruntime", "openvino"])
    assert row["ratios"]["tilewright"]["to"] == {"onnxruntime": 0.5}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--models", "nosuch"], "there is no model 'nosuch'; there are resnet50, mobilenetv2,"),
        (["--peers", "nosuch"], "there is no peer 'nosuch'; there are tilewright,"),
        (["--threads", "0"], "--threads takes positive numbers with commas between, such as 1,2, but was given '0'"),
        (["--threads", "9999"], "9999 threads were asked for, but this process may use"),
        (["--batch", "-1"], "--batch takes positive numbers"),
        (["--models", "resnet50_b8", "--batch", "1,8"], "model 'resnet50_b8' names its batch already"),
        (["--rounds", "2"], "--rounds must be at least 3"),
        (["--before", "/no/such/python"], "--before takes a Python to run, but '/no/such/python' is none"),
        (["--chart", "/no/such/folder/x.png"], "/no/such/folder is not a folder"),
    ],
)
def test_bad_options_are_refused(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        latency.main([f"{options[0]}={options[1]}", *options[2:]])
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_batches_are_named() -> None:
    assert models.split_batch("resnet50_b8") == ("resnet50", 8)
    assert models.split_batch("resnet50") == ("resnet50", 1)
    assert models.split_batch("vit_b16") == ("vit_b16", 1)
    assert models.batched(["a", "c"], [1, 8]) == ["a", "a_b8", "c", "c_b8"]
    assert models.shapes("light_squeezenet_random_b8") == {"data_0": [8, 3, 224, 224]}
    assert models.shapes("gpt2_decode_b2")["past_value_11"] == [2, 12, 128, 64]


def test_workers_take_turns_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held, chart, out = tmp_path / "held.json", tmp_path / "chart.png", tmp_path / "out.json"
    options = ["--models", "resnet_small", "--threads", "1", "--peers", "tilewright,onnxruntime", "--seconds", "0.1"]
    assert (
        latency.main([*options, "--rounds", "3", "--resume", str(held), "--chart", str(chart), "--json", str(out)]) == 0
    )
    (row,) = json.loads(out.read_text())["models"]
    assert row["peers"]["tilewright"]["difference"] < 1e-4
    assert row["peers"]["onnxruntime"]["running_mb"] > 20 and row["ratios"]["tilewright"]["best"] == "onnxruntime"
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert "geometric mean" in capsys.readouterr().out
    # A second run has nothing left to measure; a longer one adds rounds.
    before = held.read_text()
    assert latency.main([*options, "--rounds", "3", "--resume", str(held)]) == 0
    assert held.read_text() == before


def test_a_contestant_that_cannot_run_is_told_of() -> None:
    peers = dict(PEERS)
    try:
        PEERS["broken"] = peers["iree"]._replace(name="broken", module="nosuch")
        found = contest("resnet_small", 1, ["broken"], 0.1, 3)
    finally:
        PEERS.pop("broken")
    assert "invalid choice: 'broken'" in found["peers"]["broken"]["error"]


def test_the_reason_of_a_failure_is_its_last_error() -> None:
    told = "Traceback\n  line\nKeyError: 'a'\ntorch.BackendFailed: raised:\nRuntimeError: expected bias of 1\n  at line\nSee the log\n"
    assert reason(told) == "RuntimeError: expected bias of 1"
    assert reason("no traceback\nKilled\n") == "Killed" and reason("\n") == ""


@pytest.mark.parametrize(
    "name", ["ppocr_cls", pytest.param("ppocr_det", marks=pytest.mark.slow), "light_squeezenet_random"]
)
def test_files_as_torch_modules(name: str) -> None:
    import onnxruntime
    import torch

    from benchmarks.peers.onnx_torch import as_module

    path, inputs = models.make(name), models.inputs(name)
    module, names = as_module(path, inputs)
    with torch.no_grad():
        mine = [o.numpy() for o in module(*[torch.from_numpy(inputs[n]) for n in names])]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert relative_error(mine, [np.asarray(o) for o in session.run(None, inputs)]) < 1e-4
