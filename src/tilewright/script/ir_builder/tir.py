"""Words of tensor programs for IRBuilder; the tir room defines them."""

from tilewright.support import lazy

__getattr__ = lazy.resolver(__name__)


def __dir__() -> list[str]:
    return lazy.names(__name__)
