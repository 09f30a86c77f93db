"""Each operator of Caffe2 against NumPy and PyTorch, in networks as Caffe2 writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tilewright import relay
from tilewright.formats.caffe2_messages import message
from tilewright.relay.frontend.caffe2 import supported_operators
from tilewright.support.errors import ModelError, OpNotImplemented

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


X, A, B = random(2, 4, 6, 8), random(3, 5), random(3, 5)


def argument(op: Any, name: str, value: Any) -> None:
    a = op.arg.add(name=name)
    if isinstance(value, (bool, int)):
        a.i = int(value)
    elif isinstance(value, float):
        a.f = value
    elif isinstance(value, str):
        a.s = value.encode()
    elif len(value) and isinstance(value[0], float):
        a.floats.extend(value)
    else:
        a.ints.extend(value)


def operator(net: Any, kind: str, inputs: list[str], outputs: list[str], **arguments: Any) -> None:
    op = net.op.add(type=kind, input=inputs, output=outputs)
    for name, value in arguments.items():
        argument(op, name, value)


def fills(weights: dict[str, Array]) -> Any:
    """The network that fills weights."""
    net = message("NetDef")(name="init")
    kinds = {"f": "GivenTensorFill", "i": "GivenTensorInt64Fill", "b": "GivenTensorBoolFill"}
    for name, array in weights.items():
        values = [v.item() for v in array.reshape(-1)]
        operator(net, kinds[array.dtype.kind], [], [name], shape=list(array.shape), values=values)
    return net


def network(kind: str, inputs: list[str], results: int, external: list[str] | None = None, **arguments: Any) -> Any:
    net = message("NetDef")(name="net")
    names = [f"y{k}" for k in range(results)]
    operator(net, kind, inputs, names, **arguments)
    net.external_input.extend(inputs if external is None else external)
    net.external_output.extend(names)
    return net


def run(init: Any, net: Any, inputs: dict[str, Array]) -> list[Array]:
    kinds = {k: v.dtype.name for k, v in inputs.items()}
    mod, params = relay.frontend.from_caffe2(init, net, {k: v.shape for k, v in inputs.items()}, kinds)
    found = relay.create_executor("graph", mod).evaluate()(*inputs.values(), **params)
    return [v.numpy() for v in (found if not hasattr(found, "numpy") else [found])]


def check(
    kind: str, inputs: list[Array], wanted: Array | list[Array], weights: list[Array] | None = None, **arguments: Any
) -> None:
    """An operator: the inputs are given to the program, the weights lie in init_net."""
    wanted = wanted if isinstance(wanted, list) else [wanted]
    data = {f"x{k}": v for k, v in enumerate(inputs)}
    fixed = {f"w{k}": v for k, v in enumerate(weights or [])}
    got = run(fills(fixed), network(kind, [*data, *fixed], len(wanted), **arguments), data)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)
        assert mine.shape == theirs.shape


def torched(f: Any, *arrays: Array, **more: Any) -> Array:
    found: Array = f(*[torch.from_numpy(np.ascontiguousarray(v)) for v in arrays], **more).numpy()
    return found


def nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


POSITIVE = abs(A) + 0.5
UNARY: dict[str, Any] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Tanh": np.tanh, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x), "Abs": np.abs, "Negative": np.negative, "Floor": np.floor, "Ceil": np.ceil, "Sin": np.sin,
    "Cos": np.cos, "Tan": np.tan, "Sign": np.sign, "Relu": lambda x: np.maximum(x, 0), "Sinh": np.sinh, "Cosh": np.cosh, "Atan": np.arctan,
    "Erf": lambda x: torched(torch.erf, x), "Sqr": np.square, "Cube": lambda x: x**3, "Softsign": lambda x: x / (1 + abs(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)), "Swish": lambda x: x / (1 + np.exp(-x)), "Dropout": lambda x: x, "StopGradient": lambda x: x,
    "Copy": lambda x: x, "Alias": lambda x: x, "EnsureCPUOutput": lambda x: x, "CopyFromCPUInput": lambda x: x, "CopyToCPU": lambda x: x,
    "CopyGPUToCPU": lambda x: x, "CopyCPUToGPU": lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x = POSITIVE if kind in ("Log", "Sqrt", "Rsqrt") else A
    check(kind, [x], UNARY[kind](x))


def test_binary() -> None:
    for kind, f in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}.items():
        check(kind, [A, B], f(A, B))
    channels = random(4)
    check("Add", [X, channels], X + channels[:, None, None], broadcast=1, axis=1)
    check("Mul", [X, random(8) * 0 + 2], X * 2, broadcast=1)
    compared = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }
    for kind, f in compared.items():
        check(kind, [A, np.sort(A)], f(A, np.sort(A)))
    p, q = A > 0, B > 0
    logical: dict[str, Any] = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
    for kind, f in logical.items():
        check(kind, [p, q], f(p, q))
    check("Not", [p], ~p)
    check("Pow", [POSITIVE], POSITIVE**1.5, exponent=1.5)
    check("Pow", [POSITIVE, B], POSITIVE**B)
    for kind, wanted in {
        "Sum": A + B + A,
        "Max": np.maximum(A, B),
        "Min": np.minimum(A, B),
        "Mean": (A + B + A) / 3,
    }.items():
        check(kind, [A, B, A], wanted)


def test_activations() -> None:
    check("LeakyRelu", [A], np.where(A > 0, A, 0.2 * A), alpha=0.2)
    slopes = random(4)
    check("PRelu", [X], torched(torch.prelu, X, slopes), [slopes])
    check("PRelu", [nhwc(X)], nhwc(torched(torch.prelu, X, slopes)), [slopes], order="NHWC")
    check("PRelu", [X], torched(torch.prelu, X, slopes[:1]), [slopes[:1]])
    check("Elu", [A], torched(functional.elu, A, alpha=0.7), alpha=0.7)
    check("Selu", [A], torched(functional.selu, A))
    check("HardSigmoid", [A], np.clip(0.2 * A + 0.5, 0, 1))
    check("Clip", [A], np.clip(A, -0.5, 0.3), min=-0.5, max=0.3)
    check("Scale", [A], A * 3, scale=3.0)
    check("Cast", [A], A.astype("int32"), to=2)
    check("Cast", [A], A.astype("float64"), to="DOUBLE")
    for kind, f in {"Softmax": functional.softmax, "LogSoftmax": functional.log_softmax}.items():
        check(kind, [A], torched(f, A, dim=1))
        check(kind, [X], torched(f, X.reshape(2, -1), dim=1).reshape(X.shape), axis=1)


@pytest.mark.parametrize("kind", ["Conv", "Conv2D"])
def test_convolutions(kind: str) -> None:
    w, b = random(6, 4, 3, 3), random(6)
    check(kind, [X], torched(functional.conv2d, X, w, b, padding=1), [w, b], kernel=3, pad=1)
    check(kind, [X], torched(functional.conv2d, X, w, stride=2), [w], kernels=[3, 3], strides=[2, 2])
    check(kind, [X], torched(functional.conv2d, X, w[:, :2], b, padding=(1, 2), groups=2, dilation=2), [w[:, :2].copy(), b],
          kernel_h=3, kernel_w=3, pad_t=1, pad_l=2, pad_b=1, pad_r=2, group=2, dilation=2)  # fmt: skip
    check(kind, [X], torched(functional.conv2d, X, w, b, padding="same"), [w, b], kernel=3, legacy_pad=2)
    check(kind, [X], torched(functional.conv2d, X, w, b), [w, b], kernel=3, legacy_pad=1)
    inside = np.ascontiguousarray(w.transpose(0, 2, 3, 1))
    check(
        kind,
        [nhwc(X)],
        nhwc(torched(functional.conv2d, X, w, b, padding=1)),
        [inside, b],
        kernel=3,
        pad=1,
        order="NHWC",
    )


def test_other_convolutions() -> None:
    line, w = random(2, 4, 9), random(6, 4, 3)
    check("Conv1D", [line], torched(functional.conv1d, line, w, stride=2), [w], kernels=[3], strides=[2])
    cube, w = random(1, 2, 4, 5, 6), random(3, 2, 2, 2, 2)
    check("Conv3D", [cube], torched(functional.conv3d, cube, w), [w], kernels=[2, 2, 2])
    w, b = random(4, 3, 3, 3), random(3)
    wanted = torched(functional.conv_transpose2d, X, w, b, stride=2, padding=1, output_padding=1)
    check("ConvTranspose", [X], wanted, [w, b], kernel=3, stride=2, pad=1, adj=1)


@pytest.mark.parametrize("axes", ["", "2D"])
def test_pooling(axes: str) -> None:
    most, mean = functional.max_pool2d, functional.avg_pool2d
    check(f"MaxPool{axes}", [X], torched(most, X, kernel_size=3, stride=2, padding=1), kernel=3, stride=2, pad=1)
    check(
        f"MaxPool{axes}",
        [X],
        torched(most, X, kernel_size=3, stride=2, ceil_mode=True),
        kernel=3,
        stride=2,
        legacy_pad=3,
    )
    check(f"AveragePool{axes}", [X], torched(mean, X, kernel_size=2, stride=2), kernel=2, stride=2)
    inside = torched(mean, X, kernel_size=3, stride=1, padding=1, count_include_pad=False)
    check(f"AveragePool{axes}", [X], inside, kernel=3, pad=1)
    check(
        f"AveragePool{axes}",
        [X],
        torched(mean, X, kernel_size=3, stride=1, padding=1),
        kernel=3,
        pad=1,
        count_include_pad=1,
    )
    check(f"AveragePool{axes}", [X], X.mean((2, 3), keepdims=True), global_pooling=1, kernel=1)
    check(f"MaxPool{axes}", [nhwc(X)], X.max((2, 3)).reshape(2, 1, 1, 4), global_pooling=1, kernel=1, order="NHWC")


def test_pooling_of_other_ranks() -> None:
    line, cube = random(2, 3, 9), random(1, 2, 4, 6, 6)
    check("MaxPool1D", [line], torched(functional.max_pool1d, line, kernel_size=3, stride=2), kernels=[3], strides=[2])
    check(
        "AveragePool1D", [line], torched(functional.avg_pool1d, line, kernel_size=3, stride=2), kernels=[3], strides=[2]
    )
    check(
        "MaxPool3D", [cube], torched(functional.max_pool3d, cube, kernel_size=2), kernels=[2, 2, 2], strides=[2, 2, 2]
    )
    check(
        "AveragePool3D",
        [cube],
        torched(functional.avg_pool3d, cube, kernel_size=2),
        kernels=[2, 2, 2],
        strides=[2, 2, 2],
    )


def test_normalisation() -> None:
    scale, bias, mean, variance = random(4), random(4), random(4), abs(random(4))
    wanted = torched(functional.batch_norm, X, mean, variance, scale, bias, eps=1e-3)
    check("SpatialBN", [X], wanted, [scale, bias, mean, variance], is_test=1, epsilon=1e-3)
    check("SpatialBN", [nhwc(X)], nhwc(wanted), [scale, bias, mean, variance], is_test=1, epsilon=1e-3, order="NHWC")
    wanted = torched(lambda x, g, b: functional.instance_norm(x, weight=g, bias=b), X, scale, bias)
    check("InstanceNorm", [X], wanted, [scale, bias])
    check("AffineChannel", [X], X * scale[:, None, None] + bias[:, None, None], [scale, bias])
    check(
        "LRN",
        [X],
        torched(functional.local_response_norm, X, size=3, alpha=0.5, beta=0.75, k=2.0),
        size=3,
        alpha=0.5,
        beta=0.75,
        bias=2.0,
    )
    check("Normalize", [A], torched(functional.normalize, A, dim=1))
    check("NormalizeL1", [A], torched(functional.normalize, A, p=1, dim=1), axis=1)


def test_products() -> None:
    w, b = random(7, 5), random(7)
    check("FC", [A], A @ w.T + b, [w, b])
    check("FCTransposed", [A], A @ w.T + b, [w.T.copy(), b])
    wide = random(7, 192)
    check("FC", [X], X.reshape(2, -1) @ wide.T + b, [wide, b])
    rows = random(7, 8)
    check("FC", [X], X @ rows.T + b, [rows, b], axis=3)
    check("MatMul", [A, B], A.T @ B, trans_a=1)
    check("MatMul", [A, B], A @ B.T, trans_b=1)
    left, right = random(2, 3, 4, 5), random(2, 3, 6, 5)
    check("BatchMatMul", [left, right], left @ right.swapaxes(2, 3), trans_b=1)


def test_batches_of_matrices_broadcast() -> None:
    for a, b in (
        ((2, 1, 3, 4), (1, 2, 4, 5)),
        ((2, 3, 3, 4), (2, 1, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
    ):
        left, right = random(*a), random(*b)
        check("BatchMatMul", [left, right], np.matmul(left, right), broadcast=1)
        check("BatchMatMul", [left.swapaxes(-1, -2).copy(), right], np.matmul(left, right), broadcast=1, trans_a=1)
    with pytest.raises(OpNotImplemented, match="which broadcast only with broadcast=1"):
        check("BatchMatMul", [random(2, 3, 4), random(1, 4, 5)], random(2, 3, 5))


def test_numbers_that_a_type_has() -> None:
    whole, wide = np.array([-5, 0, 7], "int32"), np.array([-1e300, 0.0, 1e300])
    check("Clip", [whole], whole)
    check("Clip", [whole], np.maximum(whole, -1), min=-1.0)
    check("Clip", [wide], np.minimum(wide, 1), max=1.0)
    check("Scale", [whole], whole * 2, scale=2.0)
    for kind, given in {"Scale": {"scale": 0.5}, "Clip": {"min": 0.5}, "Pow": {"exponent": 1e20}}.items():
        with pytest.raises(OpNotImplemented, match="but its input has elements of int32"):
            check(kind, [whole], whole, **given)


def test_inputs_and_paths_in_messages() -> None:
    empty = message("NetDef")()
    with pytest.raises(ModelError, match=r"Add 'y0': its input number 2 \(b\) is missing"):
        check("Add", [A], A)
    with pytest.raises(ModelError, match="Relu 'y0': it has 2 inputs, but takes 1"):
        check("Relu", [A, B], A)
    with pytest.raises(ModelError, match="init_net: .*embedded null byte"):
        relay.frontend.from_caffe2("a\0b", empty)
    with pytest.raises(ModelError, match="embedded null byte"):
        relay.frontend.from_coreml("a\0b")
    with pytest.raises(ModelError, match="embedded null byte"):
        relay.frontend.from_paddle("a\0b")


def test_sizes_of_parts_fit() -> None:
    check("Split", [A], list(np.split(A, 5, 1)), axis=1)
    with pytest.raises(ModelError, match="Split 'y0': it splits axis 0, of the extent 4, into parts of 1, 1, 5"):
        check("Split", [random(4)], [random(1), random(1), random(2)], axis=0, split=[1, 1, 5])


def test_reductions() -> None:
    kinds: dict[str, Any] = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min}
    for kind, f in kinds.items():
        check(kind, [X], f(X, axis=(1, 3), keepdims=True), axes=[1, 3])
        check(kind, [X], f(X, axis=2), axes=[2], keepdims=0)
    kinds = {"Sum": np.sum, "Mean": np.mean, "Max": np.max}
    for kind, f in kinds.items():
        check(f"ReduceFront{kind}", [X], f(X, axis=(0, 1)), num_reduce_dim=2)
        check(f"ReduceBack{kind}", [X], f(X, axis=3))
    check("ReduceL2", [X], np.sqrt((X * X).sum(1, keepdims=True)), axes=[1])
    check("ArgMax", [A], A.argmax(1)[:, None])
    check("ArgMin", [A], A.argmin(0), axis=0, keepdims=0)
    values, places = torch.topk(torch.from_numpy(A), 2)
    check("TopK", [A], [values.numpy(), places.numpy()], k=2)


def test_movement() -> None:
    check("Concat", [X, X[:, :1]], [np.concatenate([X, X[:, :1]], 1), np.array([4, 1], "int32")])
    check("Concat", [A, B], np.stack([A, B], 1), axis=1, add_axis=1)
    check("Split", [X], [X[:, :1], X[:, 1:]], split=[1, 3])
    check("Split", [X], [X[..., :4], X[..., 4:]], order="NHWC")
    check("Slice", [X], X[:, 1:3, :, 2:], starts=[0, 1, 0, 2], ends=[-1, 3, -1, -1])
    check("Slice", [A], A[1:, :-1], starts=[1, 0], ends=[-1, -2])
    check("Flatten", [X], X.reshape(2, -1))
    check("FlattenToVec", [X], X.reshape(-1))
    check("Reshape", [X], [X.reshape(2, -1, 4), np.array(X.shape)], shape=[0, -1, 4])
    check("Reshape", [X], [X.reshape(8, -1), np.array(X.shape)], [np.array([8, -1])])
    check("ResizeLike", [A, random(5, 3)], A.reshape(5, 3))
    check("Transpose", [X], X.transpose(0, 2, 1, 3), axes=[0, 2, 1, 3])
    check("Transpose", [A], A.T)
    check("NCHW2NHWC", [X], nhwc(X))
    check("NHWC2NCHW", [nhwc(X)], X)
    check("ExpandDims", [A], A[None, :, None], dims=[0, 2])
    check("Squeeze", [A[None, :, None]], A, dims=[0, 2])
    check("Tile", [A], np.tile(A, (1, 3)), axis=1, tiles=3)
    rows = np.array([[2, 0], [1, 1]])
    check("Gather", [A, rows], A[rows])
    check("BatchGather", [A, rows[0]], A[:, rows[0]])
    check("Shape", [X], np.array(X.shape))
    check("Shape", [X], np.array([4, 8]), axes=[1, 3])
    check("ResizeNearest", [X], X.repeat(2, 2).repeat(3, 3), height_scale=2.0, width_scale=3.0)
    places = (np.arange(9) / 1.5).astype(int)
    check("ResizeNearest", [X], X[:, :, places], height_scale=1.5, width_scale=1.0)
    check("ChannelShuffle", [X], X.reshape(2, 2, 2, 6, 8).swapaxes(1, 2).reshape(X.shape), group=2)
    check("PadImage", [X], np.pad(X, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="reflect"), pad=1, mode="reflect")
    check(
        "PadImage",
        [X],
        np.pad(X, [(0, 0), (0, 0), (1, 0), (2, 3)], constant_values=7),
        pad_t=1,
        pad_l=2,
        pad_r=3,
        value=7.0,
    )


def test_fills() -> None:
    check("ConstantFill", [A], np.full((3, 5), 2, "float32"), value=2.0)
    net = message("NetDef")(name="net")
    operator(net, "ConstantFill", [], ["c"], shape=[3, 5], value=1.5)
    operator(net, "GivenTensorFill", [], ["g"], shape=[5], values=[1.0, 2.0, 3.0, 4.0, 5.0])
    operator(net, "Sum", ["x", "c"], ["s"])
    operator(net, "Add", ["s", "g"], ["y"])
    net.external_input.extend(["x"])
    net.external_output.extend(["y"])
    (got,) = run(message("NetDef")(), net, {"x": A})
    np.testing.assert_allclose(got, A + 1.5 + np.arange(1, 6), rtol=1e-5)
    for kind, dtype in {
        "Int": "int32",
        "Int64": "int64",
        "Int16": "int16",
        "Bool": "bool",
        "Double": "float64",
    }.items():
        net = network(f"GivenTensor{kind}Fill", [], 1, shape=[2], values=[1.0, 0.0] if kind == "Double" else [1, 0])
        (got,) = run(message("NetDef")(), net, {})
        assert got.dtype.name == dtype and got.tolist() == [1, 0]


def test_bytes_in_the_initial_network() -> None:
    init = message("NetDef")()
    operator(init, "GivenTensorByteStringToUInt8Fill", [], ["w"], shape=[3])
    init.op[0].arg.add(name="values").strings.append(bytes([1, 2, 255]))
    net = network("Cast", ["w"], 1, to=1)
    (got,) = run(init, net, {})
    assert got.tolist() == [1, 2, 255]


def test_every_operator_is_tested() -> None:
    text = Path(__file__).read_text()
    spelled = {f"Reduce{side}{kind}" for side in ("Front", "Back") for kind in ("Sum", "Mean", "Max")}
    spelled |= {f"GivenTensor{kind}Fill" for kind in ("Int", "Int64", "Int16", "Bool", "Double")}
    spelled |= {f"{kind}Pool2D" for kind in ("Max", "Average")} | {"MaxPool", "AveragePool"}
    assert {n for n in supported_operators() if f'"{n}"' not in text} <= spelled


def test_files_and_a_batch_of_any_size(tmp_path: Path) -> None:
    w, b = random(7, 5), random(7)
    init, net = fills({"w": w, "b": b}), network("FC", ["data", "w", "b"], 1)
    (tmp_path / "init_net.pb").write_bytes(init.SerializeToString())
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    paths = [tmp_path / "init_net.pb", str(tmp_path / "predict_net.pb")]
    mod, params = relay.frontend.from_caffe2(*paths, shape={"data": (-1, 5)})
    assert sorted(params) == ["b", "w"]
    machine = relay.create_executor("vm", mod).evaluate()
    for n in (1, 4):
        x = random(n, 5)
        np.testing.assert_allclose(machine(x, **params).numpy(), x @ w.T + b, rtol=1e-4, atol=1e-5)


def test_messages(tmp_path: Path) -> None:
    empty = message("NetDef")()
    net = network("Wobble", ["x"], 1)
    operator(net, "Sofmax", ["y0"], ["z"])
    with pytest.raises(
        OpNotImplemented,
        match=r"net: 2 things are not supported\n  Wobble \(1 operator: 'y0'\)\n  Sofmax.*supported: Softmax",
    ):
        relay.frontend.from_caffe2(empty, net, {"x": (2, 3)})
    with pytest.raises(
        ModelError, match=r"the model does not say the shape of its input 'x'. Give it: shape=\{'x': \(...\)\}"
    ):
        relay.frontend.from_caffe2(empty, network("Relu", ["x"], 1))
    with pytest.raises(ModelError, match="shape names 'data', but the model's inputs are 'x'"):
        relay.frontend.from_caffe2(empty, network("Relu", ["x"], 1), {"data": (2, 3)})
    with pytest.raises(ModelError, match=r"Conv 'y0': its argument 'kernel' is missing|Conv 'y0' does not have"):
        relay.frontend.from_caffe2(
            fills({"w": random(1, 1, 1, 1)}), network("Conv", ["x", "w"], 1), {"x": (1, 1, 2, 2)}
        )
    init = message("NetDef")()
    operator(init, "XavierFill", [], ["w"], shape=[3])
    with pytest.raises(OpNotImplemented, match="XavierFill.*random weights, before training"):
        relay.frontend.from_caffe2(init, network("Relu", ["x"], 1), {"x": (2, 3)})
    with pytest.raises(ModelError, match="init_net is a list; it must be a NetDef"):
        relay.frontend.from_caffe2([], empty)
    with pytest.raises(ModelError, match="predict_net: it is no NetDef of Caffe2"):
        relay.frontend.from_caffe2(empty, b"\xff\xff\xff")
    with pytest.raises(ModelError, match="reads 'w', which is neither an input nor a weight"):
        relay.frontend.from_caffe2(empty, network("Add", ["x", "w"], 1, external=["x"]), {"x": (2, 3)})
    with pytest.raises(OpNotImplemented, match="SpatialBN 'y0': it normalises by the data's own mean"):
        weights = {f"w{k}": random(4) for k in range(4)}
        relay.frontend.from_caffe2(fills(weights), network("SpatialBN", ["x", *weights], 1), {"x": X.shape})
    with pytest.raises(ModelError, match="No such file"):
        relay.frontend.from_caffe2(tmp_path / "none.pb", empty)
