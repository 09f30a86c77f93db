"""Programs built by `with` statements that Python runs, with the words of TVMScript: `with IRBuilder() as ib: with T.prim_func(): ...`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from tilewright.script.parser.entry import ModuleParser
from tilewright.script.parser.source import NoSource
from tilewright.script.parser.statements import ScriptParser, active_or_none, reading
from tilewright.support import lazy
from tilewright.support.errors import TVMError

__all__ = ["IRBuilder", "ir", "tir"]

V = TypeVar("V")


class IRBuilder:
    """Holds what is built inside of its `with`; `get` gives the function or the module."""

    def __init__(self) -> None:
        self._root = ModuleParser(NoSource(), {})
        self._root.result = None

    def __enter__(self) -> Self:
        self._reading = reading(self._root)
        self._reading.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.__exit__(kind, error, trace)

    def get(self) -> Any:
        """The function or module that was built. Raises TVMError when there is none."""
        if self._root.result is None:
            raise TVMError("IRBuilder.get: nothing has been built; write `with T.prim_func():` inside of the builder")
        return self._root.result

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder is being used now."""
        return active_or_none() is not None

    @staticmethod
    def current() -> ScriptParser:
        """The open frame that called words add to. Raises TVMError outside of builders."""
        p = active_or_none()
        if p is None:
            raise TVMError("IRBuilder.current: no builder is being used; write `with IRBuilder() as ib:`")
        return p

    @staticmethod
    def name(s: str, v: V) -> V:
        """Names a variable or buffer that has no name yet, and returns it."""
        IRBuilder.current().name(s, v)
        return v

    @staticmethod
    def name_many(s: Sequence[str], vs: Sequence[V]) -> list[V]:
        """Names several."""
        return [IRBuilder.name(one, v) for one, v in zip(s, vs, strict=True)]


lazy.faces(__name__, {"base": ("IRBuilder", "tilewright.script.parser.statements:IRBuilderFrame")})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
