"""Tags: operations created inside `with tag_scope("name"):` get this name as their tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class TagScope:
    """A context manager, or decorator of functions, that tags the operations created inside it."""

    _current: ClassVar[TagScope | None] = None

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._outer: TagScope | None = None

    @classmethod
    def get_current(cls) -> TagScope | None:
        return TagScope._current

    def __enter__(self) -> Self:
        if TagScope._current is not None:
            raise ValueError(
                f"nested op_tag is not allowed: {self.tag!r} was opened inside {TagScope._current.tag!r};"
                " close that one first"
            )
        TagScope._current = self
        return self

    def __exit__(self, *exc: object) -> None:
        TagScope._current = None

    def __call__(self, func: F) -> F:
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with TagScope(self.tag):
                return func(*args, **kwargs)

        tagged.__name__, tagged.__doc__ = func.__name__, func.__doc__
        return tagged  # type: ignore[return-value]


def tag_scope(tag: str) -> TagScope:
    """A scope that gives its operations `tag`. Raises ValueError on entry if another scope is open."""
    return TagScope(tag)


def resolve_tag(tag: str) -> str:
    """The tag of a new operation: its own, or that of the open scope. Raises an error for both at once."""
    scope = TagScope._current
    if scope is None:
        return tag
    if tag:
        raise ValueError(f"an operation tagged {tag!r} was created inside tag scope {scope.tag!r}; give only one tag")
    return scope.tag
