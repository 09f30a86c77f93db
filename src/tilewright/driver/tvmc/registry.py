"""Choices of executor and runtime as options of a command line: `--executor aot --executor-aot-link-params 1`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.pass_config import BOOLEANS


def flag(text: str) -> bool:
    """A truth value. Raises argparse.ArgumentTypeError for other text."""
    if text.lower() not in BOOLEANS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(BOOLEANS)}")
    return BOOLEANS[text.lower()]


INTERNAL_TO_NATIVE_TYPE: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "bool": flag, "list": str}
"""What reads the value of an option, by the name of its type."""
INTERNAL_TO_HELP = {"str": " string", "int": " number", "bool": " (0 or 1)", "list": " list, with commas"}


def attribute(*words: str) -> str:
    """The name of an option among parsed arguments."""
    return "_".join(words).replace("-", "_")


def generate_registry_args(parser: argparse.ArgumentParser, registry: Any, default: str | None = None) -> None:
    """Adds the option for a choice (relay.backend.Executor, Runtime), and those for the options of each name."""
    what, names = registry.flag_registry_name.lower(), registry.list_registered()
    group = parser.add_argument_group(f"{what} options")
    group.add_argument(
        f"--{what}", default=default, choices=names, help=f"{registry.what} of the compiled model (default: {default})."
    )
    for name in names:
        for option, kind in registry.list_registered_options(name).items():
            group.add_argument(
                f"--{what}-{name}-{option}",
                type=INTERNAL_TO_NATIVE_TYPE[kind],
                metavar="VALUE",
                help=f"{name} {option}{INTERNAL_TO_HELP[kind]}",
            )


def reconstruct_registry_entity(args: argparse.Namespace, registry: Any) -> Any:
    """The choice that parsed arguments make; None where they make none. Raises TVMCException for options of a name that is not
    chosen."""
    what = registry.flag_registry_name.lower()
    chosen = getattr(args, what, None)
    options = {}
    for name in registry.list_registered():
        for option in registry.list_registered_options(name):
            value = getattr(args, attribute(what, name, option), None)
            if value is None:
                continue
            if name != chosen:
                raise TVMCException(
                    f"Passed --{what}-{name}-{option} but did not specify {name} {what}; pass --{what}={name}, or leave the option out"
                )
            options[option] = value
    return registry(chosen, options) if chosen is not None else None
