"""Each operator of PaddlePaddle against NumPy and PyTorch, in programs as PaddlePaddle writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tilewright import relay
from tilewright.formats.paddle_messages import TYPES, message
from tilewright.relay.frontend.paddlepaddle import supported_operators
from tilewright.support.errors import ModelError, OpNotImplemented

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
NUMBERS = {np.dtype(v).name: k for k, v in TYPES.items()}


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


X, A, B = random(2, 4, 6, 8), random(3, 5), random(3, 5)
P = abs(A) + 1.1


def attribute(op: Any, name: str, value: Any) -> None:
    a = op.attrs.add(name=name)
    if isinstance(value, bool):
        a.b = value
    elif isinstance(value, int):
        a.i = value
    elif isinstance(value, float):
        a.f = value
    elif isinstance(value, str):
        a.s = value
    elif value and isinstance(value[0], float):
        a.floats.extend(value)
    else:
        a.ints.extend(value)


def program(
    kind: str,
    inputs: Mapping[str, list[tuple[str, Array, bool]]],
    outputs: Mapping[str, list[str]],
    attrs: Mapping[str, Any],
) -> Any:
    """A program of one operator. inputs: name -> (tensor's name, value, whether it is a weight)."""
    made = message("ProgramDesc")()
    block = made.blocks.add(idx=0)
    given = [entry for entries in inputs.values() for entry in entries]
    for name, array, fixed in given:
        v = block.vars.add(name=name, persistable=fixed)
        v.type.type = 7
        v.type.lod_tensor.tensor.data_type = NUMBERS[array.dtype.name]
        v.type.lod_tensor.tensor.dims.extend(array.shape)
        if not fixed:
            feed = block.ops.add(type="feed")
            feed.outputs.add(parameter="Out", arguments=[name])
    op = block.ops.add(type=kind)
    for parameter, entries in inputs.items():
        op.inputs.add(parameter=parameter, arguments=[name for name, _, _ in entries])
    for parameter, names in outputs.items():
        op.outputs.add(parameter=parameter, arguments=names)
        for name in names:
            fetch = block.ops.add(type="fetch")
            fetch.inputs.add(parameter="X", arguments=[name])
    for name, value in attrs.items():
        attribute(op, name, value)
    return made


def write(path: Path, made: Any, weights: Mapping[str, Array]) -> str:
    """The two files of a model."""
    path.with_suffix(".pdmodel").write_bytes(made.SerializeToString())
    parts = []
    for name in sorted(weights):
        desc = message("TensorDesc")(
            data_type=NUMBERS[weights[name].dtype.name], dims=weights[name].shape
        ).SerializeToString()
        parts.append(struct.pack("<IQIi", 0, 0, 0, len(desc)) + desc + np.ascontiguousarray(weights[name]).tobytes())
    path.with_suffix(".pdiparams").write_bytes(b"".join(parts))
    return str(path)


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """check(kind, {"X": array}, wanted, weights={"Y": array}, **attributes): an operator in a file, run."""

    def run(
        kind: str, given: Mapping[str, Any], wanted: Any, weights: Mapping[str, Array] | None = None, **attrs: Any
    ) -> None:
        inputs: dict[str, list[tuple[str, Array, bool]]] = {}
        for key, value in given.items():
            arrays = value if isinstance(value, list) else [value]
            inputs[key] = [(f"{key.lower()}{k}", a, False) for k, a in enumerate(arrays)]
        fixed = {f"w_{key}": a for key, a in (weights or {}).items()}
        inputs.update({key: [(f"w_{key}", a, True)] for key, a in (weights or {}).items()})
        results = wanted if isinstance(wanted, dict) else {"Out": wanted}
        results = {k: v if isinstance(v, list) else [v] for k, v in results.items()}
        outputs = {k: [f"{k}_{j}" for j in range(len(v))] for k, v in results.items()}
        path = write(tmp_path / "model", program(kind, inputs, outputs, attrs), fixed)
        mod, params = relay.frontend.from_paddle(path)
        data = {name: a for entries in inputs.values() for name, a, held in entries if not held}
        found = relay.create_executor("graph", mod).evaluate()(**data, **params)
        got = [v.numpy() for v in (found if not hasattr(found, "numpy") else [found])]
        for mine, theirs in zip(got, [a for v in results.values() for a in v], strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)

    return run


def torched(f: Any, *arrays: Array, **more: Any) -> Array:
    found: Array = f(*[torch.from_numpy(np.ascontiguousarray(v)) for v in arrays], **more).numpy()
    return found


UNARY: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "exp": np.exp, "log": np.log,
    "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "abs": np.abs, "floor": np.floor,
    "ceil": np.ceil,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "erf": lambda x: torched(torch.erf, x), "sign": np.sign, "isnan_v2": np.isnan, "isinf_v2": np.isinf,
    "isfinite_v2": np.isfinite, "square": np.square, "reciprocal": lambda x: 1 / x, "relu6": lambda x: np.clip(x, 0, 6),
    "gelu": lambda x: torched(functional.gelu, x), "silu": lambda x: x / (1 + np.exp(-x)), "swish": lambda x: x / (1 + np.exp(-x)),
    "hard_swish": lambda x: torched(functional.hardswish, x), "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "softplus": lambda x: np.log1p(np.exp(x)), "mish": lambda x: torched(functional.mish, x),
    "softmax": lambda x: torched(torch.softmax, x, dim=-1),
    "log_softmax": lambda x: torched(torch.log_softmax, x, dim=-1), "elu": lambda x: torched(functional.elu, x),
    "selu": lambda x: torched(functional.selu, x), "leaky_relu": lambda x: np.where(x > 0, x, 0.02 * x), "assign": lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_unary(check: Any, kind: str) -> None:
    x = (
        P
        if kind.startswith("log") and kind != "log_softmax" or kind in ("sqrt", "rsqrt", "reciprocal")
        else A / 5
        if kind.startswith("a")
        else A
    )
    check(kind, {"X": x}, UNARY[kind](x))


def test_halves_and_dilations(check: Any) -> None:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.2, np.inf, 8388609.0], "float32")
    check("round", {"X": halves}, np.array([-3, -2, -1, 1, 2, 3, 0, 0, np.inf, 8388609.0], "float32"))
    weight = random(3, 4, 3, 3)
    wanted = torched(functional.conv2d, X, weight, padding=1)
    attrs = {"strides": [1, 1], "paddings": [0, 0], "dilations": [2, 2], "padding_algorithm": "SAME", "groups": 1}
    check("conv2d", {"Input": X}, {"Output": wanted}, {"Filter": weight}, **attrs)


