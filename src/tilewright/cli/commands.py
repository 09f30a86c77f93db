"""All commands: importing this module makes them known to the command line."""

from __future__ import annotations

from tilewright.cli.subcommands import (
    bench,
    cache,
    compare,
    compile,
    completion,
    importing,
    inspect,
    memory,
    package,
    profile,
    rpc,
    run,
    runtime,
    targets,
)

__all__ = [
    "bench",
    "cache",
    "compare",
    "compile",
    "completion",
    "importing",
    "inspect",
    "memory",
    "package",
    "profile",
    "rpc",
    "run",
    "runtime",
    "targets",
]
