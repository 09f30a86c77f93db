"""Words of tensor programs for IRBuilder; the tir room defines them."""

from tilewright.support import lazy

lazy.faces(__name__, {"ir": ()})
__getattr__, __dir__ = lazy.late(__name__)