def test_files_of_parameters(tmp_path: Path) -> None:
    given = {"X": [("x", A, False)], "Y": [("w", A, True)]}
    path = write(tmp_path / "long", program("elementwise_add", given, {"Out": ["y"]}, {}), {"w": A})
    file = tmp_path / "long.pdiparams"
    file.write_bytes(file.read_bytes() + b"abc")
    with pytest.raises(ModelError, match="3 bytes follow the last tensor"):
        relay.frontend.from_paddle(path)
    file.write_bytes(b"\xff" * 400)
    with pytest.raises(ModelError, match="the tensor 'w' cannot be read"):
        relay.frontend.from_paddle(path)


def test_binary(check: Any) -> None:
    table: dict[str, Any] = {
        "elementwise_add": np.add, "elementwise_sub": np.subtract, "elementwise_mul": np.multiply, "elementwise_div": np.divide,
        "elementwise_pow": np.power, "elementwise_max": np.maximum, "elementwise_min": np.minimum, "elementwise_mod": np.mod,
        "elementwise_floordiv": np.floor_divide, "equal": np.equal, "not_equal": np.not_equal, "less_than": np.less,
        "less_equal": np.less_equal, "greater_than": np.greater, "greater_equal": np.greater_equal,
    }  # fmt: skip
    for kind, f in table.items():
        check(kind, {"X": P, "Y": np.sort(P)}, f(P, np.sort(P)), axis=-1)
    logical: dict[str, Any] = {
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
    }
    for kind, f in logical.items():
        check(kind, {"X": A > 0, "Y": B > 0}, f(A > 0, B > 0))
    check("logical_not", {"X": A > 0}, ~(A > 0))
    channels = random(4)
    check("elementwise_add", {"X": X}, X + channels[:, None, None], {"Y": channels}, axis=1)
    check("pow", {"X": P}, P**1.5, factor=1.5)
    check("scale", {"X": A}, A * 2 + 1, scale=2.0, bias=1.0)
    check("scale", {"X": A}, (A + 1) * 2, scale=2.0, bias=1.0, bias_after_scale=False)
    check("clip", {"X": A}, np.clip(A, -0.5, 0.3), min=-0.5, max=0.3)
    check("sum", {"X": [A, B, A]}, A + B + A)
    check("gelu", {"X": A}, torched(functional.gelu, A, approximate="tanh"), approximate=True)
    check("dropout", {"X": A}, A * np.float32(0.7), dropout_prob=0.3)
    check("dropout", {"X": A}, A, dropout_prob=0.3, dropout_implementation="upscale_in_train")
    slopes = random(4)
    check("prelu", {"X": X}, torched(torch.prelu, X, slopes), {"Alpha": slopes}, mode="channel")
    check("prelu", {"X": X}, torched(torch.prelu, X, slopes[:1]), {"Alpha": slopes[:1]}, mode="all")


