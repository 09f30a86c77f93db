"""`tilewright tune`: records that builds use, operators alone, a log that is continued, pages, Ctrl-C, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import helper

from tests.cli.command import command, dense_model, write_model
from tests.support.test_workers import until
from tilewright import rpc
from tilewright.cli.options import Build
from tilewright.cli.tuner.subject import Subject
from tilewright.tuning.record import load
from tilewright.tuning.running.local import LocalRunner


def test_a_model_is_tuned_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, log, library, page = [tmp_path / name for name in ("m.onnx", "m.records", "m.so", "m.html")]
    monkeypatch.setattr("tilewright.cli.tuner.beside.SECONDS", 0.5)
    dense_model(model)
    first = command("tune", model, "--trials", "4", "--threads", "1", "-o", library, "--html", page, "--json")
    assert first.code == 0, first.err
    facts = json.loads(first.out)
    records, refused = load(log)
    assert facts["measured"] == len(records) == 4 and not refused
    assert all([k["us"] > 0 and k["calls"] == 1 and k["shapes"].count("->") == 1 for k in facts["kernels"]])
    assert all([0 < k["percent_of_roofline"] <= 100 and 0 <= k["may_save"] < k["share"] for k in facts["kernels"]])
    assert sum([k["tried"] for k in facts["kernels"]]) == 4 and facts["history"][-1]["candidates"] == 4
    assert sum([k["share"] for k in facts["kernels"]]) == pytest.approx(1.0)
    if facts["kernels_from_records"]:
        assert facts["ratio"] > 0 and [c["contestant"] for c in facts["milliseconds"]] == ["untuned", "tuned"]
    else:
        assert [r for r in facts["remarks"] if "nothing was gained" in r or "other values tried, " in r]
    assert facts["remarks"][-1].startswith(f"{library}: ")
    assert "worth tuning" in first.err
    assert command("run", library).code == 0
    assert page.read_text().count("<tr><td") == len(facts["kernels"]) and "http-equiv" not in page.read_text()
    second = command("tune", model, "--trials", "2", "--threads", "1", "--log", log)
    assert second.code == 0, second.err
    assert "% of roofline" in second.out and f"records: {log}" in second.out
    texts = [json.dumps(r.candidate, sort_keys=True) + r.task for r in load(log)[0]]
    # What was the fastest is measured again.
    assert len(set(texts)) == 6
    assert command("bench", model, "--records", log, "--no-peer", "--duration", "0.1").code == 0
    # Which record is faster than the untuned kernel is chance here.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("\n".join([json.dumps({**line, "untuned": 1.0} if "task" in line else line) for line in lines]))
    assert command("compile", model, "--records", log, "-o", library).code == 0
    used = len({line["task"] for line in lines if "seconds" in line})
    assert f", {used} of them from records" in command("inspect", library).out


def test_operators_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    described = ("--shapes", "relu(conv2d(1x32x28x28, 32x32x3x3, padding=1))", "--shapes", "softmax(8x128)")
    listed = command("tune", *described, "--list", "--csv")
    assert listed.code == 0, listed.err
    assert listed.out.startswith("kernel,shapes,calls,us,share,least_us,percent_of_roofline,may_save,")
    # Without the copies into the convolution's layout and back.
    kernels = sorted([line.split(",")[0] for line in listed.out.splitlines()[1:]])
    assert len(kernels) == 2 and "conv2d" in kernels[0] and kernels[1] == "fused_nn_softmax"
    assert "fused_nn_softmax,8x128 -> 8x128," in listed.out
    assert not (tmp_path / "operators.records").exists()
    done = command("tune", *described, "--list", "--only", "softmax")
    assert done.code == 0, done.err
    assert "2 operators" in done.out and "fused_nn_softmax" in done.out and "NCHWc" not in done.out
    assert "worth tuning first: fused_nn_softmax (at most " in done.out


def test_operators_have_a_file_of_records() -> None:
    subject = Subject(Build(Path()), ["softmax(8x8)"])
    assert (subject.title, subject.records) == ("softmax(8x8)", Path("operators.records"))
    assert subject.commands(Path("a b")) == ["tilewright compile MODEL --records 'a b' -o model.so"]
    model = Subject(Build(Path("m.onnx"), precision="bf16"))
    assert (model.title, model.records) == ("m.onnx", Path("m.records"))
    assert model.commands(Path("r")) == ["tilewright compile m.onnx --precision bf16 --records r -o m.so"]


@pytest.mark.parametrize("written", [False, True])
def test_what_was_measured_before_ctrl_c_is_kept(
    written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --output the library is made of what there is; without, the command ends at once."""
    model, log, real = dense_model(tmp_path / "m.onnx"), tmp_path / "m.records", LocalRunner.run

    def run(*args: object) -> object:
        if log.exists() and len(load(log)[0]) > 1:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalRunner, "run", run)
    monkeypatch.setattr("tilewright.cli.tuner.command.find_spec", lambda name: None)
    monkeypatch.setattr("tilewright.cli.tuner.beside.SECONDS", 0.2)
    more = ["-o", tmp_path / "m.so"] if written else []
    done = command("tune", model, "--time", "12s", "--threads", "1", "--html", tmp_path / "m.html", *more)
    count = len(load(tmp_path / "m.records")[0])
    assert count > 0
    assert done.code == 130
    assert f"interrupted: {count} records are in {tmp_path / 'm.records'}; the same command goes on" in done.err
    assert "note: without xgboost candidates are chosen by estimates only; pip install 'tilewright[tune]'" in done.err
    assert f"{count} candidates in" in done.out and "still running" not in (tmp_path / "m.html").read_text()
    assert (tmp_path / "m.so").exists() == written
    assert ("m.so: " in done.out or "milliseconds" in done.out) == written


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--time", "soon"], "'soon' is no duration, such as 90s, 10m or 2h"),
        (["--time", "0s"], "'0s' is no duration"),
        (["--log", "none/x"], "the folder none does not exist"),
        (
            ["--resume", "--log", "none"],
            "--resume: there is no file of records none; without --resume a new one is begun",
        ),
        (["--html", "none/x"], "the folder none does not exist"),
        (["-o", "m.zip"], "the suffix is .zip, but must be .so"),
        (["--only", "pool"], "--only pool: no kernel has such a name; the kernels are fused_nn_contrib_dense_pack"),
        (["--target", "llvm -mtriple=aarch64-linux-gnu"], "give --tracker HOST:PORT and --key of a board"),
        (["--tracker", "farm"], "'farm' is no address HOST:PORT"),
        (["--tracker", "farm:9190"], "--tracker needs --key"),
        (["--key", "pi5"], "--key is of the boards of a tracker; give --tracker HOST:PORT, too"),
        (["--tracker", "farm:9190", "--ray", "auto"], "exclude each other"),
        (["--shapes", "softmax(8x8)"], "give a model file, or operators by --shapes; not both"),
    ],
)
def test_bad_input(tmp_path: Path, options: list[str], text: str) -> None:
    done = command("tune", dense_model(tmp_path / "m.onnx"), *options)
    assert done.code != 0 and text in done.err


