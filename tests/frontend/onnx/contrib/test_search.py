"""Whole searches of com.microsoft, with the decoder inside, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx.contrib.decoders import END, PAD, START, WORDS, alone, guided
from tests.frontend.onnx.contrib.test_operators import DOMAIN, Arrays, run_reference
from tilewright.relay.frontend.onnx.program import Program
from tilewright.support.errors import OpNotImplemented

IDS = np.array([[3, 5, 7, 2], [0, 0, 4, 4]], np.int32)
ROW = np.array([[6, 1, 4, 6]], np.int32)
VOCABULARY = np.array([1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1], np.int32)
FIRST = np.array([[1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]], np.int32)
SEEN = np.array([[1, 1, 1, 1], [0, 1, 0, 1]], np.int32)
OPTIONS: Arrays = {
    "max_length": np.array([11], np.int32),
    "min_length": np.array([0], np.int32),
    "num_beams": np.array([3], np.int32),
    "num_return_sequences": np.array([2], np.int32),
    "length_penalty": np.array([1], np.float32),
    "repetition_penalty": np.array([1], np.float32),
}
ORDER = {
    "BeamSearch": [*OPTIONS, "vocab_mask", "prefix_vocab_mask", "attention_mask"],
    "GreedySearch": [
        "max_length",
        "min_length",
        "repetition_penalty",
        "vocab_mask",
        "prefix_vocab_mask",
        "attention_mask",
    ],
    "Sampling": ["max_length", "min_length", "repetition_penalty", "vocab_mask", "", "", "", "seed"],
}


def search(op: str, ids: np.ndarray, options: Arrays, outputs: list[str], **attrs: Any) -> Any:
    """A model of one search whose options are constants."""
    given = {**OPTIONS, **options}
    order = ["ids", *[n if n in given else "" for n in ORDER[op]]]
    attrs = {"eos_token_id": END, "pad_token_id": PAD, "model_type": 0, **attrs}
    node = helper.make_node(op, order, outputs, name="the_search", domain=DOMAIN, **attrs)
    kinds = [TensorProto.INT32, *[TensorProto.FLOAT] * 2]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ids.shape)],
        [helper.make_tensor_value_info(o, k, None) for o, k in zip(outputs, kinds, strict=False)],
        [numpy_helper.from_array(v, k) for k, v in given.items() if k in order],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def values(options: dict[str, Any]) -> Arrays:
    return {
        k: v if isinstance(v, np.ndarray) else np.array([v], np.float32 if "penalty" in k else np.int32)
        for k, v in options.items()
    }


def check_beams(ids: np.ndarray, options: dict[str, Any], outputs: int = 2, **attrs: Any) -> None:
    names = ["sequences", "sequences_scores", "scores"][:outputs]
    model = search("BeamSearch", ids, values(options), names, **attrs)
    for got, want in zip(Program(model)({"ids": ids}), run_reference(model, {"ids": ids}), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "options, attrs",
    [
        ({}, {}),
        ({"length_penalty": 2.0}, {"no_repeat_ngram_size": 2}),
        ({"repetition_penalty": 1.7, "min_length": 8}, {"early_stopping": 1}),
        ({"vocab_mask": VOCABULARY, "prefix_vocab_mask": FIRST, "attention_mask": SEEN}, {}),
        ({"num_beams": 4, "num_return_sequences": 4}, {"no_repeat_ngram_size": 1}),
        ({"max_length": 5, "num_beams": 1, "num_return_sequences": 1}, {}),
    ],
)
def test_beams_of_a_decoder_alone(options: dict[str, Any], attrs: dict[str, Any]) -> None:
    for seed, push in ((0, 1.0), (3, 3.0)):
        check_beams(IDS, options, decoder=alone(seed, push), **attrs)


def test_scores_of_all_tokens_in_all_steps() -> None:
    check_beams(ROW, {}, 3, decoder=alone(1, -2.0), init_decoder=alone(1, -2.0))


@pytest.mark.parametrize("begins, hidden", [(True, False), (True, True), (False, False)])
def test_beams_of_an_encoder_and_a_decoder(begins: bool, hidden: bool) -> None:
    encoder, decoder = guided(2, 1.5, begins, hidden)
    parts: dict[str, Any] = {"encoder": encoder, "decoder": decoder, "model_type": 1, "decoder_start_token_id": START}
    check_beams(IDS, {"max_length": 7}, **parts)
    check_beams(IDS[:, ::-1].copy(), {"max_length": 7, "repetition_penalty": 1.5}, **parts)
    check_beams(IDS, {"max_length": 7, "attention_mask": SEEN}, **parts)


@pytest.mark.parametrize(
    "options, attrs",
    [
        ({}, {}),
        ({"repetition_penalty": 1.7}, {"no_repeat_ngram_size": 2}),
        ({"vocab_mask": VOCABULARY, "prefix_vocab_mask": FIRST, "attention_mask": SEEN}, {}),
    ],
)
def test_greedy(options: dict[str, Any], attrs: dict[str, Any]) -> None:
    # What stands behind the end where all have ended, ONNX Runtime leaves as it was.
    model = search("GreedySearch", IDS, values(options), ["sequences"], decoder=alone(1, -5.0), **attrs)
    np.testing.assert_array_equal(Program(model)({"ids": IDS})[0], run_reference(model, {"ids": IDS})[0])
    ending = search("GreedySearch", ROW, {}, ["sequences"], decoder=alone(2, 30.0))
    assert Program(ending)({"ids": ROW})[0].tolist() == [[*ROW[0].tolist(), *[PAD] * 7]]


def test_sampling() -> None:
    seed = {"seed": np.array([7], np.int32)}
    decoder = alone(1, -5.0)
    best = Program(search("GreedySearch", IDS, {}, ["sequences"], decoder=decoder))({"ids": IDS})[0]
    model = search("Sampling", IDS, seed, ["sequences"], decoder=decoder, top_p=0.01)
    np.testing.assert_array_equal(Program(model)({"ids": IDS})[0], best)
    np.testing.assert_array_equal(run_reference(model, {"ids": IDS})[0], best)
    one, names = seed | values({"max_length": 5}), ["sequences", "filtered_logits"]
    attrs = {"top_p": 0.6, "temperature": 1.5, "filter_value": -50.0}
    drawn, filtered = Program(search("Sampling", IDS, one, names, decoder=decoder, **attrs))({"ids": IDS})
    taken = np.take_along_axis(filtered, drawn[:, 4:5].astype(np.int64), axis=1)
    assert filtered.shape == (2, WORDS) and (taken > -50).all() and (filtered == -50).any(axis=1).all()
    # Those that are kept have 0.6 together, and less without the least of them.
    plain = Program(search("Sampling", IDS, one, names, decoder=decoder, top_p=1.0, temperature=1.5))({"ids": IDS})[1]
    shares = np.exp(plain) / np.exp(plain).sum(axis=1, keepdims=True)
    for row, kept in zip(shares, filtered > -50, strict=True):
        assert row[kept].sum() >= 0.6 > row[kept].sum() - row[kept].min()


def test_what_a_search_does_not_take() -> None:
    def said(**attrs: Any) -> str:
        with pytest.raises(OpNotImplemented) as error:
            Program(search("BeamSearch", IDS, {}, ["sequences"], **attrs))({"ids": IDS})
        return str(error.value)

    assert (
        "BeamSearch 'the_search': its attribute model_type is 2; supported: 0 (a decoder alone), 1 (an encoder and"
        in said(decoder=alone(), model_type=2)
    )
    assert "it has no encoder, which model_type 1 needs" in said(decoder=alone(), model_type=1)
    open_heads = alone()
    open_heads.input[3].type.tensor_type.shape.dim[2].dim_param = "h"
    assert "input 'past_0' must be declared (2, batch, heads, length, size) with heads and size known" in said(
        decoder=open_heads
    )
