"""What runs functions elsewhere, and their results: interfaces that classic programs derive from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Executor:
    """Runs functions."""

    def submit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """The result of a call of a function, which may not be there yet."""
        raise NotImplementedError(f"{type(self).__name__} does not run functions")


class Future:
    """A result that may not be there yet."""

    def done(self) -> bool:
        """Whether it is there."""
        raise NotImplementedError(f"{type(self).__name__} does not say whether it is done")

    def get(self, timeout: float | None = None) -> Any:
        """The result. timeout: seconds to wait at most. Raises TimeoutError after that, and ExecutionError where the call failed."""
        raise NotImplementedError(f"{type(self).__name__} has no result")


class FutureError(RuntimeError):
    """There is no result."""


class TimeoutError(FutureError):
    """The result was not there in time."""


class ExecutionError(FutureError):
    """The call failed."""
