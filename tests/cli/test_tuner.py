"""Parts of `tilewright tune`: operators as text, the table, the chart, the page, the ratio of both models, the time that is left."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import command, dense_model
from tests.support.test_workers import until
from tilewright import relay, rpc
from tilewright.cli.bandwidth import Bandwidth
from tilewright.cli.measuring import Contestant
from tilewright.cli.models import compile_model
from tilewright.cli.options import Build, Feed
from tilewright.cli.roofline import Roofline, Work
from tilewright.cli.screen import plain
from tilewright.cli.tuner.beside import measure_beside, ratio_of
from tilewright.cli.tuner.board import Board
from tilewright.cli.tuner.chart import latency_chart
from tilewright.cli.tuner.drawing import boxes, candidates_chart, steps_chart, ticks
from tilewright.cli.tuner.history import Candidate, History, Point
from tilewright.cli.tuner.kernels import Row, kernel_table, letters_needed, shortened, worth_first
from tilewright.cli.tuner.operators import Call, Tensor, module_of, parse
from tilewright.cli.tuner.report import TuningPage
from tilewright.support.errors import RPCError, TVMError
from tilewright.support.pinned import Pinned
from tilewright.target import Target
from tilewright.tuning.allocation import Progress
from tilewright.tuning.session import Limits
from tilewright.tuning.space import Space
from tilewright.tuning.task import Task


def type_of(*texts: str) -> str:
    return str(module_of(texts)["main"].body.checked_type)


def test_operators_are_read() -> None:
    assert parse("relu( conv2d(1x4x8x8:int8, const 4x4x3x3, strides=(2, 2), data_layout=NCHW,auto=true) )") == Call(
        "relu",
        (
            Call(
                "conv2d",
                (Tensor((1, 4, 8, 8), "int8"), Tensor((4, 4, 3, 3), constant=True)),
                {"strides": (2, 2), "data_layout": "NCHW", "auto": True},
            ),
        ),
        {},
    )
    assert parse("add(4, scalar)").args == (Tensor((4,)), Tensor(()))


@pytest.mark.parametrize(
    ("text", "type_text"),
    [
        ("conv2d(1x64x56x56, 64x64x3x3, strides=1, padding=1)", "Tensor[(1, 64, 56, 56), float32]"),
        ("depthwise_conv2d(1x32x8x8, 32x1x3x3, padding=1)", "Tensor[(1, 32, 8, 8), float32]"),
        (
            "depthwise_conv2d(1x8x8x32, 3x3x32x1, data_layout=NHWC, kernel_layout=HWOI)",
            "Tensor[(1, 6, 6, 32), float32]",
        ),
        ("conv2d_transpose(1x64x8x8, 64x32x4x4, strides=2, padding=1)", "Tensor[(1, 32, 16, 16), float32]"),
        ("nn.dense(1x512:bfloat16, 8x512:bfloat16, out_dtype=float32)", "Tensor[(1, 8), float32]"),
        ("matmul(12x8, 8x4)", "Tensor[(12, 4), float32]"),
        ("layer_norm(8x16x32)", "Tensor[(8, 16, 32), float32]"),
        ("softmax(3x4, axis=0)", "Tensor[(3, 4), float32]"),
        ("concatenate(4x4, 4x2, axis=1)", "Tensor[(4, 6), float32]"),
        ("split(4x6, indices_or_sections=2, axis=1)", "(Tensor[(4, 3), float32], Tensor[(4, 3), float32])"),
        ("relu(bias_add(conv2d(1x3x8x8, 4x3x3x3), 4))", "Tensor[(1, 4, 6, 6), float32]"),
    ],
)
def test_operators_have_types(text: str, type_text: str) -> None:
    assert type_of(text) == type_text


def test_weights_are_constants() -> None:
    main = module_of(["dense(1x8, 4x8)", "add(4x4, const 4x4)", "layer_norm(2x8)", "matmul(2x3, 3x2)"])["main"]
    assert [tuple(p.checked_type.concrete_shape) for p in main.params] == [(1, 8), (4, 4), (2, 8), (2, 3), (3, 2)]
    constants = [e for e in relay.analysis.post_order(main.body) if isinstance(e, relay.Constant)]
    assert [c.data.numpy().shape for c in constants] == [(4, 8), (4, 4), (8,), (8,)]
    assert all([np.all(c.data.numpy() > 0) for c in constants])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("conv2d(1x64", "',' or ')' is missing at the end; an operator is NAME(SHAPE, ..., ATTRIBUTE=VALUE, ...), such as conv2d("),
        ("conv2d 1x64", "'(' is missing after conv2d before '1x64'"),
        ("relu(4x4) x", "there is more than an operator before 'x'"),
        ("relu(4*4)", "a shape such as 1x64x56x56, or ATTRIBUTE=VALUE, is missing before '4*4)'"),
        ("softmax(4x4, axis=)", "a value is missing before ')'"),
        ("softmax(axis=1, 4x4)", "arguments stand before attributes, so ATTRIBUTE=VALUE is missing before '4x4)'"),
        ("relu(const relu(4))", "a shape is missing after const before 'relu(4))'"),
        ("", "there is no name of an operator at the end"),
        ("relu(4:float13)", "4:float13 has the element type 'float13', but must have float32, "),
        ("relu(4x0)", "4x0 has no elements"),
        ("convd(1x64)", "there is no operator 'convd'; docs/operators.md lists all; did you mean `conv"),
        ("conv2d(1x4x8x8, 4x4x3x3, stride=2)", "nn.conv2d has no attribute 'stride'; it has strides, padding, "),
        ("conv2d(1x4x8x8)", "nn.conv2d takes data, weight; 1 of its arguments are given"),
        ("conv2d(1x4x8x8, 4x4x3x3, padding=same)", "the attribute padding is declared tuple[int, ...], but 'same' was given"),
        ("conv2d(1x64x8x8, 64x32x3x3)", "the weights' input channels times groups must be the data's channels, but 32 times 1 is not 64"),
        ("layer_norm(2x8, axis=4)", "there is no axis 4 of Tensor[(2, 8), float32]"),
        ("depthwise_conv2d(8, 8)", "the data of a convolution has an axis of channels, but its shape is (8,)"),
    ],
)  # fmt: skip
def test_operators_that_are_refused(text: str, error: str) -> None:
    with pytest.raises(TVMError) as caught:
        module_of([text])
    assert str(caught.value).startswith("--shapes") and error in str(caught.value)


def row(kernel: str, us: float, may_save: float | None = None, best: float | None = None) -> Row:
    return Row(kernel, "1x64x56x56 -> 1x64x56x56", 3, us, us / 100, us / 2, 50.0, may_save, best, 8, 1)


def printed(table: Any, width: int) -> list[str]:
    stream = plain()
    stream.width = width
    with stream.capture() as kept:
        stream.print(table)
    return kept.get().splitlines()


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (200, ["kernel", "shapes", "calls", "us", "share", "% of roofline", "may save", "tried", "tuned us", "ratio"]),
        (90, ["kernel", "us", "share", "% of roofline", "may save", "tuned us", "ratio"]),
        (60, ["kernel", "tuned us", "share", "ratio"]),
        (36, ["kernel", "share", "ratio"]),
    ],
)
def test_narrow_terminals_have_fewer_columns(width: int, columns: list[str]) -> None:
    rows = [row("fused_nn_contrib_conv2d_winograd_NCHWc_nn_relu", 80.0, 0.4, 60.0), row("fused_nn_softmax", 20.0, 0.1)]
    lines = printed(kernel_table(rows, 5, "", width), width)
    assert max([len(line) for line in lines]) <= width
    assert sorted([name.strip() for name in lines[1].strip("┃").split("┃")]) == sorted(columns)
    assert "…" not in "".join(lines) and lines[3].split("│")[1].strip().endswith("nn_relu")


def test_the_table_says_what_it_leaves_out() -> None:
    table = kernel_table([row(f"k{i}", 25.0) for i in range(4)], 3, "m", 200)
    assert table.caption == "and 1 more with 25.0% of the run (--top)"
    assert shortened("fused_nn_contrib_conv2d_NCHWc", 29) == "fused_nn_contrib_conv2d_NCHWc"
    assert shortened("fused_nn_contrib_conv2d_NCHWc", 20) == "conv2d_NCHWc"
    assert shortened("fused_nn_contrib_conv2d_winograd_NCHWc", 20) == "conv2d_w...rad_NCHWc"
    names = ["fused_nn_contrib_conv2d_NCHWc_add_clip", "fused_nn_contrib_depthwise_conv2d_NCHWc_add_clip"]
    assert letters_needed(names) == 24
    assert letters_needed([f"{'x' * 20}_{n}_{'y' * 20}" for n in "ab"]) == 43


def test_what_is_worth_tuning() -> None:
    rows = [row("a", 60.0, 0.31), row("b", 30.0, 0.12), row("c", 10.0, 0.01)]
    assert worth_first(rows) == "worth tuning first: a (at most 31% of the run), b (at most 12% of the run)"
    assert (
        worth_first(rows[2:])
        == "worth tuning: nothing; no kernel is far from the roofline and takes more than 2% of the run"
    )
    assert worth_first([row("a", 1.0)]) is None


POINTS = [Point(0.0, 0, -1, 0.0, 4e-3), Point(10.0, 16, 0, 1e-3, 3e-3), Point(20.0, 32, 1, 1e-3, 1e-3)]


def test_the_chart() -> None:
    assert latency_chart(POINTS, 30, plain=True, height=4) == [
        "4.000 ms |**********",
        "         |         ***********",
        "         |                   *",
        "1.000 ms |                   *",
        "         0 20 s, 32 candidates",
    ]
    drawn = latency_chart(POINTS, 80)
    assert len(drawn) == 8 and drawn[0].startswith("4.000 ms │⠉") and "⣀" not in drawn[0] and max(map(len, drawn)) <= 72
    small = [POINTS[0], POINTS[1]._replace(model_seconds=3.98e-3)]
    assert latency_chart(small, 60, plain=True, height=4)[3].startswith("3.800 ms |")
    assert latency_chart(POINTS, 20) == latency_chart(POINTS[:1], 80) == []


def test_ratios_of_turns() -> None:
    faster = ratio_of([0.8, 0.79, 0.81, 0.8, 0.82, 0.78, 0.8, 1.3])
    assert faster.median == 0.8 and faster.sure_high < 1 and faster.verdict == "the tuned model is 1.25 times as fast"
    same = ratio_of([0.9, 1.1, 0.95, 1.05, 1.0, 1.0, 0.99, 1.2])
    assert same.sure_low < 1 < same.sure_high and same.verdict.startswith("nothing was gained")
    assert ratio_of([1.2] * 9).verdict == "the tuned model is slower: nothing was gained"
    assert "tuned / untuned: 1.200 (half of 9 turns from 1.200 to 1.200)" in ratio_of([1.2] * 9).text


def test_both_models_run_in_turns() -> None:
    calls: list[str] = []
    one, other = [
        Contestant(name, "fp32", [lambda name=name: (calls.append(name), time.sleep(5e-4))])
        for name in ("untuned", "tuned")
    ]  # type: ignore[misc]
    found = measure_beside(one, other, 0.01)
    changes = [b for a, b in zip(calls, calls[1:], strict=False) if a != b]
    # Which begins alternates: two turns of one follow each other.
    assert found.turns >= 7 and found.turns - 2 <= len(changes) <= found.turns + 1


def test_rates_of_the_machine() -> None:
    works = [Work(1e6, 4096.0), Work(0.0, 1e5), Work(0.0, 0.0), Work(1e6, 0.0, ("uint8", "int8", "int32"))]
    roofline = Roofline(works, 1)
    times = [roofline.least_seconds(work) for work in works]
    assert times[2] is None and all([t is not None and 1e-8 < t < 1e-2 for t in (times[0], times[1], times[3])])
    cpu = Target("llvm").cpu
    bandwidth = Bandwidth(2, ("first cache", "second cache"))
    bandwidth.sample()
    assert bandwidth.sizes == {"first cache": cpu.l1_bytes // 2, "second cache": cpu.l2_bytes // 2}
    assert all([samples[0] > 1e8 for samples in bandwidth.samples.values()])


class NoSpace(Space[int]):
    """Of a task that is not measured."""

    def untuned(self) -> Any:
        raise NotImplementedError

    program = draw = neighbour = write = read = untuned  # type: ignore[assignment]


def session() -> History:
    """Two kernels, 32 candidates in 20 seconds."""
    tasks = [Progress(Task(name, f"key of {name}", Target("llvm"), NoSpace()), 2e-3) for name in ("<a>", "b")]
    tasks[0].best = tasks[1].best = [5e-4]
    history = History(tasks, Limits(trials=64, seconds=100.0))
    history.points = POINTS
    history.candidates = [Candidate(10.0, i, i % 2, None if i % 5 == 0 else 1e-3 + i * 1e-5) for i in range(32)]
    return history


def test_the_time_that_is_left() -> None:
    history = session()
    assert history.seconds_left(20.0) == pytest.approx(20.0)
    assert history.seconds_left(90.0) == 0.0 and history.state(90.0).endswith(", the last round")
    assert history.state(20.0) == "32 candidates measured, model 1.000 ms (0.250 of untuned), at most 20 s left"
    history.limits = Limits(seconds=100.0)
    assert history.seconds_left(30.0) == pytest.approx(70.0)
    history.limits = Limits()
    assert history.seconds_left(30.0) is None
    assert history.counts() == {"key of <a>": (16, 4), "key of b": (16, 3)}


class Links(HTMLParser):
    """Tags that are open, and what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "input", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] == [tag]:
            self.open.pop()
        elif tag not in ("line", "circle", "rect", "path"):
            raise AssertionError(f"</{tag}> ends {self.open[-1:]}")


