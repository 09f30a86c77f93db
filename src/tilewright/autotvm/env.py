"""The state that templates and tuners of a process share."""

from __future__ import annotations


class AutotvmGlobalScope:
    """in_tuning: whether a tuner runs now. silent: whether messages about missing configurations are left out."""

    current: AutotvmGlobalScope

    def __init__(self) -> None:
        AutotvmGlobalScope.current = self
        self.in_tuning = False
        self.silent = False

    def deep_copy(self, global_scope: AutotvmGlobalScope) -> None:
        """Takes the values of another scope."""
        self.in_tuning, self.silent = global_scope.in_tuning, global_scope.silent


GLOBAL_SCOPE = AutotvmGlobalScope()


def reset_global_scope(global_scope: AutotvmGlobalScope) -> None:
    """Gives the scope of this process the values of another one, such as that of a parent process."""
    GLOBAL_SCOPE.deep_copy(global_scope)
    AutotvmGlobalScope.current = GLOBAL_SCOPE


__all__ = ["GLOBAL_SCOPE", "AutotvmGlobalScope", "reset_global_scope"]
