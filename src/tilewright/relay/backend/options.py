"""Choices of executor and runtime: registered names with declared options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from tilewright.codegen.backend import back_end_of
from tilewright.node import register_leaf
from tilewright.support.errors import TVMError
from tilewright.target import Target

Declared = Mapping[str, tuple[type, Any]]
"""Option name -> (type, default). An option with the default None is absent unless it is given."""


class NamedOptions:
    """A registered name with options. `choice["link-params"]` is the value of one; `"link-params" in choice` is whether it is set."""

    what: ClassVar[str]
    registered: ClassVar[Mapping[str, Declared]]

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if name not in self.registered:
            raise TVMError(f"{self.what} {name!r} is not defined; there are {', '.join(self.registered)}")
        declared = self.registered[name]
        given = dict(options or {})
        for key, value in given.items():
            if key not in declared:
                known = ", ".join(declared)
                raise TVMError(f"{self.what} {name!r} has no option {key!r}; it has {known}")
            wanted = declared[key][0]
            fits = isinstance(value, wanted) or (wanted is bool and value in (0, 1))
            if not fits or (wanted is int and isinstance(value, bool)):
                raise TVMError(
                    f"option {key!r} of {self.what.lower()} {name!r} must be a {wanted.__name__}, but is {value!r}"
                )
            given[key] = wanted(value)
        defaults = {key: default for key, (_, default) in declared.items() if default is not None}
        self.name = name
        self._attrs: dict[str, Any] = {**defaults, **given}

    @property
    def options(self) -> dict[str, Any]:
        """The options, with defaults."""
        return dict(self._attrs)

    attrs = options

    def __contains__(self, name: str) -> bool:
        return name in self._attrs

    def __getitem__(self, name: str) -> Any:
        return self._attrs[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or `default` if it is absent."""
        return self._attrs.get(name, default)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.name == self.name and other._attrs == self._attrs

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self._attrs.items()))))

    def __repr__(self) -> str:
        options = f", {self._attrs!r}" if self._attrs else ""
        return f"{type(self).__name__}({self.name!r}{options})"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def list_registered(cls) -> list[str]:
        """The registered names."""
        return list(cls.registered)

    @classmethod
    def list_registered_options(cls, name: Any) -> dict[str, str]:
        """The options of a registered name, with the names of their types."""
        key = name.name if isinstance(name, NamedOptions) else str(name)
        if key not in cls.registered:
            raise TVMError(f"{cls.what} {key!r} is not defined; there are {', '.join(cls.registered)}")
        return {option: kind.__name__ for option, (kind, _) in cls.registered[key].items()}

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """The choice for a choice, a name, or None."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        raise TypeError(f"{cls.what} must be a relay.backend.{cls.__name__}, but is a {type(value).__name__}")


class Executor(NamedOptions):
    """The way in which a compiled graph runs: `Executor("graph")` interprets the classic graph JSON, `Executor("aot")` calls one compiled
    entry. "link-params" puts the parameters into the library; get_params is then empty."""

    what = "Executor"
    flag_registry_name = "Executor"
    registered = {
        "aot": {
            "link-params": (bool, True),
            "unpacked-api": (bool, None),
            "interface-api": (str, None),
            "workspace-byte-alignment": (int, None),
            "constant-byte-alignment": (int, None),
        },
        "graph": {"link-params": (bool, False)},
    }


class Runtime(NamedOptions):
    """The runtime that loads compiled code: `Runtime("cpp")` is the native runtime, `Runtime("crt")` that for microcontrollers."""

    what = "Runtime"
    flag_registry_name = "Runtime"
    registered = {"cpp": {"system-lib": (bool, None)}, "crt": {"system-lib": (bool, None)}}


def need_interface(executor: Executor, runtime: Runtime, target: Target) -> None:
    """Raises TVMError unless the options for the interface of a model are compatible, and the target's back end supports them."""
    unpacked, interface = bool(executor.get("unpacked-api")), executor.get("interface-api", "packed")
    if interface not in ("c", "packed"):
        raise TVMError(f'option "interface-api" of the executor must be "c" or "packed", but is {interface!r}')
    if runtime.name == "cpp" and (unpacked or interface == "c"):
        option = "unpacked-api" if unpacked else "interface-api"
        raise TVMError(
            f'option "{option}" of the executor is for programs without the native runtime, which calls packed functions: pass'
            ' runtime=Runtime("crt") with it'
        )
    if interface == "c" and not unpacked:
        raise TVMError('option "interface-api": "c" of the executor needs "unpacked-api": True')
    if unpacked and not back_end_of(target).writes_models:
        raise TVMError(
            f'option "unpacked-api" of the executor: models for target kind {target.kind.name!r} are not written so; compile for the'
            " target c"
        )


def _register(cls: type[NamedOptions]) -> None:
    register_leaf(
        cls,
        f"relay.{cls.__name__}",
        lambda v: [v.name, v.options],
        lambda v: cls(v[0], v[1]),
        lambda v: repr(v).encode(),
        lambda a, b: a == b,
    )


_register(Executor)
_register(Runtime)
