"""All commands: importing this module makes them known to the command line."""

from __future__ import annotations

from tilewright.cli.subcommands import (
    bench,
    cache,
    compare,
    compile,
    completion,
    devices,
    importing,
    inspect,
    log,
    memory,
    package,
    profile,
    rpc,
    run,
    runtime,
    targets,
    tune,
    vta,
)

__all__ = [
    "bench",
    "cache",
    "compare",
    "compile",
    "completion",
    "devices",
    "importing",
    "inspect",
    "log",
    "memory",
    "package",
    "profile",
    "rpc",
    "run",
    "runtime",
    "targets",
    "tune",
    "vta",
]
