"""From schedules to libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tilewright.ir import IRModule
from tilewright.target import Target


class BuilderInput:
    """A module to be compiled. params: constants that are linked to it."""

    def __init__(self, mod: IRModule, target: Target | str, params: Mapping[str, Any] | None = None) -> None:
        self.mod, self.target, self.params = mod, Target(target), params


class BuilderResult:
    """The path of a library, or why there is none."""

    def __init__(self, artifact_path: str | None, error_msg: str | None) -> None:
        self.artifact_path, self.error_msg = artifact_path, error_msg


class Builder(ABC):
    """Compiles modules to libraries."""

    kinds: ClassVar[dict[str, Callable[..., Builder]]] = {}
    """The builders by the names that `create` takes."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            Builder.kinds[kind] = cls

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """A library of each module, each in a folder of its own, in the order of the modules."""

    @staticmethod
    def create(kind: str = "local", *args: Any, **kwargs: Any) -> Builder:
        """A builder by its name. Raises ValueError for others."""
        if kind not in Builder.kinds:
            raise ValueError(f"a builder is one of {', '.join(sorted(Builder.kinds))}, but {kind!r} was given")
        return Builder.kinds[kind](*args, **kwargs)


class PyBuilder(Builder):
    """The base of builders of users, which define build."""


create = Builder.create
