"""What worker processes import before anything else."""

from __future__ import annotations

EVERYWHERE: list[str] = []
"""Modules without which a worker cannot import the program that it works for, such as those that give names to other modules."""
