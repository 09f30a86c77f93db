"""Iterator maps: index expressions as sums of splits of loop iterators. They can be built, divided and inverted."""

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
