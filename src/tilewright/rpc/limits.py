"""What others may use of a server, a tracker or a proxy, and the options of programs that set it."""

from __future__ import annotations

import argparse
import re
import resource
from dataclasses import dataclass, fields, replace

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
OPTIONS = {
    "message": ("--max-message", "bytes of one message that is kept in memory"),
    "connections": ("--max-connections", "connections at once; more are refused"),
    "sessions": ("--max-sessions", "sessions at once; further clients wait"),
    "silence": ("--silence", "seconds without a byte in the middle of a message, after which a connection ends"),
    "idle": (
        "--idle",
        "seconds without a byte between two messages of a client, after which its session ends; 0: no limit",
    ),
    "disk": ("--max-disk", "bytes that the files of a session may take"),
}


@dataclass(frozen=True)
class Limits:
    """message: bytes of one message that is kept in memory (copies of arrays are not). connections, sessions: how many at once. silence:
    seconds without a byte in the middle of a message. idle: the same between two messages of a session; 0: no limit. disk: bytes of a
    session's files. Raises ValueError for numbers below one."""

    message: int = 1 << 30
    connections: int = 64
    sessions: int = 1
    silence: int = 60
    idle: int = 0
    disk: int = 16 << 30

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), int(field.name != "idle")
            if value < least:
                raise ValueError(f"the limit `{field.name}` is at least {least}, but {value} was given")


SERVER = Limits()
TRACKER = Limits(message=1 << 20, connections=4096)
PROXY = Limits(connections=1024)


def _number(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"a limit is a whole number, with K, M, G or T for powers of 1024: not {text!r}"
        )
    return int(found[1]) * UNITS[found[2]]


def _text(value: int) -> str:
    for unit in "tgmk":
        if value and value % UNITS[unit] == 0:
            return f"{value // UNITS[unit]}{unit.upper()}"
    return str(value)


def add_options(parser: argparse.ArgumentParser, defaults: Limits, *names: str) -> None:
    """Options for these limits."""
    group = parser.add_argument_group("limits", "N may end in K, M, G or T: powers of 1024.")
    for name in names:
        option, text = OPTIONS[name]
        default = getattr(defaults, name)
        group.add_argument(
            option,
            type=_number,
            default=default,
            dest=f"limit_{name}",
            metavar="N",
            help=f"{text} (default: {_text(default)})",
        )


def of_options(options: argparse.Namespace, defaults: Limits) -> Limits:
    """The limits that options set. Raises ValueError."""
    given = {k.removeprefix("limit_"): v for k, v in vars(options).items() if k.startswith("limit_")}
    return replace(defaults, **given)


def allow_files(count: int) -> None:
    """Let this process have so many open files, if the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
