import numpy as np
import tvm
from tvm import relay
from tvm.relay.frontend.common import StrAttrsDict, gru_cell, lstm_cell, rnn_cell, try_resolve_var_to_const

rng = np.random.default_rng(0)
STEPS, BATCH, FEATURES, HIDDEN = 3, 2, 4, 5
xs = [rng.standard_normal((BATCH, FEATURES)).astype("float32") for _ in range(STEPS)]
h0, c0 = (rng.standard_normal((BATCH, HIDDEN)).astype("float32") for _ in range(2))


def weights(gates):
    shapes = (gates * HIDDEN, FEATURES), (gates * HIDDEN, HIDDEN), (gates * HIDDEN,), (gates * HIDDEN,)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(cell, state, *more, **words):
    """The last output and the last state, as relay computes them of constants."""
    found = cell([relay.const(x) for x in xs], *[relay.const(s) for s in state], *map(relay.const, more), **words)
    fields = relay.Tuple([found[0][-1], *found[1:]])
    made = relay.create_executor("debug", tvm.IRModule.from_expr(relay.Function([], fields))).evaluate()()
    return [made[k].numpy() for k in range(len(fields.fields))]


w, u, b, v = weights(1)
h = h0
for x in reversed(xs):
    h = np.tanh(x @ w.T + b + h @ u.T + v)
for found in run(rnn_cell, [h0], w, u, b, v, backwards=True):
    np.testing.assert_allclose(found, h, rtol=1e-4, atol=1e-5)

w, u, b, v = weights(4)
peep = [rng.standard_normal(HIDDEN).astype("float32") for _ in range(3)]
h, c = h0, c0
for x in xs:
    i, f, g, o = np.split(x @ w.T + b + h @ u.T + v, 4, axis=1)
    c = sigmoid(f + peep[1] * c) * c + sigmoid(i + peep[0] * c) * np.tanh(g)
    h = sigmoid(o + peep[2] * c) * np.tanh(c)
named = dict(zip(("p_i", "p_f", "p_o"), map(relay.const, peep), strict=False))
for found, want in zip(run(lstm_cell, [h0, c0], w, u, b, v, **named), (h, h, c), strict=False):
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)

w, u, b, v = weights(3)
lengths = np.array([2, 3], "int32")
for linear in (True, False):
    h = h0
    for step, x in enumerate(xs):
        (ir, iz, i_n), (hr, hz, hn) = np.split(x @ w.T + b, 3, axis=1), np.split(h @ u.T + v, 3, axis=1)
        r, z = sigmoid(ir + hr), sigmoid(iz + hz)
        inner = r * hn if linear else (r * h) @ u[2 * HIDDEN :].T + v[2 * HIDDEN :]
        n = np.tanh(i_n + inner)
        h = np.where((step < lengths)[:, None], (1 - z) * n + z * h, h)
    out, state = run(gru_cell, [h0], w, u, b, v, linear_before_reset=linear, sequence_lens=relay.const(lengths))
    np.testing.assert_allclose(state, h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out, h * (lengths > STEPS - 1)[:, None], rtol=1e-4, atol=1e-5)

weight = relay.var("weight", shape=(2,))
known = try_resolve_var_to_const(relay.Tuple([weight, relay.var("x")]), {"weight": tvm.nd.array(np.ones(2, "float32"))})
assert isinstance(known.fields[0], relay.Constant) and isinstance(known.fields[1], relay.Var)
assert StrAttrsDict({"pads": "((0, 1), (2, 3))"}).get_tuple_tuple_int("pads") == ((0, 1), (2, 3))
