"""Attention of com.microsoft in all its forms against ONNX Runtime: masks, buffers, grouped heads, sinks, rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.onnx.contrib.test_operators import Arrays, check, model, normal, run_reference
from tilewright.relay.frontend.onnx.program import Program

LENGTHS = {
    "keys": np.array([5, 3], np.int32),
    "ends and beginnings": np.array([5, 4, 1, 0], np.int32),
    "each key": np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32),
    "each query and key": np.random.default_rng(0).integers(0, 2, (2, 5, 5)).astype(np.int32),
    "nothing": np.array([[0, 0, 0, 0, 0], [0, 1, 1, 1, 1]], np.int32),
}


@pytest.mark.parametrize("form", LENGTHS)
@pytest.mark.parametrize("causal", [0, 1])
def test_masks(form: str, causal: int) -> None:
    inputs = {"x": normal(2, 5, 8), "mask": LENGTHS[form]}
    weights = {"w": normal(8, 24), "b": normal(24)}
    check(
        "Attention",
        inputs,
        weights,
        ["x", "w", "b", "mask"],
        num_heads=2,
        unidirectional=causal,
        mask_filter_value=-50.0,
    )


def answer(op: str, inputs: Arrays, constants: Arrays, order: list[str], **attrs: Any) -> list[Any]:
    return Program(model(op, inputs, constants, order, **attrs))(inputs)


def test_a_mask_for_all_steps() -> None:
    """ONNX Runtime has no kernel of this form for CPUs."""
    inputs = {"x": normal(2, 2, 8), "past": normal(2, 2, 2, 3, 4)}
    weights, order = {"w": normal(8, 24), "b": normal(24)}, ["x", "w", "b", "", "past"]
    want = answer("Attention", inputs, weights, order, outputs=2, num_heads=2, unidirectional=1)
    inputs["mask"] = np.tri(9, dtype=np.int32)[None, None].repeat(2, 0)
    got = answer("Attention", inputs, weights, ["x", "w", "b", "mask", "past"], outputs=2, num_heads=2)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_values_of_another_width() -> None:
    inputs = {"x": normal(2, 5, 8)}
    weights = {"w": normal(8, 28), "b": normal(28)}
    check("Attention", inputs, weights, num_heads=2, qkv_hidden_sizes=[8, 8, 12], scale=0.3)
    inputs = {"q": normal(2, 3, 8), "k": normal(2, 5, 8), "v": normal(2, 5, 12), "mask": LENGTHS["each key"]}
    check("MultiHeadAttention", inputs, {"b": normal(28)}, ["q", "k", "v", "b", "mask"], num_heads=2)


def test_packed_heads() -> None:
    """ONNX Runtime has no kernels of these for CPUs."""
    whole, bias = normal(2, 5, 2, 3, 4), {"b": normal(24)}
    q, k, v = [whole[:, :, :, i].reshape(2, 5, 8) for i in range(3)]
    want = run_reference(model("MultiHeadAttention", {"q": q, "k": k, "v": v}, {}, ["q", "k", "v"], num_heads=2),
                         {"q": q, "k": k, "v": v})[0]  # fmt: skip
    got = answer("MultiHeadAttention", {"qkv": whole}, {}, ["qkv"], num_heads=2)[0]
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
    parts, pairs = {"q": q, "k": k, "v": v}, {"q": q, "kv": whole[:, :, :, 1:].copy()}
    want = run_reference(model("MultiHeadAttention", parts, bias, ["q", "k", "v", "b"], num_heads=2), parts)[0]
    got = answer("MultiHeadAttention", pairs, bias, ["q", "kv", "", "b"], num_heads=2)[0]
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_keys_that_are_heads_already() -> None:
    inputs = {"q": normal(2, 3, 8), "k": normal(2, 2, 5, 4), "v": normal(2, 2, 5, 4), "extra": normal(1, 2, 3, 5)}
    check("MultiHeadAttention", inputs, {"b": normal(24)}, ["q", "k", "v", "b", "", "extra"], num_heads=2)


def test_scores_as_a_result() -> None:
    inputs = {"q": normal(2, 3, 8), "k": normal(2, 5, 8), "v": normal(2, 5, 8), "m": LENGTHS["each key"]}
    check("MultiHeadAttention", inputs, None, ["q", "k", "v", "", "m"], outputs=4, num_heads=2, types=TensorProto.FLOAT)


def test_one_step_of_decoding() -> None:
    inputs = {k: normal(2, 1, 8) for k in ("q", "k", "v")}
    inputs |= {"pk": normal(2, 2, 7, 4), "pv": normal(2, 2, 7, 4), "n": np.array([3], np.int32)}
    order = ["q", "k", "v", "", "", "pk", "pv", "n", "", "", "b"]
    attrs: dict[str, Any] = {"num_heads": 2, "outputs": 3}
    check("DecoderMaskedMultiHeadAttention", inputs, {"b": normal(24)}, order, past_present_share_buffer=1, **attrs)
    inputs |= {"pk": normal(2, 2, 3, 4), "pv": normal(2, 2, 3, 4)}
    del inputs["n"]
    found = answer(
        "DecoderMaskedMultiHeadAttention", inputs, {"b": normal(24)}, [x if x != "n" else "" for x in order], **attrs
    )
    wanted = answer("MultiHeadAttention", inputs, {"b": normal(24)}, ["q", "k", "v", "b", "", "", "pk", "pv"], **attrs)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def grouped(lengths: list[int], step: int, past: int, **more: np.ndarray) -> tuple[Arrays, Arrays]:
    """Inputs of GroupQueryAttention for sequences of so many keys, the last `step` of them new; how long the buffer is."""
    batch = len(lengths)
    inputs = {"q": normal(batch, step, 64), "k": normal(batch, step, 32), "v": normal(batch, step + 1, 32)[:, 1:]}
    inputs |= {"pk": normal(batch, 2, past, 16), "pv": normal(batch, 2, past + 1, 16)[:, :, 1:]}
    inputs["n"] = np.array(lengths, np.int32).reshape(batch, 1) - 1
    return inputs, {"total": np.array(max(lengths), np.int32), **more}


ORDER = ["q", "k", "v", "pk", "pv", "n", "total"]
SIZES = {"num_heads": 4, "kv_num_heads": 2}


@pytest.mark.parametrize(
    "lengths, step, past",
    [
        ([4, 4], 4, 0),
        ([4, 2], 4, 0),
        ([7, 4], 1, 6),
        ([7, 7], 1, 9),
        ([6], 3, 3),
        ([6], 3, 8),
        ([7, 5], 1, 12),
        ([4, 2], 4, 9),
    ],
)
@pytest.mark.parametrize("rotary", [0, 1])
def test_buffers_of_grouped_heads(lengths: list[int], step: int, past: int, rotary: int) -> None:
    """What is written past the end of a sequence is not said."""
    tables = {"c": np.cos(normal(16, 8)), "s": np.sin(normal(16, 8))} if rotary else {}
    inputs, constants = grouped(lengths, step, past, **tables)
    made = model("GroupQueryAttention", inputs, constants, [*ORDER, *tables], outputs=3, do_rotary=rotary, **SIZES)
    found, wanted = Program(made)(inputs), run_reference(made, inputs)
    for b, n in enumerate(lengths):
        rows = n if step == max(lengths) else step
        np.testing.assert_allclose(found[0][b, :rows], wanted[0][b, :rows], rtol=2e-4, atol=2e-5)
        for got, want in zip(found[1:], wanted[1:], strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got[b, :, :n], want[b, :, :n], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "attrs",
    [
        {"softcap": 2.0}, {"smooth_softmax": 1}, {"local_window_size": 3}, {"scale": 0.5}, {"causal": 0}, {"qk_output": 1},
        {"qk_output": 2}, {"qk_output": 2, "smooth_softmax": 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("step", [5, 1])
def test_grouped_heads(attrs: dict[str, Any], step: int) -> None:
    inputs, constants = grouped([5, 5], step, 5 - step)
    outputs = 4 if "qk_output" in attrs else 3
    check("GroupQueryAttention", inputs, constants, ORDER, outputs=outputs, **SIZES, **attrs)


def test_sinks_norms_and_biases_of_grouped_heads() -> None:
    inputs, constants = grouped([5], 2, 3, sink=normal(4))
    check("GroupQueryAttention", inputs, constants, [*ORDER, "", "", "", "", "sink"], outputs=3, **SIZES)
    # ONNX Runtime norms heads on GPUs only.
    inputs, constants = grouped([5], 2, 3, qn=np.abs(normal(16)), kn=np.abs(normal(16)))
    got = answer("GroupQueryAttention", inputs, constants, [*ORDER, *[""] * 7, "qn", "kn"], outputs=3, **SIZES)
    for name in "qk":
        x = inputs[name].reshape(1, 2, -1, 16)
        inputs[name] = (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * constants.pop(f"{name}n")).reshape(
            1, 2, -1
        )
    wanted = run_reference(model("GroupQueryAttention", inputs, constants, ORDER, outputs=3, **SIZES), inputs)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    inputs, constants = grouped([5], 2, 3)
    inputs["extra"] = normal(1, 4, 2, 5)
    check("GroupQueryAttention", inputs, constants, [*ORDER, "", "", "", "extra"], outputs=3, **SIZES)


def test_grouped_heads_in_one_tensor() -> None:
    inputs, constants = grouped([5, 5], 5, 0)
    inputs = {"qkv": normal(2, 5, 128), **{k: v for k, v in inputs.items() if k not in "qkv"}}
    check("GroupQueryAttention", inputs, constants, ["qkv", "", "", *ORDER[3:]], outputs=3, **SIZES)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 16), (2, 2, 3, 8)])
def test_rotary_embedding(interleaved: int, shape: tuple[int, ...]) -> None:
    tables = {"c": np.cos(normal(8, 4)), "s": np.sin(normal(8, 4))}
    attrs = {"interleaved": interleaved, "num_heads": 2 if len(shape) == 3 else 0}
    check("RotaryEmbedding", {"x": normal(*shape), "p": np.array([2], np.int64)}, tables, **attrs)
    half = {k: v[:, :2].copy() for k, v in tables.items()}
    places = np.array([[0, 1, 2], [3, 4, 5]], np.int64)
    attrs |= {"rotary_embedding_dim": 4, "num_heads": 2}
    check("RotaryEmbedding", {"x": normal(*shape), "p": places}, half, **attrs)


@pytest.mark.parametrize("layout, sections", [(0, [2, 1, 1]), (1, [2, 1, 1]), (0, [4, 0, 0])])
def test_rotary_embedding_of_three_positions(layout: int, sections: list[int]) -> None:
    tables = {"c": np.cos(normal(8, 4)), "s": np.sin(normal(8, 4))}
    places = np.random.default_rng(1).integers(0, 8, (3, 2, 3))
    attrs = {"mrope_section": sections, "mrope_layout": layout, "num_heads": 2, "rotary_embedding_dim": 8}
    check("MRotaryEmbedding", {"x": normal(2, 3, 16), "p": places}, tables, **attrs)
