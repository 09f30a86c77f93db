"""Pieces of splits that their readers take along are slices; what is handed out, or read by others, stays a split."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs


def sliced(body: relay.Expr, values: np.ndarray) -> dict[str, int]:
    """How often each operator is left; the results are compared before and after."""
    mod = IRModule.from_expr(body)
    after = transform.SliceSplits()(mod)
    before, now = (relay.create_executor("debug", m).evaluate()(values).numpy() for m in (mod, after))
    np.testing.assert_array_equal(now, before)
    return list_op_freqs(after)


@pytest.mark.parametrize(("sections", "axis"), [(3, 1), ((2, 5), -1), ((0, 6), 1)])
def test_pieces_of_readers(sections: int | tuple[int, ...], axis: int) -> None:
    x = relay.var("x", shape=(4, 6))
    pieces = relay.split(x, sections, axis)
    body = relay.concatenate([relay.exp(pieces[2]), relay.negative(pieces[0]), relay.tanh(pieces[1])], 1)
    found = sliced(body, np.arange(24, dtype="float32").reshape(4, 6) / 10)
    assert "split" not in found and found["strided_slice"] == 3


def test_pieces_that_nobody_reads_are_not_made() -> None:
    x = relay.var("x", shape=(4, 6))
    assert sliced(relay.exp(relay.split(x, 3, 1)[1]), np.ones((4, 6), "float32")) == {"exp": 1, "strided_slice": 1}


def test_pieces_of_others_stay() -> None:
    x, w = relay.var("x", shape=(4, 6)), relay.const(np.ones((5, 2), "float32"))
    pieces = relay.split(x, 3, 1)
    body = relay.nn.dense(pieces[0], w) + relay.nn.dense(relay.exp(pieces[1]), w)
    assert sliced(body, np.ones((4, 6), "float32"))["split"] == 1


def test_one_after_the_other() -> None:
    """What lies before a split is not made again for what lies behind it."""
    x = relay.var("x", shape=(4, 6))
    for _ in range(3):
        pieces = relay.split(relay.tanh(x), 2, 1)
        x = relay.concatenate([relay.exp(pieces[1]), relay.negative(pieces[0])], 1)
    found = sliced(x, np.arange(24, dtype="float32").reshape(4, 6) / 10)
    assert found == {"tanh": 3, "strided_slice": 6, "exp": 3, "negative": 3, "concatenate": 3}
