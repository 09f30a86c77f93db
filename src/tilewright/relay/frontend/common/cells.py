"""Recurrent cells over lists of inputs, a step each, under their classic names: what converters of users build layers of.

Inputs are (batch, features), states (batch, hidden), weights (gates * hidden, features or hidden) and biases (gates * hidden). Each returns
the outputs of its steps, the first one first in the order of the steps (from the last input on if `backwards`), and its last state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Tuple, TupleGetItem, Var, const

Activation = Callable[[Any], Any]
_add, _multiply, _subtract = constructor("add"), constructor("multiply"), constructor("subtract")
_sigmoid, _tanh = constructor("sigmoid"), constructor("tanh")


def _affine(x: Expr, weight: Expr, bias: Expr | None) -> Expr:
    made: Expr = constructor("nn.dense")(x, weight)
    return made if bias is None else _add(made, bias)


def _parts(x: Expr, count: int, axis: int = -1) -> list[Expr]:
    """The gates, which are beside each other along an axis."""
    whole: Any = constructor("split")(x, indices_or_sections=count, axis=axis)
    split = getattr(whole, "astuple", lambda: whole)()
    return [TupleGetItem(split, k) for k in range(count)]


def _in_order(input_seqs: Sequence[Expr], backwards: bool) -> Sequence[Expr]:
    return list(reversed(input_seqs)) if backwards else input_seqs


def rnn_cell(
    input_seqs: Sequence[Expr],
    hidden_state: Expr,
    w_inp: Expr,
    w_hid: Expr,
    b_inp: Expr | None = None,
    b_hid: Expr | None = None,
    backwards: bool = False,
    act: Activation = _tanh,
) -> tuple[list[Expr], Expr]:
    """Steps h = act(w_inp x + b_inp + w_hid h + b_hid). Returns (outputs, h)."""
    outputs: list[Expr] = []
    for x in _in_order(input_seqs, backwards):
        hidden_state = act(_add(_affine(x, w_inp, b_inp), _affine(hidden_state, w_hid, b_hid)))
        outputs.append(hidden_state)
    return outputs, hidden_state


def gru_cell(
    input_seqs: Sequence[Expr],
    hidden_state: Expr,
    w_inp: Expr,
    w_hid: Expr,
    b_inp: Expr | None = None,
    b_hid: Expr | None = None,
    rz_act: Activation = _sigmoid,
    n_act: Activation = _tanh,
    backwards: bool = False,
    linear_before_reset: bool = True,
    sequence_lens: Expr | None = None,
) -> tuple[list[Expr], Expr]:
    """Steps of a gated unit with the gates r, z, n: h = (1 - z) n + z h. linear_before_reset: r multiplies w_hn h + b_hn, else h.
    sequence_lens (batch): the steps that each row has; later ones keep its state, and their outputs are 0. Returns (outputs, h)."""
    outputs: list[Expr] = []
    for step, x in enumerate(_in_order(input_seqs, backwards)):
        given = _parts(_affine(x, w_inp, b_inp), 3)
        if linear_before_reset:
            held = _parts(_affine(hidden_state, w_hid, b_hid), 3)
            r, z = (rz_act(_add(given[k], held[k])) for k in range(2))
            n = n_act(_add(given[2], _multiply(r, held[2])))
        else:
            weights = _parts(w_hid, 3, 0)
            biases = [None] * 3 if b_hid is None else _parts(b_hid, 3, 0)
            r, z = (rz_act(_add(given[k], _affine(hidden_state, weights[k], biases[k]))) for k in range(2))
            n = n_act(_add(given[2], _affine(_multiply(r, hidden_state), weights[2], biases[2])))
        new = _add(_multiply(_subtract(hidden_state, n), z), n)
        if sequence_lens is None:
            hidden_state = new
            outputs.append(new)
            continue
        place = len(input_seqs) - 1 - step if backwards else step
        lasts = constructor("greater")(sequence_lens, constructor("cast_like")(const(place, "int32"), sequence_lens))
        mask = constructor("expand_dims")(lasts, axis=1)
        hidden_state = constructor("where")(mask, new, hidden_state)
        outputs.append(constructor("where")(mask, new, constructor("zeros_like")(new)))
    return outputs, hidden_state


def lstm_cell(
    input_seqs: Sequence[Expr],
    hidden_state: Expr,
    cell_state: Expr,
    w_inp: Expr,
    w_hid: Expr,
    b_inp: Expr | None = None,
    b_hid: Expr | None = None,
    proj: Expr | None = None,
    p_i: Expr | None = None,
    p_f: Expr | None = None,
    p_o: Expr | None = None,
    f_act: Activation = _sigmoid,
    g_act: Activation = _tanh,
    h_act: Activation = _tanh,
    backwards: bool = False,
) -> tuple[list[Expr], Expr, Expr]:
    """Steps of a long short-term memory with the gates i, f, g, o: c = f c + i g, h = o h_act(c), which proj (outputs, hidden) multiplies.
    p_i, p_f, p_o (hidden): what the cell adds to gates. Returns (outputs, h, c)."""
    outputs: list[Expr] = []

    def seen(gate: Expr, weight: Expr | None, cell: Expr) -> Expr:
        return gate if weight is None else _add(gate, _multiply(weight, cell))

    for x in _in_order(input_seqs, backwards):
        i, f, g, o = _parts(_add(_affine(x, w_inp, b_inp), _affine(hidden_state, w_hid, b_hid)), 4)
        kept = _multiply(f_act(seen(f, p_f, cell_state)), cell_state)
        cell_state = _add(kept, _multiply(f_act(seen(i, p_i, cell_state)), g_act(g)))
        hidden_state = _multiply(f_act(seen(o, p_o, cell_state)), h_act(cell_state))
        if proj is not None:
            hidden_state = constructor("nn.dense")(hidden_state, proj)
        outputs.append(hidden_state)
    return outputs, hidden_state, cell_state


def try_resolve_var_to_const(x: Expr, graph_params: dict[str, Any]) -> Expr:
    """A parameter as a constant, if its value is among graph_params; others as they are. Tuples field by field."""
    if isinstance(x, Var) and x.name_hint in graph_params:
        value = graph_params[x.name_hint]
        return const(value.numpy() if hasattr(value, "numpy") else np.asarray(value))
    if isinstance(x, Tuple):
        return Tuple(tuple([try_resolve_var_to_const(f, graph_params) for f in x.fields]))
    return x


__all__ = ["gru_cell", "lstm_cell", "rnn_cell", "try_resolve_var_to_const"]
