"""Passes that join operators, up to one primitive function for each kernel, and passes that separate them."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
