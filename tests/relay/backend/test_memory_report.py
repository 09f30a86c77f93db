"""The memory report: totals, the peak and what fills it; and its part in the report of a compilation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from benchmarks.whole_models import memory
from tests.ir.test_html_report import Page
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.instrument import HtmlReport
from tilewright.relay.backend.compilation import plan_memory


def model() -> IRModule:
    """Two sorts of 4 KB live while the wide one of 16 KB is made; the last writes the output."""
    x = relay.var("x", shape=(32, 32))
    a = relay.sort(x, axis=1)
    wide = relay.sort(relay.concatenate([a, a, a, a], axis=0), axis=1)
    return IRModule.from_expr(relay.Function([x], relay.sort(a, axis=0) + relay.sum(wide, axis=[0])))


def test_totals_and_peak() -> None:
    report = plan_memory(model(), "llvm")
    assert report.peak_bytes == max(report.live) <= report.arena_bytes <= report.unshared_bytes
    assert report.input_bytes == report.output_bytes == 4096
    assert sum([a.bytes for a in report.at_peak]) == report.peak_bytes
    assert report.at_peak[0].bytes == 4 * 4096
    assert report.at_peak[0].tensors == ["Tensor[(128, 32), float32]"]
    assert report.kernels[report.peak_call] == report.peak_kernel
    values = report.to_dict()
    assert values["peak_of_activations"] == report.peak_bytes
    assert [row["bytes"] for row in values["at_peak"]] == [a.bytes for a in report.at_peak]


def test_text() -> None:
    text = str(plan_memory(model(), "llvm"))
    assert text.startswith("activations (arena) ")
    assert "Tensor[(128, 32), float32]" in text
    assert "the peak is at call " in text


def test_a_model_without_activations() -> None:
    x = relay.var("x", shape=(4,))
    report = plan_memory(IRModule.from_expr(relay.tanh(x)), "llvm")
    assert (report.arena_bytes, report.at_peak) == (0, [])
    assert str(report).startswith("activations (arena)                0 bytes\n")
    assert "<svg" not in report.to_html()


def test_a_report_of_a_whole_build(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 8))
    w = relay.const(np.ones((16, 8), "float32"))
    mod = IRModule.from_expr(relay.nn.softmax(relay.nn.dense(x, w)))
    for _ in range(2):  # the second time the cache holds the kernels
        with tvm.transform.PassContext(opt_level=3, instruments=[HtmlReport(tmp_path / "r.html")]):
            library = relay.build(mod, target="llvm")
        page = Page(tmp_path / "r.html")
        names = [n for _, n, _, _ in page.passes]
        assert names[0] == "relay.build"
        assert (
            names.index("FuseOps")
            < names.index("schedule_kernel")
            < names.index("tir.lower")
            < names.index("tir.VectorizeLoop")
        )
        assert {c.kernel.name for c in library.plan.calls} <= set(page.functions)
        assert "memory" in page.ids
        assert {href[1:] for href in page.links} <= set(page.ids)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert_base"])
def test_activations_take_no_more_than_onnx_runtime_plans(name: str) -> None:
    assert memory.ours(name)["arena"] <= (memory.onnxruntime_arena(name)["planned"] or 0)


def test_the_log_of_the_arena_is_read() -> None:
    grow = "bfc_arena.cc:335 AllocateRawInternal] Extending BFCArena for Cpu. bin_num:1 (requested) num_bytes: {} (actual)\n"
    runs = [
        grow.format(100) + "Extended allocation by 128 bytes.\n",
        "",
        "Extended allocation by 256 bytes.\n",
        "",
        grow.format(300),
    ]
    log = "Reserving memory in BFCArena for Cpu size: 16\n" + "".join([f"== run\n{run}" for run in runs])
    assert memory.read_arena(log) == {"planned": 300, "arena": 384}
    assert memory.read_arena(log.removesuffix(runs[-1])) == {"planned": None, "arena": 384}


def test_a_report_of_the_virtual_machine(tmp_path: Path) -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    w = relay.const(np.ones((16, 8), "float32"))
    mod = IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, w))))
    with tvm.transform.PassContext(opt_level=3, instruments=[HtmlReport(tmp_path / "r.html")]):
        relay.vm.compile(mod, target="llvm")
    names = [n for _, n, _, _ in Page(tmp_path / "r.html").passes]
    assert "LambdaLift" in names and "FuseOps" in names and "tir.lower" in names
