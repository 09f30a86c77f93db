"""LiteRT as the reference of `tilewright compare`: every operator has its counterpart, and a process that ends ends only its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.ops.samples import F, rng, values
from tests.frontend.tflite.ops.writer import Writer
from tilewright.cli.comparing import Difference, compare_models
from tilewright.cli.options import Build, Feed
from tilewright.relay.frontend.tflite import litert
from tilewright.support.errors import TVMError


def square_network(path: Path) -> Path:
    """Two convolutions whose images have as many rows as channels: laid out otherwise, they have the same shape."""
    w, r = Writer(1), rng("square")
    g = w.main
    x = g.input(F, (1, 4, 4, 4), name="image")
    options = {"stride_w": 1, "stride_h": 1}
    for k in range(2):
        kernel, bias = (
            g.constant(values(r, F, (4, 3, 3, 4)), name=f"k{k}"),
            g.constant(values(r, F, (4,)), name=f"b{k}"),
        )
        (x,) = g.op("CONV_2D", [x, kernel, bias], [(F, (1, 4, 4, 4))], options, "Conv2DOptions")
    path.write_bytes(w.finish([x]))
    return path


def compared(path: Path) -> Any:
    return compare_models(Build(path), Feed(), "tflite")


def test_every_operator_is_compared_in_its_own_layout(tmp_path: Path) -> None:
    found = compared(square_network(tmp_path / "m.tflite"))
    assert (len(found.layers), found.unmatched, found.first) == (2, 0, None)
    assert max([d.error for d in found.layers]) < 1e-5


def test_kernels_that_end_their_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = subprocess.run, []

    def ending(command: list[str], **options: Any) -> Any:
        asked.append(command[-1])
        if command[-1] == litert.REFERENCE:
            return subprocess.CompletedProcess(command, -6, "", "")
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", ending)
    found = compared(square_network(tmp_path / "m.tflite"))
    assert found.against == "LiteRT's faster kernels (its reference kernels do not run this model)"
    assert max([d.error for d in found.outputs]) < 1e-5 and set(asked) == {litert.REFERENCE, litert.FASTER}


def test_operators_that_the_reference_kernels_lack(tmp_path: Path) -> None:
    w = Writer(1)
    x = w.main.input(F, (3,), name="x")
    (tmp_path / "m.tflite").write_bytes(w.finish(w.main.op("ELU", [x], [(F, (3,))])))
    assert compared(tmp_path / "m.tflite").outputs[0].error < 1e-6


def test_models_that_litert_refuses(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    with pytest.raises(TVMError, match="m.tflite: LiteRT does not run it: "):
        litert.answers(str(path), {}, [])


def test_bytes_are_measured_by_their_range() -> None:
    one = Difference("x", "ADD", np.array([3, 4], np.int8), np.array([3, 5], np.int8))
    assert one.error == pytest.approx(1 / 255) and one.differs(1e-3)
    assert not Difference("x", "ADD", np.array([3, 4], np.int8), np.array([3, 5], np.int8), rounding=0.05).differs(1e-3)
    floats = Difference("x", "ADD", np.array([1.0], np.float32), np.array([1.01], np.float32), rounding=0.05)
    assert floats.differs(1e-3)
