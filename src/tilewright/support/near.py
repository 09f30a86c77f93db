"""Names that are near one that does not exist, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean `a` or `b`?", or nothing where no name is near."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.8)
    return f"; did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else ""
