"""Values of expressions, on NumPy: of one operator's call by its card's reference, of whole programs, and of their constant parts."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
