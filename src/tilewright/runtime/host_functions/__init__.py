"""Functions in Python that compiled code calls for what no kernel does: strings, factorisations of matrices, special functions."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
