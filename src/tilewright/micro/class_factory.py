"""A call of a class as JSON, so that another process can make the object: `ClassFactory(cls, args, keywords)`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tilewright.support.errors import TVMError

JsonSerializable = int | float | str | bool | None
"""What arguments may be."""


class SerializedFactoryError(TVMError):
    """A text that describes no call, or a call of something else than what was wanted."""


class ClassFactory:
    """A class, and what it is called with. cls: a class of a module that the other process can import; init_args, init_kw: its
    arguments."""

    SUPERCLASS: ClassVar[type | None] = None
    """What classes must derive from; None: any class."""
    EXPECTED_KEYS = ("cls", "init_args", "init_kw")

    def __init__(
        self, cls: Callable[..., Any], init_args: Sequence[JsonSerializable], init_kw: Mapping[str, JsonSerializable]
    ) -> None:
        """Raises SerializedFactoryError for what is not a class below SUPERCLASS."""
        wanted = self.SUPERCLASS
        if wanted is not None and not (isinstance(cls, type) and issubclass(cls, wanted)):
            raise SerializedFactoryError(f"{cls!r} is no {wanted.__name__}")
        self.cls, self.init_args, self.init_kw = cls, list(init_args), dict(init_kw)

    def override_kw(self, **kw_overrides: JsonSerializable) -> ClassFactory:
        """The same call, with other keyword arguments."""
        return type(self)(self.cls, self.init_args, {**self.init_kw, **kw_overrides})

    def instantiate(self) -> Any:
        """The object."""
        return self.cls(*self.init_args, **self.init_kw)

    @property
    def to_json(self) -> str:
        """The call as text. Raises SerializedFactoryError for arguments that JSON has no form for."""
        try:
            return json.dumps({
                "cls": f"{self.cls.__module__}.{self.cls.__qualname__}", "init_args": self.init_args, "init_kw": self.init_kw,
            })  # fmt: skip
        except TypeError as error:
            raise SerializedFactoryError(f"the arguments of {self.cls.__name__} are no JSON: {error}") from error

    @classmethod
    def from_json(cls, data: str) -> ClassFactory:
        """The call of a text. Raises SerializedFactoryError where the text has none, or where its class is not there."""
        try:
            found = json.loads(data)
        except ValueError as error:
            raise SerializedFactoryError(f"the text is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise SerializedFactoryError(f"a call is an object of JSON, but the text has {found!r}")
        missing = [key for key in cls.EXPECTED_KEYS if key not in found]
        if missing:
            raise SerializedFactoryError(f"the call lacks {', '.join(missing)}: {found!r}")
        wanted = {
            "cls": (str, "the name of a class"),
            "init_args": (list, "an array of JSON"),
            "init_kw": (dict, "an object of JSON"),
        }
        for key, (kind, words) in wanted.items():
            if not isinstance(found[key], kind):
                raise SerializedFactoryError(f"{key} is {words}, but here it is {found[key]!r}")
        return cls(_class_named(found["cls"]), found["init_args"], found["init_kw"])


def _class_named(name: str) -> type:
    """The class of a module, which may be inside of other classes."""
    module, _, rest = name.rpartition(".")
    missing: ModuleNotFoundError | None = None
    try:
        while True:
            try:
                found: Any = importlib.import_module(module)
                break
            except ModuleNotFoundError as error:
                # Its last part may be a class. A missing module of another name is one that a module of this name imports.
                if "." not in module or not f"{module}.".startswith(f"{error.name}."):
                    raise missing or error from error
                missing = missing or error
                module, _, outer = module.rpartition(".")
                rest = f"{outer}.{rest}"
        for part in rest.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        reason = missing if isinstance(error, AttributeError) and missing is not None else error
        raise SerializedFactoryError(f"there is no class {name}: {reason}") from error
    if not isinstance(found, type):
        raise SerializedFactoryError(f"{name} is no class, but {found!r}")
    return found


__all__ = ["ClassFactory", "JsonSerializable", "SerializedFactoryError"]
