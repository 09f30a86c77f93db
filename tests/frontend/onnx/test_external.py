"""Weights in files beside an ONNX model: what is read, and that no path, link or claimed place reaches anything else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.relay.frontend.onnx import from_onnx
from tilewright.support.errors import ModelError

WEIGHTS = np.arange(64, dtype=np.float32).reshape(8, 8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with w.bin, beside another one with outside.bin of the same content."""
    inner = tmp_path / "model"
    (inner / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for path in (inner / "w.bin", inner / "sub" / "w.bin", tmp_path / "elsewhere" / "outside.bin"):
        path.write_bytes(WEIGHTS.tobytes())
    return inner


def saved(folder: Path, entries: dict[str, Any], dims: tuple[int, ...] = (8, 8), kind: int = TensorProto.FLOAT) -> Path:
    """x @ w with w where the entries say."""
    t = TensorProto(name="w", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        t.external_data.add(key=key, value=str(value))
    info = helper.make_tensor_value_info
    cast = [helper.make_node("Cast", ["w"], ["f"], to=1)] if kind != TensorProto.FLOAT else []
    nodes = [*cast, helper.make_node("MatMul", ["x", "f" if cast else "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info("x", 1, [1, 8])], [info("y", 1, None)], [t])
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    return path


def weight(path: Path) -> np.ndarray:
    """The constant that the model multiplies by."""
    from tilewright.relay.expr import Constant
    from tilewright.relay.functor import post_order

    return next(e.value for e in post_order(from_onnx(path)[0]["main"].body) if isinstance(e, Constant))


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        from_onnx(path)
    return str(caught.value)


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "sub/../w.bin", "sub/w.bin", "sub/./../sub/w.bin"])
def test_places_in_the_folder(folder: Path, location: str) -> None:
    path = saved(folder, {"location": location})
    np.testing.assert_array_equal(weight(path), WEIGHTS)
    held: Any = weight(path)
    while held is not None and not isinstance(held, np.memmap):
        held = held.base
    assert held is not None, "the weights are copied"


def test_a_folder_behind_a_link(folder: Path) -> None:
    """Where the model's own folder is a link, its data beside it are in its folder."""
    saved(folder, {"location": "w.bin"})
    (folder.parent / "linked").symlink_to(folder)
    np.testing.assert_array_equal(weight(folder.parent / "linked" / "m.onnx"), WEIGHTS)


@pytest.mark.parametrize(
    "location",
    [
        "../elsewhere/outside.bin", "sub/../../elsewhere/outside.bin", "ABSOLUTE", "/dev/zero", "/proc/self/environ", "link.bin",
        "linked/outside.bin",        "chain.bin", "circle", "..", ".", "", "nul\x00l", "sub/\x00/../w.bin",
        "w.bin/../../elsewhere/outside.bin",
        "~/w.bin/../../../elsewhere/outside.bin",
    ],
)  # fmt: skip
def test_places_outside_of_the_folder(folder: Path, location: str) -> None:
    outside = folder.parent / "elsewhere" / "outside.bin"
    (folder / "link.bin").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    (folder / "chain.bin").symlink_to("sub/second.bin")
    (folder / "sub" / "second.bin").symlink_to("../link.bin")
    (folder / "circle").symlink_to("circle")
    location = str(outside) if location == "ABSOLUTE" else location
    text = refusal(saved(folder, {"location": location}))
    assert "outside the model's folder, which is not read. Save the model with its data beside it" in text or (
        location == "circle" and "which is not in" in text
    )


def test_links_that_stay_inside(folder: Path) -> None:
    (folder / "again.bin").symlink_to("sub/w.bin")
    np.testing.assert_array_equal(weight(saved(folder, {"location": "again.bin"})), WEIGHTS)


def test_a_store_of_downloads(folder: Path) -> None:
    """A model and its weights that are links into one folder, as stores of downloads keep them; nothing else there is read."""
    store, home = folder.parent / "blobs", folder.parent / "snapshot"
    store.mkdir()
    home.mkdir()
    saved(folder, {"location": "w.bin"}).rename(store / "1f2e")
    (folder / "w.bin").rename(store / "77aa")
    (home / "m.onnx").symlink_to("../blobs/1f2e")
    (home / "w.bin").symlink_to("../blobs/77aa")
    np.testing.assert_array_equal(weight(home / "m.onnx"), WEIGHTS)
    (home / "w.bin").unlink()
    (home / "w.bin").symlink_to("../elsewhere/outside.bin")
    assert "points to the file 'w.bin' outside the model's folder" in refusal(home / "m.onnx")


def test_hard_links(folder: Path) -> None:
    os.link(folder.parent / "elsewhere" / "outside.bin", folder / "hard.bin")
    path = saved(folder, {"location": "hard.bin"})
    assert refusal(path).endswith(
        "m.onnx: the values of 'w' lie in 'hard.bin', a hard link: the same file has another name, which may lie outside the model's"
        " folder. Put a copy in its place"
    )
    # Package managers link all files of a package.
    os.link(path, folder.parent / "elsewhere" / "m.onnx")
    np.testing.assert_array_equal(weight(path), WEIGHTS)


def test_what_is_no_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for location in ("sub", "pipe", "missing.bin", "x" * 5000):
        text = refusal(saved(folder, {"location": location}))
        inside = "which is not a file, but a folder or a device" if location in ("sub", "pipe") else "which is not in"
        assert inside in text or "outside the model's folder" in text
        assert len(text) < 1000


@pytest.mark.parametrize(
    ("entries", "dims", "text"),
    [
        ({"offset": -4}, (8, 8), "the offset of the values of 'w' is '-4'; it must be a number of bytes"),
        ({"offset": "1e2"}, (8, 8), "the offset of the values of 'w' is '1e2'"),
        ({"length": "x"}, (8, 8), "the length of the values of 'w' is 'x'"),
        ({"offset": "9" * 4000}, (8, 8), r"the offset of the values of 'w' is '9{60}\.\.\.9{30}'"),
        ({"length": 255}, (8, 8), "take 256 bytes, but the model says that 255 bytes of 'w.bin' hold them"),
        ({"offset": 4}, (8, 8), "need bytes 4 to 260 of 'w.bin', which has 256. The file is truncated"),
        ({"offset": 1 << 59}, (8, 8), "which has 256"),
        ({}, (1 << 40, 1 << 40), f"need bytes 0 to {1 << 82} of 'w.bin', which has 256"),
        ({}, (-8, -8), r"has the shape \(-8, -8\), and no extent can be negative"),
    ],
)  # fmt: skip
def test_claimed_places(folder: Path, entries: dict[str, Any], dims: tuple[int, ...], text: str) -> None:
    assert re.search(text, refusal(saved(folder, {"location": "w.bin", **entries}, dims)))


def test_elements_that_share_bytes(folder: Path) -> None:
    """64 numbers of four bits are 32 bytes."""
    import ml_dtypes

    values = (np.arange(64) % 15 - 7).reshape(8, 8).astype(ml_dtypes.int4)
    held = numpy_helper.from_array(values, "w").raw_data
    (folder / "w.bin").write_bytes(b"pad!" + held)
    path = saved(folder, {"location": "w.bin", "offset": 4, "length": 32}, kind=TensorProto.INT4)
    np.testing.assert_array_equal(weight(path).astype("int8"), values.astype("int8"))


def test_texts_are_not_read(folder: Path) -> None:
    text = refusal(saved(folder, {"location": "w.bin"}, kind=TensorProto.STRING))
    assert "the values of 'w' are strings or of no type, and lie in 'w.bin'; only numbers can" in text


def test_claimed_sizes_take_no_memory() -> None:
    """What a few numbers make large is made when the program runs; sparse weights that would be large are refused."""
    info = helper.make_tensor_value_info
    node = helper.make_node
    numbers = [
        numpy_helper.from_array(np.array(v), k) for k, v in {"n": [1 << 34], "a": 0, "b": 1 << 34, "d": 1}.items()
    ]
    nodes = [node("ConstantOfShape", ["n"], ["big"]), node("Range", ["a", "b", "d"], ["line"])]
    nodes += [node("Expand", ["d", "n"], ["wide"]), node("Tile", ["n", "n"], ["long"])]
    nodes += [node("ReduceSum", [t], [f"{t}_y"], keepdims=0) for t in ("big", "line", "wide", "long")]
    outputs = [info(f"{t}_y", 1 if t == "big" else 7, None) for t in ("big", "line", "wide", "long")]
    graph = helper.make_graph(nodes, "g", [info("x", 1, [1])], outputs, numbers)
    mod, _ = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert len(mod["main"].body.fields) == 4
    sparse = onnx.SparseTensorProto(dims=[1 << 40])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64), "i"))
    graph = helper.make_graph([node("Relu", ["s"], ["y"])], "g", [], [info("y", 1, None)], sparse_initializer=[sparse])
    with pytest.raises(ModelError, match="would take more than 4294967296 bytes. Is the file damaged?"):
        from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
