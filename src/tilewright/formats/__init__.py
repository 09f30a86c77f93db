"""Formats of files that others write. Readers trust no offset; they know nothing of the compiler."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
