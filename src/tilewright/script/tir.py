"""The vocabulary of tensor programs, `from tilewright.script import tir as T`; the tir room defines it."""

from tilewright.support import lazy

__getattr__ = lazy.resolver(__name__)


def __dir__() -> list[str]:
    return lazy.names(__name__)
