"""Paths and names as they are: no markup in them is read, and no line of theirs is broken where the output is no terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.cli.command import command, write_model

INPUT, OUTPUT = "ids[batch]", "out[/b]:smile:[red]"
LONG = "[bold]:smile:[red]" + "very_" * 40 + "long_name"
"""Longer than any width that a table could have been given."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose file, input, node and output have such names, and its library."""
    place = tmp_path_factory.mktemp("[i]printing")
    nodes = [
        helper.make_node("MatMul", [INPUT, "w"], ["h"], name="[/dense]"),
        helper.make_node("Relu", ["h"], [OUTPUT], name=":smile:"),
    ]
    weights = {"w": np.eye(8)}
    path = write_model(place / f"{LONG}.onnx", nodes, {INPUT: [4, 8]}, [OUTPUT], weights)
    done = command("compile", path, "-o", path.with_suffix(".so"))
    assert done.code == 0 and done.out.startswith(f"{path.with_suffix('.so')}: "), done.err
    return path


@pytest.mark.parametrize(
    "words, suffix, shown",
    [
        ("bench --no-peer --duration 0.1", ".onnx", [f"{LONG}.onnx"]),
        ("profile --seconds 0.1", ".so", [f"{LONG}.so"]),
        ("import --check", ".onnx", [f"{LONG}.onnx", INPUT, OUTPUT]),
        ("compare", ".onnx", [f"{LONG}.onnx", "[/dense]", ":smile:", OUTPUT]),
        ("run", ".so", [INPUT, OUTPUT]),
        ("inspect", ".so", [INPUT, OUTPUT, f"{LONG}.so"]),
    ],
)
def test_names_are_printed_as_they_are(model: Path, words: str, suffix: str, shown: list[str]) -> None:
    verb, *options = words.split()
    done = command(verb, model.with_suffix(suffix), *options)
    assert done.code == 0, done.err
    for name in shown:
        assert any([name in line for line in (done.out + done.err).splitlines()]), (name, done.out, done.err)


def test_messages_hold_paths_as_they_are(model: Path) -> None:
    missing = model.with_name("[") / ("b]" + "a" * 150 + ".npz")
    missing.parent.mkdir()
    missing.write_bytes(b"nothing")
    done = command("run", model.with_suffix(".so"), "--input", missing)
    assert done.code == 1
    assert done.err.startswith(f"error: {missing} is not an .npz or .npy file; ") and len(done.err.splitlines()) == 1


def test_names_give_no_commands_to_terminals(tmp_path: Path) -> None:
    """An escape sequence in a name would set colours and titles, and a mark of direction would turn its suffix around."""
    name, shown = "x\x1b[31m\u202ey", "x\\x1b[31m\\u202ey"
    path = write_model(
        tmp_path / f"{name}.onnx", [helper.make_node("Relu", [name], [f"o{name}"])], {name: [3]}, [f"o{name}"]
    )
    for words in ("run", "import --check", "compare", "run --strict"):
        verb, *options = words.split()
        done = command(verb, path, *options)
        assert not {"\x1b", "\u202e"} & set(done.out + done.err) and shown in done.out + done.err, (words, done)
