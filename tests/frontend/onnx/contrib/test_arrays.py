"""Operators of com.microsoft beyond attention and quantised elements, against ONNX Runtime where it has kernels for CPUs, else NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.frontend.onnx.contrib.test_operators import Arrays, check, model, normal, run_reference, small
from tilewright.relay.frontend.onnx.program import Program


def answer(
    op: str, inputs: Arrays, constants: Arrays | None = None, order: list[str] | None = None, **attrs: Any
) -> list[Any]:
    """What our own compiled model makes of the inputs."""
    return Program(model(op, inputs, constants or {}, order or [*inputs, *(constants or {})], **attrs))(inputs)


def scalars(**values: Any) -> Arrays:
    return {k: np.asarray(v) for k, v in values.items()}


# ---- layouts


def test_convolution_of_bytes_with_channels_last() -> None:
    # Of seven bits: on processors without VNNI, sums of two products saturate at 16 bits in ONNX Runtime.
    x, w = small("uint8", 1, 6, 5, 4), small("int8", 3, 4, 3, 3) // 2
    rest = scalars(
        xs=np.float32(0.1), xz=np.uint8(120), ws=np.float32(0.02), wz=np.int8(0), ys=np.float32(2), yz=np.uint8(100)
    )
    constants = {"w": w, **rest, "b": np.arange(3, dtype=np.int32) * 100}
    order = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    attrs: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    check("QLinearConv", {"x": x}, constants, order, whole=1, channels_last=1, **attrs)
    check("QLinearConv", {"x": np.moveaxis(x, 3, 1).copy()}, constants, order, whole=1, **attrs)
    check("NhwcMaxPool", {"x": x}, kernel_shape=[2, 2], strides=[2, 1])


def test_convolution_with_channels_last() -> None:
    x, w, b = normal(1, 6, 5, 4), normal(3, 4, 3, 3), normal(3)
    parts: Arrays = {"x": np.moveaxis(x, 3, 1).copy()}
    want = run_reference(model("FusedConv", parts, {"w": w, "b": b}, ["x", "w", "b"], activation="Relu"), parts)[0]
    want = np.moveaxis(want, 1, 3)
    for weights in (w, np.moveaxis(w, 1, 3).copy()):
        got = answer("NhwcFusedConv", {"x": x}, {"w": weights, "b": b}, activation="Relu")[0]
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_pads_and_grids() -> None:
    x = normal(1, 2, 4, 5)
    check(
        "ConvTransposeWithDynamicPads", {"x": x}, {"w": normal(2, 3, 3, 3), "p": np.array([1, 0, 0, 1])}, strides=[2, 2]
    )
    check("Pad", {"x": x}, {"p": np.array([0, 0, 1, 2, 0, 0, 0, 1]), "v": np.array([3.0], np.float32)})
    check("Pad", {"x": x}, {"p": np.array([0, 0, 1, 2, 0, 0, 0, 1])}, mode="reflect")
    grid = np.random.default_rng(0).uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)
    check("GridSample", {"x": x, "g": grid})
    check("GridSample", {"x": x, "g": grid}, mode="nearest", padding_mode="border", align_corners=1)
    regions = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.5, 0.2, 0.4, 1.3]], np.float32)
    constants = {"r": regions, "i": np.zeros(3, np.int32), "s": np.array([3, 4], np.int32)}
    check("CropAndResize", {"x": x}, constants, extrapolation_value=0.5)
    check("CropAndResize", {"x": x}, constants, mode="nearest")
    check("UnfoldTensor", {"x": x}, size=2, step=2)
    check("UnfoldTensor", {"x": x}, size=3, dim=2)


# ---- weights of a few bits


@pytest.mark.parametrize("bits, floats", [(2, False), (4, False), (8, False), (2, True), (4, True)])
def test_weights_in_blocks(bits: int, floats: bool) -> None:
    rows, depth, block = 6, 40, 16
    rng = np.random.default_rng(0)
    blocks = -(-depth // block)
    constants: Arrays = {"w": rng.integers(0, 256, (rows, blocks, block * bits // 8), dtype=np.uint8)}
    constants["s"] = np.abs(normal(rows, blocks))
    if floats:
        constants["z"] = rng.uniform(0, 2**bits, (rows, blocks)).astype(np.float32)
    else:
        constants["z"] = rng.integers(0, 256, (rows, -(-blocks * bits // 8)), dtype=np.uint8)
    check("MatMulNBits", {"a": normal(3, depth)}, constants, K=depth, N=rows, bits=bits, block_size=block)


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_by_table(kind: int) -> None:
    rows, depth = 6, 40
    constants: Arrays = {"w": np.random.default_rng(0).integers(0, 256, rows * depth // 2, dtype=np.uint8)}
    constants["m"] = np.abs(normal(rows * depth // 16))
    check("MatMulBnb4", {"a": normal(3, depth)}, constants, K=depth, N=rows, block_size=16, quant_type=kind)


@pytest.mark.parametrize("bits, zeros", [(4, False), (4, True), (8, True), (2, True)])
def test_rows_of_packed_tables(bits: int, zeros: bool) -> None:
    rng = np.random.default_rng(0)
    table, blocks = rng.integers(0, 256, (10, 48 * bits // 8), dtype=np.uint8), 3
    constants: Arrays = {"t": table}
    order = ["t", "i", "s"]
    constants["s"] = np.abs(normal(10, blocks))
    if zeros:
        constants["z"] = rng.integers(0, 256, (10, -(-blocks * bits // 8)), dtype=np.uint8)
        order.append("z")
    places = np.array([[3, -1], [0, 9]])
    check("GatherBlockQuantized", {"i": places}, constants, order, bits=bits, block_size=16)


@pytest.mark.parametrize("axis, blocked", [(0, 1), (1, 0), (0, 0)])
@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_rows_of_tables_of_four_bits(axis: int, blocked: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    dtype = getattr(ml_dtypes, kind)
    shape = (32, 48)
    low = -8 if kind == "int4" else 0
    table = rng.integers(low, low + 16, shape).astype(dtype)
    scaled = [n if k != blocked else n // 16 for k, n in enumerate(shape)]
    constants: Arrays = {
        "t": table,
        "s": np.abs(normal(*scaled)),
        "z": rng.integers(low, low + 16, scaled).astype(dtype),
    }
    attrs = {"gather_axis": axis, "quantize_axis": blocked, "block_size": 16}
    check("GatherBlockQuantized", {"i": np.array([[3, 31], [0, 9]])}, constants, ["t", "i", "s", "z"], **attrs)


def test_products_beside_each_other() -> None:
    """ONNX Runtime has these for WebGPU only."""
    rng = np.random.default_rng(0)
    a, skip, scale = normal(2, 32), normal(2, 32)[::-1].copy(), np.abs(normal(32))
    weights = [rng.integers(0, 256, (n, 1, 16), dtype=np.uint8) for n in (6, 6, 4, 4)]
    factors = [np.abs(normal(n, 1)) for n in (6, 6, 4, 4)]
    total = a + skip
    x = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * scale

    def product(k: int) -> Any:
        made = {"w": weights[k], "s": factors[k]}
        return answer("MatMulNBits", {"a": x}, made, K=32, N=len(weights[k]), bits=4, block_size=32)[0]

    attrs: dict[str, Any] = {"K": 32, "bits": 4, "block_size": 32}
    constants: Arrays = {"n": scale, "w0": weights[0], "s0": factors[0], "w1": weights[1], "s1": factors[1]}
    order = ["a", "skip", "n", "w0", "s0", "", "w1", "s1"]
    got = answer(
        "MatMulNBitsMlp",
        {"a": a, "skip": skip},
        constants,
        order,
        outputs=2,
        N=6,
        activation="silu",
        epsilon=1e-5,
        **attrs,
    )
    gate = product(0)
    np.testing.assert_allclose(got[0], gate / (1 + np.exp(-gate)) * product(1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(got[1], total, rtol=1e-6)
    constants = {"n": scale, **{f"w{k}": weights[k] for k in (0, 2, 3)}, **{f"s{k}": factors[k] for k in (0, 2, 3)}}
    order = ["a", "skip", "n", "w0", "s0", "", "w2", "s2", "", "w3", "s3", ""]
    got = answer(
        "MatMulNBitsQkv", {"a": a, "skip": skip}, constants, order, outputs=4, Nq=6, Nkv=4, epsilon=1e-5, **attrs
    )
    for found, k in zip(got, (0, 2, 3), strict=False):
        np.testing.assert_allclose(found, product(k), rtol=1e-3, atol=1e-4)


# ---- fused norms, gates, dropout


def test_group_norm_of_sums() -> None:
    """ONNX Runtime has these for GPUs only."""
    x, s, g, b, c = normal(2, 3, 3, 8), normal(2, 3, 3, 8)[::-1].copy(), normal(8), normal(8), normal(8)
    attrs = {"groups": 4, "activation": 1, "epsilon": 1e-5}

    def wanted(total: Any) -> Any:
        parts = total.reshape(2, 9, 4, 2)
        mean, spread = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        made = ((parts - mean) / np.sqrt(spread + 1e-5)).reshape(total.shape) * g + b
        return made / (1 + np.exp(-made))

    np.testing.assert_allclose(
        answer("GroupNorm", {"x": x}, {"g": g, "b": b}, **attrs)[0], wanted(x), rtol=1e-3, atol=1e-4
    )
    for skip in (s, s[:, :1, :1].copy(), s[:, 0, 0].copy()):
        total = x + (skip[:, None, None] if skip.ndim == 2 else skip) + c
        got = answer(
            "SkipGroupNorm",
            {"x": x, "s": skip},
            {"g": g, "b": b, "c": c},
            ["x", "g", "b", "s", "c"],
            outputs=2,
            **attrs,
        )
        np.testing.assert_allclose(got[0], wanted(total), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(got[1], total, rtol=1e-6)


def test_products_with_activations() -> None:
    x, w, b = normal(3, 8), normal(8, 5), normal(5)
    want = answer("FastGelu", {"x": x @ w}, {"b": b})[0]
    np.testing.assert_allclose(answer("GemmFastGelu", {"x": x}, {"w": w, "b": b})[0], want, rtol=1e-4, atol=1e-5)
    got = answer("FusedMatMulActivation", {"x": x}, {"w": w}, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2)[
        0
    ]
    half = 0.5 * (x @ w)
    np.testing.assert_allclose(got, np.where(half > 0, half, 0.2 * half), rtol=1e-4, atol=1e-5)


def test_dropout_that_is_not_trained() -> None:
    x, b, r = normal(3, 10), normal(10), normal(3, 10)[::-1].copy()
    got = answer("BiasDropout", {"x": x}, {"b": b, "r": r}, outputs=2)
    np.testing.assert_allclose(got[0], x + b + r, rtol=1e-6)
    assert got[1].dtype == bool and got[1].all()
    got = answer("BitmaskDropout", {"x": x}, outputs=2)
    np.testing.assert_array_equal(got[1], np.array([0x3FFFFFFF], np.uint32))


def test_gates() -> None:
    x, gate, scale = normal(2, 3, 8), normal(2, 3, 8)[::-1].copy(), normal(4)
    for kind in ("silu", "sigmoid"):
        check("GatedRMSNorm", {"x": x, "s": scale, "g": gate}, activation=kind)
    check("GatedAdd", {"x": x, "y": gate, "g": normal(2, 3, 1)})
    check("BranchwiseRMSNorm", {"x": x}, {"s": normal(8)}, num_branches=2)
    check("BranchwiseRMSNorm", {"x": normal(3, 2, 4)}, {"s": normal(4)})
    check("ScaledSiLU", {"x": x}, alpha=1.5)
    check("ScaledSiLU", {"x": x, "s": np.array(0.5, np.float32)})
    check("LinearAttentionGate", {"a": x, "d": normal(8), "s": -np.abs(normal(8)), "b": gate}, outputs=2)


def test_hyper_connections() -> None:
    streams = normal(2, 3, 4, 8)
    for mix in ((2, 3, 4), (2, 3, 4, 1), (2, 3, 4, 8)):
        check("HyperConnectionPreMix", {"s": streams, "m": normal(*mix)}, reduction_scale=0.5)
        check(
            "HyperConnectionPostMix", {"s": streams, "b": normal(2, 3, 8), "m": normal(*mix), "t": normal(2, 3, 4, 4)}
        )
    check("HyperConnectionPreMix", {"s": streams.reshape(2, 3, 32), "m": normal(2, 3, 4)}, num_branches=4)
    check(
        "HyperConnectionPostMix",
        {"s": streams.reshape(2, 3, 32), "b": normal(2, 3, 8), "m": normal(2, 3, 4)},
        num_branches=4,
    )
    inputs = {"k": streams, "q": streams[::-1].copy(), "v": normal(2, 3, 8), "ks": normal(4, 8), "qs": normal(4, 8)}
    check("EngramGate", {**inputs, "cs": np.abs(normal(4, 8))}, outputs=2)


# ---- states


@pytest.mark.parametrize("attrs", [{}, {"activation": "silu"}, {"dilation": 2}, {"channels_last": 1}])
@pytest.mark.parametrize("past", [False, True])
def test_causal_convolution(attrs: dict[str, Any], past: bool) -> None:
    last = "channels_last" in attrs
    inputs = {"x": normal(2, 5, 4) if last else normal(2, 4, 5)}
    reach = 2 * attrs.get("dilation", 1)
    if past:
        inputs["p"] = normal(2, reach, 4) if last else normal(2, 4, reach)
    order = ["x", "w", "b", *(["p"] if past else [])]
    check("CausalConvWithState", inputs, {"w": normal(4, 1, 3), "b": normal(4)}, order, outputs=2, **attrs)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("many, few, past", [(2, 2, True), (4, 2, False)])
def test_linear_attention(rule: str, many: int, few: int, past: bool) -> None:
    inputs = {"q": normal(2, 3, many * 4), "k": 0.3 * normal(2, 3, few * 4), "v": normal(2, 3, few * 5)}
    order = ["q", "k", "v", "", "", ""]
    if past:
        inputs["p"], order[3] = normal(2, few, 4, 5), "p"
    if rule.startswith("gated"):
        inputs["g"], order[4] = -np.abs(normal(2, 3, few * 4 if past else few)), "g"
    if rule.endswith("delta"):
        inputs["r"], order[5] = np.abs(normal(2, 3, few)) % 1, "r"
    while not order[-1]:
        order.pop()
    check("LinearAttention", inputs, {}, order, outputs=2, q_num_heads=many, kv_num_heads=few, update_rule=rule)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("each", [False, True])
def test_lstm_of_bytes(direction: str, each: bool) -> None:
    count, hidden, width = (2 if direction == "bidirectional" else 1), 4, 6
    rng = np.random.default_rng(0)
    columns = (count, 4 * hidden) if each else (count,)
    # Of seven bits: on processors without VNNI, sums of two products saturate at 16 bits in ONNX Runtime.
    constants: Arrays = {
        "w": rng.integers(-63, 64, (count, width, 4 * hidden), dtype=np.int8),
        "r": rng.integers(-63, 64, (count, hidden, 4 * hidden), dtype=np.int8),
        "b": normal(count, 8 * hidden),
    }
    for name in ("ws", "rs"):
        constants[name] = rng.uniform(0.002, 0.01, columns).astype(np.float32)
    for name in ("wz", "rz"):
        constants[name] = np.zeros(columns, np.int8) if each else rng.integers(-3, 3, columns, dtype=np.int8)
    order = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    check("DynamicQuantizeLSTM", {"x": normal(3, 2, width)}, constants, order, outputs=3, **attrs)


# ---- experts


@pytest.mark.parametrize("kind", ["relu", "gelu", "silu", "identity"])
@pytest.mark.parametrize("best, shares", [(1, 0), (2, 0), (2, 1)])
def test_experts(kind: str, best: int, shares: int) -> None:
    inputs = {"x": normal(5, 8), "r": normal(5, 4)}
    constants = {"w": normal(4, 6, 8), "wb": normal(4, 6), "v": normal(4, 8, 6), "vb": normal(4, 8)}
    check("MoE", inputs, constants, k=best, activation_type=kind, normalize_routing_weights=shares)


def test_gated_experts() -> None:
    inputs = {"x": normal(2, 3, 8), "r": normal(6, 4)}
    constants = {"w": normal(4, 12, 8), "wb": normal(4, 12), "v": normal(4, 8, 6), "vb": normal(4, 8)}
    attrs: dict[str, Any] = {"k": 2, "activation_type": "swiglu", "activation_alpha": 1.7, "activation_beta": 1.0}
    check("MoE", inputs, constants, swiglu_fusion=1, swiglu_limit=1.5, normalize_routing_weights=1, **attrs)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
def test_experts_of_a_few_bits(bits: int, block: int) -> None:
    rng = np.random.default_rng(0)
    inputs = {"x": 0.1 * normal(5, 32), "r": normal(5, 4)}
    scale = (
        (lambda *shape: np.abs(normal(*shape)) * 0.05) if block else (lambda *shape: np.abs(normal(*shape[:2])) * 0.05)
    )
    constants: Arrays = {
        "w": rng.integers(0, 256, (4, 32, 32 * bits // 8), dtype=np.uint8), "ws": scale(4, 32, 2), "wb": normal(4, 32),
        "v": rng.integers(0, 256, (4, 32, 32 * bits // 8), dtype=np.uint8), "vs": scale(4, 32, 2), "vb": normal(4, 32),
    }  # fmt: skip
    attrs: dict[str, Any] = {"block_size": block} if block else {}
    attrs |= {"k": 2, "activation_type": "silu", "expert_weight_bits": bits}
    if bits == 8 and block:
        # These ONNX Runtime multiplies by activations of eight bits.
        attrs["near"] = 0.01
    check("QMoE", inputs, constants, **attrs)
    zeros = {
        f"{n}z": rng.integers(0, 256, (4, 32, bits // 4) if block else (4, 32 * bits // 8), dtype=np.uint8)
        for n in "wv"
    }
    order = ["x", "r", "w", "ws", "wb", "v", "vs", "vb", "", "", "", "wz", "vz"]
    check("QMoE", inputs, constants | zeros, order, **attrs)
    inputs["own"] = np.abs(normal(5, 4))
    for normalised in (0, 1):
        check(
            "QMoE", inputs, constants, [*order[:11], "", "", "", "own"], normalize_routing_weights=normalised, **attrs
        )


# ---- others


def test_distances() -> None:
    for metric in ("sqeuclidean", "euclidean"):
        check("CDist", {"a": normal(5, 3), "b": normal(4, 3)}, metric=metric)


def test_linear_algebra_and_transforms() -> None:
    check("Inverse", {"x": normal(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)})
    x, y = normal(2, 3, 2), normal(2, 3, 2)[::-1].copy()
    a, b = x[..., 0] + 1j * x[..., 1], y[..., 0] + 1j * y[..., 1]
    for op, want in (("ComplexMul", a * b), ("ComplexMulConj", a * b.conj())):
        got = answer(op, {"x": x, "y": y})[0]
        np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, rtol=1e-4, atol=1e-5)
    signal = normal(3, 8)
    spectrum = answer("Rfft", {"x": signal})[0]
    want = np.fft.rfft(signal)
    np.testing.assert_allclose(spectrum[..., 0] + 1j * spectrum[..., 1], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answer("Irfft", {"x": spectrum}, signal_ndim=1)[0], signal, rtol=1e-4, atol=1e-5)


def test_integers() -> None:
    a, b = small("uint8", 3, 4), small("uint8", 4, 3).reshape(3, 4)
    zeros = scalars(az=np.uint8(3), bz=np.uint8(100))
    got = answer("MulInteger", {"a": a, "b": b}, zeros, ["a", "az", "b", "bz"])[0]
    np.testing.assert_array_equal(got, (a.astype(np.int32) - 3) * (b.astype(np.int32) - 100))
    got = answer("ReduceSumInteger", {"a": a}, axes=[1], keepdims=0)[0]
    np.testing.assert_array_equal(got, a.sum(1, dtype=np.uint32))
    check("MatMulInteger16", {"a": small("int16", 3, 4) // 64, "b": small("int16", 4, 2) // 64})


def test_language() -> None:
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]])
    for size in (2, 3):
        check("NGramRepeatBlock", {"i": ids, "s": normal(2, 6)}, ngram_size=size)
    check("SampleOp", {"x": normal(2, 3)})
    finite = {"x": normal(2, 3), "y": np.array([1, np.inf], np.float32)}
    assert not answer("IsAllFinite", finite)[0] and answer("IsAllFinite", finite, isnan_only=1)[0]
    table, places = normal(5, 3), np.array([[1, 4]])
    np.testing.assert_array_equal(answer("TorchEmbedding", {"i": places}, {"t": table}, ["t", "i"])[0], table[places])


@pytest.mark.parametrize("both", [0, 1])
def test_biases_of_distances(both: int) -> None:
    """As T5 has them."""
    import torch
    from transformers.models.t5.modeling_t5 import T5Attention

    table = normal(8, 3)
    lengths = scalars(q=np.int64(9), k=np.int64(9))
    got = answer("RelativePositionBias", {"t": table}, lengths, is_bidirectional=both, max_distance=12)[0]
    apart = torch.arange(9)[None] - torch.arange(9)[:, None]
    rows = T5Attention._relative_position_bucket(apart, bidirectional=bool(both), num_buckets=8, max_distance=12)
    np.testing.assert_array_equal(got[0], table[rows.numpy()].transpose(2, 0, 1))


def test_gated_biases_of_distances() -> None:
    q, own, far, w, b, eco = normal(2, 4, 6), normal(6), normal(1, 2, 4, 4), normal(3, 8), normal(8), normal(1, 2, 1, 1)
    constants = {"o": own, "r": far, "w": w, "b": b, "e": eco}
    got = answer("GatedRelativePositionBias", {"q": q}, constants, num_heads=2)[0]
    heads = (q + own).reshape(2, 4, 2, 3).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(heads @ w + b).reshape(2, 2, 4, 2, 4).sum(-1)))
    u, r = gates[..., :1], gates[..., 1:]
    np.testing.assert_allclose(got, (u * (r * eco - 1) + 2) * far, rtol=1e-4, atol=1e-5)