def test_bad_operators() -> None:
    assert "give a model file, or operators by --shapes" in command("tune").err
    assert "--value is of model files" in command("tune", "--shapes", "softmax(8x8)", "--value", "x=1").err
    assert "such as 64x64x3x3:int8" in command("tune", "--shapes", "softmax(8x8)", "--precision", "int8").err
    assert "there is no operator 'sofmax'" in command("tune", "--shapes", "sofmax(8x8)").err


def test_the_boards_are_asked_before_anything_is_compiled(tmp_path: Path) -> None:
    model, tracker = dense_model(tmp_path / "m.onnx"), rpc.Tracker(port=9190, port_end=9299)
    server = rpc.Server(tracker_addr=("127.0.0.1", tracker.port), key="pi4")
    try:
        boards = rpc.connect_tracker("127.0.0.1", tracker.port)
        until(lambda: boards.summary()["queue_info"].get("pi4", {}).get("free") == 1)
        done = command("tune", model, "--tracker", f"127.0.0.1:{tracker.port}", "--key", "pi5")
    finally:
        server.terminate()
        tracker.terminate()
    where = f"127.0.0.1:{tracker.port}"
    assert done.err == f"error: --key pi5: no board at the tracker {where} has this key; its keys are pi4\n"
    gone = command("tune", model, "--tracker", where, "--key", "pi4")
    assert gone.err.startswith(f"error: --tracker {where}: cannot connect to {where}")
    assert f"`tilewright rpc server --tracker {where} --key pi4` makes a machine one of its boards" in gone.err


def test_models_that_cannot_be_tuned(tmp_path: Path) -> None:
    dynamic = write_model(tmp_path / "d.onnx", [helper.make_node("Softmax", ["x"], ["y"])], {"x": ["batch", 8]}, ["y"])
    done = command("tune", dynamic)
    assert done.err == (
        "error: d.onnx: tune takes models with static dimensions and without control flow, but the model has dynamic dimensions:"
        " x (batch, 8); pin them, such as --shape x=1,8\n"
    )
    done = command("tune", dense_model(tmp_path / "m.onnx"), "--target", "interp")
    assert done.err == "error: m.onnx has no kernels whose schedules could be tuned for interp -keys=cpu\n"
