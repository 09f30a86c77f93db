"""What the accelerator does not compute."""

from __future__ import annotations


class Refused(Exception):
    """Why an expression cannot be computed on the accelerator."""


__all__ = ["Refused"]
