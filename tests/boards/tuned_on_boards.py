"""Tuning for boards, from here: the command line, AutoTVM, auto_scheduler and meta_schedule measure by RPC on ARM and RISC-V.

Boards are emulated, so times mean nothing. What is checked: records name the board's target, builds use them, and what is built with them
computes on the board what the untuned model does there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.boards.boards import AARCH64, ARM, RISCV, Board, tilewright
from tests.boards.farm import Farm, farm
from tests.boards.tuning import DATA, WEIGHT, built, model_file, sketches, templates, traces
from tilewright.contrib import graph_executor
from tilewright.target import Target
from tilewright.tuning.record import load

TRIALS = 4


@pytest.fixture(scope="module", params=[AARCH64, ARM, RISCV], ids=lambda board: board.name)
def board(request: pytest.FixtureRequest) -> Board:
    found: Board = request.param
    return found


@pytest.fixture(scope="module")
def boards(board: Board) -> Iterator[Farm]:
    with farm(board) as found:
        yield found


def outputs(boards: Farm, board: Board, library: Path) -> np.ndarray:
    """What a library computes on a board."""
    remote = boards.session(board)
    remote.upload(library)
    executor = graph_executor.GraphModule(remote.load_module(library.name)["default"](remote.cpu()))
    executor.set_input("data", DATA)
    executor.run()
    found: np.ndarray = executor.get_output(0).numpy()
    return found


def check(boards: Farm, board: Board, plain: Path, tuned: Path) -> None:
    """Both compute the same on the board."""
    untuned = outputs(boards, board, plain)
    np.testing.assert_allclose(untuned, np.maximum(DATA @ WEIGHT.T, 0), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(outputs(boards, board, tuned), untuned, rtol=2e-4, atol=2e-5)


def compiled(model: Path, board: Board, output: Path, *options: str | Path) -> dict[str, Any]:
    """Compiles a model for a board. What `tilewright inspect` says of it."""
    done = tilewright("compile", model, "--target", board.target, "-o", output, *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(tilewright("inspect", output, "--json").stdout)
    return found


def test_the_command_line(boards: Farm, board: Board, tmp_path: Path) -> None:
    model, log = model_file(tmp_path), tmp_path / "dense.records"
    where = ("--target", board.target, "--tracker", f"127.0.0.1:{boards.port}", "--key", board.name)
    done = tilewright("tune", model, *where, "--trials", str(TRIALS), "--json")
    assert done.returncode == 0, done.stderr
    facts, (records, refused) = json.loads(done.stdout), load(log)
    assert facts["measured"] == len(records) == TRIALS and not facts["failed"] and not refused
    assert {r.target for r in records} == {Target(board.target).text_for_all}
    # Whether a candidate is faster than the untuned kernel is chance here.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "task" in line:
            line["seconds"] = [s / 100 for s in line["seconds"]]
    log.write_text("".join([json.dumps(line) + "\n" for line in lines]))
    plain, tuned = tmp_path / "plain.so", tmp_path / "tuned.so"
    assert compiled(model, board, plain)["kernels_from_records"] == 0
    assert compiled(model, board, tuned, "--records", log)["kernels_from_records"] == 1
    check(boards, board, plain, tuned)
    # The board compares both in the end.
    done = tilewright("tune", model, *where, "--trials", "1", "-o", tuned, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["kernels_from_records"] == 1 and [c["contestant"] for c in facts["milliseconds"]] == [
        "untuned",
        "tuned",
    ]


def test_an_operator(boards: Farm, board: Board, tmp_path: Path) -> None:
    log = tmp_path / "softmax.records"
    where = ("--target", board.target, "--tracker", f"127.0.0.1:{boards.port}", "--key", board.name)
    done = tilewright("tune", "--shapes", "softmax(8x128)", *where, "--trials", str(TRIALS), "--log", log)
    assert done.returncode == 0, done.stderr
    assert {r.target for r in load(log)[0]} == {Target(board.target).text_for_all}


@pytest.mark.parametrize("interface", [templates, sketches, traces])
def test_classic_interfaces(interface: Callable[..., Any], boards: Farm, board: Board, tmp_path: Path) -> None:
    tuned, plain = interface(boards, board, tmp_path, TRIALS), built(Target(board.target))
    # The hash is that of the scheduled kernel.
    assert [k["hash"] for k in tuned.metadata["kernels"]] != [k["hash"] for k in plain.metadata["kernels"]]
    plain.export_library(str(tmp_path / "plain.so"))
    tuned.export_library(str(tmp_path / "tuned.so"))
    check(boards, board, tmp_path / "plain.so", tmp_path / "tuned.so")
