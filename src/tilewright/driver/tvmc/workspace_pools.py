"""Memories for a model's workspace, as options of a command line: `--workspace-pools sram --workspace-pools-size-hint-bytes sram:4096`."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.registry import attribute
from tilewright.ir.memory_pools import PoolInfoProperties, WorkspaceMemoryPools, WorkspacePoolInfo
from tilewright.target import Target

logger = logging.getLogger("TVMC")
NUMBERS = (
    "size_hint_bytes", "clock_frequency_hz", "read_bandwidth_bytes_per_cycle", "write_bandwidth_bytes_per_cycle",
    "read_latency_cycles", "write_latency_cycles",
)  # fmt: skip
PREFIX = "workspace-pools"


def generate_workspace_pools_args(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    group = parser.add_argument_group("workspace pools")
    group.add_argument(
        f"--{PREFIX}", metavar="NAMES", help="names of memories for the workspace, with commas: sram,dram."
    )
    group.add_argument(
        f"--{PREFIX}-targets",
        action="append",
        metavar="POOL:TARGETS",
        help="targets that reach a memory (default: all).",
    )
    for number in NUMBERS:
        group.add_argument(
            f"--{PREFIX}-{number.replace('_', '-')}",
            action="append",
            metavar="POOL:NUMBER",
            help=f"{number.replace('_', ' ')} of memories: sram:4096,dram:65536.",
        )
    group.add_argument(
        f"--{PREFIX}-target-burst-bytes",
        action="append",
        metavar="POOL:TARGET:NUMBER",
        help="bytes of a burst of a memory, by target.",
    )


def workspace_pools_recombobulate(
    parsed: argparse.Namespace, targets: Sequence[Target], extra_target: Sequence[Any] | None = None
) -> WorkspaceMemoryPools | None:
    """The memories that parsed arguments describe; None where they name none. targets: those of the build."""
    names = _words(getattr(parsed, attribute(PREFIX), None))
    if not names:
        given = [n for n in ("targets", *NUMBERS, "target_burst_bytes") if getattr(parsed, attribute(PREFIX, n), None)]
        if given:
            raise TVMCException(f"--{PREFIX}-{given[0].replace('_', '-')} needs --{PREFIX}, which names the memories")
        return None
    numbers: dict[str, dict[str, Any]] = {name: {} for name in names}
    for what in NUMBERS:
        option = f"--{PREFIX}-{what.replace('_', '-')}"
        for entry in _entries(parsed, what):
            pool, _, value = entry.partition(":")
            numbers[_known(option, pool, names)][what] = _number(option, entry, value)
    reached = {name: list(targets) for name in names}
    option = f"--{PREFIX}-targets"
    chosen: dict[str, list[Target]] = {}
    pool = ""
    for entry in _entries(parsed, "targets"):
        before, colon, kind = entry.rpartition(":")
        pool = _known(option, before, names) if colon else pool
        if not pool:
            raise TVMCException(f"{option} takes POOL:TARGETS, such as sram:llvm, but was given {entry!r}")
        chosen.setdefault(pool, []).append(_target(option, kind, targets))
    reached |= chosen
    option = f"--{PREFIX}-target-burst-bytes"
    for entry in _entries(parsed, "target_burst_bytes"):
        pool, _, rest = entry.partition(":")
        kind, _, value = rest.partition(":")
        bursts = numbers[_known(option, pool, names)].setdefault("target_burst_bytes", {})
        bursts[_target(option, kind, targets)] = _number(option, entry, value)
    pools = [WorkspacePoolInfo(name, reached[name], PoolInfoProperties(**numbers[name])) for name in names]
    logger.debug("memories for the workspace: %s", ", ".join(names))
    return WorkspaceMemoryPools(tuple(pools))


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _entries(parsed: argparse.Namespace, what: str) -> list[str]:
    """The entries of an option, of all times it was given: the last one counts."""
    given = getattr(parsed, attribute(PREFIX, what), None) or []
    return [word for text in ([given] if isinstance(given, str) else given) for word in _words(text)]


def _known(option: str, pool: str, names: Sequence[str]) -> str:
    if pool not in names:
        raise TVMCException(f"{option}: there is no memory {pool!r}; --{PREFIX} names {', '.join(names)}")
    return pool


def _number(option: str, entry: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise TVMCException(f"{option}: {entry!r} does not end with a number, as in sram:4096") from None


def _target(option: str, kind: str, targets: Sequence[Target]) -> Target:
    found = next((t for t in targets if t.kind.name == kind), None)
    if found is None:
        raise TVMCException(
            f"{option}: the model is not compiled for {kind!r}, but for {', '.join([t.kind.name for t in targets])}"
        )
    return found
