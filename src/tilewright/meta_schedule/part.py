"""The base of rules, post-processors, mutators and generators: they get a context, and are cloned for another one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tilewright.meta_schedule.tune_context import TuneContext


class Part:
    """A part of a TuneContext."""

    context: TuneContext | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        """Gets the context. Parts of users may override it."""
        self.context = context

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Gives the part the context that it works in."""
        self._initialize_with_tune_context(context)

    def clone(self) -> Self:
        """A part of the same parameters, without a context."""
        new: Any = copy.copy(self)
        new.context = None
        return new  # type: ignore[no-any-return]
