"""Figures that would mislead: denormals that depart, samples of a disturbed machine."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.cli.command import command, dense_model
from tilewright.cli import measuring
from tilewright.cli.comparing import Difference
from tilewright.cli.measuring import Contestant, disturbance
from tilewright.cli.peers import bound


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_differences_of_denormals_are_no_departure(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    smallest = ml_dtypes.finfo(kind).smallest_normal
    reference = np.array([smallest / 2, smallest / 4, 0, smallest], kind)
    flushed = np.array([0, 0, 0, smallest], kind)
    assert Difference("d", "", flushed, reference).error == 0
    assert not Difference("d", "", flushed[:3], reference[:3]).differs(1e-3)
    wrong = np.array([0, 0, 0, 4 * smallest], kind)
    assert Difference("d", "", wrong, reference).differs(1e-3)


def test_differences_of_whole_numbers_count() -> None:
    assert Difference("d", "", np.array([1, 2]), np.array([1, 3])).differs(1e-3)


def contestant(name: str, milliseconds: list[float]) -> Contestant:
    made = Contestant(name, "fp32", [lambda: None])
    made.milliseconds, made.seconds = milliseconds, 1.0
    return made


def test_samples_of_a_disturbed_machine() -> None:
    quiet = contestant("Tilewright", [1.0] * 90 + [1.9] * 10).row()
    spread = contestant("ONNX Runtime", [1.0] * 90 + [3.1] * 10).row()
    assert (quiet["disturbed"], spread["disturbed"]) == (False, True)
    assert disturbance([quiet]) is None
    assert disturbance([quiet, spread]) == (
        "the machine was disturbed: p95 over p5 is more than 2 (ONNX Runtime 3.1), so the times include other work."
        " Measure again when it is idle, longer (--duration), or on reserved CPUs (taskset -c 0,1)"
    )


def test_bench_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = dense_model(tmp_path / "m.onnx")
    for spread, said in ((0.0, True), (1e9, False)):
        monkeypatch.setattr(measuring, "SPREAD", spread)
        done = command("bench", model, "--no-peer", "--iterations", "10", "--json")
        assert done.code == 0 and json.loads(done.out)["milliseconds"][0]["disturbed"] is said
        assert ("warning: the machine was disturbed: p95 over p5" in done.err) is said


def test_onnx_runtime_writes_to_the_same_memory_as_ours_does(tmp_path: Path) -> None:
    """An executor's outputs are a part of it; ONNX Runtime would make new ones for each run."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(dense_model(tmp_path / "m.onnx")), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    inputs = {given.name: np.ones(given.shape, "float32")}
    binding = bound(session, inputs, fixed=True)
    (first,) = binding.get_outputs()
    value, place = first.numpy().copy(), first.data_ptr()
    inputs[given.name][:] = 2
    for _ in range(3):
        session.run_with_iobinding(binding)
        (made,) = binding.get_outputs()
        assert made.data_ptr() == place
    assert (made.numpy() != value).any()
