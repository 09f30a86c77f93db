"""Environment variables that say yes or no."""

from __future__ import annotations

import os

from tilewright.support.errors import TVMError


def strtobool(val: str) -> int:
    """1 for a word that says yes, 0 for one that says no. Raises ValueError for other words."""
    text = val.strip().lower()
    if text in ("1", "y", "yes", "t", "true", "on"):
        return 1
    if text in ("", "0", "n", "no", "f", "false", "off"):
        return 0
    raise ValueError(f"{val!r} is neither yes (1, true, on) nor no (0, false, off)")


def flag(name: str) -> bool:
    """Whether an environment variable says yes; False if it is unset. Raises TVMError for other words."""
    text = os.environ.get(name, "")
    try:
        return bool(strtobool(text))
    except ValueError:
        raise TVMError(
            f"the environment variable {name} must be 1 (yes) or 0 (no), but it is `{text}`; unset it for 0"
        ) from None
