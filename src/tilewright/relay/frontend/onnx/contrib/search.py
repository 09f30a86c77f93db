"""Converters of searches for token sequences: BeamSearch, GreedySearch and Sampling, as loops around the node's decoder graph.

The sequences of a search are the rows of a buffer of the maximum length, filled with the padding token. The decoder's keys and
values grow from step to step. The first step, with the prompt, comes before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.contrib.decoding import Decoder, decoder_of
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.contrib.logits import Tensors, shaped
from tilewright.relay.frontend.onnx.control_flow import recursion
from tilewright.relay.frontend.onnx.ops.picking import drawn
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op

LEAST = -1e9
"""The initial score of all beams but the first, which excludes them from the first step."""


class Search(Tensors):
    """Base of all searches. rows: number of sequences that are built at the same time; most: their maximum length."""

    def __init__(self, node: OnnxNode, decoder: Decoder, most: Value, given: dict[str, Value | None]) -> None:
        super().__init__(node)
        self.decoder, self.given = decoder, given
        self.most = int(node.numbers(most, "max_length").reshape(-1)[0])
        self.eos, self.pad = int(node.get("eos_token_id")), int(node.get("pad_token_id"))
        self.prompt = decoder.prompt
        self.rows, self.start = node.static(self.prompt)
        if self.start >= self.most:
            raise node.refuse("max_length", self.most, f"more than the {self.start} tokens of the prompt")

    def buffer(self) -> Value:
        """The buffer of sequences before the first step."""
        return self(
            "nn.pad", self.prompt, self.number(self.pad, "int32"), pad_width=((0, 0), (0, self.most - self.start))
        )

    def put(self, sequences: Value, tokens: Value, length: Value) -> Value:
        """Sequences with one more token in each row, at position `length`."""
        places = Value(array=np.arange(self.most, dtype=np.int64).reshape(1, -1))
        return self("where", self("equal", places, length), self("expand_dims", tokens, axis=1), sequences)

    def shaped(self, scores: Value, sequences: Value, length: Value, first: bool) -> Value:
        """Scores changed by the options of the node."""
        return shaped(self, scores, sequences, length, first, self.given, self.eos)

    def loop(self, begin: Sequence[Value], going: Value, step: Any) -> list[Value]:
        """The iterations after the first step. step(state, length of the sequences) -> (whether to continue, state)."""
        rounds = self.most - self.start - 1
        if not rounds:
            return list(begin)

        def once(k: Value, _: Value, state: list[Any]) -> tuple[Value | None, list[Any], list[Value]]:
            more, after = step(state, self("add", k, self.number(self.start + 1, "int64")))
            return more, after, []

        count = Value(array=np.array(rounds, np.int64))
        return recursion(self.node, count, going, list(begin), 0, once)[0]

    def length(self) -> Value:
        """The length of the prompt."""
        return self.number(self.start, "int64")


class Row(Search):
    """Searches that choose one token for each row in each step, until all rows have ended."""

    def run(self) -> list[Value]:
        """[the sequences, the scores of the last step]."""
        sequences = self.buffer()
        logits, state = self.decoder.first()
        scores = self.shaped(logits, sequences, self.length(), True)
        done = Value(array=np.zeros(self.rows, bool))
        tokens, done, seen = self.chosen(scores, sequences, done)
        begin = [self.put(sequences, tokens, self.length()), done, tokens, *([seen] if seen else []), *state]

        def step(now: list[Value], length: Value) -> tuple[Value, list[Value]]:
            sequences, done, tokens, *rest = now
            rest = rest[1:] if seen else rest
            logits, state = self.decoder.next(tokens, rest, length)
            scores = self.shaped(logits, sequences, length, False)
            tokens, done, filtered = self.chosen(scores, sequences, done)
            after = [self.put(sequences, tokens, length), done, tokens, *([filtered] if filtered else []), *state]
            return self("logical_not", self("all", done)), after

        last = self.loop(begin, self("logical_not", self("all", done)), step)
        return [last[0], last[3]] if seen else [last[0]]

    def chosen(self, scores: Value, sequences: Value, done: Value) -> tuple[Value, Value, Value | None]:
        """(the next token of each row, whether each row has ended, the scores). An ended row gets the padding token."""
        tokens, filtered = self.token(scores, sequences)
        done = self("logical_or", done, self("equal", tokens, self.number(self.eos, "int32")))
        return self("where", done, self.number(self.pad, "int32"), tokens), done, filtered

    def token(self, scores: Value, sequences: Value) -> tuple[Value, Value | None]:
        """(The best token of each row, None)."""
        return self.node.cast(self("argmax", scores, axis=(1,)), "int32"), None


class Beams(Search):
    """Beam search: the `beams` sequences of the largest sum of logarithms for each of a batch. Finished ones are kept separately."""

    def __init__(
        self, node: OnnxNode, decoder: Decoder, most: Value, given: dict[str, Value | None], beams: int, answers: int
    ) -> None:
        super().__init__(node, decoder, most, given)
        self.beams, self.answers, self.batch = beams, answers, self.rows // beams
        self.early = bool(node.get("early_stopping", 0))
        self.penalty = given.get("length_penalty")

    def run(self) -> list[Value]:
        """[sequences (batch, answers, most), their scores, the scores of all tokens in all steps]."""
        batch, beams = self.batch, self.beams
        begin = np.full((batch, beams), LEAST, np.float32)
        begin[:, 0] = 0
        logits, state = self.decoder.first()
        words = logits.known_extent(-1)
        finished = [
            Value(array=np.full((batch, beams, self.most), self.pad, np.int32)),
            Value(array=np.full((batch, beams), -np.inf, np.float32)),
        ]
        steps = self.most - self.start
        kept = [Value(array=np.zeros((steps, self.rows, words), np.float32))] if self.node.wants(2) else []
        done = Value(array=np.zeros(batch, bool))
        now = [self.buffer(), Value(array=begin), *finished, done, *kept]
        going, after = self.step(now, logits, state, self.length(), True)

        def step(now: list[Value], length: Value) -> tuple[Value, list[Value]]:
            count = 5 + len(kept)
            own, tokens, state = now[:count], now[count], now[count + 1 :]
            logits, state = self.decoder.next(tokens, state, length)
            return self.step(own, logits, state, length, False)

        sequences, sums, hypotheses, scores, done, *rest = self.loop(after, going, step)
        # Unfinished sequences take part unchanged.
        whole = self.averaged(sums, self.number(self.most, "int64"))
        ends = self("where", self("expand_dims", done, axis=1), self.number(-np.inf, "float32"), whole)
        found, best = self.merged(hypotheses, scores, self.apart(sequences), ends, self.answers)
        all_scores = self("reshape", rest[0], newshape=(steps, batch, beams, words)) if kept else None
        return [found, best, all_scores] if all_scores is not None else [found, best]

    def step(
        self, now: Sequence[Value], logits: Value, state: Sequence[Value], length: Value, first: bool
    ) -> tuple[Value, list[Value]]:
        """(whether to continue, `now` after the step with the next tokens and the decoder's state)."""
        sequences, sums, hypotheses, scores, done, *kept = now
        batch, beams, words = self.batch, self.beams, logits.known_extent(-1)
        rated = self.shaped(self("nn.log_softmax", logits, axis=-1), sequences, length, first)
        rated = self("add", rated, self("reshape", sums, newshape=(batch * beams, 1)))
        if kept:
            places = Value(array=np.arange(self.most - self.start, dtype=np.int64).reshape(-1, 1, 1))
            at = self("subtract", length, self.length())
            kept = [self("where", self("equal", places, at), self("expand_dims", rated, axis=0), kept[0])]
        flat = self("reshape", rated, newshape=(batch, beams * words))
        values, places = [Value(v) for v in self.node.calls("topk", flat, k=2 * beams, axis=1, dtype="int32")]
        size = self.number(words, "int32")
        origin, token = self("floor_divide", places, size), self("floor_mod", places, size)
        ended = self("equal", token, self.number(self.eos, "int32"))
        early = Value(array=(np.arange(2 * beams) < beams).reshape(1, -1))
        open_ = self("expand_dims", self("logical_not", done), axis=1)
        counts = self("logical_and", self("logical_and", ended, early), open_)
        nothing = self.number(-np.inf, "float32")
        ends = self("where", counts, self.averaged(values, length), nothing)
        parents = self("take", self.apart(sequences), origin, axis=1, batch_dims=1)
        hypotheses, scores = self.merged(hypotheses, scores, parents, ends, beams)
        # The best unfinished sequences, in order.
        sums, which = [
            Value(v)
            for v in self.node.calls("topk", self("where", ended, nothing, values), k=beams, axis=1, dtype="int32")
        ]
        tokens, origin = [self("take", v, which, axis=1, batch_dims=1) for v in (token, origin)]
        tokens = self("where", open_, tokens, self.number(self.pad, "int32"))
        origin = self("where", open_, origin, self.number(0, "int32"))
        sums = self("where", open_, sums, self.number(0, "float32"))
        worst = self("min", scores, axis=(1,))
        full = self("greater", worst, nothing)
        if not self.early:
            best = self("strided_slice", values, begin=(0,), end=(1,), strides=(1,), axes=(1,))
            reach = self("reshape", self.averaged(best, length), newshape=(batch,))
            full = self("logical_and", full, self("greater_equal", worst, reach))
        done = self("logical_or", done, full)
        offsets = Value(array=(np.arange(batch, dtype=np.int32) * beams).reshape(-1, 1))
        rows = self("reshape", self("add", origin, offsets), newshape=(batch * beams,))
        tokens = self("reshape", tokens, newshape=(batch * beams,))
        sequences = self.put(self("take", sequences, rows, axis=0), tokens, length)
        state = self.decoder.reordered(state, rows)
        going = self("logical_not", self("all", done))
        return going, [sequences, sums, hypotheses, scores, done, *kept, tokens, *state]

    def apart(self, sequences: Value) -> Value:
        """Rows reshaped to (batch, beams, most)."""
        return self("reshape", sequences, newshape=(self.batch, self.beams, self.most))

    def averaged(self, sums: Value, length: Value) -> Value:
        """Sums of logarithms divided by a power of the length."""
        if self.penalty is None:
            return self("divide", sums, self.node.cast(length, "float32"))
        power = self("power", self.node.cast(length, "float32"), self("reshape", self.penalty, newshape=()))
        return self("divide", sums, power)

    def merged(self, hypotheses: Value, scores: Value, more: Value, ends: Value, count: int) -> tuple[Value, Value]:
        """The best `count` of the finished sequences and others, with their scores."""
        both = self("concatenate", [scores, ends], axis=1)
        best, which = [Value(v) for v in self.node.calls("topk", both, k=count, axis=1, dtype="int32")]
        return self("take", self("concatenate", [hypotheses, more], axis=1), which, axis=1, batch_dims=1), best


class Drawn(Row):
    """Sampling: draws tokens from the most probable ones."""

    def token(self, scores: Value, sequences: Value) -> tuple[Value, Value | None]:
        node = self.node
        heat = float(node.get("temperature", 1.0))
        scores = scores if heat == 1 else self("divide", scores, self.number(heat, "float32"))
        filtered = self.nucleus(scores)
        seed = self.given.get("seed")
        config = {"count": 1, "seed": None if seed is None else int(node.numbers(seed, "seed").reshape(-1)[0])}
        token = drawn(node, "random.multinomial", [filtered], (self.rows, 1), "int32", config)
        return self("squeeze", token, axis=(1,)), filtered if node.wants(1) else None

    def nucleus(self, scores: Value) -> Value:
        """Scores with `filter_value` for all but the most probable tokens, whose probabilities sum to at least `top_p`."""
        node = self.node
        share = float(node.get("top_p", 0.0))
        least = 0 if node.get("custom", 0) else int(node.get("min_tokens_to_keep", 0))
        words = scores.known_extent(1)
        order = self("argsort", scores, axis=1, is_ascend=True, dtype="int32")
        ranked = self("gather", scores, order, axis=1)
        summed = self("cumsum", self("nn.softmax", ranked, axis=-1), axis=1)
        out = self("less_equal", summed, self.number(1 - share, "float32"))
        kept = Value(array=(np.arange(words) >= words - max(least, 1)).reshape(1, -1))
        out = self("logical_and", out, self("logical_not", kept))
        low = self.number(float(node.get("filter_value", -1e20)), "float32")
        return self("scatter_elements", scores, order, self("where", out, low, ranked), axis=1)


def _options(names: Sequence[str], values: Sequence[Value | None]) -> dict[str, Value | None]:
    return {n: v for n, v in zip(names, values, strict=False) if v is not None}


SHAPING = ("min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask")


@onnx_op("GreedySearch", domain=DOMAIN)
def _greedy(node: OnnxNode, ids: Value, most: Value, *rest: Value | None) -> list[Value]:
    given = _options(SHAPING, rest)
    return Row(node, decoder_of(node, ids, given, 1), most, given).run()


@onnx_op("Sampling", domain=DOMAIN)
def _sampling(node: OnnxNode, ids: Value, most: Value, *rest: Value | None) -> list[Value]:
    given = _options((*SHAPING, "presence_mask", "seed"), rest)
    return Drawn(node, decoder_of(node, ids, given, 1), most, given).run()


@onnx_op("BeamSearch", domain=DOMAIN)
def _beams(
    node: OnnxNode, ids: Value, most: Value, least: Value | None, beams: Value, answers: Value, *rest: Value | None
) -> list[Value]:
    names = ("length_penalty", *SHAPING[1:], "decoder_input_ids", "logits_processor")
    given = _options(("min_length", *names), (least, *rest))
    processor = given.get("logits_processor")
    if processor is not None and node.numbers(processor, "logits_processor").any():
        raise node.refuse("logits_processor", 1, "0: processors for single kinds of models are not supported")
    count, wanted = [
        int(node.numbers(v, w).reshape(-1)[0]) for v, w in ((beams, "num_beams"), (answers, "num_return_sequences"))
    ]
    return Beams(node, decoder_of(node, ids, given, count), most, given, count, wanted).run()
