"""Models whose inputs and outputs are strings: `run` takes and prints strings, not the numbers that stand for them in programs."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.command import command

WORDS = np.array([["cat", "cow"], ["", "dog"]])
SOUNDS = [["meow", 'none "at all"'], ['none "at all"', "b\u00f6ff\n"]]


def sounds_model(path: Path, rows: int | str) -> Path:
    """What animals say, and how many there are."""
    nodes = [
        helper.make_node(
            "LabelEncoder",
            ["animal"],
            ["sound"],
            domain="ai.onnx.ml",
            keys_strings=["cat", "dog"],
            values_strings=[SOUNDS[0][0], SOUNDS[1][1]],
            default_string=SOUNDS[0][1],
        ),
        helper.make_node("Size", ["animal"], ["count"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("animal", TensorProto.STRING, [rows, 2])],
        [
            helper.make_tensor_value_info("count", TensorProto.INT64, []),
            helper.make_tensor_value_info("sound", TensorProto.STRING, [rows, 2]),
        ],
    )
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 4)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)
    return path


@pytest.fixture(scope="module", params=[2, "n"], ids=["static", "dynamic"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sounds.onnx, sounds.so and in.npz."""
    place = tmp_path_factory.mktemp("strings")
    sounds_model(place / "sounds.onnx", request.param)
    done = command("compile", place / "sounds.onnx", "-o", place / "sounds.so")
    assert done.code == 0, done.err
    np.savez(place / "in.npz", animal=WORDS)
    return place


def test_a_process_that_only_loads_the_library_prints_strings(folder: Path) -> None:
    args = ["run", str(folder / "sounds.so"), "-i", str(folder / "in.npz")]
    done = subprocess.run([sys.executable, "-m", "tilewright", *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *table, line = done.stdout.splitlines()
    assert line == f"sound: {json.dumps(SOUNDS, ensure_ascii=False)}"
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in table if row.startswith("│")]
    assert rows == [["count", "", "int64", "4", "4", "4"], ["sound", "2x2", "string", "", "", ""]]


def test_json_csv_and_files(folder: Path) -> None:
    args = ("run", folder / "sounds.so", "-i", folder / "in.npz", "-o", folder / "out.npz")
    count, sound = json.loads(command(*args, "--json").out)["outputs"]
    assert count == {"output": "count", "shape": [], "dtype": "int64", "min": 4.0, "mean": 4.0, "max": 4.0}
    assert sound == {
        "output": "sound", "shape": [2, 2], "dtype": "string", "min": None, "mean": None, "max": None, "strings": SOUNDS,
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(command(*args, "--csv").out)))
    assert rows[0]["strings"] == "" and json.loads(rows[1]["strings"]) == SOUNDS
    with np.load(folder / "out.npz", allow_pickle=False) as written:
        assert written["sound"].tolist() == SOUNDS


def test_inputs_that_are_made_up_or_do_not_fit(folder: Path) -> None:
    done = command("run", folder / "sounds.so", "--run-shape", "animal=2,2", "--json")
    assert "animal string 2x2" in done.err
    assert json.loads(done.out)["outputs"][1]["strings"] == [[SOUNDS[0][1]] * 2] * 2
    np.savez(folder / "numbers.npz", animal=np.zeros((2, 2), np.int64))
    done = command("run", folder / "sounds.so", "-i", folder / "numbers.npz")
    assert done.code == 1 and "input animal int64 2x2 does not fit the model, which takes animal string" in done.err


def test_other_commands_say_what_holds_strings(folder: Path) -> None:
    found = command("inspect", folder / "sounds.so", "--csv").out.splitlines()
    assert [line.split(",")[1:3] for line in found[1:]] == [
        ["animal", "string"],
        ["count", "int64"],
        ["sound", "string"],
    ]
    done = command("compare", folder / "sounds.onnx", "-i", folder / "in.npz", "--json")
    assert done.code == 0, done.err
    assert {d["name"]: d["error"] for d in json.loads(done.out)["outputs"]} == {"count": 0, "sound": 0}
    done = command("run", folder / "sounds.onnx", "-i", folder / "in.npz", "--outputs", "said=sound", "--json")
    assert done.code == 0, done.err
    assert [(o["output"], o["strings"]) for o in json.loads(done.out)["outputs"]] == [("said", SOUNDS)]
