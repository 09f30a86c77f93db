"""The TensorFlow importer without TensorFlow: graphs and SavedModels written here, against NumPy (`peers` has TensorFlow)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.formats.tensorflow_messages import CODES, message
from tilewright.relay.frontend.common.formats import format_of
from tilewright.relay.frontend.tensorflow import from_tensorflow, supported_operators
from tilewright.relay.frontend.tensorflow.checkpoint import _snappy, read_table
from tilewright.support.errors import ModelError, OpNotImplemented, TVMError

Array = np.ndarray[Any, Any]
X = np.arange(12, dtype="float32").reshape(3, 4) - 5


def fill(attr: Any, value: Any) -> None:
    """Set an AttrValue from a plain value."""
    if isinstance(value, np.ndarray):
        attr.tensor.dtype = CODES[value.dtype.name]
        attr.tensor.tensor_content = value.tobytes()
        for d in value.shape:
            attr.tensor.tensor_shape.dim.add(size=d)
    elif isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, float):
        attr.f = value
    elif isinstance(value, tuple):
        attr.shape.SetInParent()
        for d in value:
            attr.shape.dim.add(size=d)
    elif isinstance(value, list):
        attr.list.i.extend(value)
    elif value in CODES:
        attr.type = CODES[value]
    elif value.startswith("function "):
        attr.func.name = value.removeprefix("function ")
    else:
        attr.s = value.encode()


def add(nodes: Any, op: str, name: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
    node = nodes.add(op=op, name=name, input=list(inputs))
    for key, value in attrs.items():
        fill(node.attr[key], value)
    return name


def graph_of(*nodes: tuple[Any, ...], shape: tuple[int, ...] = (3, 4)) -> Any:
    """A graph whose first node is the input x; each node: (op, name, inputs, attributes)."""
    graph = message("GraphDef")()
    add(graph.node, "Placeholder", "x", dtype="float32", shape=shape)
    for op, name, inputs, *attrs in nodes:
        add(graph.node, op, name, inputs, **(attrs[0] if attrs else {}))
    return graph


def constant(name: str, value: Any, dtype: str = "int32") -> tuple[Any, ...]:
    array = np.asarray(value, dtype)
    return "Const", name, (), {"value": array, "dtype": array.dtype.name}


def function(graph: Any, name: str, inputs: Sequence[str], returns: Mapping[str, str], *nodes: tuple[Any, ...]) -> None:
    made = graph.library.function.add()
    made.signature.name = name
    for i in inputs:
        made.signature.input_arg.add(name=i)
    for key, ref in returns.items():
        made.signature.output_arg.add(name=key)
        made.ret[key] = ref
    for op, title, given, *attrs in nodes:
        add(made.node_def, op, title, given, **(attrs[0] if attrs else {}))


def run(graph: Any, *data: Array, **options: Any) -> list[Array]:
    mod, params = from_tensorflow(graph, **options)
    made = relay.create_executor("vm", mod=mod).evaluate()(*data, **params)
    return [made.numpy()] if hasattr(made, "numpy") else [m.numpy() for m in made]


def test_weights_are_parameters_and_not_copied() -> None:
    w = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    graph = graph_of(("Const", "w", (), {"value": w, "dtype": "float32"}), ("MatMul", "y", ("x", "w")))
    mod, params = from_tensorflow(graph)
    assert [v.name_hint for v in mod["main"].params] == ["x", "w"]
    assert not params["w"].flags.owndata
    np.testing.assert_allclose(run(graph, X)[0], X @ w, rtol=1e-5)
    np.testing.assert_allclose(run(graph.SerializeToString(), X)[0], X @ w, rtol=1e-5)
    assert "nn.matmul" in str(from_tensorflow(graph, convert_config={"use_dense": False})[0])


def test_digits_near_zero() -> None:
    x = np.array([1e-9, -1e-7, 3e-4, 0.6, 40], "float32")
    graph = graph_of(("Log1p", "a", ("x",)), ("Expm1", "b", ("x",)), ("Xlog1py", "c", ("x", "x")), shape=(5,))
    for found, wanted in zip(run(graph, x), (np.log1p(x), np.expm1(x), x * np.log1p(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_shapes_stay_symbolic() -> None:
    graph = graph_of(
        ("Shape", "s", ("x",)), constant("zero", [0]), constant("one", [1]), constant("four", 2), constant("two", 2),
        ("StridedSlice", "n", ("s", "zero", "one", "one"), {"shrink_axis_mask": 1}), ("Mul", "m", ("n", "four")),
        ("Pack", "new", ("m", "two")), ("Reshape", "y", ("x", "new")), shape=(-1, 4),
    )  # fmt: skip
    mod, _ = from_tensorflow(graph)
    assert str(mod["main"].params[0].type_annotation.shape[0]) == "x_0"
    np.testing.assert_array_equal(run(graph, X)[0], X.reshape(6, 2))


def test_outputs_by_name() -> None:
    graph = graph_of(
        constant("axis", 1), ("Split", "parts", ("axis", "x"), {"num_split": 2}), ("Relu", "y", ("parts:1",))
    )
    found = run(graph, X, outputs=["parts:1", "y"])
    np.testing.assert_array_equal(found[0], X[:, 2:])
    np.testing.assert_array_equal(found[1], np.maximum(X[:, 2:], 0))


def test_functions_and_loops() -> None:
    graph = graph_of(
        constant("zero", 0), constant("n", 40),
        ("StatelessWhile", "loop", ("zero", "n", "x"), {"cond": "function c", "body": "function b"}),
        ("PartitionedCall", "y", ("loop:2",), {"f": "function double"}),
    )  # fmt: skip
    function(graph, "c", ["i", "n", "v"], {"r": "less:z:0"}, ("Less", "less", ("i", "n")))
    function(
        graph, "b", ["i", "n", "v"], {"i2": "add:z:0", "n2": "n", "v2": "half:z:0"}, constant("one", 1),
        ("AddV2", "add", ("i", "one:output:0")), constant("h", 0.5, "float32"), ("Mul", "scaled", ("v", "h:output:0")),
        ("Cast", "f", ("i",), {"DstT": "float32"}), ("AddV2", "half", ("scaled:z:0", "f:y:0")),
    )  # fmt: skip
    function(graph, "double", ["v"], {"r": "twice:z:0"}, ("AddV2", "twice", ("v", "v")))
    want = X.copy()
    for i in range(40):
        want = want * np.float32(0.5) + np.float32(i)
    np.testing.assert_allclose(run(graph, X)[0], want * 2, rtol=1e-5)


def test_tensor_lists_in_loops() -> None:
    """A list of 40 rows that a loop writes, read back as one tensor."""
    graph = graph_of(
        constant("zero", 0), constant("n", 40), constant("any", -1),
        ("TensorListReserve", "list", ("any", "n"), {"element_dtype": "float32"}),
        ("While", "loop", ("zero", "list", "x"), {"cond": "function c", "body": "function b"}),
        ("TensorListStack", "y", ("loop:1", "any"), {"element_dtype": "float32"}),
    )  # fmt: skip
    function(graph, "c", ["i", "l", "v"], {"r": "less:z:0"}, constant("n", 40), ("Less", "less", ("i", "n:output:0")))
    function(
        graph, "b", ["i", "l", "v"], {"i2": "add:z:0", "l2": "set:output_handle:0", "v2": "v"}, constant("one", 1),
        ("AddV2", "add", ("i", "one:output:0")), ("Cast", "f", ("i",), {"DstT": "float32"}), ("Mul", "row", ("v", "f:y:0")),
        ("TensorListSetItem", "set", ("l", "i", "row:z:0"), {"element_dtype": "float32"}),
    )  # fmt: skip
    np.testing.assert_allclose(run(graph, X)[0], np.stack([X * i for i in range(40)]), rtol=1e-6)


def test_switch_and_merge() -> None:
    graph = graph_of(
        constant("axes", [0, 1]), constant("none", 0.0, "float32"), ("Sum", "s", ("x", "axes")), ("Greater", "p", ("s", "none")),
        ("Switch", "sw", ("x", "p")), ("Neg", "no", ("sw:0",)), ("Relu", "yes", ("sw:1",)), ("Merge", "y", ("no", "yes")),
    )  # fmt: skip
    for data in (X, -X):
        want = np.maximum(data, 0) if data.sum() > 0 else -data
        np.testing.assert_array_equal(run(graph, data, outputs=["y"])[0], want)


def old_loop() -> Any:
    return graph_of(
        constant("zero", 0), ("Enter", "e0", ("zero",), {"frame_name": "f"}), ("Enter", "e1", ("x",), {"frame_name": "f"}),
        ("Merge", "m0", ("e0", "n0")), ("Merge", "m1", ("e1", "n1")), constant("end", 50), ("Less", "less", ("m0", "end")),
        ("LoopCond", "c", ("less",)), ("Switch", "s0", ("m0", "c")), ("Switch", "s1", ("m1", "c")), constant("one", 1),
        ("Add", "next", ("s0:1", "one")), ("Tanh", "t", ("s1:1",)), ("NextIteration", "n0", ("next",)), ("NextIteration", "n1", ("t",)),
        ("Exit", "y", ("s1:0",)),
    )  # fmt: skip


def test_loops_of_tensorflow_1() -> None:
    want = X
    for _ in range(50):
        want = np.tanh(want)
    np.testing.assert_allclose(run(old_loop(), X, outputs=["y"])[0], want, rtol=1e-4, atol=1e-6)


# ---- SavedModels


def varint(n: int) -> bytes:
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def table(entries: Mapping[bytes, bytes]) -> bytes:
    """A sorted table of one block."""

    def block(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        body = b"".join([varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in pairs])
        return body + struct.pack("<II", 0, 1)

    first = block(sorted(entries.items()))
    second = block([(b"~", varint(0) + varint(len(first)))])
    at = len(first) + 5
    footer = varint(0) + varint(0) + varint(at) + varint(len(second))
    return first + bytes(5) + second + bytes(5) + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def saved_model(folder: Path, w: Array) -> Path:
    saved = message("SavedModel")()
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    graph = meta.graph_def
    add(graph.node, "Placeholder", "serving_x", dtype="float32", shape=(-1, 4))
    add(graph.node, "VarHandleOp", "v", shared_name="my_weight", dtype="float32", shape=w.shape)
    add(graph.node, "PartitionedCall", "call", ("serving_x", "v"), f="function inner")
    add(graph.node, "PartitionedCall", "restore", ("v",), f="function restore")
    function(
        graph, "inner", ["x", "h"], {"y": "mm:product:0"}, ("ReadVariableOp", "read", ("h",), {"dtype": "float32"}),
        ("MatMul", "mm", ("x", "read:value:0")),
    )  # fmt: skip
    function(
        graph, "restore", ["h"], {}, ("Const", "names", (), {}), ("RestoreV2", "r", ("names:output:0", "names:output:0")),
        ("AssignVariableOp", "assign", ("h", "r:tensors:0")),
    )  # fmt: skip
    names = graph.library.function[1].node_def[0].attr["value"].tensor
    names.dtype = CODES["string"]
    names.tensor_shape.dim.add(size=1)
    names.string_val.append(b"net/w/.ATTRIBUTES/VARIABLE_VALUE")
    meta.saver_def.restore_op_name = "restore"
    signature = meta.signature_def["serving_default"]
    signature.inputs["x"].name, signature.inputs["x"].dtype = "serving_x:0", CODES["float32"]
    for d in (-1, 4):
        signature.inputs["x"].tensor_shape.dim.add(size=d)
    signature.outputs["y"].name = "call:0"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    header, entry = message("BundleHeaderProto")(num_shards=1), message("BundleEntryProto")()
    entry.dtype, entry.shard_id, entry.offset, entry.size = CODES["float32"], 0, 8, w.nbytes
    for d in w.shape:
        entry.shape.dim.add(size=d)
    keys = {b"": header.SerializeToString(), b"net/w/.ATTRIBUTES/VARIABLE_VALUE": entry.SerializeToString()}
    (folder / "variables" / "variables.index").write_bytes(table(keys))
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(bytes(8) + w.tobytes())
    return folder


W = np.random.default_rng(1).standard_normal((4, 6)).astype("float32")


def test_saved_model(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m", W)
    mod, params = from_tensorflow(folder)
    assert (list(params), [v.name_hint for v in mod["main"].params]) == (["my_weight"], ["x", "my_weight"])
    assert isinstance(params["my_weight"].base, np.memmap)
    np.testing.assert_allclose(run(folder, X)[0], X @ W, rtol=1e-5)
    found = format_of(folder)
    assert found.name == "tensorflow"
    survey = found.survey(folder, {})
    assert survey.inputs[0].shape == ["?", 4] and "MatMul" in survey.operators


def test_damaged_saved_models(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m", W)
    index, data = folder / "variables" / "variables.index", folder / "variables" / "variables.data-00000-of-00001"
    kept = index.read_bytes()
    index.write_bytes(kept[:-20])
    with pytest.raises(
        ModelError, match=r"variables.index: it does not end like a checkpoint index. The checkpoint is damaged"
    ):
        from_tensorflow(folder)
    index.unlink()
    with pytest.raises(ModelError, match="there is no such file, but the model has variables"):
        from_tensorflow(folder)
    index.write_bytes(kept)
    data.write_bytes(data.read_bytes()[:50])
    with pytest.raises(ModelError, match=r"needs bytes 8 to 104, but the file has 50. Copy it again"):
        from_tensorflow(folder)
    (folder / "saved_model.pb").unlink()
    with pytest.raises(ModelError, match=r"the folder has no saved_model.pb, so it is no SavedModel"):
        from_tensorflow(folder)


def test_compressed_blocks() -> None:
    assert _snappy(bytes([10, 4 << 2, *b"hello", 1 | (5 - 4) << 2, 5])) == b"hellohello"


def test_flipped_bits(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m", W)
    rng = np.random.default_rng(4)
    for name in ("saved_model.pb", "variables/variables.index"):
        data = (folder / name).read_bytes()
        for _ in range(60):
            changed = bytearray(data)
            for at in rng.integers(0, len(data), 3):
                changed[at] ^= 1 << int(rng.integers(8))
            (folder / name).write_bytes(bytes(changed))
            try:
                from_tensorflow(folder)
            except (ModelError, OpNotImplemented) as error:
                assert str(error)
        (folder / name).write_bytes(data)


# ---- bad input


def test_unsupported_operators_are_listed_together() -> None:
    graph = graph_of(("Reluu", "a", ("x",)), ("Zzzz", "b", ("a",)), ("Reluu", "c", ("b",)))
    with pytest.raises(OpNotImplemented) as found:
        from_tensorflow(graph)
    assert str(found.value) == (
        "the graph: 2 things are not supported\n"
        "  Reluu (2 nodes: 'a', 'c'); nearest supported: Relu, Relu6\n"
        "  Zzzz (1 node: 'b')"
    )
    graph = graph_of(("QueueSizeV2", "q", ("x",)), ("PyFunc", "p", ("q",)))
    with pytest.raises(OpNotImplemented) as found:
        from_tensorflow(graph)
    assert str(found.value) == (
        "the graph: 2 things are not supported\n"
        "  PyFunc (1 node: 'p'): it runs Python code of the model's author. Write it with operators of TensorFlow\n"
        "  QueueSizeV2 (1 node: 'q'): queues and batching of calls are not supported. Export the model with an input in their place"
    )


def test_wrong_arguments() -> None:
    graph = graph_of(("Relu", "y", ("x",)))
    with pytest.raises(ModelError, match="shape names 'z', but the model's inputs are 'x' \\(3, 4\\)"):
        from_tensorflow(graph, shape={"z": (1,)})
    with pytest.raises(ModelError, match="the extent 5, but the model says 3"):
        from_tensorflow(graph, shape={"x": (5, 4)})
    with pytest.raises(ModelError, match="outputs names 'yy', which no node makes; nearest supported: y"):
        from_tensorflow(graph, outputs=["yy"])
    with pytest.raises(ModelError, match="layout is 'X'; it must be one of NHWC"):
        from_tensorflow(graph, layout="X")
    with pytest.raises(TypeError, match="from_tensorflow takes a GraphDef"):
        from_tensorflow(7)
    with pytest.raises(ModelError, match="this is no TensorFlow"):
        from_tensorflow(b"\xff\xff\xff")


def test_cyclic_graphs() -> None:
    graph = graph_of(("Add", "a", ("x", "b")), ("Relu", "b", ("a",)), ("Relu", "y", ("b",)))
    with pytest.raises(ModelError, match="depends on itself"):
        from_tensorflow(graph, outputs=["y"])


def test_names_that_are_no_text() -> None:
    data = graph_of(("Relu", "y", ("x",))).SerializeToString().replace(b"x", b"\xe7")
    with pytest.raises(ModelError, match="the given bytes: the model is malformed .* Copy or export it again"):
        from_tensorflow(data)


def test_variables_need_a_checkpoint() -> None:
    graph = graph_of(
        ("VarHandleOp", "v", (), {"dtype": "float32"}), ("ReadVariableOp", "r", ("v",)), ("MatMul", "y", ("x", "r"))
    )
    with pytest.raises(ModelError, match="reads the variable 'v', whose value it does not hold. Freeze it"):
        from_tensorflow(graph)


@pytest.mark.parametrize("inside", [False, True])
def test_variables_that_were_assigned_to(inside: bool) -> None:
    """They were read as they had been saved."""
    assignment: tuple[Any, ...] = ("AssignAddVariableOp", "more", ("v", "x"))
    if inside:
        assignment = ("StatefulPartitionedCall", "more", ("v", "x"), {"f": "function add"})
    graph = graph_of(
        ("VarHandleOp", "v", (), {"dtype": "float32", "shape": (3, 4)}), assignment,
        ("ReadVariableOp", "r", ("v", "^more"), {"dtype": "float32"}), ("Identity", "y", ("r",)),
    )  # fmt: skip
    function(graph, "add", ["h", "d"], {}, ("AssignAddVariableOp", "inner", ("h", "d")))
    with pytest.raises(OpNotImplemented, match="reads variable 'v' after 'more' assigned to it"):
        from_tensorflow(graph)


def test_channels_first() -> None:
    kernel = np.ones((3, 3, 2, 4), "float32")
    graph = graph_of(
        ("Const", "k", (), {"value": kernel, "dtype": "float32"}),
        ("Conv2D", "y", ("x", "k"), {"strides": [1, 2, 2, 1], "padding": "SAME"}), shape=(1, 6, 6, 2),
    )  # fmt: skip
    data = np.random.default_rng(0).standard_normal((1, 6, 6, 2)).astype("float32")
    plain = run(graph, data)[0]
    assert 'data_layout="NHWC"' not in str(from_tensorflow(graph, layout="NCHW")[0])
    np.testing.assert_allclose(run(graph, data, layout="NCHW")[0], plain, rtol=1e-5, atol=1e-5)


def test_names_with_the_number_of_the_output() -> None:
    graph = graph_of(("Neg", "y", ("x",)), shape=(-1, 4))
    for key in ("x", "x:0"):
        mod, _ = from_tensorflow(graph, shape={key: (3, 4)})
        assert (mod["main"].params[0].name_hint, list(mod["main"].params[0].type_annotation.shape)) == ("x", [3, 4])
    with pytest.raises(ModelError, match="'x' and 'x:0' name one input, 'x'. Give its shape once"):
        from_tensorflow(graph, shape={"x": (3, 4), "x:0": (3, 4)})


def test_supported_operators() -> None:
    assert {"MatMul", "While", "TensorListStack", "FusedBatchNormV3", "NonMaxSuppressionV5", "BlockLSTM"} <= set(
        supported_operators()
    )
    assert read_table(table({b"a": b"1"})) == {b"a": b"1"}


# ---- spectra, colours, segments


def test_spectra() -> None:
    graph = graph_of(
        constant("six", [6]), constant("three", [3, 6]), ("RFFT", "f", ("x", "six")),
        ("ComplexAbs", "size", ("f",)), ("Real", "re", ("f",)),
        ("Conj", "g", ("f",)), ("Imag", "im", ("g",)), ("IRFFT", "back", ("f", "six")), ("Neg", "n", ("x",)), ("Complex", "z", ("x", "n")),
        ("FFT2D", "whole", ("z",)), ("Imag", "whole_im", ("whole",)), ("IFFT", "i", ("z",)), ("Real", "i_re", ("i",)),
        ("RFFT2D", "r2", ("x", "three")), ("IRFFT2D", "back2", ("r2", "three")),
    )  # fmt: skip
    names = ["size", "re", "im", "back", "whole_im", "i_re", "back2"]
    padded = np.pad(X, ((0, 0), (0, 2)))
    f, z = np.fft.rfft(padded), X - 1j * X
    wanted = [np.abs(f), f.real, -f.imag, padded, np.fft.fft2(z).imag, np.fft.ifft(z).real, padded]
    for found, want in zip(run(graph, X, outputs=names), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    with pytest.raises(OpNotImplemented, match="its input is a tensor of complex numbers, where a tensor is taken"):
        from_tensorflow(graph_of(("Complex", "z", ("x", "x")), ("Relu", "y", ("z",))))


def test_colours() -> None:
    import colorsys

    data = np.random.default_rng(5).uniform(0, 1, (1, 4, 5, 3)).astype("float32")
    data[0, 0, 0], data[0, 0, 1] = 0, 0.5
    graph = graph_of(
        ("RGBToHSV", "hsv", ("x",)), ("HSVToRGB", "same", ("hsv",)), constant("d", 0.3, "float32"), ("AdjustHue", "hue", ("x", "d")),
        ("AdjustSaturation", "pale", ("x", "d")), ("AdjustContrastv2", "flat", ("x", "d")), shape=(1, 4, 5, 3),
    )  # fmt: skip
    found = run(graph, data, outputs=["hsv", "same", "hue", "pale", "flat"])
    hsv = np.array([colorsys.rgb_to_hsv(*map(float, p)) for p in data.reshape(-1, 3)])

    def rgb(h: Any, s: Any) -> Array:
        return np.array([colorsys.hsv_to_rgb(*p) for p in np.stack([h, s, hsv[:, 2]], 1)])

    middle = data.mean((1, 2), keepdims=True)
    wanted = [
        hsv,
        data,
        rgb((hsv[:, 0] + 0.3) % 1, hsv[:, 1]),
        rgb(hsv[:, 0], hsv[:, 1] * 0.3),
        (data - middle) * 0.3 + middle,
    ]
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w.reshape(f.shape), rtol=1e-4, atol=1e-5)


def test_colours_below_0() -> None:
    """As TensorFlow has them: no saturation where no part is above 0; a hue moves between the least part and the greatest."""
    data = np.array([[[[-1, -2, -3], [-2, -1, -4], [2, -1, 0]]]], "float32")
    graph = graph_of(
        ("RGBToHSV", "hsv", ("x",)), constant("d", 0.2, "float32"), ("AdjustHue", "hue", ("x", "d")), shape=(1, 1, 3, 3)
    )
    hsv, hue = run(graph, data, outputs=["hsv", "hue"])
    np.testing.assert_allclose(hsv[0, 0], [[1 / 12, 0, -1], [2 / 9, 0, -1], [17 / 18, 1.5, 2]], rtol=1e-5)
    np.testing.assert_allclose(hue[0, 0], [[-2.4, -1, -3], [-4, -1, -2.4], [2, 1.6, -1]], rtol=1e-4)


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (
            graph_of(("Unpack", "y", ("x",), {"num": 2147483647, "axis": 1}), shape=(2, 3)),
            "2147483647 parts of axis 1; there may be 3",
        ),
        (
            graph_of(("Unpack", "y", ("x",), {"num": 2147483647, "axis": 1}), shape=(2, -1)),
            "2147483647 parts of axis 1; there may be 4096",
        ),
        (
            graph_of(constant("a", 1), ("Split", "y", ("a", "x"), {"num_split": 2147483647}), shape=(2, 3)),
            "2147483647 parts of axis 1; there may be 3",
        ),
        (
            graph_of(
                constant("p", [0, 1]),
                ("DynamicPartition", "y", ("x", "p"), {"num_partitions": 2147483647}),
                shape=(2, 3),
            ),
            "2147483647 partitions; there may be 4096",
        ),
        (
            graph_of(constant("s", [4, 37781893]), ("ResizeArea", "y", ("x", "s")), shape=(1, 5, 5, 2)),
            "an axis of 5 to 37781893",
        ),
    ],
)
def test_huge_numbers_of_parts(graph: Any, text: str) -> None:
    with pytest.raises(TVMError, match=text):
        run(graph, np.zeros((1,), "float32"))


def test_areas() -> None:
    """Means of blocks where extents divide; shares of what is cut elsewhere."""
    graph = graph_of(constant("size", [2, 2]), ("ResizeArea", "y", ("x", "size")), shape=(1, 4, 5, 2))
    data = np.random.default_rng(6).standard_normal((1, 4, 5, 2)).astype("float32")
    halves = np.array([[1, 1, 0.5, 0, 0], [0, 0, 0.5, 1, 1]]) / 2.5
    rows = data.reshape(1, 2, 2, 5, 2).mean(2)
    np.testing.assert_allclose(run(graph, data)[0], np.einsum("qw,npwc->npqc", halves, rows), rtol=1e-5, atol=1e-6)


def test_segments_and_counts() -> None:
    graph = graph_of(
        constant("ids", [0, 2, 2]), constant("rows", [2, 0, 1]), ("SegmentMean", "mean", ("x", "ids")),
        ("SparseSegmentSqrtN", "root", ("x", "rows", "ids")), ("SparseSegmentSum", "sum", ("x", "rows", "ids")),
        constant("n", 4), constant("none", np.zeros((0,)), "float32"), ("Bincount", "held", ("ids", "n", "none")),
        constant("labels", [3, 0, 1]), ("SparseSoftmaxCrossEntropyWithLogits", "loss", ("x", "labels")),
    )  # fmt: skip
    found = run(graph, X, outputs=["mean", "root", "sum", "held", "loss", "loss:1"])
    nothing, picked = np.zeros(4), X[[2, 0, 1]]
    e = np.exp(X - X.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    wanted = [
        np.stack([X[0], nothing, X[1:].mean(0)]), np.stack([picked[0], nothing, picked[1:].sum(0) / np.sqrt(2)]),
        np.stack([picked[0], nothing, picked[1:].sum(0)]), [1, 0, 2, 0], -np.log(p[np.arange(3), [3, 0, 1]]), p - np.eye(4)[[3, 0, 1]],
    ]  # fmt: skip
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


def test_shapes_that_are_none() -> None:
    graph = graph_of(("Neg", "y", ("x",)), shape=(-1, 4))
    for shape, told in (
        ([3, 4], "the graph: shape is a list; give a dictionary of extents by input name"),
        ({"x": "3,4"}, "shape gives the input 'x' '3,4'; give a tuple of extents"),
        (
            {"x": (3, "four")},
            "shape gives axis 1 of the input 'x' the extent 'four'; extents are integers, -1 or None",
        ),
        ({"x": (2.5, 4)}, "gives axis 0 of the input 'x' the extent 2.5"),
        ({0: (3, 4)}, "shape has the key 0; its keys are names of inputs"),
    ):
        with pytest.raises(ModelError, match=told):
            from_tensorflow(graph, shape=shape)
