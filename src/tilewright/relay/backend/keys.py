"""Keys of the on-disk cache: the compiler, the target, the options of the pass context."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from tilewright.codegen.backend import identity_of
from tilewright.ir.transform import PassContext
from tilewright.support import cache as disk
from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION
from tilewright.target import Target
from tilewright.tuning import log

COMPILER_ROOMS = (
    "arith",
    "autotvm",
    "codegen",
    "driver",
    "ir",
    "node",
    "relay/backend",
    "relay/cards",
    "relay/op",
    "scheduling",
    "te",
    "tir",
    "topi",
    "target",
    "vta",
)
"""The parts of this package on which a kernel's machine code depends."""
PLANS = "relay.plans"
"""The option with the path of a file of kernels' plans (scheduling/database.py)."""
PACKAGE = Path(disk.__file__).parent.parent
SETTLED = 2_000_000_000
"""Nanoseconds after which two changes of a file have different times."""


@cache
def compiler_digest() -> str:
    """A digest of the compiler's sources, so that a changed compiler does not find the objects of an older one."""
    return sources_digest(PACKAGE, COMPILER_ROOMS)


@cache
def package_digest() -> str:
    """A digest of the whole package, with the passes and importers of whole models."""
    return sources_digest(PACKAGE, ("",))


def sources_digest(root: Path, rooms: Sequence[str]) -> str:
    """A digest of the sources in the folders `rooms` of `root`, and of the package's version."""
    now = time.time_ns()
    files = [f for room in rooms for f in _sources(os.path.join(root, room))]
    # The times and sizes of the files identify their contents, unless one was changed so recently that a later change
    # could have the same time.
    known = disk.key("sources", VERSION, repr(files))
    settled = all([changed < now - SETTLED for *_, changed in files])
    found = disk.get(known) if settled else None
    if found is not None:
        return found.decode()
    digest = hashlib.blake2b(VERSION.encode(), digest_size=16)
    for path, *_ in files:
        with open(path, "rb") as file:
            digest.update(file.read())
    if settled:
        disk.put(known, digest.hexdigest().encode())
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    """(path, inode, size, time of the last change of the content, and of anything) of every source below a folder, in order. Sources are
    Python files and descriptions of cores."""
    for item in sorted(os.scandir(folder), key=lambda e: e.name):
        if item.is_dir(follow_symlinks=False):
            if item.name != "__pycache__":
                yield from _sources(item.path)
        elif item.name.endswith((".py", ".toml")):
            facts = item.stat()
            yield item.path, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def target_key(target: Target) -> str:
    """The facts about the target for code generation, and the identities of its code generator and of its host's."""
    host = f" {identity_of(target.host)}" if target.host is not None else ""
    return f"{_target_facts(target)} {identity_of(target)}{host}"


@lru_cache(maxsize=16)
def _target_facts(target: Target) -> str:
    """The target as text. For the host it includes the features of the CPU, which its name does not tell."""
    cpu = target.cpu
    facts = [
        target,
        target.triple,
        target.mcpu,
        target.feature_string,
        cpu.threads,
        cpu.l1_bytes,
        cpu.l2_bytes,
        cpu.l3_bytes,
    ]
    return " ".join(map(str, facts))


def options_key() -> str:
    """The options of the current pass context, with the content of the file of plans in place of its path."""
    options = {k: str(v) for k, v in PassContext.current().config.items()}
    if PLANS in options:
        with suppress(TVMError):
            options[PLANS] = hashlib.blake2b(log.content(options[PLANS]), digest_size=16).hexdigest()
    return repr(sorted(options.items()))


def adds_lowering_passes() -> bool:
    """Whether the current pass context adds passes to the lowering. A key cannot describe them."""
    return bool(PassContext.current().config.get("tir.add_lower_pass"))
