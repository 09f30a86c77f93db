"""TFLite models of more than one operator: control flow, variables, signatures, dynamic dimensions, how weights lie in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.ops.samples import F, i32, rng, values
from tests.frontend.tflite.ops.writer import Graph, Writer, litert, ours, schema
from tilewright import relay
from tilewright.relay.frontend.tflite import OperatorConverter, from_tflite, initial_variables
from tilewright.support.errors import ModelError


def same(data: bytes, inputs: list[np.ndarray], **options: Any) -> None:
    for found, wanted in zip(ours(data, inputs, **options), litert(data, inputs), strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def vector(g: Graph, op: str, *args: int, shape: tuple[int, ...] = (3,), dtype: str = F, kind: str = "") -> int:
    return g.op(op, args, [(dtype, shape)], {}, kind)[0]


def network() -> tuple[Writer, list[int]]:
    """A convolution and a product, with a dynamic batch."""
    w, r = Writer(1), rng("network")
    g = w.main
    x = g.input(F, (1, 6, 6, 3), name="image", signature=(-1, 6, 6, 3))
    kernel, bias = g.constant(values(r, F, (4, 3, 3, 3)), name="kernel"), g.constant(values(r, F, (4,)), name="bias")
    (c,) = g.op(
        "CONV_2D",
        [x, kernel, bias],
        [(F, (1, 6, 6, 4))],
        {"stride_w": 1, "stride_h": 1, "fused_activation_function": 1},
        "Conv2DOptions",
    )
    (s,) = g.op("SHAPE", [c], [("int32", (4,))], {"out_type": 2}, "ShapeOptions")
    begin, end, one = g.constant(i32(0)), g.constant(i32(1)), g.constant(i32(1))
    (n,) = g.op("STRIDED_SLICE", [s, begin, end, one], [("int32", ())], {"shrink_axis_mask": 1}, "StridedSliceOptions")
    rest = g.constant(np.array(144, np.int32))
    (shape,) = g.op("PACK", [n, rest], [("int32", (2,))], {"values_count": 2, "axis": 0}, "PackOptions")
    (flat,) = g.op("RESHAPE", [c, shape], [(F, (1, 144))], {}, "ReshapeOptions")
    dense = g.constant(values(r, F, (5, 144), -0.2, 0.2), name="dense")
    out = g.op("FULLY_CONNECTED", [flat, dense, -1], [(F, (1, 5), None)], {}, "FullyConnectedOptions")
    return w, out


def test_dynamic_dimensions() -> None:
    w, out = network()
    data = w.finish(out)
    mod, params = from_tflite(data)
    assert sorted(params) == ["bias", "dense", "kernel"]
    assert str(mod["main"].params[0].type_annotation.shape[0]) == "image_0"
    assert str(mod["main"].checked_type.ret_type.shape[0]) == "image_0"
    for batch in (1, 3):
        same(data, [values(rng("x"), F, (batch, 6, 6, 3))])
        same(data, [values(rng("x"), F, (batch, 6, 6, 3))], shape_dict={"image": (batch, 6, 6, 3)})
    assert np.shares_memory(from_tflite(data)[1]["dense"], np.frombuffer(data, np.uint8))


def test_compiled() -> None:
    """The same numbers from compiled code, as ahead-of-time code and layer by layer from a file."""
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    w, out = network()
    data, x = w.finish(out), values(rng("x"), F, (1, 6, 6, 3))
    mod, params = from_tflite(data, {"image": x.shape})
    executor = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    executor.set_input("image", x)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), litert(data, [x])[0], rtol=1e-5, atol=1e-6)


def test_one_network_in_three_formats() -> None:
    import onnx
    import torch

    w, out = network()
    x, r = values(rng("x"), F, (1, 6, 6, 3)), rng("network")
    (found,) = ours(w.finish(out), [x])
    kernel, bias, dense = values(r, F, (4, 3, 3, 3)), values(r, F, (4,)), values(r, F, (5, 144), -0.2, 0.2)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            k = torch.from_numpy(kernel.transpose(0, 3, 1, 2).copy())
            c = torch.relu(torch.conv2d(x.permute(0, 3, 1, 2), k, torch.from_numpy(bias), padding=1))
            return c.permute(0, 2, 3, 1).reshape(-1, 144) @ torch.from_numpy(dense).T

    from tilewright.relay.evaluation.interpreter import run_function

    mod, params = relay.frontend.from_pytorch(Net(), (torch.from_numpy(x),))
    args = [params.get(p.name_hint, x) for p in mod["main"].params]
    np.testing.assert_allclose(run_function(mod["main"], args, mod), found, rtol=1e-5, atol=1e-5)
    node, array = onnx.helper.make_node, onnx.numpy_helper.from_array
    graph = onnx.helper.make_graph(
        [
            node("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
            node("Conv", ["a", "k", "b"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["d"]),
            node("Transpose", ["d"], ["e"], perm=[0, 2, 3, 1]),
            node("Flatten", ["e"], ["f"]),
            node("Gemm", ["f", "w"], ["y"], transB=1),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", 1, x.shape)],
        [onnx.helper.make_tensor_value_info("y", 1, (1, 5))],
        [array(kernel.transpose(0, 3, 1, 2).copy(), "k"), array(bias, "b"), array(dense, "w")],
    )
    mod, _ = relay.frontend.from_onnx(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]))
    np.testing.assert_allclose(run_function(mod["main"], [x], mod), found, rtol=1e-5, atol=1e-5)


def branches() -> bytes:
    w = Writer()
    sides = []
    for op in ("ADD", "MUL"):
        g = w.graph(op)
        a, b = g.input(F, (3,)), g.input(F, (3,))
        g.table.outputs = [vector(g, op, a, b, kind=f"{op.capitalize()}Options")]
        sides.append(len(w.graphs) - 1)
    flag = w.main.input("bool", (1,))
    x, y = w.main.input(F, (3,)), w.main.input(F, (3,))
    options = {"then_subgraph_index": sides[0], "else_subgraph_index": sides[1]}
    return w.finish(w.main.op("IF", [flag, x, y], [(F, (3,))], options, "IfOptions"))


def test_branches() -> None:
    x, y = values(rng("x"), F, (3,)), values(rng("y"), F, (3,))
    for flag in (True, False):
        same(branches(), [np.array([flag]), x, y])


@pytest.mark.parametrize("rounds", [0, 3, 100])
@pytest.mark.parametrize("known", [False, True])
def test_loops(rounds: int, known: bool) -> None:
    w = Writer()
    cond, step = w.graph("cond"), w.graph("step")
    i, n, _ = cond.input("int32", ()), cond.input("int32", ()), cond.input(F, (3,))
    cond.table.outputs = [vector(cond, "LESS", i, n, shape=(), dtype="bool", kind="LessOptions")]
    i, n, x = step.input("int32", ()), step.input("int32", ()), step.input(F, (3,))
    one, half = step.constant(np.array(1, np.int32)), step.constant(np.array(0.5, F))
    next_i = vector(step, "ADD", i, one, shape=(), dtype="int32", kind="AddOptions")
    next_x = vector(step, "ADD", vector(step, "MUL", x, half, kind="MulOptions"), half, kind="AddOptions")
    step.table.outputs = [next_i, n, next_x]
    zero = w.main.constant(np.array(0, np.int32))
    limit = w.main.constant(np.array(rounds, np.int32)) if known else w.main.input("int32", ())
    x = w.main.input(F, (3,))
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    made = w.main.op("WHILE", [zero, limit, x], [("int32", ()), ("int32", ()), (F, (3,))], options, "WhileOptions")
    given = values(rng("x"), F, (3,))
    same(w.finish(made[2:]), [given] if known else [np.array(rounds, np.int32), given])


def counter() -> bytes:
    """A model that adds its input to a variable, which begins with ones."""
    w = Writer()
    init = w.graph("init")

    def handle(g: Graph) -> int:
        return g.op(
            "VAR_HANDLE", [], [("resource", ())], {"shared_name": "total", "container": ""}, "VarHandleOptions"
        )[0]

    init.op("ASSIGN_VARIABLE", [handle(init), init.constant(np.ones(3, F))], [], {}, "AssignVariableOptions")
    g = w.main
    g.op("CALL_ONCE", [], [], {"init_subgraph_index": 1}, "CallOnceOptions")
    h = handle(g)
    x = g.input(F, (3,), name="x")
    before = vector(g, "READ_VARIABLE", h, kind="ReadVariableOptions")
    after = vector(g, "ADD", before, x, kind="AddOptions")
    g.op("ASSIGN_VARIABLE", [h, after], [], {}, "AssignVariableOptions")
    return w.finish([after])


def test_variables() -> None:
    data, x = counter(), values(rng("x"), F, (3,))
    np.testing.assert_allclose(ours(data, [x])[0], litert(data, [x])[0])
    state = initial_variables(data)
    np.testing.assert_array_equal(state["total"], np.ones(3))
    total = state["total"]
    for runs in (1, 2, 3):
        found, total = ours(data, [x, total], variables="carried")
        np.testing.assert_allclose(found, litert(data, [x], runs=runs)[0], rtol=1e-6)
    mod, _ = from_tflite(data, variables="carried")
    assert [p.name_hint for p in mod["main"].params] == ["x", "total"]
    assert mod["main"].attrs["output_tensor_names"][1] == "total"


def test_states_of_layers() -> None:
    """Variable tensors of recurrent layers carry over as variables do."""
    from tests.frontend.tflite.ops.recurrent_and_images import SAMPLES

    data, (x,) = SAMPLES["SVDF"](1)
    state = initial_variables(data)["state4"]
    for runs in (1, 2, 3):
        found, state = ours(data, [x, state], variables="carried")
        np.testing.assert_allclose(found, litert(data, [x], runs=runs)[0], rtol=1e-5, atol=1e-6)


def two_layers(same: bool) -> tuple[bytes, np.ndarray]:
    """Two recurrent layers one after another, which share a state, or whose states share a name."""
    w, r = Writer(), rng("two_layers")
    g = w.main
    x = at = g.input(F, (2, 3), name="x")
    weights = [g.constant(values(r, F, s)) for s in ((3, 3), (3, 3), (3,))]
    states = [g.tensor("state", F, (2, 3), isVariable=True) for _ in range(2)]
    for k in range(2):
        (at,) = g.op("RNN", [at, *weights, states[0 if same else k]], [(F, (2, 3))], {}, "RNNOptions")
    return w.finish([x, at]), values(r, F, (2, 3))


@pytest.mark.parametrize("same", [True, False])
def test_states_of_two_layers(same: bool) -> None:
    data, x = two_layers(same)
    np.testing.assert_allclose(ours(data, [x])[1], litert(data, [x])[1], rtol=1e-5, atol=1e-6)
    state = initial_variables(data)
    assert [*state] == (["state"] if same else ["state", "state_1"])


def test_directions_joined() -> None:
    from tests.frontend.tflite.ops.recurrent_and_images import MERGED, SAMPLES

    (data, x), (apart, _) = MERGED["BIDIRECTIONAL_LSTM-True"](1), SAMPLES["BIDIRECTIONAL_LSTM-False"](1)
    np.testing.assert_allclose(ours(data, x)[0], np.concatenate(litert(apart, x), -1), rtol=1e-5, atol=1e-6)


def test_names_of_inputs() -> None:
    """As tensors, as signatures and without what converters put before and behind them."""
    w = Writer()
    x = w.main.input(F, (3, 4), name="serving_default_image:0")
    w.signature("serving_default", 0, {"picture": x}, {"y": 1})
    data = w.finish([vector(w.main, "NEG", x, kind="NegOptions")])
    for key in ("serving_default_image:0", "serving_default_image", "image", "image:0", "picture"):
        mod, _ = from_tflite(data, shape_dict={key: (3, 4)}, dtype_dict={key: "float32"})
        (given,) = mod["main"].params
        assert (given.name_hint, list(given.type_annotation.shape)) == ("serving_default_image:0", [3, 4])
    with pytest.raises(
        ModelError, match="shape_dict names 'imag', but the model's inputs are 'serving_default_image:0'"
    ):
        from_tflite(data, shape_dict={"imag": (3, 4)})


def test_signatures() -> None:
    w = Writer()
    g = w.graph("twice")
    a = g.input(F, (3,))
    g.table.outputs = [vector(g, "ADD", a, a, kind="AddOptions")]
    x = w.main.input(F, (3,), name="serving_default_x:0")
    w.signature("serving_default", 0, {"x": x}, {"y": 1})
    w.signature("twice", 1, {"value": a}, {"double": g.table.outputs[0]})
    data, given = w.finish([vector(w.main, "NEG", x, kind="NegOptions")]), values(rng("x"), F, (3,))
    np.testing.assert_array_equal(ours(data, [given])[0], -given)
    np.testing.assert_array_equal(ours(data, [given], signature="twice")[0], 2 * given)
    mod, _ = from_tflite(data, signature="twice")
    assert mod["main"].params[0].name_hint == "value" and mod["main"].attrs["output_tensor_names"] == ("double",)
    with pytest.raises(
        ModelError, match=r"no signature 'twise'; its signatures are 'serving_default', 'twice'. Did you mean 'twice'\?"
    ):
        from_tflite(data, signature="twise")


@pytest.mark.parametrize(
    "begin, count, step",
    [(1, 2, 1), (-1, 1, 1), (-2, 2, 1), (3, -2, -1), (-2, -2, -1), (4, -4, -2), (4, -5, -1), (1, -3, 1), (0, 5, 2)],
)
def test_slices_whose_ends_are_counted_from_their_begins(begin: int, count: int, step: int) -> None:
    data = counted_slice(begin, count, step)
    x = np.arange(5, dtype="float32")
    found = ours(data, [x])[0]
    places = list(range(begin % 5, begin % 5 + count, step))
    np.testing.assert_array_equal(found, x[places])
    if count * step > 0 and count != -5:  # else it reads what lies before the tensor, or ends the process
        np.testing.assert_array_equal(found, litert(data, [x])[0])


def counted_slice(begin: int, count: int, step: int) -> bytes:
    w = Writer(1)
    x = w.main.input(F, (5,), name="x")
    parts = [w.main.constant(np.array([v], np.int32)) for v in (begin, count, step)]
    return w.finish(w.main.op("STRIDED_SLICE", [x, *parts], [(F, (1,))], {"offset": True}, "StridedSliceOptions"))


def test_slices_that_leave_their_axis() -> None:
    with pytest.raises(ModelError, match="it takes places from 2 to 11 of an axis of 5"):
        from_tflite(counted_slice(2, 9, 1))


# ---- weights


def weighted(index: Any, w: Writer, rows: int = 4, columns: int = 6) -> bytes:
    x = w.main.input(F, (2, columns))
    return w.finish(w.main.op("FULLY_CONNECTED", [x, index, -1], [(F, (2, rows))], {}, "FullyConnectedOptions"))


X = values(rng("x"), F, (2, 6))


def test_float16_weights() -> None:
    w = Writer()
    half = w.main.constant(values(rng("w"), "float16", (4, 6)))
    (whole,) = w.main.op("DEQUANTIZE", [half], [(F, (4, 6))], {}, "DequantizeOptions")
    same(weighted(whole, w), [X])


def test_sparse_weights() -> None:
    """Blocks of 2 x 2, of which the columns are sparse."""
    s, w = schema(), Writer()
    dense = np.zeros((4, 6), F)
    dense[0:2, 2:4], dense[2:4, 0:2], dense[2:4, 4:6] = 1 + np.arange(4).reshape(2, 2), 2.5, -np.arange(4).reshape(2, 2)
    blocks = [dense[0:2, 2:4], dense[2:4, 0:2], dense[2:4, 4:6]]
    p = s.SparsityParametersT()
    p.traversalOrder, p.blockMap = [0, 1, 2, 3], [0, 1]
    levels = []
    for size in (2, None, 2, 2):
        d = s.DimensionMetadataT()
        d.format = 0 if size else 1
        d.denseSize = size or 0
        if size is None:
            for name, numbers in (("arraySegments", [0, 1, 3]), ("arrayIndices", [1, 0, 2])):
                v = s.Int32VectorT()
                v.values = numbers
                setattr(d, name, v)
                setattr(d, name + "Type", s.SparseIndexVector.Int32Vector)
        levels.append(d)
    p.dimMetadata = levels
    index = w.main.tensor("w", F, (4, 6), data=np.stack(blocks).tobytes(), sparsity=p)
    (made,) = ours(weighted(w.main.op("DENSIFY", [index], [(F, (4, 6))], {}, "DensifyOptions")[0], w), [X])
    np.testing.assert_allclose(made, X @ dense.T, rtol=1e-6)


def test_small_integers() -> None:
    w = Writer()
    numbers = rng("w").integers(-8, 8, (4, 6)).astype(np.int8)
    index = w.main.constant(numbers, (0.25, 0), "int4")
    (made,) = w.main.op("DEQUANTIZE", [index], [(F, (4, 6))], {}, "DequantizeOptions")
    np.testing.assert_allclose(ours(weighted(made, w), [X])[0], X @ (numbers * np.float32(0.25)).T, rtol=1e-5)


def test_weights_behind_the_flatbuffer(tmp_path: Path) -> None:
    """As models over 2 GB keep them; and in a file of their own."""
    w, s = Writer(), schema()
    numbers = values(rng("w"), F, (4, 6))
    index = w.main.tensor("w", F, (4, 6), data=b"")
    buffer = w.model.buffers[-1]
    buffer.data, buffer.offset, buffer.size = None, 1 << 20, numbers.nbytes
    data = weighted(index, w)
    (tmp_path / "m.tflite").write_bytes(data.ljust(1 << 20, b"\0") + numbers.tobytes())
    np.testing.assert_allclose(ours(tmp_path / "m.tflite", [X])[0], X @ numbers.T, rtol=1e-5)  # type: ignore[arg-type]
    with pytest.raises(
        ModelError, match=r"the buffer of 'w' needs bytes 1048576 to 1048672, but there are \d+. The file is truncated"
    ):
        from_tflite(data)
    w = Writer()
    index = w.main.tensor("w", F, (4, 6), externalBuffer=7)
    group, external = s.ExternalBufferGroupT(), s.ExternalBufferT()
    group.name = "weights.bin"
    external.id, external.group, external.offset, external.length = 7, 0, 16, numbers.nbytes
    w.model.externalBufferGroups, w.model.externalBuffers = [group], [external]
    (tmp_path / "e.tflite").write_bytes(weighted(index, w))
    with pytest.raises(ModelError, match=r"lie in 'weights.bin', which is not in"):
        from_tflite(tmp_path / "e.tflite")
    (tmp_path / "weights.bin").write_bytes(bytes(16) + numbers.tobytes())
    np.testing.assert_allclose(ours(tmp_path / "e.tflite", [X])[0], X @ numbers.T, rtol=1e-5)  # type: ignore[arg-type]
    group.name = "../weights.bin"
    (tmp_path / "e.tflite").write_bytes(weighted(0, _outside(s)))
    with pytest.raises(ModelError, match=r"outside the model's folder"):
        from_tflite(tmp_path / "e.tflite")


def _outside(s: Any) -> Writer:
    w = Writer()
    w.main.tensor("w", F, (4, 6), externalBuffer=7)
    group, external = s.ExternalBufferGroupT(), s.ExternalBufferT()
    group.name, external.id = "../weights.bin", 7
    w.model.externalBufferGroups, w.model.externalBuffers = [group], [external]
    return w


# ---- what is given


def test_model_objects() -> None:
    w, out = network()
    data = w.finish(out)
    x = values(rng("x"), F, (1, 6, 6, 3))
    model = schema().Model.GetRootAs(data, 0)
    np.testing.assert_array_equal(ours(model, [x])[0], ours(data, [x])[0])
    with pytest.raises(TypeError, match=r"from_tflite takes a path, bytes or a tflite.Model, but was given int"):
        from_tflite(3)


def test_own_converters() -> None:
    class Own(OperatorConverter):
        def __init__(self, model: Any, subgraph: Any, exp_tab: Any) -> None:
            super().__init__(model, subgraph, exp_tab)
            self.allow_custom_ops = True
            self.convert_map.update({"SUB": self.convert_sub, "Twice": self.convert_twice})

        def convert_sub(self, op: Any) -> Any:
            a, b = self.get_input_tensors(op)
            assert self.get_tensor_type_str(a.tensor.type) == "float32" and self.get_tensor_shape(a) == (3,)
            return relay.add(self.get_tensor_expr(a), self.get_tensor_expr(b))

        def convert_twice(self, op: Any) -> Any:
            (x,) = self.get_input_tensors(op)
            return relay.multiply(self.get_tensor_expr(x), relay.const(2.0))

    w = Writer()
    x, y = w.main.input(F, (3,)), w.main.input(F, (3,))
    difference = vector(w.main, "SUB", x, y, kind="SubOptions")
    data = w.finish([vector(w.main, "Twice", difference)])
    a, b = values(rng("a"), F, (3,)), values(rng("b"), F, (3,))
    np.testing.assert_allclose(ours(data, [a, b], op_converter=Own)[0], 2 * (a + b), rtol=1e-6)


def test_products_of_bytes(tmp_path: Path) -> None:
    """The command line's program of a quantised convolution multiplies bytes, whatever the zero point of its data."""
    from tests.frontend.tflite.test_ops import SAMPLES
    from tilewright.relay.frontend.common.formats import format_of

    path = tmp_path / "model.tflite"
    for name in ("CONV_2D-int8-one0", "CONV_2D-int8-each0"):
        path.write_bytes(SAMPLES[name](3)[0])
        mod, params = format_of(path).load(path, {})
        assert params == {}
        assert "nn.conv2d" in str(mod) and "int16" not in str(mod)


def test_a_shape_in_parts() -> None:
    """SPLIT_V and SPLIT of a shape with a dynamic dimension, as frames of a signal are computed."""
    w = Writer(1)
    g = w.main
    x = g.input(F, (1, 6, 2), name="x", signature=(-1, 6, 2))
    (s,) = g.op("SHAPE", [x], [("int32", (3,))], {"out_type": 2}, "ShapeOptions")
    zero = g.constant(np.array(0, np.int32))
    head, tail, _ = g.op(
        "SPLIT_V",
        [s, g.constant(i32(1, -1, 0)), zero],
        [("int32", (1,)), ("int32", (2,)), ("int32", (0,))],
        {"num_splits": 3},
        "SplitVOptions",
    )
    six, two = g.op("SPLIT", [zero, tail], [("int32", (1,)), ("int32", (1,))], {"num_splits": 2}, "SplitOptions")
    (shape,) = g.op("CONCATENATION", [head, two, six], [("int32", (3,))], {"axis": 0}, "ConcatenationOptions")
    data = w.finish(g.op("RESHAPE", [x, shape], [(F, (1, 2, 6))], {}, "ReshapeOptions"))
    for batch in (1, 3):
        same(data, [values(rng("x"), F, (batch, 6, 2))])
