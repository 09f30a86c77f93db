"""The benchmark on GPUs, as far as no GPU is needed: cases, their programs beside torch, turns, statistics, tables, refusals."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from benchmarks.gpus import cases, gpu, measuring, programs, references, results, switches
from benchmarks.gpus.cases import Case
from benchmarks.gpus.results import Result
from tests.slow import all_but
from tilewright import relay
from tilewright.contrib import graph_executor

ALL = cases.all_cases()


def test_cases() -> None:
    assert len({c.name for c in ALL}) == len(ALL)
    assert len([c for c in ALL if c.group == "gemm of models"]) == 30
    assert len([c for c in ALL if c.group == "convolution"]) == 23
    assert {(c.kind, c.sizes["batch"]) for c in ALL if c.group == "models"} == {
        (name, batch) for name in ("resnet50", "bert_base", "vit_b16") for batch in (1, 32)
    }
    assert [c.sizes["m"] for c in ALL[:4]] == [4096, 4096, 8192, 8192], "the products that matter most come first"
    assert all([c.operations or c.bytes or c.group == "models" for c in ALL])


def test_work() -> None:
    """The work of ResNet-50's convolutions is known: each layer as often as the network has it is 4.09 G multiply-adds an image."""
    times = [1, 1, 3, 4, 2, 1, 1, 4, 1, 3, 3, 1, 1, 6, 1, 5, 5, 1, 1, 3, 1, 2, 2]
    layers = [c for c in ALL if c.group == "convolution"]
    total = sum([n * c.operations for n, c in zip(times, layers, strict=True)]) / 2 / 32
    assert total == pytest.approx(4.09e9, rel=0.01)
    assert cases.product("gemm", "float16", 4096, 4096, 4096).operations == 2 * 4096**3
    assert cases.by_memory("add", "float16", 1024, passes=3).bytes == 3 * 2048
    assert cases.attention(1, 8, 8, 64, 64, 32, True).operations * 2 == cases.attention(1, 8, 8, 64, 64, 32).operations


def test_switches() -> None:
    found = switches.switches()
    assert {c.label for c in found} == set(switches.SWITCHES)
    assert len({c.name for c in [*ALL, *found]}) == len(ALL) + len(found)
    assert [c.group for c in gpu.all_cases()[-len(found) :]] == [switches.GROUP] * len(found)
    assert gpu.GROUPS[-1] == switches.GROUP
    assert switches.compiled_ahead(found[0], "cuda -arch=sm_80").startswith("TVMError: C.warpgroups: ")


@pytest.mark.parametrize("label", all_but(["warpgroups", "optimised iterators"], switches.SWITCHES))
def test_forms_of_a_switch(label: str) -> None:
    """Each part of a schedule is a decision that its kernel takes, on and off; and the forms differ."""
    case = next(c for c in switches.switches() if c.label == label)
    built = [switches.build(case, "cuda -arch=sm_90a -model=h200", on) for on in (True, False)]
    assert len({str(b.imported_modules[0].get_source()) for b in built}) == 2


SMALL = [
    cases.product("gemm", "float32", 24, 16, 40),
    cases.product("gemm", "float16", 24, 16, 40),
    cases.product("gemm", "float32", 6, 5, 8, 3),
    cases.convolution(3, 8, 4, 7, 2, 2, "float32"),
    cases.convolution(4, 6, 8, 3, 1, 2, "float32"),
    cases.convolution(4, 6, 8, 1, 2, 2, "float32"),
    cases.depthwise(8, 7, 3, 2, 2, "float32"),
    cases.depthwise(8, 6, 5, 1, 2),
    cases.attention(2, 4, 4, 8, 8, 16),
    cases.attention(2, 4, 2, 8, 8, 16, True),
    cases.attention(2, 4, 2, 1, 8, 16),
    *[
        cases.by_memory(kind, dtype, 8, 32)
        for kind in ("softmax", "layer_norm", "rms_norm", "row_sum", "transpose")
        for dtype in ("float16", "float32")
    ],
    *[cases.by_memory(kind, "float32", 64) for kind in ("add", "gelu", "relu")],
]