def test_products(check: Any) -> None:
    check("matmul_v2", {"X": A, "Y": B}, A @ B.T, trans_y=True)
    left, right = random(2, 1, 3, 4), random(5, 4, 6)
    check("matmul_v2", {"X": left, "Y": right}, left @ right)
    check("matmul_v2", {"X": A, "Y": B[0]}, A @ B[0])
    check("matmul", {"X": A, "Y": B}, A.T @ B * 0.5, transpose_X=True, alpha=0.5)
    check(
        "mul",
        {"X": X},
        X.reshape(2, -1) @ np.ones((192, 3), "float32"),
        {"Y": np.ones((192, 3), "float32")},
        x_num_col_dims=1,
    )
    check("bmm", {"X": right, "Y": random(5, 6, 2) * 0 + 1}, right @ np.ones((5, 6, 2), "float32"))


@pytest.mark.parametrize("kind", ["conv2d", "depthwise_conv2d"])
def test_convolutions(check: Any, kind: str) -> None:
    w, b = random(8, 1, 3, 3), random(8)
    attrs = {"strides": [1, 1], "dilations": [1, 1], "groups": 4}
    check(
        kind,
        {"Input": X},
        {"Output": torched(functional.conv2d, X, w, b, padding=1, groups=4)},
        {"Filter": w, "Bias": b},
        paddings=[1, 1],
        **attrs,
    )
    check(
        kind,
        {"Input": X},
        {"Output": torched(functional.conv2d, X, w, padding="same", groups=4)},
        {"Filter": w},
        padding_algorithm="SAME",
        **attrs,
    )
    around = functional.pad(torch.from_numpy(X), (2, 1, 1, 0)).numpy()
    check(
        kind,
        {"Input": X},
        {"Output": torched(functional.conv2d, around, w, groups=4)},
        {"Filter": w},
        paddings=[1, 0, 2, 1],
        **attrs,
    )


def test_other_convolutions(check: Any) -> None:
    cube, w = random(1, 2, 4, 5, 6), random(3, 2, 2, 2, 2)
    attrs = {"strides": [1, 1, 1], "dilations": [1, 1, 1], "paddings": [0, 0, 0], "data_format": "NCDHW"}
    check("conv3d", {"Input": cube}, {"Output": torched(functional.conv3d, cube, w)}, {"Filter": w}, **attrs)
    w = random(4, 3, 3, 3)
    wanted = torched(functional.conv_transpose2d, X, w, stride=2, padding=1, output_padding=1)
    for more in ({"output_padding": [1, 1]}, {"output_size": [12, 16]}):
        check(
            "conv2d_transpose", {"Input": X}, {"Output": wanted}, {"Filter": w}, strides=[2, 2], paddings=[1, 1], **more
        )
    w = random(4, 1, 3, 3)
    wanted = torched(functional.conv_transpose2d, X, w, stride=2, groups=4)
    check(
        "depthwise_conv2d_transpose",
        {"Input": X},
        {"Output": wanted},
        {"Filter": w},
        strides=[2, 2],
        paddings=[0, 0],
        groups=4,
    )


