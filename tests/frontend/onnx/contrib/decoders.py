"""Decoders of random weights as graphs of searches: one alone, as of GPT-2, and an encoder with a decoder, as of T5."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WORDS, HEADS, SIZE, LAYERS = 12, 2, 4, 2
WIDTH = HEADS * SIZE
END, PAD, START = 9, 0, 1
INT, FLOAT = TensorProto.INT32, TensorProto.FLOAT
info = helper.make_tensor_value_info


class Graph:
    """Nodes and weights of a graph that is being written; a call adds a node and answers the name of its result."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(seed)

    def __call__(self, op: str, *inputs: str, out: str = "", **attrs: Any) -> str:
        name = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def weight(self, array: Any) -> str:
        """A constant."""
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def drawn(self, *shape: int, by: float = 1.0) -> str:
        """A constant of random numbers."""
        return self.weight(self.random.standard_normal(shape, dtype=np.float32) * np.float32(by))

    def product(self, x: str) -> str:
        return self("MatMul", x, self.drawn(WIDTH, WIDTH, by=0.5))

    def heads(self, x: str, out: str = "") -> str:
        apart = self("Reshape", x, self.weight(np.array([0, 0, HEADS, SIZE])))
        return self("Transpose", apart, perm=[0, 2, 1, 3], out=out)

    def mask(self, seen: str) -> str:
        """What hides places from attention."""
        hidden = self("Sub", self.weight(np.float32(1)), self("Cast", seen, to=FLOAT))
        return self("Unsqueeze", self("Mul", hidden, self.weight(np.float32(-1e4))), self.weight(np.array([1, 2])))

    def attend(self, q: str, k: str, v: str, mask: str = "") -> str:
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        shares = self("Softmax", self("Add", scores, mask) if mask else scores, axis=-1)
        together = self("Transpose", self("MatMul", shares, v), perm=[0, 2, 1, 3])
        return self("Reshape", together, self.weight(np.array([0, 0, WIDTH])))

    def logits(self, x: str, push: float) -> None:
        """The scores of the next token; `push` is how the end is favoured."""
        bias = np.zeros(WORDS, np.float32)
        bias[END] = push
        self("Add", self("MatMul", x, self.drawn(WIDTH, WORDS, by=0.6)), self.weight(bias), out="logits")

    def made(self, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
        return helper.make_graph(self.nodes, name, inputs, outputs, self.weights)


def alone(seed: int = 0, push: float = 1.0) -> Any:
    """A decoder of tokens, places, a mask, and the past (2, batch, heads, length, size) of each layer."""
    g = Graph(seed)
    x = g("Add", g("Gather", g.drawn(WORDS, WIDTH), "input_ids"), g("Gather", g.drawn(64, WIDTH), "position_ids"))
    mask, first, second = g.mask("attention_mask"), g.weight(np.array(0)), g.weight(np.array(1))
    for k in range(LAYERS):
        q, *pair = [g.heads(g.product(x)) for _ in range(3)]
        new = g("Concat", *[g("Unsqueeze", p, g.weight(np.array([0]))) for p in pair], axis=0)
        whole = g("Concat", f"past_{k}", new, axis=3, out=f"present_{k}")
        x = g("Add", x, g.attend(q, g("Gather", whole, first, axis=0), g("Gather", whole, second, axis=0), mask))
    g.logits(x, push)
    ids = [
        info("input_ids", INT, ["b", "s"]),
        info("position_ids", INT, ["b", "s"]),
        info("attention_mask", INT, ["b", "t"]),
    ]
    past = [info(f"past_{k}", FLOAT, [2, "b", HEADS, "p", SIZE]) for k in range(LAYERS)]
    present = [info(f"present_{k}", FLOAT, [2, "b", HEADS, "t", SIZE]) for k in range(LAYERS)]
    return g.made("decoder", [*ids, *past], [info("logits", FLOAT, ["b", "s", WORDS]), *present])


def guided(seed: int = 0, push: float = 1.0, begins: bool = True, hidden: bool = False) -> tuple[Any, Any]:
    """An encoder and a decoder. begins: the encoder runs the decoder's first step, too; hidden: the decoder is given what the encoder made
    of the strings."""
    e, d = Graph(seed), Graph(seed + 100)
    x = e("Gather", e.drawn(WORDS, WIDTH), "encoder_input_ids")
    q = e.heads(e.product(x))
    x = e("Add", x, e.attend(q, q, q, e.mask("encoder_attention_mask")), out="encoder_hidden_states")
    kinds = [f"{p}_{{}}_{k}" for k in range(LAYERS) for p in ("key", "value")]
    cross = [e.heads(e.product(x), out="present_" + k.format("cross")) for k in kinds]

    def decode(g: Graph, ids: str, across: list[str], past: bool) -> None:
        g.random = np.random.default_rng(seed + 200)
        x = g("Gather", g.drawn(WORDS, WIDTH), ids)
        for k in range(LAYERS):
            q, *pair = [g.heads(g.product(x)) for _ in range(3)]
            names = [n.format("self") for n in kinds[2 * k : 2 * k + 2]]
            whole = [
                g("Concat", f"past_{n}", p, axis=2, out=f"present_{n}")
                if past
                else g("Identity", p, out=f"present_{n}")
                for n, p in zip(names, pair, strict=True)
            ]
            x = g("Add", x, g.attend(q, *whole))
            x = g(
                "Add", x, g.attend(g.heads(g.product(x)), *across[2 * k : 2 * k + 2], g.mask("encoder_attention_mask"))
            )
        g.logits(x, push)

    def infos(prefix: str, kind: str, length: str) -> list[Any]:
        return [info(f"{prefix}_{k.format(kind)}", FLOAT, ["b", HEADS, length, SIZE]) for k in kinds]

    mask, logits = info("encoder_attention_mask", INT, ["b", "s"]), info("logits", FLOAT, ["b", 1, WORDS])
    states = info("encoder_hidden_states", FLOAT, ["b", "s", WIDTH])
    inputs, outputs = [info("encoder_input_ids", INT, ["b", "s"]), mask], infos("present", "cross", "s")
    if begins:
        decode(e, "decoder_input_ids", cross, False)
        inputs.append(info("decoder_input_ids", INT, ["b", 1]))
        outputs = [logits, states, *infos("present", "self", "t"), *outputs]
    decode(d, "input_ids", ["past_" + k.format("cross") for k in kinds], True)
    between = [info("input_ids", INT, ["b", 1]), mask, *([states] if hidden else [])]
    taken = [*between, *infos("past", "self", "p"), *infos("past", "cross", "s")]
    return e.made("encoder", inputs, outputs), d.made("decoder", taken, [logits, *infos("present", "self", "t")])
