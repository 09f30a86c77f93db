"""What importers do where frameworks and exporters differ from plain operators: a register that is filled while a model is imported.

A front end declares each such thing once, as a `Quirk`, and says so, `QUIRK.seen(node)`, where its code handles it. Outside of
`collected_quirks` that costs one look-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Quirk:
    """One thing that is handled: the `framework` that has it, a short `key`, and a `text` that says what it is and what is done."""

    __slots__ = ("framework", "key", "text")

    def __init__(self, framework: str, key: str, text: str) -> None:
        self.framework, self.key, self.text = framework, key, text
        if (framework, key) in _known:
            raise ValueError(f"the quirk {key!r} of {framework} is declared already")
        _known[framework, key] = self

    def seen(self, place: str) -> None:
        """Note that it was met and handled, at a node (or input, or weight) of this name."""
        found = _collected.get()
        if found is not None:
            found.setdefault(self, {})[place] = None

    def __repr__(self) -> str:
        return f"{self.framework} {self.key}: {self.text}"


_known: dict[tuple[str, str], Quirk] = {}
Found = dict[Quirk, dict[str, None]]
"""Quirks in the order in which they were met, each with its places in order."""
_collected: ContextVar[Found | None] = ContextVar("quirks", default=None)


def known_quirks() -> list[Quirk]:
    """All that are declared, by framework and key."""
    return [_known[key] for key in sorted(_known)]


def collecting() -> bool:
    """Whether somebody wants to know; what costs more than a look-up asks first."""
    return _collected.get() is not None


@contextmanager
def collected_quirks() -> Iterator[Found]:
    """What importers in the body handle."""
    found: Found = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)