def test_the_page_is_whole_and_loads_nothing() -> None:
    rows = [row("<a>", 2000.0, 0.3, 500.0), row("b", 2000.0)]
    latencies = [
        {"contestant": name, "p5": 1.0 * k, "p25": 1.1 * k, "median": 1.2 * k, "p75": 1.3 * k, "p95": 9.0 * k}
        for name, k in (("untuned", 1.0), ("tuned", 0.5))
    ]
    page = TuningPage(
        "of m & n", ["target llvm"], ["tilewright compile m"], latencies, ratio_of([0.5] * 8), ["m.so: ..."]
    )
    text = page.render(session(), rows, running=False)
    links = Links()
    links.feed(text)
    assert not [tag for tag in links.open if tag not in ("line", "circle", "rect", "path")] and not links.loaded
    assert "of m &amp; n" in text and "&lt;a&gt;" in text and "<a>" not in text and "{{" not in text
    assert "the tuned model is 2.00 times as fast" in text and "http-equiv" not in text
    assert 'http-equiv="refresh"' in page.render(session(), rows, running=True)


def test_drawings() -> None:
    assert ticks(0.0, 10.0) == [0, 2, 4, 6, 8, 10]
    assert ticks(0.93, 1.07) == pytest.approx([0.95, 1.0, 1.05])
    drawn = steps_chart([(0.0, 4.0), (5.0, 2.0)], 4.0, lambda x: f"{x:g}")
    tree = ElementTree.fromstring(drawn)
    (path,) = [e for e in tree if e.get("class") == "best"]
    assert path.get("d", "").count("V") == 1
    assert steps_chart([], 1.0, str) == "<p>Nothing was measured yet.</p>"
    made = ElementTree.fromstring(candidates_chart([Candidate(1.0, 1, 0, 2e-3), Candidate(1.0, 2, 0, None)], 4e-3))
    assert [e.get("class") for e in made if e.tag != "title"] == ["dot", "failed", "untuned", "best"]
    assert candidates_chart([], 1.0) == ""
    box = {"contestant": "untuned", "p5": 1.0, "p25": 1.0, "median": 1.0, "p75": 1.0, "p95": 1.0}
    assert len(ElementTree.fromstring(boxes([box, box])).findall("g")) == 2