def test_pooling(check: Any) -> None:
    most, mean = functional.max_pool2d, functional.avg_pool2d
    attrs: dict[str, Any] = {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}
    check("pool2d", {"X": X}, torched(most, X, kernel_size=3, stride=2, padding=1), pooling_type="max", **attrs)
    check(
        "pool2d",
        {"X": X},
        torched(mean, X, kernel_size=3, stride=2, padding=1, count_include_pad=False),
        pooling_type="avg",
        **attrs,
    )
    check(
        "pool2d",
        {"X": X},
        torched(mean, X, kernel_size=3, stride=2, padding=1),
        pooling_type="avg",
        exclusive=False,
        **attrs,
    )
    check(
        "pool2d",
        {"X": X},
        X.mean((2, 3), keepdims=True),
        pooling_type="avg",
        global_pooling=True,
        ksize=[1, 1],
        strides=[1, 1],
        paddings=[0, 0],
    )
    wanted = torched(functional.adaptive_avg_pool2d, X, output_size=(3, 4))
    check("pool2d", {"X": X}, wanted, pooling_type="avg", adaptive=True, ksize=[3, 4], strides=[1, 1], paddings=[0, 0])
    wanted = torched(functional.adaptive_max_pool2d, X, output_size=(3, 4))
    check("max_pool2d_with_index", {"X": X}, wanted, adaptive=True, ksize=[3, 4], strides=[1, 1], paddings=[0, 0])


def test_normalisation(check: Any) -> None:
    scale, bias, mean, variance = random(4), random(4), random(4), abs(random(4))
    wanted = torched(functional.batch_norm, X, mean, variance, scale, bias, eps=1e-3)
    given = {"Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance}
    for kind in ("batch_norm", "sync_batch_norm"):
        check(kind, {"X": X}, {"Y": wanted}, given, epsilon=1e-3)
    g, b = random(48), random(48)
    wanted = torched(lambda x, g, b: functional.layer_norm(x, (6, 8), g.reshape(6, 8), b.reshape(6, 8)), X, g, b)
    check("layer_norm", {"X": X}, {"Y": wanted}, {"Scale": g, "Bias": b}, begin_norm_axis=2)
    wanted = torched(lambda x, g, b: functional.instance_norm(x, weight=g, bias=b), X, scale, bias)
    check("instance_norm", {"X": X}, {"Y": wanted}, {"Scale": scale, "Bias": bias})
    wanted = torched(lambda x, g, b: functional.group_norm(x, 2, g, b), X, scale, bias)
    check("group_norm", {"X": X}, {"Y": wanted}, {"Scale": scale, "Bias": bias}, groups=2)


def test_resampling(check: Any) -> None:
    check("nearest_interp_v2", {"X": X}, X.repeat(2, 2).repeat(2, 3), scale=[2.0, 2.0])
    for mode, aligned in ((0, False), (1, True)):
        wanted = functional.interpolate(torch.from_numpy(X), (9, 11), mode="bilinear", align_corners=aligned).numpy()
        check("bilinear_interp_v2", {"X": X}, wanted, out_h=9, out_w=11, align_mode=mode, align_corners=aligned)
    check("pixel_shuffle", {"X": X}, torched(functional.pixel_shuffle, X, upscale_factor=2), upscale_factor=2)
    check(
        "pad3d",
        {"X": X},
        np.pad(X, [(0, 0), (0, 0), (3, 0), (1, 2)], constant_values=5),
        paddings=[1, 2, 3, 0],
        value=5.0,
    )
    check(
        "pad3d",
        {"X": X},
        np.pad(X, [(0, 0), (0, 0), (3, 0), (1, 2)], mode="reflect"),
        paddings=[1, 2, 3, 0],
        mode="reflect",
    )
    check(
        "pad2d", {"X": X}, np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 0)], mode="edge"), paddings=[1, 2, 3, 0], mode="edge"
    )


