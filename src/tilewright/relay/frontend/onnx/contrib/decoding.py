"""Graphs inside a search: a decoder as in GPT-2, or an encoder and a decoder as in T5, run step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.formats.onnx_messages import Message
from tilewright.relay.frontend.onnx.contrib.logits import Tensors
from tilewright.relay.frontend.onnx.inputs import element_of
from tilewright.relay.frontend.onnx.value import OnnxNode, Value
from tilewright.support.errors import OpNotImplemented


class Decoder(Tensors):
    """Arguments of a search. prompt: the first tokens of each row (rows, length)."""

    prompt: Value

    def first(self) -> tuple[Value, list[Value]]:
        """(scores (rows, words) of the first token after the prompt, the state after the prompt)."""
        raise OpNotImplemented("its kind of model has no first step")

    def next(self, tokens: Value, state: Sequence[Value], length: Value) -> tuple[Value, list[Value]]:
        """(the scores of the tokens after these (rows), the state after them); length: of the sequences with them."""
        raise OpNotImplemented("its kind of model has no further steps")

    def reordered(self, state: Sequence[Value], rows: Value) -> list[Value]:
        """The state with rows selected by index: row i continues from another row."""
        raise OpNotImplemented("its kind of model has no beams")

    def run(self, graph: Message, inputs: Sequence[Value]) -> list[Value]:
        """The results of a graph for values in the order of its inputs."""
        names = [i.name for i in graph.input]
        if len(names) != len(inputs):
            raise OpNotImplemented(
                f"its graph {graph.name!r} takes {len(names)} inputs ({', '.join(names)}), where {len(inputs)} are known"
            )
        bound = {n: self.node.cast(v, element_of(i.type)) for n, i, v in zip(names, graph.input, inputs, strict=True)}
        return self.node.importer.attempt(graph, bound)

    def last(self, logits: Value) -> Value:
        """The scores (rows, words) of the last token, in float32."""
        if logits.ndim == 3:
            logits = self("take", logits, self.number(-1, "int32"), axis=1, mode="signed")
        return self.node.cast(logits, "float32")


class DecoderOnly(Decoder):
    """A decoder with inputs: tokens, their positions, a mask, and for each layer the past (2, rows, heads, length, size)."""

    def __init__(self, node: OnnxNode, ids: Value, mask: Value | None, beams: int) -> None:
        super().__init__(node)
        self.graph = node.get("decoder")
        self.opening = node.get("init_decoder") or self.graph
        ids = node.cast(ids, "int32")
        # Positions count the tokens that are not padding, whatever the mask has.
        counted = node.cast(self("not_equal", ids, self.number(int(node.get("pad_token_id")), "int32")), "int32")
        rows = [ids, counted, counted if mask is None else node.cast(mask, "int32")]
        self.prompt, self.counted, self.mask = [
            v if beams == 1 else self("repeat", v, repeats=beams, axis=0) for v in rows
        ]

    def past(self) -> list[Value]:
        """Empty keys and values, for the first step."""
        rows = self.node.static(self.prompt)[0]
        found = []
        for i in self.graph.input[3:]:
            shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
            if len(shape) != 5 or not shape[2] or not shape[4]:
                raise OpNotImplemented(
                    f"its decoder's input {i.name!r} must be declared (2, batch, heads, length, size) with heads and size known"
                )
            found.append(Value(array=np.zeros((2, rows, shape[2], 0, shape[4]), element_of(i.type))))
        return found

    def first(self) -> tuple[Value, list[Value]]:
        zero, one = self.number(0, "int32"), self.number(1, "int32")
        places = self("subtract", self("cumsum", self.counted, axis=1), one)
        places = self("where", self("equal", self.counted, zero), zero, places)
        logits, *past = self.run(self.opening, [self.prompt, places, self.mask, *self.past()])
        place = self("sum", self.counted, axis=(1,), keepdims=True)
        return self.last(logits), [place, self.longer(self.mask), *past]

    def longer(self, mask: Value) -> Value:
        """A mask extended by one position."""
        rows = self.node.static(self.prompt)[0]
        return self("concatenate", [mask, Value(array=np.ones((rows, 1), np.int32))], axis=1)

    def next(self, tokens: Value, state: Sequence[Value], length: Value) -> tuple[Value, list[Value]]:
        place, mask, *past = state
        ids = self("expand_dims", tokens, axis=1)
        logits, *past = self.run(self.graph, [ids, place, mask, *past])
        return self.last(logits), [self("add", place, self.number(1, "int32")), self.longer(mask), *past]

    def reordered(self, state: Sequence[Value], rows: Value) -> list[Value]:
        place, mask, *past = state
        return [place, mask, *[self("take", p, rows, axis=1) for p in past]]


class EncoderDecoder(Decoder):
    """An encoder, and a decoder that attends to its results. Each layer has fixed keys and values of them, and growing ones of its own.

    The encoder's inputs are tokens and their mask. If it also runs the decoder's first step, it gets the start token, too.
    """

    def __init__(self, node: OnnxNode, ids: Value, mask: Value | None, beams: int) -> None:
        super().__init__(node)
        seen = token_mask(self, ids) if mask is None else mask
        self.ids, self.mask, self.beams = ids, node.cast(seen, "int32"), beams
        self.encoder, self.graph = node.get("encoder"), node.get("decoder")
        if self.encoder is None:
            raise OpNotImplemented("it has no encoder, which model_type 1 needs")
        first = int(node.get("decoder_start_token_id", -1))
        self.start = Value(array=np.full((node.static(ids)[0], 1), first, np.int32))
        self.prompt = self.wide(self.start)
        self.layers = (len(self.graph.output) - 1) // 2

    def wide(self, x: Value) -> Value:
        """A copy of each row for each beam."""
        return x if self.beams == 1 else self("repeat", x, repeats=self.beams, axis=0)

    def first(self) -> tuple[Value, list[Value]]:
        inputs = [self.ids, self.mask, self.start]
        made = [self.wide(v) for v in self.run(self.encoder, inputs[: len(self.encoder.input)])]
        own = 2 * self.layers
        # The decoder's inputs between its tokens and its past: the mask, and the encoder's results.
        between = len(self.graph.input) - 1 - 2 * own
        seen = self.wide(self.mask)
        if len(self.encoder.output) == own:
            # The encoder only makes keys and values: the decoder begins with an empty past.
            self.cross, self.between = made, [seen]
            past = self.graph.input[1 + between : 1 + between + own]
            return self.following(self.prompt, [self.nothing(i) for i in past])
        logits, hidden, *rest = made
        self.cross, self.between = rest[own:], [seen, hidden][:between]
        return self.last(logits), rest[:own]

    def nothing(self, info: Message) -> Value:
        """An empty past."""
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if len(shape) != 4 or not shape[1] or not shape[3]:
            raise OpNotImplemented(
                f"its decoder's input {info.name!r} must be declared (batch, heads, length, size) with heads and size known"
            )
        rows = self.node.static(self.prompt)[0]
        return Value(array=np.zeros((rows, shape[1], 0, shape[3]), element_of(info.type)))

    def following(self, ids: Value, past: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The results of the decoder for tokens (rows, 1) with this state."""
        logits, *after = self.run(self.graph, [ids, *self.between, *past, *self.cross])
        return self.last(logits), after

    def next(self, tokens: Value, state: Sequence[Value], length: Value) -> tuple[Value, list[Value]]:
        return self.following(self("expand_dims", tokens, axis=1), state)

    def reordered(self, state: Sequence[Value], rows: Value) -> list[Value]:
        return [self("take", p, rows, axis=0) for p in state]


def token_mask(c: Tensors, ids: Value) -> Value:
    """The encoder's mask of tokens: it masks padding before the tokens, but not after them."""
    is_token = c("not_equal", ids, c.node.scalar(int(c.node.get("pad_token_id")), ids))
    return c("greater", c("cumsum", c.node.cast(is_token, "int32"), axis=1), c.number(0, "int32"))


def decoder_of(node: OnnxNode, ids: Value, given: Mapping[str, Value | None], beams: int) -> Decoder:
    """The decoder of a search node."""
    kind, mask = int(node.get("model_type", 0)), given.get("attention_mask")
    if kind == 0:
        return DecoderOnly(node, ids, mask, beams)
    if kind == 1:
        return EncoderDecoder(node, ids, mask, beams)
    raise node.refuse("model_type", kind, "0 (a decoder alone), 1 (an encoder and a decoder)")
