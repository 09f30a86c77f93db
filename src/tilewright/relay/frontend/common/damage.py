"""Conversion of the exceptions that damaged models cause into errors of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.relay.frontend.common.unsupported import DAMAGE
from tilewright.support.errors import ModelError, TVMError, said

MALFORMED = (*DAMAGE, RuntimeError, OSError)
"""Exceptions of reading a damaged file. Converters of its nodes raise only those of DAMAGE."""


@contextmanager
def guarded(title: str, remedy: str) -> Iterator[None]:
    """Adds the model's name to errors in the body. Exceptions caused by a damaged model become a ModelError that ends with the remedy."""
    try:
        yield
    except TVMError:
        raise
    except MALFORMED as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise ModelError(f"{title}: {said(error)}") from error
        raise ModelError(f"{title}: the model is malformed ({said(error)}). {remedy}") from error
