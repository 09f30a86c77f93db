"""What tensor programs in Python syntax mean: the rules of statements, and the vocabulary `T`."""

from tilewright.support import lazy

# Analyses stand in a layer above, which the top of the package declares.
__getattr__ = lazy.resolver(__name__)
