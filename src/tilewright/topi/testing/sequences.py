"""NumPy references of attention and of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.topi.testing.convolutions import Array
from tilewright.topi.testing.layers import softmax_python

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


def attention_python(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    qk_scale: float,
    causal: str,
    window_size: int | None = None,
    layout: str = "BSNH",
) -> Array:
    """softmax(q @ k^T * qk_scale + bias) @ v for each head. q, k, v (batch, sequence, heads, size), or (batch, sequence, 3, heads, size)
    parts. causal: "none", "TopLeft" or "BottomRight", the corner in which the diagonal of what a query may see begins; window_size: how
    many keys it sees at most."""
    if layout != "BSNH":
        raise ValueError(f"attention_python takes BSNH, but the layout is {layout}")
    queries, keys, values = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
    # Heads of queries may share those of keys.
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (np.repeat(t, shared, 1) for t in (keys, values))
    scores = queries @ keys.transpose(0, 1, 3, 2) * qk_scale
    if bias is not None:
        scores = scores + bias
    rows, columns = scores.shape[-2:]
    if causal != "none":
        first = {"TopLeft": 0, "BottomRight": abs(columns - rows)}[causal]
        row, column = np.mgrid[:rows, :columns]
        seen = column <= row + first
        if window_size is not None:
            seen &= column > row + first - window_size
        scores = np.where(seen, scores, -np.inf)
    flat = scores.reshape(-1, columns)
    weights = softmax_python(flat, axis=1).reshape(scores.shape)
    return np.ascontiguousarray((weights @ values).transpose(0, 2, 1, 3)).astype(q.dtype)


def lstm_python(
    Xs: Array,
    Wi: Array,
    Wh: Array,
    Bi: Array | None = None,
    Bh: Array | None = None,
    h_init: Array | None = None,
    c_init: Array | None = None,
    proj: Array | None = None,
    p_i: Array | None = None,
    p_f: Array | None = None,
    p_o: Array | None = None,
    f_act: str | Callable[[Array], Array] = "sigmoid",
    g_act: str | Callable[[Array], Array] = "tanh",
    h_act: str | Callable[[Array], Array] = "tanh",
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Array, Array]:
    """(hidden states, cell states) of all steps; arguments as of `topi.nn.lstm`, activations also by name."""
    f, g_of, h_of = (ACTIVATIONS[a] if isinstance(a, str) else a for a in (f_act, g_act, h_act))
    steps, batch, _ = Xs.shape
    hidden = Wh.shape[0] // 4
    out = hidden if proj is None else proj.shape[0]
    h = np.zeros((batch, out), Xs.dtype) if h_init is None else h_init
    c = np.zeros((batch, hidden), Xs.dtype) if c_init is None else c_init
    hs, cs = [], []
    zero: Any = 0
    for t in range(steps)[::-1] if reverse else range(steps):
        sums = Xs[t] @ Wi.T + h @ Wh.T + (zero if Bi is None else Bi) + (zero if Bh is None else Bh)
        of = dict(zip(weight_layout, np.split(sums, 4, 1), strict=True))
        i, forget = (f(of[n] + (zero if p is None else p * c)) for n, p in (("I", p_i), ("F", p_f)))
        c = forget * c + i * g_of(of["G"])
        h = f(of["O"] + (zero if p_o is None else p_o * c)) * h_of(c)
        if proj is not None:
            h = h @ proj.T
        hs.append(h)
        cs.append(c)
    return np.stack(hs), np.stack(cs)
