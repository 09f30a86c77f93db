"""Weights read apart from the graph: the same model as protobuf reads, aligned, whatever the form or the damage of the file."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.relay.frontend import from_onnx
from tilewright.relay.frontend.onnx.files.reader import read_model, tensor_array
from tilewright.relay.frontend.onnx.files.weights import split_model


def model(*weights: onnx.TensorProto) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y], list(weights))
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)], producer_name="p")


def arrays(dtypes: tuple[str, ...] = ("float32", "float16", "int64", "uint8", "bool", "float64")) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((3 + k, 1000)) * 9).astype(d) for k, d in enumerate(dtypes)]


def split(data: bytes) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    rest, weights = split_model(io.BytesIO(data), len(data))
    proto = onnx.ModelProto()
    proto.ParseFromString(rest)
    return proto, weights


def joined(data: bytes) -> onnx.ModelProto:
    """The model put together again."""
    proto, weights = split(data)
    for t in proto.graph.initializer:
        if t.name in weights:
            t.raw_data = weights[t.name].tobytes()
    return proto


def test_weights_are_taken_out_and_aligned(tmp_path: Path) -> None:
    given = arrays()
    small = np.arange(5, dtype="float32")
    proto = model(*[numpy_helper.from_array(a, f"w{k}") for k, a in enumerate([*given, small])])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (path, str(path), path.read_bytes(), memoryview(path.read_bytes())):
        read, _, folder, weights = read_model(source)
        assert set(weights) == {f"w{k}" for k in range(len(given))}
        assert len(read.SerializeToString()) < 1000
        for t, want in zip(read.graph.initializer, [*given, small], strict=True):
            got = tensor_array(t, folder, "m", weights.get(t.name))
            np.testing.assert_array_equal(got, want)
            assert t.name not in weights or got.ctypes.data % 64 == 0
    assert joined(path.read_bytes()) == proto


def test_values_that_are_no_raw_data_stay() -> None:
    values = helper.make_tensor("f", TensorProto.FLOAT, [600], np.arange(600.0))
    strings = helper.make_tensor("s", TensorProto.STRING, [200], [b"a longer text"] * 200)
    proto = model(values, strings)
    read, weights = split(proto.SerializeToString())
    assert weights == {} and read == proto


def test_packed_types_are_unpacked() -> None:
    nibbles = helper.make_tensor(
        "n", TensorProto.INT4, [4000], (np.arange(2000) % 251).astype("uint8").tobytes(), raw=True
    )
    read, _, folder, weights = read_model(model(nibbles).SerializeToString())
    (t,) = read.graph.initializer
    np.testing.assert_array_equal(tensor_array(t, folder, "m", weights[t.name]), numpy_helper.to_array(nibbles))


def test_unusual_files_are_left_to_protobuf() -> None:
    a, b = (numpy_helper.from_array(x, "same") for x in arrays(("float32", "int64")))
    twice = model(a, b)
    assert split(twice.SerializeToString()) == (twice, {})
    # The parts of a message that is given in pieces are merged, the last value of a field counts.
    pieces = model(a).SerializeToString() + model(numpy_helper.from_array(arrays()[0], "other")).SerializeToString()
    whole = onnx.ModelProto()
    whole.ParseFromString(pieces)
    assert split(pieces) == (whole, {})


def test_wrong_size_is_told() -> None:
    t = numpy_helper.from_array(np.zeros((10, 100), "float32"), "w")
    t.dims[0] = 11
    with pytest.raises(
        Exception, match=r"the tensor 'w' of shape \(11, 100\) and dtype float32 needs 4400 bytes,.*holds 4000"
    ):
        from_onnx(model(t).SerializeToString())


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_parse_as_protobuf_parses_them(seed: int) -> None:
    data = model(*[numpy_helper.from_array(a, f"w{k}") for k, a in enumerate(arrays())]).SerializeToString()
    rng = np.random.default_rng(seed)
    for _ in range(150):
        broken = bytearray(data)
        if rng.random() < 0.5:
            del broken[int(rng.integers(len(data))) :]
        for _ in range(int(rng.integers(3))):
            # Headers of fields lie at the ends and around the weights; most of the rest is values.
            broken[int(rng.integers(max(1, min(len(broken), 400)))) - int(rng.random() < 0.3)] = int(rng.integers(256))
        expected = onnx.ModelProto()
        try:
            expected.ParseFromString(bytes(broken))
        except Exception:
            with pytest.raises(Exception):  # noqa: B017 (protobuf's own class, whatever its implementation)
                split(bytes(broken))
        else:
            got = joined(bytes(broken))
            assert got.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
