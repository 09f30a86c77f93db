"""A layer of long short-term memory, as a scan over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.math import sigmoid, tanh
from tilewright.topi.utils import get_const_int, shape_of

if TYPE_CHECKING:
    from tilewright.tir.expr import Var

Activation = Callable[[te.Tensor], te.Tensor]


def lstm(
    Xs: te.Tensor,
    Wi: te.Tensor,
    Wh: te.Tensor,
    Bi: te.Tensor | None = None,
    Bh: te.Tensor | None = None,
    h_init: te.Tensor | None = None,
    c_init: te.Tensor | None = None,
    proj: te.Tensor | None = None,
    p_i: te.Tensor | None = None,
    p_f: te.Tensor | None = None,
    p_o: te.Tensor | None = None,
    f_act: Activation = sigmoid,
    g_act: Activation = tanh,
    h_act: Activation = tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[te.Tensor, te.Tensor]:
    """(hidden states (steps, batch, out), cell states (steps, batch, hidden)) of a sequence Xs (steps, batch, in).

    Wi (4 * hidden, in) and Wh (4 * hidden, out) are the weights of the four gates in the order of `weight_layout`: input (I), forget (F),
    cell (G), output (O); Bi and Bh (4 * hidden,) their biases. proj (out, hidden) projects the hidden state; else out is hidden. p_i,
    p_f, p_o: weights (batch, hidden) by which gates see the cell. f_act, g_act, h_act: activations of the gates, of the cell gate, and of
    the cell. reverse: the steps run from the last to the first, and so do the results.
    """
    if sorted(weight_layout) != sorted("IFGO"):
        raise ValueError(f"lstm: weight_layout must be an order of the letters IFGO, but is {weight_layout!r}")
    steps, batch, inner = shape_of(Xs)
    hidden = get_const_int(Wh.shape[0]) // 4
    out = hidden if proj is None else get_const_int(proj.shape[0])
    dtype = Xs.dtype
    ki, kh = te.reduce_axis((0, inner), name="ki"), te.reduce_axis((0, out), name="kh")
    h = te.placeholder((steps + 1, batch, out), dtype, "h_state")
    c = te.placeholder((steps + 1, batch, hidden), dtype, "c_state")
    all_steps, gates = (steps + 1, batch, hidden), (steps + 1, batch, 4, hidden)

    def first(given: te.Tensor | None, width: int, name: str) -> te.Tensor:
        return compute(
            (1, batch, width), lambda _, b, j: tir.const(0, dtype) if given is None else given(b, j), name=name
        )

    by_input = compute(
        (steps, batch, 4, hidden),
        lambda t, b, g, j: te.sum(Xs(steps - 1 - t if reverse else t, b, ki.var) * Wi(g * hidden + j, ki.var), axis=ki),
        name="by_input",
    )
    by_hidden = compute(
        gates, lambda t, b, g, j: te.sum(h(t - 1, b, kh.var) * Wh(g * hidden + j, kh.var), axis=kh), name="by_hidden"
    )

    def sums(letter: str) -> te.Tensor:
        """What a gate adds up, before its activation."""
        g = weight_layout.index(letter)

        def element(t: Var, b: Var, j: Var) -> Any:
            value = by_input(t - 1, b, g, j) + by_hidden(t, b, g, j)
            for bias in (Bi, Bh):
                value = value if bias is None else value + bias(g * hidden + j)
            return value

        return compute(all_steps, element, name=f"sum_{letter.lower()}")

    def seen(total: te.Tensor, weight: te.Tensor | None, cell: Callable[..., Any]) -> te.Tensor:
        if weight is None:
            return total
        return compute(
            all_steps,
            lambda t, b, j: total(t, b, j) + (weight(b, j) if len(weight.shape) == 2 else weight(j)) * cell(t, b, j),
            name=f"{total.op.name}_seen",
        )

    before = lambda t, b, j: c(t - 1, b, j)  # noqa: E731
    gate_i, gate_f = f_act(seen(sums("I"), p_i, before)), f_act(seen(sums("F"), p_f, before))
    gate_g = g_act(sums("G"))
    next_c = compute(
        all_steps,
        lambda t, b, j: gate_f(t, b, j) * c(t - 1, b, j) + gate_i(t, b, j) * gate_g(t, b, j),
        name="next_c",
    )
    gate_o, active = f_act(seen(sums("O"), p_o, next_c)), h_act(next_c)
    next_h = compute(all_steps, lambda t, b, j: gate_o(t, b, j) * active(t, b, j), name="next_h")
    if proj is not None:
        kp, whole = te.reduce_axis((0, hidden), name="kp"), next_h
        next_h = compute(
            (steps + 1, batch, out),
            lambda t, b, j: te.sum(whole(t, b, kp.var) * proj(j, kp.var), axis=kp),
            name="projected",
        )
    all_h, all_c = te.scan(
        [first(h_init, out, "h_init"), first(c_init, hidden, "c_init")], [next_h, next_c], [h, c], name="lstm"
    )
    return (
        compute((steps, batch, out), lambda t, b, j: all_h(t + 1, b, j), name="hidden_states"),
        compute((steps, batch, hidden), lambda t, b, j: all_c(t + 1, b, j), name="cell_states"),
    )
