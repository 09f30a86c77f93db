"""Options of projects for microcontrollers on the command line: NAME=VALUE."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.micro.project_api.client import SERVER_PYTHON_FILENAME
from tilewright.micro.project_api.server import ProjectOption, ServerInfo


def get_project_options(project_info: ServerInfo) -> list[dict[str, Any]]:
    """The options of a project: name, choices, default, type, required and optional (methods), and help with all of that."""
    return [{**option._asdict(), "help": help_of(option)} for option in project_info.project_options]


def help_of(option: ProjectOption) -> str:
    """What an option does, which values it takes, and when it is needed."""
    choices = f" One of {', '.join(option.choices)}." if option.choices else ""
    default = f" Default: {option.default}." if option.default is not None else ""
    needed = f" Needed by {', '.join(option.required)}." if option.required else ""
    return f"{option.help}{choices}{default}{needed}"


def get_options(options: Iterable[str] | None) -> dict[str, str]:
    """Options by name, of texts NAME=VALUE. Raises TVMCException for texts that are none, and for names that occur twice."""
    found: dict[str, str] = {}
    for text in options or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise TVMCException(f"a project option is NAME=VALUE, but was given {text!r}")
        if name in found:
            raise TVMCException(f"the project option {name!r} is given twice")
        found[name] = value
    return found


def check_options(options: Mapping[str, Any], valid_options: Sequence[Mapping[str, Any]]) -> None:
    """Raises TVMCException for options that the project has not, and for values that one does not take."""
    known = [str(o["name"]) for o in valid_options]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            nearest = f"; nearest: {near[0]}" if near else ""
            raise TVMCException(f"the project has no option {name!r}{nearest}; it has {', '.join(known)}")
    check_options_choices(options, valid_options)


def check_options_choices(options: Mapping[str, Any], valid_options: Sequence[Mapping[str, Any]]) -> None:
    """Raises TVMCException for values that an option does not take."""
    for option in valid_options:
        given, choices = options.get(option["name"]), option["choices"]
        if given is not None and choices and given not in choices:
            raise TVMCException(f"the project option {option['name']!r} is one of {', '.join(choices)}, not {given!r}")


def get_and_check_options(
    passed_options: Iterable[str] | None, valid_options: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Options by name, of texts NAME=VALUE, that the project takes."""
    options = get_options(passed_options)
    check_options(options, valid_options)
    return options


def get_project_dir(project_dir: str | os.PathLike[str]) -> str:
    """The path of a project. Raises TVMCException where there is none."""
    path = Path(project_dir).resolve()
    if not (path / SERVER_PYTHON_FILENAME).is_file():
        raise TVMCException(
            f"{path} is no project: it has no {SERVER_PYTHON_FILENAME}; `tvmc micro create-project` makes one"
        )
    return os.fspath(path)


def listed(options: Sequence[Mapping[str, Any]], method: str) -> str:
    """The options that a method takes, as text."""
    taken = [o for o in options if method in (*(o["required"] or ()), *(o["optional"] or ()))]
    return "\n".join([f"{o['name']}={o['type']}\n  {o['help']}" for o in taken]) or f"{method} takes no options"


__all__ = [
    "check_options", "check_options_choices", "get_and_check_options", "get_options", "get_project_dir", "get_project_options", "help_of",
    "listed",
]  # fmt: skip
