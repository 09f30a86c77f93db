"""Compatibility notes: records of the special cases of old operator versions and of exporters that importers handle.

An importer declares each note once, as a `CompatibilityNote`, and calls `NOTE.seen(node)` where its code handles the case. Outside
`collected_notes` the call costs one look-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CompatibilityNote:
    """A special case of a framework: `framework`, a short `key`, and a `text` that states the case and its handling."""

    __slots__ = ("framework", "key", "text")

    def __init__(self, framework: str, key: str, text: str) -> None:
        self.framework, self.key, self.text = framework, key, text
        if (framework, key) in _known:
            raise ValueError(f"the compatibility note {key!r} of {framework} is declared already")
        _known[framework, key] = self

    def seen(self, place: str) -> None:
        """Records that the importer handled this case at a node, an input or a weight of this name."""
        found = _collected.get()
        if found is not None:
            found.setdefault(self, {})[place] = None

    def __repr__(self) -> str:
        return f"{self.framework} {self.key}: {self.text}"


_known: dict[tuple[str, str], CompatibilityNote] = {}
Found = dict[CompatibilityNote, dict[str, None]]
"""Notes in the order in which they were recorded, each with its places in order."""
_collected: ContextVar[Found | None] = ContextVar("notes", default=None)


def known_notes() -> list[CompatibilityNote]:
    """All declared notes, by framework and key."""
    return [_known[key] for key in sorted(_known)]


def collecting() -> bool:
    """Whether notes are being collected. Call it before costly work that is only for a note."""
    return _collected.get() is not None


@contextmanager
def collected_notes() -> Iterator[Found]:
    """Collects the compatibility notes of all imports in the body."""
    found: Found = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)
