"""Functions that do different things for different targets: the one registered for a key of the current target is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.target.target import Target


class GenericFunc:
    """A function with a default and versions by target key ("cpu", "gpu", "arm_cpu", ...)."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.default: Callable[..., Any] | None = None
        self.versions: dict[str, Callable[..., Any]] = {}

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """The version for targets that have none of their own. Raises ValueError when there is one already."""
        if self.default is not None and not allow_override:
            raise ValueError(f"the generic function {self.name} has a default already; give allow_override=True")
        self.default = func

    def register(self, func: Any, key_list: Sequence[str] | str | None = None, allow_override: bool = False) -> Any:
        """The version for targets that have one of the keys. `@f.register("cpu")` decorates; `f.register(func, ["cpu"])` calls."""
        if not callable(func):
            keys = func
            return lambda given: self.register(given, keys, allow_override)
        for key in [key_list] if isinstance(key_list, str) else key_list or ():
            if key in self.versions and not allow_override:
                raise ValueError(
                    f"the generic function {self.name} has a version for {key!r}; give allow_override=True"
                )
            self.versions[key] = func
        return func

    def get_packed_func(self) -> Callable[..., Any]:
        """The version for the current target. Raises ValueError when neither it nor a default is there."""
        target = Target.current(True)
        for key in target.keys if target is not None else ():
            if key in self.versions:
                return self.versions[key]
        if self.default is None:
            raise ValueError(
                f"the generic function {self.name} has versions for {', '.join(self.versions) or 'nothing'} and no default,"
                f" but the target is {target}"
            )
        return self.default

    def __call__(self, *args: Any) -> Any:
        return self.get_packed_func()(*args)


_native: dict[str, GenericFunc] = {}


def get_native_generic_func(name: str) -> GenericFunc:
    """The generic function of a name; made when it is first asked for."""
    return _native.setdefault(name, GenericFunc(name))


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Decorates the default of a function that has versions for targets: `@f.register("gpu")`."""
    made = GenericFunc(fdefault.__name__)
    made.set_default(fdefault)
    made.__doc__ = fdefault.__doc__
    return made


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], GenericFunc]:
    """Decorates the default of the generic function of a name, in place of what it had."""

    def decorate(fdefault: Callable[..., Any]) -> GenericFunc:
        made = get_native_generic_func(func_name)
        made.set_default(fdefault, allow_override=True)
        return made

    return decorate
