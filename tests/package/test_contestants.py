"""Contestants of benchmarks do the same work: outputs allocated alike, nothing kept from another version or number of threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers


def test_outputs_of_operators_are_allocated_alike() -> None:
    """Each run of each contestant writes to a tensor that the run before it did not write to, all of one allocator."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    from benchmarks.single_operators.memory_bound import Contest, cases

    contest = Contest(cases()["sum last 4096x37 odd"], 1)
    for name in contest.contestants:
        places = []
        for _ in range(4):
            contest.run(name)
            places.append(contest.outputs[name].data_ptr())
        assert all([a != b for a, b in zip(places, places[1:], strict=False)]), name
    ours, *others = [contest.outputs[name].numpy() for name in contest.contestants]
    for other in others:
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-4)


def test_what_a_peer_compiled_is_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "STORE", tmp_path)

    def place(
        version: str = "1.0", threads: int = 1, precision: str = "float32", rows: int = 1, name: str = "m"
    ) -> Path:
        job = peers.Job(name, tmp_path / "m.onnx", {"x": np.zeros((rows, 3), "float32")}, threads, precision)
        return peers.stored(job, "iree", version, ".vmfb")

    others = [place("1.1"), place(threads=2), place(precision="bfloat16"), place(rows=8), place(name="n")]
    assert len({place(), *others}) == 6 and place() == place()
    assert place().parent == tmp_path / "iree" and place().parent.is_dir()
