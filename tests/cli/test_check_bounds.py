"""`--check-bounds`: a compiled library ends at an index outside of its axis, and says which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.command import command


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An embedding: y = table[ids], its node named "words"."""
    table = onnx.numpy_helper.from_array(np.arange(12, dtype="float32").reshape(4, 3), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"], name="words")],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [table],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(tmp_path / "model.onnx"))
    np.savez(tmp_path / "wrong.npz", ids=np.array([1, 9]))
    np.savez(tmp_path / "right.npz", ids=np.array([1, -4]))
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("executor", ["aot", "graph", "vm"])
def test_a_library_checks_its_indices(model: Path, executor: str) -> None:
    folder, library = model.parent, model.with_suffix(".so")
    assert command("compile", model, "-o", library, "--executor", executor).code == 0
    assert command("run", library, "--input", folder / "wrong.npz").code == 0
    library = folder / "checked.so"
    assert command("compile", model, "-o", library, "--executor", executor, "--check-bounds").code == 0
    done = command("run", library, "--input", folder / "wrong.npz")
    assert done.code == 1
    text = " ".join(done.err.split())
    assert "an index along axis 0 must lie in [-extent, extent), but the extent is 4 and the index is 9" in text
    assert "words" in text and "Traceback" not in text
    out = folder / "out.npz"
    assert command("run", library, "--input", folder / "right.npz", "--output", out).code == 0
    np.testing.assert_array_equal(np.load(out)["y"], [[3, 4, 5], [0, 1, 2]])


def test_a_library_that_is_compiled_already_is_not_checked(model: Path) -> None:
    library = model.with_suffix(".so")
    command("compile", model, "-o", library)
    done = command("bench", library, "--check-bounds")
    assert done.code == 1
    assert "is a compiled library, so its checks are fixed; --check-bounds needs a model file" in " ".join(
        done.err.split()
    )
