"""Models for machines without an operating system: packages of sources or objects."""

from __future__ import annotations

from tilewright.support import lazy

_FORMAT = f"{__name__}.model_library_format"
lazy.declare(
    __name__,
    {name: f"{_FORMAT}:{name}" for name in ("UnsupportedInModelLibraryFormatError", "export_model_library_format")},
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
