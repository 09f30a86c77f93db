"""Attributes that are expressions over the sizes of arguments: the interpreter and the machine put in what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.relay_vm.executors import run_both
from tilewright import relay
from tilewright.tir import SizeVar

n = SizeVar("n", "int64")
ROWS = np.arange(36, dtype="float32").reshape(9, 4)[::-1].copy()
CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "broadcast_to": (
        lambda x: relay.broadcast_to(relay.sum(x, 1, keepdims=True), (n, 5)),
        np.repeat(ROWS.sum(1, keepdims=True), 5, 1),
    ),
    "strided_slice": (lambda x: relay.strided_slice(x, [1, 0], [n - 2, 4]), ROWS[1:-2]),
    "tile": (lambda x: relay.tile(x, (n - 7, 1)), np.tile(ROWS, (2, 1))),
    "repeat": (lambda x: relay.repeat(x, n - 7, 1), np.repeat(ROWS, 2, 1)),
    "topk": (lambda x: relay.topk(x, k=n - 7, axis=0, ret_type="values"), ROWS[:2]),
    "reshape": (lambda x: relay.reshape(x, (n * 2, 2)), ROWS.reshape(18, 2)),
    "full": (lambda x: relay.add(x, relay.full(relay.const(2.0), (n, 4), "float32")), ROWS + 2),
    "zeros": (
        lambda x: relay.concatenate([x, relay.zeros((n // 2, 4), "float32")], 0),
        np.concatenate([ROWS, np.zeros((4, 4), "f")]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_of_the_argument(name: str) -> None:
    make, want = CASES[name]
    x = relay.var("x", relay.TensorType((n, 4), "float32"))
    found = run_both(relay.IRModule.from_expr(relay.Function([x], make(x))), ROWS)
    np.testing.assert_array_equal(found.numpy(), want)


def test_sizes_of_the_function_around() -> None:
    x, y = (relay.var(v, relay.TensorType((n, 4), "float32")) for v in "xy")
    inner = relay.Function([y], relay.tile(y, (n - 7, 1)))
    m = SizeVar("m", "int64")
    z = relay.var("z", relay.TensorType((m, 4), "float32"))
    outer = relay.Function([z], relay.concatenate([relay.tile(z, (n - m, 1)), x], 0))
    body = relay.Tuple([relay.Call(inner, [x]), relay.Call(outer, [relay.strided_slice(x, [0, 0], [n - 3, 4])])])
    first, second = run_both(relay.IRModule.from_expr(relay.Function([x], body)), ROWS)
    np.testing.assert_array_equal(first.numpy(), np.tile(ROWS, (2, 1)))
    np.testing.assert_array_equal(second.numpy(), np.concatenate([np.tile(ROWS[:6], (3, 1)), ROWS]))


def test_sizes_within_a_tuple() -> None:
    pair = relay.var("pair", relay.TupleType([relay.TensorType((n,), "float32"), relay.TensorType((), "float32")]))
    body = relay.add(pair_item(pair, 0), relay.broadcast_to(pair_item(pair, 1), (n,)))
    executor = relay.create_executor("debug", relay.IRModule.from_expr(relay.Function([pair], body)))
    found = executor.evaluate()((np.arange(3, dtype="float32"), np.float32(2)))
    np.testing.assert_array_equal(found.numpy(), [2, 3, 4])


def pair_item(pair: Any, place: int) -> Any:
    return relay.TupleGetItem(pair, place)