def test_reductions(check: Any) -> None:
    table: dict[str, Any] = {
        "reduce_sum": np.sum,
        "reduce_mean": np.mean,
        "reduce_max": np.max,
        "reduce_min": np.min,
        "reduce_prod": np.prod,
    }
    for kind, f in table.items():
        check(kind, {"X": X / 2}, f(X / 2, axis=(1, 3)), dim=[1, -1])
        check(kind, {"X": A}, f(A, axis=1, keepdims=True), dim=[1], keep_dim=True)
    check("reduce_all", {"X": A > -1}, (A > -1).all(1), dim=[1])
    check("reduce_any", {"X": A > 1}, (A > 1).any(1), dim=[1])
    check("p_norm", {"X": A}, np.sqrt((A * A).sum(1)), porder=2.0, axis=1)
    check("p_norm", {"X": A}, abs(A).sum(1, keepdims=True), porder=1.0, axis=1, keepdim=True)
    check("arg_max", {"X": A}, A.argmax(1), axis=1)
    check("arg_min", {"X": A}, np.array(A.argmin()), flatten=True, axis=0, dtype=3)
    best = torch.topk(torch.from_numpy(A), 2)
    check("top_k_v2", {"X": A}, {"Out": best.values.numpy(), "Indices": best.indices.numpy()}, k=2, axis=-1)
    check("argsort", {"X": A}, {"Out": -np.sort(-A, 1), "Indices": np.argsort(-A, 1)}, axis=1, descending=True)
    check("cumsum", {"X": A}, A.cumsum(1), axis=1)
    check("cumsum", {"X": A}, A.reshape(-1).cumsum(), flatten=True)


def test_movement(check: Any) -> None:
    for kind in ("reshape2", "reshape"):
        check(kind, {"X": X}, X.reshape(2, -1, 8), shape=[0, -1, 8])
    for kind in ("transpose2", "transpose"):
        check(kind, {"X": X}, X.transpose(0, 2, 3, 1), axis=[0, 2, 3, 1])
    check("flatten_contiguous_range", {"X": X}, X.reshape(2, 24, 8), start_axis=1, stop_axis=2)
    check("flatten2", {"X": X}, X.reshape(8, -1), axis=2)
    for kind in ("squeeze2", "squeeze"):
        check(kind, {"X": A[:, None]}, A, axes=[1])
    check("squeeze2", {"X": A[None, :, None]}, A)
    for kind in ("unsqueeze2", "unsqueeze"):
        check(kind, {"X": A}, A[None, :, None], axes=[0, 2])
    check("concat", {"X": [A, B]}, np.concatenate([A, B], 1), axis=1)
    check("stack", {"X": [A, B]}, {"Y": np.stack([A, B], 1)}, axis=1)
    check("unstack", {"X": A}, {"Y": [A[k] for k in range(3)]}, axis=0)
    check("unbind", {"X": A}, {"Out": [A[k] for k in range(3)]}, axis=0)
    check("split", {"X": X}, {"Out": list(np.split(X, 2, 1))}, axis=1, num=2)
    check("split", {"X": X}, {"Out": [X[..., :3], X[..., 3:]]}, axis=3, sections=[3, -1])
    check("slice", {"Input": X}, X[:, 1:3, 2], axes=[1, 2], starts=[1, 2], ends=[3, 3], decrease_axis=[2])
    check(
        "strided_slice",
        {"Input": X},
        X[:, ::2, ::-1],
        axes=[1, 2],
        starts=[0, 2147483647],
        ends=[2147483647, -1],
        strides=[2, -1],
    )
    check("tile", {"X": A}, np.tile(A, (2, 3)), repeat_times=[2, 3])
    check("expand_v2", {"X": A}, np.broadcast_to(A, (4, 3, 5)), shape=[4, -1, 5])
    check("expand_as_v2", {"X": A[:1]}, A[:1].repeat(3, 0), target_shape=[3, 5])
    check("flip", {"X": A}, A[::-1, ::-1].copy(), axis=[0, 1])
    check("roll", {"X": A}, np.roll(A, 2, 1), shifts=[2], axis=[1])
    check("roll", {"X": A}, np.roll(A, 2), shifts=[2])


