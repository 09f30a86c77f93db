"""Operators of the database that are not supported, by patterns of their names, and why."""

from __future__ import annotations

import re

EXPLAINED: dict[str, str] = {}


def explanation(name: str) -> str:
    """Why an operator is not supported; "" for all others."""
    return next((why for pattern, why in EXPLAINED.items() if re.fullmatch(pattern, name)), "")
