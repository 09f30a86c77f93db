"""The errors of tvmc."""

from __future__ import annotations

from tilewright.support.errors import TVMError


class TVMCException(TVMError):
    """What was asked for cannot be done."""


class TVMCImportError(TVMCException):
    """A package is needed that is not installed; its name is the text."""