def test_picking(check: Any) -> None:
    rows = np.array([2, 0])
    check("gather", {"X": A, "Index": rows}, A[rows])
    check("gather", {"X": A, "Index": rows}, A[:, rows], axis=1)
    check("index_select", {"X": A, "Index": rows}, A[:, rows], dim=1)
    check("gather_nd", {"X": A, "Index": np.array([[0, 1], [2, 3]])}, A[[0, 2], [1, 3]])
    places = np.array([[0, 1], [2, 3], [4, 0]])
    check("take_along_axis", {"Input": A, "Index": places}, {"Result": np.take_along_axis(A, places, 1)}, Axis=1)
    table = random(5, 4)
    wanted = np.where((places == 1)[..., None], 0, table[places]).astype("float32")
    check("lookup_table_v2", {"Ids": places}, wanted, {"W": table}, padding_idx=1)
    check("one_hot_v2", {"X": places}, np.eye(5, dtype="float32")[places], depth=5, dtype=5)
    check("where", {"Condition": A > 0, "X": A, "Y": B}, np.where(A > 0, A, B))
    check("cast", {"X": A * 3}, (A * 3).astype("int32"), in_dtype=5, out_dtype=2)


def test_making(check: Any) -> None:
    check("shape", {"Input": X}, np.array(X.shape, "int32"))
    check("fill_constant", {}, np.full((2, 3), 2.5, "float32"), shape=[2, 3], value=2.5, dtype=5)
    check("fill_any_like", {"X": A}, np.full((3, 5), 2, "int64"), value=2.0, dtype=3)
    check("assign_value", {}, np.array([[1, 2]], "int32"), shape=[1, 2], int32_values=[1, 2], dtype=2)
    ends = {"Start": np.array([1], "int32"), "End": np.array([7], "int32"), "Step": np.array([2], "int32")}
    check("range", {}, np.array([1, 3, 5], "int32"), ends)


def test_every_operator_is_tested() -> None:
    text = Path(__file__).read_text()
    assert {n for n in supported_operators() if f'"{n}"' not in text} == set()


def test_messages(tmp_path: Path) -> None:
    entry = {"X": [("x", A, False)]}
    path = write(tmp_path / "odd", program("wobble", entry, {"Out": ["y"]}, {}), {})
    with pytest.raises(OpNotImplemented, match=r"wobble \(1 operator: 'y'\)"):
        relay.frontend.from_paddle(path)
    path = write(tmp_path / "fine", program("relu", entry, {"Out": ["y"]}, {}), {})
    with pytest.raises(ModelError, match="shape names 'data', but the model's inputs are 'x'"):
        relay.frontend.from_paddle(path, {"data": (3, 5)})
    weights = {"Y": [("w", A, True)], **entry}
    path = write(tmp_path / "cut", program("elementwise_add", weights, {"Out": ["y"]}, {}), {})
    with pytest.raises(ModelError, match="the tensor 'w' cannot be read: the file is cut off, or of another model"):
        relay.frontend.from_paddle(path)
    with pytest.raises(ModelError, match="No such file"):
        relay.frontend.from_paddle(tmp_path / "none")
    with pytest.raises(ModelError, match="program_or_layer is a list"):
        relay.frontend.from_paddle([])
    (tmp_path / "bad.pdmodel").write_bytes(b"\xff\xff\xff")
    with pytest.raises(ModelError, match="it is no program of PaddlePaddle"):
        relay.frontend.from_paddle(tmp_path / "bad.pdmodel")
    made = program("relu", entry, {"Out": ["y"]}, {})
    made.blocks.add(idx=1)
    with pytest.raises(OpNotImplemented, match="it has branches or loops"):
        relay.frontend.from_paddle(write(tmp_path / "loops", made, {}))


def test_a_batch_of_any_size(tmp_path: Path) -> None:
    made = program("relu", {"X": [("x", A, False)]}, {"Out": ["y"]}, {})
    made.blocks[0].vars[0].type.lod_tensor.tensor.dims[0] = -1
    mod, _ = relay.frontend.from_paddle(write(tmp_path / "any", made, {}))
    run = relay.create_executor("vm", mod).evaluate()
    for n in (1, 3):
        np.testing.assert_array_equal(run(A[:n]).numpy(), np.maximum(A[:n], 0))