def test_the_options_of_a_build_as_words() -> None:
    pins, values = [("x", Pinned((1, 3), "int64"))], [("sr", "16000")]
    build = Build(Path("m.onnx"), pins, precision="bf16", values=values, outputs=["a", "b=c"], check_bounds=True)
    assert build.words() == [
        "--precision", "bf16", "--shape", "x=1,3:int64", "--value", "sr=16000", "--outputs", "a,b=c", "--check-bounds",
    ]  # fmt: skip
    assert Build(Path("m.onnx")).words() == []


def test_help_has_the_defaults() -> None:
    text = " ".join(command("tune", "--help").out.split())
    for default in ("[default: 10m]", "[default: no limit]", "operators.records with --shapes]", "[default: 15; x>=1]"):
        assert default in text


def test_both_models_run_on_a_board(tmp_path: Path) -> None:
    """Inputs travel once; the board measures."""
    tracker = rpc.Tracker(port=9190, port_end=9299)
    server = rpc.Server(tracker_addr=("127.0.0.1", tracker.port), key="b")
    library, _ = compile_model(Build(dense_model(tmp_path / "m.onnx")))
    board = Board(("127.0.0.1", tracker.port), "b")
    try:
        with board.contestants({"untuned": library, "tuned": library}, "fp32", Feed()) as (untuned, tuned):
            found = measure_beside(untuned, tuned, 0.1)
            assert [c.name for c in (untuned, tuned)] == ["untuned", "tuned"]
            assert all([c.seconds > 0 and len(c.milliseconds) >= found.turns for c in (untuned, tuned)])
            assert 0.01 < found.median < 100
        server.terminate()
        where = f"with the key 'b' at the tracker 127.0.0.1:{tracker.port}"
        assert until(lambda: not rpc.connect_tracker("127.0.0.1", tracker.port).summary()["server_info"])
        with pytest.raises(RPCError, match=f"^there is no board {where}$"), board.contestants({}, "fp32", Feed()):
            pass
    finally:
        server.terminate()
        tracker.terminate()