@pytest.mark.parametrize("case", SMALL, ids=[c.name for c in SMALL])
def test_programs_compute_what_torch_computes(case: Case) -> None:
    import torch

    weights, random = programs.weights_of(case), np.random.default_rng(1)
    given = {
        name: weights.get(name, random.standard_normal(shape).astype(case.dtype))
        for name, shape in programs.inputs(case).items()
    }
    tensors = {name: torch.from_numpy(value) for name, value in given.items()}
    expected = references.comparable(case, references.reference(case, tensors)())
    library = relay.build(programs.program(case, weights), target="llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(**{name: value for name, value in given.items() if not name.startswith("w")})
    ours = torch.from_numpy(executor.get_output(0).numpy())
    assert references.difference(case, ours, expected) == ""
    assert "wrong result: differs by" in references.difference(case, ours + 1, expected)
    assert "the result has the shape" in references.difference(
        case, ours[:1, :0] if ours.ndim > 1 else ours[:0], expected
    )


@pytest.mark.parametrize("case", [c for c in ALL if c.group != "models"], ids=lambda c: c.name)
def test_programs_have_types(case: Case) -> None:
    mod = relay.transform.InferType()(programs.program(case, programs.weights_of(case)))
    assert mod["main"].checked_type.ret_type.dtype == case.dtype


@pytest.mark.parametrize("case", [SMALL[1], SMALL[4], SMALL[7], SMALL[-2]], ids=lambda c: c.name)
def test_compiled_for_a_gpu(case: Case) -> None:
    assert programs.compiled_ahead(case, "cuda -arch=sm_90a") == ""
    assert programs.compiled_ahead(case, "cuda -arch=volta").startswith("TVMError: ")


class Calls:
    """A watch whose calls take what they say."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []

    def times(self, run: Callable[[], Any], count: int) -> list[float]:
        name, milliseconds = run()
        self.log.append((name, count))
        return [milliseconds] * count


def test_turns() -> None:
    watch = Calls()
    found = measuring.turns(ALL[0], watch, lambda: ("ours", 2.0), lambda: ("peer", 1.0))
    assert watch.log[:4] == [("ours", 1), ("ours", 1), ("peer", 1), ("peer", 1)]
    assert watch.log[4:] == [("ours", 30), ("peer", 40)] * measuring.ROUNDS
    assert found.ratio == 0.5
    slow = Calls()
    measuring.turns(ALL[0], slow, lambda: ("ours", 5000.0), lambda: ("peer", 1.0))
    assert slow.log[4:] == [("ours", 2), ("peer", 40)], "one turn of ten seconds is enough"


def test_deadline() -> None:
    now = [10.0]
    deadline = measuring.Deadline(5, lambda: now[0])
    assert deadline.left == 5
    now[0] = 100.0
    assert deadline.left == 0


def made(case: Case, ours: float, peer: float) -> Result:
    return Result(case, [[ours, ours], [ours]], [[peer], [peer]])


def test_statistics() -> None:
    disturbed = Result(ALL[0], [[1.0], [8.0], [1.0]], [[2.0], [16.0], [2.0]])
    assert disturbed.ratio == 2.0 and results.median(disturbed.ours) == 1.0
    assert Result(ALL[0], error="no").ratio is None and results.median(()) is None
    assert results.geometric_mean([1, 4]) == pytest.approx(2)


def test_figures_that_are_held_to() -> None:
    mine = [c for c in ALL if c.group == "gemm of models"]
    found = results.held([made(c, 1.0, 0.95) for c in mine], 1e12)
    assert [(h.figure and round(h.figure, 6), h.state, h.measured, h.cases) for h in found] == [(0.95, "met", 30, 30)]
    (open_,) = results.held([made(mine[0], 1.0, 0.95), Result(mine[1], error="no")], 1e12)
    assert (open_.state, open_.measured, open_.cases) == ("open", 1, 2)
    (missed,) = results.held([made(c, 1.0, 0.5) for c in mine], 1e12)
    assert missed.state == "missed"
    (model,) = results.held([made(next(c for c in ALL if c.group == "models"), 1.0, 1.0)], 1e12)
    assert model.required == 1.0 and model.state == "met"
    memory = [cases.by_memory("add", "float16", 1000, passes=3), cases.by_memory("relu", "float16", 1000)]
    (least,) = results.held([made(c, 0.006, 1.0) for c in memory], 1e6)
    assert least.figure == pytest.approx(4000 / 0.000006 / 1e6), "the operator with the least share counts"
    groups = {h.what for h in results.held([Result(c) for c in ALL], 1e12)}
    assert len(groups) == 4 + 4 + 1 + 1 + 6 and all(
        [h.state == "open" for h in results.held([Result(c) for c in ALL], 1e12)]
    )


def test_tables_and_files() -> None:
    found = [made(ALL[0], 1.0, 0.9), Result(ALL[1], error="TVMError: why"), made(cases.memory_bound()[0], 0.2, 0.1)]
    text = "\n".join(results.lines(found, 4e12))
    assert f"{ALL[0].name:58}     1000.0      900.0   0.90" in text and "137.4 TFLOP/s" in text
    assert "TVMError: why" in text and "bandwidth measured: 4000 GB/s" in text
    assert "held to 0.90: met (1 of 1)" in text and "held to 0.90: open (0 of 1)" in text
    saved = json.loads(json.dumps(results.facts(found, {"name": "a GPU"}, 4e12)))
    assert saved["device"] == {"name": "a GPU"} and saved["results"][0]["ratio"] == pytest.approx(0.9)
    again = results.read(saved, ALL)
    assert set(again) == {ALL[0].name, found[2].case.name} and again[ALL[0].name].ratio == pytest.approx(0.9)


def test_outcomes_of_compilations() -> None:
    fine, bad, late = Future[str](), Future[str](), Future[str]()
    fine.set_result("")
    bad.set_exception(RuntimeError("killed"))
    assert [gpu.outcome(f) for f in (fine, bad, late)] == ["", "RuntimeError: killed", "not compiled in time"]


class Cpu:
    """A stand-in for the device: all goes as on a GPU, but for times."""

    place, target, facts, device = "cpu", "llvm", {"name": "a stand-in"}, tvm.cpu()

    def executor(self, library: Any, graph: bool) -> Any:
        return graph_executor.GraphModule(library["default"](self.device))

    def wait(self) -> None: ...

    def bandwidth(self) -> float:
        return 1e9

    def times(self, run: Callable[[], Any], count: int) -> list[float]:
        run()
        return [1.0] * count


def test_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From compilation in processes to the table; then again, with what was measured."""
    wrong = SMALL[0]._replace(dtype="float8", label="of a type that torch lacks")
    path = tmp_path / "gpu.json"
    options = argparse.Namespace(seconds=500.0, resume=None, json=path)
    assert gpu.run([SMALL[1], SMALL[4], SMALL[9], wrong], Cpu(), options) == 0
    table = capsys.readouterr().out
    assert table.count("  1.00 ") == 3 and "held to" in table
    found = json.loads(path.read_text())
    assert [bool(r["error"]) for r in found["results"]] == [False, False, False, True]
    assert [len(r["rounds"]["ours"]) for r in found["results"]] == [measuring.ROUNDS] * 3 + [0]
    again = argparse.Namespace(seconds=1e-9, resume=path, json=path)
    assert gpu.run([SMALL[1], SMALL[4], SMALL[9], SMALL[5]], Cpu(), again) == 0
    last = json.loads(path.read_text())["results"]
    assert [r["ratio"] for r in last[:3]] == [1.0, 1.0, 1.0] and last[3]["error"] == "not compiled in time"


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "missing", lambda: "PyTorch finds no GPU of NVIDIA")
    assert gpu.main(["--json", str(tmp_path / "gpu.json")]) == 1
    assert capsys.readouterr().err == "there is no GPU to measure: PyTorch finds no GPU of NVIDIA\n"
    assert not (tmp_path / "gpu.json").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--groups=nosuch"], "there is no 'nosuch'; there are gemm, memory, convolution, depthwise, attention"),
        (["--seconds=0"], "--seconds takes a positive number, but was given 0"),
    ],
)
def test_bad_options(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.main(options)
    assert text in capsys.readouterr().err
