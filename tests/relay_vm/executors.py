"""Runs a program in the interpreter and in the virtual machine, and sees that both answer the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import relay
from tilewright.relay.evaluation.interpreter import ConstructorValue, RefValue
from tilewright.runtime import array
from tilewright.runtime.container import ADT, VMClosure


def same(want: Any, got: Any, rtol: float = 1e-5) -> None:
    """AssertionError unless a value of the interpreter and one of the machine are equal."""
    pending = [(want, got)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, ConstructorValue):
            assert isinstance(b, ADT) and b.tag == a.tag and len(b) == len(a.fields), f"{a!r} is not {b!r}"
            pending += zip(a.fields, b, strict=True)
        elif isinstance(a, (list, tuple)):
            assert isinstance(b, ADT) and len(b) == len(a), f"a tuple of {len(a)} is not {b!r}"
            pending += zip(a, b, strict=True)
        elif isinstance(a, RefValue):
            pending.append((array(a.value), b.value))
        elif callable(a):
            assert isinstance(b, VMClosure)
        else:
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=rtol, atol=1e-6)
            assert b.dtype == a.dtype


def run_both(mod: relay.IRModule, *args: Any) -> Any:
    """The interpreter's result, after the machine has answered the same."""
    want = relay.create_executor("debug", mod).evaluate()(*args)
    same(want, relay.create_executor("vm", mod).evaluate()(*args))
    return want
