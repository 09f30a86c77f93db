"""Parts of a compilation that are no passes, told to the instruments that gather a report of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.ir.transform import PassContext


@contextmanager
def step(name: str) -> Iterator[None]:
    """A part of a compilation. Instruments of the current context with `begin_step(name)` and `end_step()` are told of it."""
    watching = [i for i in PassContext.current().instruments if hasattr(i, "begin_step")]
    for instrument in watching:
        instrument.begin_step(name)
    try:
        yield
    finally:
        for instrument in reversed(watching):
            instrument.end_step()
